//! Code that calls tools. Each of its calls is judged, stored and executed like one of the model, and its response is
//! committed before the code reads it. A worker that takes the run over runs the code again: calls with a response are
//! answered with it, an open one goes on as its effect class allows, and one that was not made yet is made. While a call
//! waits for a person, the code is ended; it is run again to that call once there is a decision.

use chrono::{DateTime, Utc};
use houston_domain::code_call;
use houston_domain::guard::Intent as StatedIntent;
use houston_domain::history::Entry;
use houston_domain::id::MessageId;
use houston_domain::tool_call::{ToolCall, ToolErrorCode, ToolResponse};
use houston_tools::{CodeAnswer, CodeCall, CodeCalls, untrusted};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::execution::{Executing, ExternalCall};
use super::fallback::Falling;
use super::record::commit_with;
use super::resume::Committed;
use super::{Held, Made, Origin, Plans, ToolRunner, cut};
use crate::error::Result;
use crate::run::journal::{Journal, add_message};
use crate::run::storage::RunStorage;
use crate::setup::guards::shown;

/// What ends code whose call waits for a person; only the code's process sees it.
const WAITS: &str = "a call waits for a person";

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
        executing: &mut Executing<'_>,
    ) -> Result<()> {
        let CodeCalls { of, calls, failed, answers } = asked;
        let codes = &mut executing.codes;
        if let (Some(failed), Some(falling)) =
            (failed, codes.script(&of).and_then(|script| script.falling.as_mut()))
        {
            falling.failed = Some(cut(journal, failed));
        }
        let calls: Vec<(usize, ToolCall)> = calls.into_iter().map(|call| named(&of, call)).collect();
        if calls.iter().any(|(number, call)| self.recorded.has_other(&of, *number, &call.id)) {
            codes.end(&of, End::Diverged);
            let _ = answers.send(Err("it made other calls before".to_owned()));
            return Ok(());
        }
        let names: Vec<String> = calls.iter().map(|(_, call)| call.name.clone()).collect();
        let ids = calls.iter().map(|(_, call)| (call.id.clone(), Progress::Runs)).collect();
        codes.rounds.push(Round { of: of.clone(), calls: ids, tools: names.clone(), answers });
        let made = |(_, call): (usize, ToolCall)| {
            let is_for_code = self.offer().get(&call.name).is_none_or(|tool| tool.is_for_code());
            let made = match self.recorded.about(&call.id) {
                Made::No if !is_for_code => Made::Refused(not_for_code(&call.name)),
                made => made,
            };
            (call, made)
        };
        let calls = calls.into_iter().map(made).collect();
        let intent = codes.script(&of).and_then(|script| script.intent.clone());
        let origin = Origin::Code { intent, history: codes.history };
        let plans = self.plan(journal, &origin, calls).await?;
        let external = self.make(journal, &of, plans, codes).await?;
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
            self.start(journal, call, executing).await?;
        }
        if executing.codes.script(&of).is_some_and(|script| script.untrusted) {
            self.taint.untrusted = true;
        }
        executing.codes.settle();
        Ok(())
    }

    /// Commits what is new about calls, and passes on the responses there are. Returns those that are to be executed.
    async fn make<S: RunStorage>(
        &mut self,
        journal: &mut Journal<'_, S>,
        of: &str,
        mut plans: Plans,
        codes: &mut Codes<'_>,
    ) -> Result<Vec<ExternalCall>> {
        let prepared = if plans.has_new() {
            let mut step = journal.next_step();
            if let Some(falling) = codes.script(of).and_then(|script| script.falling.as_ref())
                && self.recorded.failed(of).is_none()
            {
                falling.record(&mut step);
            }
            for content in std::mem::take(&mut plans.messages) {
                let label = if self.taint.untrusted { json!({"untrusted": true}) } else { json!({}) };
                let inert = self.taint.must_be_inert();
                let content = if inert { shown(&content, &self.setup.guards) } else { content };
                add_message(&mut step, journal.new_id(), content, label);
            }
            let (prepared, records) = self.prepare(journal, &mut step, plans).await?;
            Box::pin(commit_with(journal, step, records)).await?;
            houston_faults::fault!("C9")?;
            prepared
        } else {
            plans.known()
        };
        for (call, response) in prepared.responses {
            codes.answer(&call, &response);
        }
        codes.hold(prepared.held);
        Ok(prepared.external)
    }
}

impl Committed {
    /// Whether the code of the call `of` made another call with this number.
    fn has_other(&self, of: &str, number: usize, id: &str) -> bool {
        let mut made = self.ids().filter(|made| code_call::number(made, of) == Some(number)).peekable();
        made.peek().is_some() && made.all(|made| made != id)
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
    /// Calls of the turn and of its code that wait for a person, or have paused.
    pub(super) held: Held,
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
    /// No call yet; `held` are those of the turn that wait already.
    pub(super) fn of(history: &'h [Entry], held: Held) -> Self {
        Self { history, held, ..Self::default() }
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
                    falling.answered = Some((tool.clone(), response.clone()));
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

    /// Calls of code wait for a person, or calls of the turn or of code have paused.
    pub(super) fn hold(&mut self, held: Held) {
        held.calls.iter().for_each(|held| self.waits(&held.call));
        self.held = std::mem::take(&mut self.held).and(held);
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
        let falling =
            call.fallback.is_some().then(|| Box::new(Falling::of(call, runner.effect_of(&call.call.name))));
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
    let text = response.text().to_owned();
    if response.is_success() { Ok(value_of(text)) } else { Err(text) }
}

/// A text as a value: JSON objects and lists are read.
pub(crate) fn value_of(text: String) -> Value {
    let parsed = text.starts_with(['{', '[']).then(|| serde_json::from_str(&text).ok()).flatten();
    parsed.unwrap_or(Value::String(text))
}

fn diverged() -> ToolResponse {
    ToolResponse::failure(
        ToolErrorCode::Unknown,
        "the code was interrupted, and made other calls when it was run again, so it was stopped. Which of its calls were \
         executed is not certain: verify before you run it again.",
    )
}
