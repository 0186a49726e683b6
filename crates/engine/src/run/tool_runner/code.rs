//! Code that calls tools. Each of its calls is judged, stored and executed like one of the model, and its response is
//! committed before the code reads it. A worker that takes the run over runs the code again: calls with a response are
//! answered with it, an open one goes on as its effect class allows, and one that was not made yet is made. While a call
//! waits for a person, the code is ended; it is run again to that call once there is a decision.

use chrono::{DateTime, Utc};
use houston_domain::code_call;
use houston_domain::guard::Intent as StatedIntent;
use houston_domain::history::Entry;
use houston_domain::id::{MessageId, QuestionId};
use houston_domain::question::{Question, QuestionState, approval, input};
use houston_domain::step::Step;
use houston_domain::tool_call::PausedCall;
use houston_domain::tool_call::{EffectClass, ToolCall, ToolErrorCode, ToolResponse};
use houston_store::history::CommittedIntent;
use houston_tools::{CodeAnswer, CodeCall, CodeCalls, Paused, untrusted};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::execution::{ExternalCall, OpenCalls};
use super::fallback::Falling;
use super::held::{Decided, DecidedCall, WaitingCall, cell_asked, question_of};
use super::pausing::Resuming;
use super::{Cells, Held, Others, Plans, Prepared, ToolRunner, add_cells, add_response, cut};
use crate::error::Interrupted;
use crate::run::journal::{Journal, add_message};
use crate::run::storage::RunStorage;
use crate::setup::guards::shown;

/// What ends code whose call waits for a person; only the code's process sees it.
const WAITS: &str = "a call waits for a person";

/// What is committed about a call of code.
enum Made {
    No,
    /// At this position, the code made another call before.
    Otherwise,
    Answered(ToolResponse),
    /// It was started.
    Started(MessageId, Option<Question>),
    /// It was started, and has paused.
    Paused(MessageId, PausedCall),
    /// A person was asked.
    Asked(Question),
}

/// A call that has paused.
struct PausedAt {
    call: ToolCall,
    cell: MessageId,
    paused: PausedCall,
}

/// The calls of a round, by what is to be done with them.
#[derive(Default)]
struct Sorted {
    new: Vec<ToolCall>,
    decided: Vec<DecidedCall>,
    external: Vec<ExternalCall>,
    superseded: Vec<QuestionId>,
}

/// The time in the id of a cell: when the call was planned first.
pub(super) fn time_of(cell: Option<MessageId>) -> Option<DateTime<Utc>> {
    let (seconds, nanos) = cell?.0.get_timestamp()?.to_unix();
    DateTime::from_timestamp(i64::try_from(seconds).ok()?, nanos)
}

fn not_for_code(tool: &str) -> ToolResponse {
    let reason = format!("{tool} cannot be called from code: call it directly");
    ToolResponse::failure(ToolErrorCode::ValidationError, reason)
}

impl ToolRunner {
    /// Whether the code of the call `of` made more than `count` calls before it was interrupted.
    pub(super) fn made_more(&self, of: &str, count: usize) -> bool {
        self.recorded.ids().any(|id| code_call::number(id, of).is_some_and(|number| number > count))
    }

    /// Starts the calls that code has made at once, as far as they are not answered already.
    pub(super) async fn start_calls<S: RunStorage>(
        &mut self,
        journal: &mut Journal<'_, S>,
        asked: CodeCalls,
        codes: &mut Codes<'_>,
        OpenCalls { running, open, cells }: OpenCalls<'_>,
    ) -> Result<(), Interrupted> {
        let CodeCalls { of, calls, failed, answers } = asked;
        if let (Some(failed), Some(falling)) =
            (failed, codes.script(&of).and_then(|script| script.falling.as_mut()))
        {
            falling.failed(cut(journal, failed));
        }
        let calls: Vec<(usize, ToolCall)> = calls.into_iter().map(|call| named(&of, call)).collect();
        calls.iter().for_each(|(_, call)| self.note_written(journal, std::slice::from_ref(call)));
        let names: Vec<String> = calls.iter().map(|(_, call)| call.name.clone()).collect();
        let ids = calls.iter().map(|(_, call)| (call.id.clone(), Progress::Runs)).collect();
        codes.rounds.push(Round { of: of.clone(), calls: ids, tools: names.clone(), answers });
        let Some(mut sorted) = self.sort_made(journal, &of, calls, codes).await? else {
            codes.end(&of, End::Diverged);
            if let Some(at) = codes.rounds.iter().position(|round| round.of == of) {
                let _ =
                    codes.rounds.swap_remove(at).answers.send(Err("it made other calls before".to_owned()));
            }
            return Ok(());
        };
        let mut external = std::mem::take(&mut sorted.external);
        if !sorted.new.is_empty() || !sorted.decided.is_empty() {
            external.extend(self.make(journal, &of, sorted, codes).await?);
        }
        for name in names {
            // What these calls read, the next ones may send out.
            self.taint.add(&self.setup, &self.offer_with_results, &name);
            let reads = self.offer().facts(&name).map(|facts| facts.in_force(&self.setup.guards, &name));
            let untrusted = reads.is_some_and(|facts| facts.untrusted_output);
            if let Some(script) = codes.script(&of) {
                script.has_called(name, untrusted);
            }
        }
        // The fallback of a fallback is not called.
        let may_fall = codes.script(&of).is_none_or(|script| script.falling.is_none());
        for call in external {
            let call = if may_fall { self.with_fallback(journal, call) } else { call };
            let call = self.with_material(journal, call).await?;
            open.push(self.open_call(&call));
            cells.extend(call.cell.map(|cell| (call.call.id.clone(), cell)));
            let sender = codes.begin(self, &call);
            running.push(self.start_call(journal, call, sender));
        }
        if codes.script(&of).is_some_and(|script| script.untrusted) {
            self.taint.add_untrusted();
        }
        codes.settle();
        Ok(())
    }

    /// Sorts calls by what is committed about them. `None`: the code has made another call before.
    async fn sort_made<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        of: &str,
        calls: Vec<(usize, ToolCall)>,
        codes: &mut Codes<'_>,
    ) -> Result<Option<Sorted>, Interrupted> {
        let mut sorted = Sorted::default();
        for (number, call) in calls {
            match self.recorded.made(of, number, &call.id) {
                Made::No => sorted.new.push(call),
                Made::Otherwise => return Ok(None),
                Made::Answered(response) => codes.answer(&call.id, &response),
                Made::Started(cell, question) => {
                    let intent = codes.script(of).and_then(|script| script.intent.clone());
                    let (call, note) = match question.map(|question| Decided::by(&question, call.clone())) {
                        Some(Decided::CarryOut { call, note }) => (call, note),
                        _ => (call, None),
                    };
                    sorted.external.push(self.repeat(journal, call, Some(cell), note, intent.as_ref()));
                }
                Made::Paused(cell, paused) => {
                    let paused = PausedAt { call, cell, paused };
                    self.add_paused(journal, of, paused, codes, &mut sorted).await?;
                }
                Made::Asked(question) => self.add_asked(journal, call, &question, codes, &mut sorted).await?,
            }
        }
        Ok(Some(sorted))
    }

    /// Adds a call that a person was asked about. If the user wrote a message instead of answering, it is not made.
    async fn add_asked<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        call: ToolCall,
        question: &Question,
        codes: &mut Codes<'_>,
        sorted: &mut Sorted,
    ) -> Result<(), Interrupted> {
        let Some(cell) = cell_asked(question) else { return Ok(()) };
        let id = question.asked.id;
        if question.state != QuestionState::Open {
            let decided = Decided::by(question, call.clone());
            sorted.decided.push(DecidedCall { call, cell, decided });
            return Ok(());
        }
        let agentable = journal.agentable();
        let unread = journal.retrying(|storage| storage.unread(agentable)).await?;
        if unread.from_user {
            sorted.superseded.push(id);
            let decided = Decided::Answer(approval::superseded());
            sorted.decided.push(DecidedCall { call, cell, decided });
            return Ok(());
        }
        codes.wait(call.id, id, cell);
        codes.held.unread = unread.count;
        Ok(())
    }

    /// Adds a call that has paused. If the user wrote a message instead of answering, it ends.
    async fn add_paused<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        of: &str,
        PausedAt { call, cell, paused }: PausedAt,
        codes: &mut Codes<'_>,
        sorted: &mut Sorted,
    ) -> Result<(), Interrupted> {
        match Resuming::of(&paused, &call, &self.recorded.questions) {
            Resuming::Decided(decided) => sorted.decided.push(DecidedCall { call, cell, decided }),
            Resuming::GoesOn => {
                let intent = codes.script(of).and_then(|script| script.intent.clone());
                let paused = Paused { state: paused.state, answer: None };
                sorted.external.push(self.going_on(journal, call, Some(cell), paused, intent.as_ref()));
            }
            Resuming::Waits(question) => {
                let agentable = journal.agentable();
                let unread = journal.retrying(|storage| storage.unread(agentable)).await?;
                if unread.from_user {
                    sorted.superseded.push(question);
                    let decided = Decided::Begun(input::superseded());
                    sorted.decided.push(DecidedCall { call, cell, decided });
                } else {
                    codes.pause(call.id, paused, cell, unread.count);
                }
            }
        }
        Ok(())
    }

    /// Commits calls that are made now, with the responses there are. Returns those that are to be executed.
    async fn make<S: RunStorage>(
        &mut self,
        journal: &mut Journal<'_, S>,
        of: &str,
        sorted: Sorted,
        codes: &mut Codes<'_>,
    ) -> Result<Vec<ExternalCall>, Interrupted> {
        let Sorted { new, decided, superseded, .. } = sorted;
        let mut step = journal.next_step();
        let script = codes.script(of);
        if let Some(falling) = script.as_ref().and_then(|script| script.falling.as_ref())
            && self.recorded.failed(of).is_none()
        {
            falling.record(&mut step);
        }
        let intent = script.and_then(|script| script.intent.clone());
        if !superseded.is_empty() {
            step.questions.get_or_insert_default().superseded = superseded;
        }
        let mut plans = Plans::default();
        for call in &new {
            match self.offer().get(&call.name) {
                Some(tool) if !tool.is_for_code() => {
                    plans.answered.push((call.id.clone(), not_for_code(&call.name)));
                }
                _ => self.plan_call(journal, call, intent.as_ref(), (codes.history, &[]), &mut plans),
            }
        }
        self.grant_held(journal, &mut plans, |_| intent.as_ref(), codes.history).await?;
        let mut cells = add_cells(journal, &mut step, &new, &mut plans);
        let held = self.ask(journal, &mut step, std::mem::take(&mut plans.held), &cells).await?;
        cells.extend(decided.iter().map(|of| (of.call.id.clone(), of.cell)));
        let decided = decided.into_iter().map(|DecidedCall { call, decided, .. }| (call, decided));
        let (more, decided) = self.plan_decided(journal, decided, |_| intent.as_ref());
        plans.extend(more);
        for content in std::mem::take(&mut plans.messages) {
            let label = if self.has_read_untrusted() { json!({"untrusted": true}) } else { json!({}) };
            let inert = self.must_be_inert();
            let content = if inert { shown(&content, &self.setup.guards) } else { content };
            add_message(&mut step, journal.new_id(), content, label);
        }
        let calls: Vec<ToolCall> = new.into_iter().chain(decided).collect();
        let others = Others { held, are_open: true, keep_whole: true };
        let prepared = self.carry_out(journal, &mut step, plans, &calls, &cells, others).await?;
        let Prepared::Open { responses, external, held, records } = prepared else { return Ok(Vec::new()) };
        match records {
            Some(records) => Box::pin(records.commit(journal, step)).await?,
            None => journal.commit(step).await?,
        };
        houston_faults::fault!("C9")?;
        for (call, response) in responses {
            codes.answer(&call, &response);
        }
        for WaitingCall { call, question, cell, .. } in held.into_calls() {
            question.into_iter().for_each(|question| codes.wait(call.clone(), question, cell));
        }
        Ok(external.0)
    }

    /// Adds the response to a call of code. The code reads it once the step is committed.
    pub(super) fn add_of_code<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        step: &mut Step,
        call: &ToolCall,
        response: ToolResponse,
        codes: &mut Codes<'_>,
        cells: &mut Cells,
    ) {
        let response = cut(journal, response);
        add_response(step, &call.id, &response, cells);
        cells.retain(|(id, _)| *id != call.id);
        self.taint.add_result(response.text());
        codes.answer(&call.id, &response);
    }
}

impl super::resume::Committed {
    fn made(&self, of: &str, number: usize, id: &str) -> Made {
        let question = question_of(&self.questions, id).cloned();
        match (self.intents.get(id), question) {
            (Some(CommittedIntent { response: Some(response), .. }), _) => Made::Answered(response.clone()),
            (Some(CommittedIntent { cell, paused: Some(paused), .. }), _) => {
                Made::Paused(*cell, paused.clone())
            }
            (Some(CommittedIntent { cell, .. }), question) => Made::Started(*cell, question),
            (None, Some(question)) => Made::Asked(question),
            (None, None) if self.ids().any(|made| code_call::number(made, of) == Some(number)) => {
                Made::Otherwise
            }
            (None, None) => Made::No,
        }
    }

    /// The ids of the calls that something is committed about.
    fn ids(&self) -> impl Iterator<Item = &str> {
        let asked = self.questions.iter().filter_map(|question| question.asked.subject.as_deref());
        self.intents.keys().map(String::as_str).chain(asked)
    }
}

/// A call of code with its id. Arguments are an object, as those of the model.
fn named(of: &str, call: CodeCall) -> (usize, ToolCall) {
    let CodeCall { number, tool, input } = call;
    let id = code_call::id(of, number, &tool, &input);
    let malformed = (!input.is_object()).then(|| input.to_string());
    let input = if malformed.is_some() { json!({}) } else { input };
    (number, ToolCall { id, name: tool, input, malformed })
}

/// The calls of one turn that run code.
#[derive(Default)]
pub(super) struct Codes<'h> {
    /// That of the session: guards look in it for what the user wrote.
    pub(super) history: &'h [Entry],
    scripts: Vec<Script>,
    pub(super) rounds: Vec<Round>,
    /// Calls of code that wait for a person.
    pub(super) held: Held,
    /// Calls of the turn and of its code that have paused.
    pub(super) paused: Held,
    /// What they keep, and what they wait for.
    pub(super) pauses: Vec<PausedCall>,
    channel: Option<Channel>,
}

type Channel = (mpsc::UnboundedSender<CodeCalls>, mpsc::UnboundedReceiver<CodeCalls>);

/// Code while it runs.
pub(super) struct Script {
    /// The id of the call that runs it.
    of: String,
    /// What the model said that call is for, and so what the calls of the code are for.
    pub(super) intent: Option<StatedIntent>,
    /// The tools it has called, in the order of the calls.
    pub(super) called: Vec<String>,
    /// For reports of how many calls it has made.
    progress: houston_tools::Progress,
    /// Whether it has read what strangers wrote.
    pub(super) untrusted: bool,
    end: Option<End>,
    /// Set if it is no code, but a call with a fallback.
    pub(super) falling: Option<Box<Falling>>,
}

/// Why the engine ended code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// A call waits for a person.
    Waits,
    /// It made another call than before.
    Diverged,
}

/// Calls that code has made at once and that have not all been answered.
pub(super) struct Round {
    pub(super) of: String,
    pub(super) calls: Vec<(String, Progress)>,
    /// The tools that are called.
    pub(super) tools: Vec<String>,
    pub(super) answers: oneshot::Sender<Result<Vec<CodeAnswer>, String>>,
}

pub(super) enum Progress {
    Runs,
    Waits,
    Answered(CodeAnswer),
}

impl<'h> Codes<'h> {
    /// Of the calls that are to be executed, those that run code.
    pub(super) fn of(history: &'h [Entry]) -> Self {
        Self { history, ..Self::default() }
    }

    /// Adds a call that is to be executed. Returns where it sends its calls, if it runs code or has a fallback.
    pub(super) fn begin(
        &mut self,
        runner: &ToolRunner,
        call: &ExternalCall,
    ) -> Option<mpsc::UnboundedSender<CodeCalls>> {
        if !call.work.is_code() && call.fallback.is_none() {
            return None;
        }
        self.scripts.push(Script::of(runner, call));
        let (sender, _) = self.channel.get_or_insert_with(mpsc::unbounded_channel);
        Some(sender.clone())
    }

    /// The next calls; pending if no call runs code.
    pub(super) async fn next(&mut self) -> CodeCalls {
        if let Some((_, asked)) = &mut self.channel
            && let Some(calls) = asked.recv().await
        {
            return calls;
        }
        std::future::pending().await
    }

    /// The calls that wait.
    pub(super) fn take_held(&mut self) -> Held {
        std::mem::take(&mut self.held).and(std::mem::take(&mut self.paused))
    }

    /// Whether code made this call.
    pub(super) fn made(&self, call: &str) -> bool {
        self.rounds.iter().any(|round| round.calls.iter().any(|(id, _)| id == call))
    }

    /// The response to a call that returned. `None`: it runs code that waits for a person and will be run again. `is_short`: the
    /// code made fewer calls than before.
    pub(super) fn finished(
        &mut self,
        call: &str,
        response: ToolResponse,
        is_short: impl FnOnce(usize) -> bool,
    ) -> Option<ToolResponse> {
        let Some(script) = self.scripts.iter().position(|script| script.of == call) else {
            return Some(response);
        };
        let Script { called, untrusted, end, falling, .. } = self.scripts.swap_remove(script);
        if let Some(falling) = falling {
            return if end == Some(End::Waits) { None } else { Some(falling.response().unwrap_or(response)) };
        }
        let response = match end {
            Some(End::Waits) => return None,
            Some(End::Diverged) => diverged(),
            None if is_short(called.len()) => diverged(),
            None => response,
        };
        if called.is_empty() {
            return Some(response);
        }
        let line = code_call::called_line(called.iter().map(String::as_str));
        Some(response.map_text(|text| {
            let text = format!("{line}\n{text}");
            if untrusted { untrusted::marked("code", &text) } else { text }
        }))
    }

    /// Takes out a call with a fallback that has paused. `None`: it has none.
    pub(super) fn take_paused(&mut self, call: &str) -> Option<Script> {
        let at = self.scripts.iter().position(|script| script.of == call)?;
        Some(self.scripts.swap_remove(at))
    }

    fn script(&mut self, of: &str) -> Option<&mut Script> {
        self.scripts.iter_mut().find(|script| script.of == of)
    }

    pub(super) fn end(&mut self, of: &str, end: End) {
        if let Some(script) = self.script(of) {
            script.end = Some(end);
        }
    }

    /// A call of code has this response.
    pub(super) fn answer(&mut self, call: &str, response: &ToolResponse) {
        for round in &mut self.rounds {
            let Some((_, progress)) = round.calls.iter_mut().find(|(id, _)| id == call) else { continue };
            *progress = Progress::Answered(answer_of(response));
            if let Some(script) = self.scripts.iter_mut().find(|script| script.of == round.of) {
                script.untrusted |= untrusted::is_marked(response.text());
                if let (Some(falling), [tool, ..]) = (&mut script.falling, round.tools.as_slice()) {
                    falling.answered(tool, response);
                }
            }
            return;
        }
    }

    /// Answers the rounds of which no call runs any more, or ends their code if a call waits for a person.
    pub(super) fn settle(&mut self) {
        let runs = |(_, progress): &(String, Progress)| matches!(progress, Progress::Runs);
        while let Some(at) = self.rounds.iter().position(|round| !round.calls.iter().any(runs)) {
            let Round { of, calls, answers, .. } = self.rounds.swap_remove(at);
            let waits = calls.iter().any(|(_, progress)| matches!(progress, Progress::Waits));
            let answered = calls.into_iter().filter_map(|(_, progress)| match progress {
                Progress::Answered(answer) => Some(answer),
                Progress::Runs | Progress::Waits => None,
            });
            let reply = if waits { Err(WAITS.to_owned()) } else { Ok(answered.collect()) };
            if waits {
                self.end(&of, End::Waits);
            }
            // Code that has ended meanwhile reads nothing.
            let _ = answers.send(reply);
        }
    }

    /// A call of code waits for a person.
    pub(super) fn wait(&mut self, call: String, question: QuestionId, cell: MessageId) {
        self.waits(&call);
        self.held.add(call, question, cell);
    }

    /// A call of the turn, or of code, has paused. `seen`: the unread messages that are no reason to go on.
    pub(super) fn pause(&mut self, call: String, paused: PausedCall, cell: MessageId, seen: i32) {
        self.waits(&call);
        let mut held = Held::default();
        held.unread = seen;
        held.add_paused(call, (paused.question, paused.until), cell);
        self.paused = std::mem::take(&mut self.paused).and(held);
        self.pauses.push(paused);
    }

    /// A call of code, or what is called in its place, waits for a person or has paused.
    pub(super) fn waits(&mut self, call: &str) {
        let mut calls = self.rounds.iter_mut().flat_map(|round| &mut round.calls);
        if let Some((_, progress)) = calls.find(|(id, _)| id == call) {
            *progress = Progress::Waits;
        }
    }
}

impl Script {
    /// It has called this tool.
    fn has_called(&mut self, tool: String, untrusted: bool) {
        let count = u32::try_from(self.called.len()).unwrap_or(u32::MAX);
        self.progress.report(f64::from(count) + 1.0, None, &format!("calling {tool}"));
        self.called.push(tool);
        self.untrusted |= untrusted;
    }

    fn of(runner: &ToolRunner, call: &ExternalCall) -> Self {
        let falling = call.fallback.is_some().then(|| {
            let tool = runner.offer().get(&call.call.name);
            let effect = tool.map_or(EffectClass::Effect, |tool| tool.definition().effect);
            Box::new(Falling::of(call, effect))
        });
        Self {
            of: call.call.id.clone(),
            intent: call.intent.clone(),
            called: Vec::new(),
            progress: call.context.progress.clone(),
            untrusted: false,
            end: None,
            falling,
        }
    }
}

/// What code reads of a response: JSON as a value, and everything else as text.
fn answer_of(response: &ToolResponse) -> CodeAnswer {
    let text = response.text();
    if !response.is_success() {
        return Err(text.to_owned());
    }
    let parsed = text.starts_with(['{', '[']).then(|| serde_json::from_str(text).ok()).flatten();
    Ok(parsed.unwrap_or_else(|| Value::String(text.to_owned())))
}

fn diverged() -> ToolResponse {
    ToolResponse::failure(
        ToolErrorCode::Unknown,
        "the code was interrupted, and made other calls when it was run again, so it was stopped. Which of its calls were \
         executed is not certain: verify before you run it again.",
    )
}
