//! Parts of a task, and what a push notification says about an event.

use std::fmt::Display;

use chrono::{DateTime, Utc};
use houston_domain::error_message::user_text;
use houston_domain::event::{Committed, Event, MessageBody};
use houston_domain::id::RunId;
use houston_domain::message::result_of;
use houston_domain::run::RunStatus;
use serde_json::{Value, json};

use super::{
    Artifact, Message, Metadata, Part, Role, StreamResponse, TaskArtifactUpdateEvent, TaskState, TaskStatus,
    TaskStatusUpdateEvent,
};
use crate::agui::Interrupt;

/// The ids that everything of a task has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskIds {
    /// The task is a run.
    pub run: RunId,
    /// The thread, as the client calls it.
    pub context: String,
}

/// What a push notification says about an event of the task; `None`: nothing.
///
/// | event | update |
/// |---|---|
/// | an attempt starts | status `WORKING` |
/// | the agent has sent a message | its artifact, complete |
/// | a question was asked | status `INPUT_REQUIRED`, with the question |
/// | the run has ended | status `COMPLETED`, `CANCELED` or `FAILED`, the last one |
pub fn update(ids: &TaskIds, committed: &Committed) -> Option<StreamResponse> {
    let at = Some(committed.at);
    let status = match &committed.event {
        Event::AttemptStarted { .. } => plain(TaskState::Working, at),
        Event::QuestionAsked(question) => {
            input_required(ids, std::iter::once(Interrupt::from(&**question)), at)
        }
        Event::MessageSent { message_id } => {
            let body = committed.body.as_ref().filter(|body| !is_rolled_back(body))?;
            return Some(artifact_update(ids, artifact(*message_id, part(body)), false, Some(true)));
        }
        Event::RunFinished { status, code, .. } => return Some(ended(ids, *status, code.as_deref(), at)),
        _ => return None,
    };
    Some(status_update(ids, status, None))
}

fn ended(ids: &TaskIds, status: RunStatus, code: Option<&str>, at: Option<DateTime<Utc>>) -> StreamResponse {
    let state = state(status, false);
    if state == TaskState::Failed {
        let code = code.unwrap_or(status.as_str());
        let text = status.notice().unwrap_or_else(|| user_text(code));
        let metadata = houston(json!({"status": status, "error_code": code}));
        return status_update(ids, failed(ids, text, at), Some(metadata));
    }
    let metadata = houston(json!({"status": status, "stop_reason": status.stop_reason(code)}));
    status_update(ids, plain(state, at), Some(metadata))
}

fn plain(state: TaskState, timestamp: Option<DateTime<Utc>>) -> TaskStatus {
    TaskStatus { state, message: None, timestamp }
}

/// A new status of the task.
pub fn status_update(ids: &TaskIds, status: TaskStatus, metadata: Option<Metadata>) -> StreamResponse {
    StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
        task_id: ids.run.to_string(),
        context_id: ids.context.clone(),
        status,
        metadata,
    })
}

/// What the agent has written: a part of it that comes after the others (`append`), or all so far.
pub fn artifact_update(
    ids: &TaskIds,
    artifact: Artifact,
    append: bool,
    last_chunk: Option<bool>,
) -> StreamResponse {
    StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
        task_id: ids.run.to_string(),
        context_id: ids.context.clone(),
        artifact,
        append: Some(append),
        last_chunk,
        metadata: None,
    })
}

/// Whether a later message took this one back.
pub fn is_rolled_back(body: &MessageBody) -> bool {
    body.metadata["rolled_back"] == true
}

/// What the agent has written: a text, or a value if a form was asked for.
pub fn part(body: &MessageBody) -> Part {
    let value = result_of(&body.metadata, &body.content);
    value.map_or_else(|| Part::text(body.content.clone()), Part::data)
}

/// An artifact of one part, under the id of its message.
pub fn artifact(id: impl Display, part: Part) -> Artifact {
    Artifact {
        artifact_id: id.to_string(),
        name: None,
        description: None,
        parts: vec![part],
        metadata: None,
        extensions: None,
    }
}

/// A message of the task.
pub fn message(ids: &TaskIds, id: String, role: Role, parts: Vec<Part>) -> Message {
    Message {
        message_id: id,
        context_id: Some(ids.context.clone()),
        task_id: Some(ids.run.to_string()),
        role,
        parts,
        metadata: None,
        extensions: None,
        reference_task_ids: None,
    }
}

/// The state of a run. `asks`: a question of it is open.
pub fn state(status: RunStatus, asks: bool) -> TaskState {
    match status {
        RunStatus::Queued => TaskState::Submitted,
        RunStatus::Waiting if asks => TaskState::InputRequired,
        RunStatus::Running | RunStatus::Retrying | RunStatus::Waiting => TaskState::Working,
        RunStatus::Cancelled => TaskState::Canceled,
        RunStatus::Failed | RunStatus::DeadLettered => TaskState::Failed,
        _ => TaskState::Completed,
    }
}

/// The status of a task that waits for answers: a message with each question as text for people, and as data.
pub fn input_required<'q>(
    ids: &TaskIds,
    questions: impl Iterator<Item = Interrupt<'q>>,
    at: Option<DateTime<Utc>>,
) -> TaskStatus {
    let mut id = None;
    let mut parts = Vec::new();
    for question in questions {
        id = id.or(Some(question.id.to_string()));
        parts.push(Part::text(question.message.to_string()));
        parts.push(Part::data(json!({"question": question})));
    }
    let asked = message(ids, id.unwrap_or_default(), Role::Agent, parts);
    TaskStatus { state: TaskState::InputRequired, message: Some(asked), timestamp: at }
}

/// The status of a task that has failed.
pub fn failed(ids: &TaskIds, text: &str, at: Option<DateTime<Utc>>) -> TaskStatus {
    let said = message(ids, format!("{}_error", ids.run), Role::Agent, vec![Part::text(text)]);
    TaskStatus { state: TaskState::Failed, message: Some(said), timestamp: at }
}

/// Houston's additions.
pub fn houston(value: Value) -> Metadata {
    Metadata::from([("houston".to_owned(), value)])
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn said(event: Event) -> Option<Value> {
        let ids = TaskIds { run: RunId(Uuid::from_u128(1)), context: "trip".to_owned() };
        let committed = Committed { seq: 1, run_id: ids.run, at: DateTime::UNIX_EPOCH, event, body: None };
        update(&ids, &committed).map(|update| serde_json::to_value(update).unwrap())
    }

    fn finished(status: RunStatus, code: Option<&str>) -> Value {
        let code = code.map(str::to_owned);
        let event = Event::RunFinished {
            status,
            iteration: None,
            usage: Default::default(),
            message: None,
            code,
            result: None,
        };
        said(event).unwrap()["statusUpdate"].clone()
    }

    #[test]
    fn each_status_has_one_state() {
        let states: Vec<TaskState> = RunStatus::ALL.into_iter().map(|status| state(status, false)).collect();
        let terminal = RunStatus::ALL.into_iter().filter(|status| status.is_terminal()).count();
        assert_eq!(states.iter().filter(|state| state.is_terminal()).count(), terminal);
        assert_eq!(state(RunStatus::Waiting, true), TaskState::InputRequired);
        assert_eq!(state(RunStatus::MaxIterations, false), TaskState::Completed);
    }

    #[test]
    fn the_end_of_a_run_says_how_it_ended() {
        let update = finished(RunStatus::Completed, None);
        assert_eq!(update["status"]["state"], "TASK_STATE_COMPLETED");
        assert_eq!(update["contextId"], "trip");
        let update = finished(RunStatus::Failed, Some("RATE_LIMITED"));
        assert_eq!(update["status"]["state"], "TASK_STATE_FAILED");
        assert_eq!(update["status"]["message"]["parts"][0]["text"], user_text("RATE_LIMITED"));
        assert_eq!(said(Event::RunQueued {}), None);
    }
}
