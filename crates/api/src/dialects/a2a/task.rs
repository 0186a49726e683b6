//! A run as a task: its state, what users have written in it, and what its agent has.

use houston_domain::error_message::user_text;
use houston_domain::event::{Committed, Event as Durable};
use houston_domain::message::Source;
use houston_domain::question::NewQuestion;
use houston_domain::run::Run;
pub(super) use houston_protocol::a2a::update::{
    TaskIds, artifact, artifact_update, failed, houston, input_required, message, state, status_update,
};
use houston_protocol::a2a::update::{is_rolled_back, part};
use houston_protocol::a2a::{Artifact, Message, Part, Role, Task, TaskState, TaskStatus};
use houston_protocol::agui::Interrupt;
use serde_json::json;

use crate::events::stream::PAGE;
use crate::request::prelude::*;

/// The most pages of events of a run that are read, and about how many bytes of texts. A task with more has its beginning,
/// and `truncated` in its metadata.
const MAX_PAGES: usize = 10;
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// What was written in a run.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Written {
    pub(super) history: Vec<Message>,
    pub(super) artifacts: Vec<Artifact>,
    /// The position of the last event that was read.
    pub(super) last_seq: i64,
    pub(super) is_truncated: bool,
    bytes: usize,
}

/// Reads what was written in a run so far.
pub(super) async fn written(ctx: &Ctx, path: &AgentablePath, run: &Run, ids: &TaskIds) -> Result<Written> {
    let mut written = Written { last_seq: run.first_seq - 1, ..Written::default() };
    for _ in 0..MAX_PAGES {
        let page = match ctx.store().events_after(path.id, written.last_seq, PAGE).await {
            // Of an old run only what its row says is left.
            Err(houston_store::Error::EventsExpired { .. }) => break,
            page => page?,
        };
        let is_last = i64::try_from(page.len()).is_ok_and(|count| count < PAGE);
        if !page.into_iter().all(|event| written.add(event, ids)) || is_last {
            return Ok(written);
        }
    }
    written.is_truncated = true;
    Ok(written)
}

impl Written {
    /// Adds an event; whether later ones may be of the run, too.
    fn add(&mut self, event: Committed, ids: &TaskIds) -> bool {
        if event.run_id != ids.run {
            return false;
        }
        if self.bytes > MAX_BYTES {
            self.is_truncated = true;
            return false;
        }
        self.last_seq = event.seq;
        self.bytes += event.body.as_ref().map_or(0, |body| body.content.len());
        match (event.event, event.body) {
            (Durable::MessagePosted { message_id }, Some(body)) if body.source == Source::User => {
                let (id, parts) = (message_id.to_string(), vec![Part::text(body.content)]);
                self.history.push(message(ids, id, Role::User, parts));
            }
            (Durable::MessageSent { message_id }, Some(body)) if !is_rolled_back(&body) => {
                self.artifacts.push(artifact(message_id, part(&body)));
            }
            (Durable::RunFinished { .. }, _) => return false,
            _ => {}
        }
        true
    }
}

/// The task of a run with these open questions.
pub(super) fn task(run: &Run, ids: &TaskIds, questions: &[NewQuestion], written: Option<Written>) -> Task {
    let at = Some(run.ended_at.or(run.started_at).unwrap_or(run.created_at).0);
    let status = match state(run.status, !questions.is_empty()) {
        TaskState::InputRequired => input_required(ids, questions.iter().map(Interrupt::from), None),
        TaskState::Failed => {
            let text = run.status.notice().unwrap_or_else(|| user_text(run.error_code().unwrap_or_default()));
            failed(ids, text, at)
        }
        state => TaskStatus { state, message: None, timestamp: at },
    };
    let is_truncated = written.as_ref().is_some_and(|written| written.is_truncated);
    let mut metadata = json!({"status": run.status, "thread_id": run.owner.id.public_id(&run.owner.kind)});
    let more = [
        ("stop_reason", json!(run.stop_reason)),
        ("error_code", json!(run.error_code())),
        ("truncated", json!(is_truncated.then_some(true))),
    ];
    for (name, value) in more.into_iter().filter(|(_, value)| !value.is_null()) {
        metadata[name] = value;
    }
    let (history, artifacts) =
        written.map_or((None, None), |written| (Some(written.history), Some(written.artifacts)));
    Task {
        id: ids.run.to_string(),
        context_id: ids.context.clone(),
        status,
        artifacts: artifacts.filter(|artifacts| !artifacts.is_empty()),
        history: history.filter(|history| !history.is_empty()),
        metadata: Some(houston(metadata)),
    }
}

/// Keeps the last messages, as many as the client wants.
pub(super) fn keep(task: &mut Task, history: Option<i32>) {
    let Some(most) = history.map(|most| usize::try_from(most).unwrap_or(0)) else { return };
    if most == 0 {
        task.history = None;
    } else if let Some(history) = &mut task.history {
        let surplus = history.len().saturating_sub(most);
        history.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use houston_domain::event::MessageBody;
    use houston_domain::id::{MessageId, RunId};
    use uuid::Uuid;

    use super::*;

    fn ids() -> TaskIds {
        TaskIds { run: RunId(Uuid::from_u128(1)), context: "trip".to_owned() }
    }

    fn committed(seq: i64, run: u128, event: Durable, content: &str, source: Source) -> Committed {
        let body = MessageBody {
            source,
            message_type: houston_domain::message::MessageType::Text,
            content: content.to_owned(),
            metadata: json!(null),
        };
        Committed {
            seq,
            run_id: RunId(Uuid::from_u128(run)),
            at: DateTime::UNIX_EPOCH,
            event,
            body: Some(body),
        }
    }

    #[test]
    fn messages_of_the_run_become_history_and_artifacts() {
        let id = |nth| MessageId(Uuid::from_u128(nth));
        let mut written = Written::default();
        let asked = committed(2, 1, Durable::MessagePosted { message_id: id(2) }, "Plan", Source::User);
        let system = committed(3, 1, Durable::MessagePosted { message_id: id(3) }, "due", Source::System);
        let said = committed(4, 1, Durable::MessageSent { message_id: id(4) }, "Rome", Source::Agent);
        let later = committed(5, 2, Durable::MessageSent { message_id: id(5) }, "Oslo", Source::Agent);
        let goes_on: Vec<bool> =
            [asked, system, said, later].into_iter().map(|event| written.add(event, &ids())).collect();
        assert_eq!(goes_on, [true, true, true, false]);
        assert_eq!((written.history.len(), written.artifacts.len(), written.last_seq), (1, 1, 4));
        assert_eq!(written.artifacts[0].parts[0].as_text(), Some("Rome"));
    }
}
