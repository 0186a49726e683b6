//! [`Codes`]: the code that the calls of a turn run, and which of its calls have no answer yet. A call with a fallback counts as
//! code whose one call is the fallback.

use houston_domain::code_call;
use houston_domain::guard::Intent as StatedIntent;
use houston_domain::history::Entry;
use houston_domain::id::{MessageId, QuestionId};
use houston_domain::paused_call::PausedCall;
use houston_domain::tool_call::{EffectClass, ToolErrorCode, ToolResponse};
use houston_tools::{CodeAnswer, CodeCalls, untrusted};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::call::ExternalCall;
use super::fallback::Falling;
use super::{Held, ToolRunner};

/// What ends code whose call waits for a person; only the code's process sees it.
const WAITS: &str = "a call waits for a person";

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

    pub(super) fn script(&mut self, of: &str) -> Option<&mut Script> {
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
    pub(super) fn has_called(&mut self, tool: String, untrusted: bool) {
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
