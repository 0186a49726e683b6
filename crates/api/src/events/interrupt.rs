//! Waits as AG-UI has them: a run that waits for a person ends with its questions as interrupts, and starts again, under the
//! same id, with the next event.

use houston_domain::event::Committed;
use houston_domain::question::NewQuestion;
use houston_domain::run::RunStatus;
use houston_protocol::agui::{Event, Outcome, PROTOCOL_VERSION, RunResult};

/// The end of a run that waits with `event` for answers to `questions`; `None` if it waits for something else.
pub(crate) fn end<'a>(thread: &'a str, event: &Committed, questions: &'a [NewQuestion]) -> Option<Event<'a>> {
    if questions.is_empty() {
        return None;
    }
    Some(Event::RunFinished {
        timestamp: Some(event.at.timestamp_millis()),
        thread_id: thread.into(),
        run_id: event.run_id,
        result: RunResult {
            status: RunStatus::Waiting,
            cancelled_by: None,
            stop_reason: None,
            cost: None,
            output: None,
        },
        outcome: Outcome::Interrupt { interrupts: questions.iter().map(Into::into).collect() },
        usage: None,
    })
}

/// Puts the start of the run before the frames of `event`, the first one after the run had waited.
pub(crate) fn start<'a>(frames: &mut Vec<Event<'a>>, thread: &'a str, event: &Committed) {
    if frames.is_empty() || matches!(frames.first(), Some(Event::RunStarted { .. })) {
        return;
    }
    let start = Event::RunStarted {
        timestamp: Some(event.at.timestamp_millis()),
        thread_id: thread.into(),
        run_id: event.run_id,
        protocol_version: PROTOCOL_VERSION.into(),
    };
    frames.insert(0, start);
}
