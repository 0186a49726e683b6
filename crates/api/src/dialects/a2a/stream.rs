//! The stream of a task: the task first, then its updates, and a clean end after the last of them.
//!
//! Events are updates so:
//!
//! | event | update |
//! |---|---|
//! | an attempt starts | status `WORKING` |
//! | text | the artifact of the message: its first piece replaces what the client has, later ones are appended |
//! | text is complete | `lastChunk`, with an empty piece |
//! | partial text is taken back | the artifact, replaced by nothing |
//! | tool call, tool result, retry, progress | status `WORKING`, with the fact in the metadata |
//! | the run waits for answers | status `INPUT_REQUIRED`, the last one |
//! | the run has ended | status `COMPLETED`, `CANCELED` or `FAILED`, the last one |

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::StreamExt as _;
use houston_domain::run::RunStatus;
use houston_protocol::a2a::{JsonRpcId, Metadata, Part, StreamResponse, Task, TaskState, TaskStatus};
use houston_protocol::agui::{EntityId, Event, Fact, Outcome, RunResult, SnapshotMessage, Timestamp};
use houston_protocol::sse::SseEncoder;
use serde::Serialize;
use serde_json::{Value, json};

use super::task::{TaskIds, artifact, artifact_update, failed, houston, input_required, status_update};
use crate::dialects::threads::Thread;
use crate::error::Result;
use crate::events::Options;
use crate::events::position::Position;
use crate::events::stream::Dialect;

fn first_frame(task: Task, binding: &Binding, at: Position, retry_ms: u32) -> Bytes {
    let mut frames = SseEncoder::new(retry_ms);
    let task = StreamResponse::Task(task);
    frames.push(at, &binding.frame(&task));
    frames.take().unwrap_or_default().into()
}

/// Streams a task, and its updates that follow position `at`.
pub(super) async fn stream(
    thread: Thread,
    (task, ids): (Task, TaskIds),
    binding: Binding,
    (at, is_begun): (Position, bool),
) -> Result<Response> {
    let first = first_frame(task, &binding, at, thread.ctx.state.config.retry_ms);
    let updates = (Updates::new(ids, binding, is_begun), |_| String::new());
    let opened = thread.open(Some(at), &Options::with_interrupts(), updates).await?;
    if opened.status() == StatusCode::NO_CONTENT {
        return Ok(only(first));
    }
    let (mut head, updates) = opened.into_parts();
    head.headers.remove(header::LOCATION);
    let frames = futures_util::stream::iter([Ok(first)]).chain(updates.into_data_stream());
    Ok(Response::from_parts(head, Body::from_stream(frames)))
}

/// A stream of a task that has no updates at present.
pub(super) fn task_only(task: Task, binding: &Binding, at: Position, retry_ms: u32) -> Response {
    only(first_frame(task, binding, at, retry_ms))
}

fn only(first: Bytes) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform")),
    ];
    (headers, first).into_response()
}

/// Waits until the task has ended, or with interrupts until it needs a person, at most `within`, reading what follows
/// position `at`.
pub(super) async fn wait(
    thread: Thread,
    ids: TaskIds,
    (at, is_begun): (Position, bool),
    (options, within): (&Options, Duration),
) -> Result<()> {
    // After that time the client gets the task as it is.
    thread.follow(at, options, Updates::new(ids, Binding::Http, is_begun), within).await.map(drop)
}

/// How updates are sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Binding {
    /// Each update is the result of this request.
    Rpc(JsonRpcId),
    Http,
}

/// An update as the binding has it.
#[derive(Serialize)]
#[serde(untagged)]
enum Framed<'a> {
    Rpc { jsonrpc: &'static str, id: &'a JsonRpcId, result: &'a StreamResponse },
    Http(&'a StreamResponse),
}

impl Binding {
    pub(super) fn frame<'a>(&'a self, update: &'a StreamResponse) -> impl Serialize + 'a {
        match self {
            Self::Rpc(id) => Framed::Rpc { jsonrpc: "2.0", id, result: update },
            Self::Http => Framed::Http(update),
        }
    }
}

/// The updates of one task.
#[derive(Debug)]
struct Updates {
    ids: TaskIds,
    binding: Binding,
    /// Whether the events are those of the task: those before it are not.
    is_begun: bool,
    /// Whether the last update was written: the thread may have later runs, of which the task knows nothing.
    is_done: bool,
    /// The artifact to which text was sent last.
    text: Option<EntityId>,
    /// The artifact whose beginning the client has.
    begun: Option<EntityId>,
}

impl Updates {
    /// `is_begun`: the client's position is within the run.
    fn new(ids: TaskIds, binding: Binding, is_begun: bool) -> Self {
        Self { ids, binding, is_begun, is_done: false, text: None, begun: None }
    }

    /// The updates for an event.
    fn updates(&mut self, event: &Event<'_>) -> Vec<StreamResponse> {
        match event {
            Event::RunStarted { run_id, .. } => {
                self.is_begun = *run_id == self.ids.run;
                Vec::new()
            }
            _ if !self.is_begun || self.is_done => Vec::new(),
            Event::TextMessageContent { message_id, delta, .. } => vec![self.text(*message_id, delta)],
            Event::TextMessageEnd { message_id, .. } => self.complete(*message_id).into_iter().collect(),
            Event::MessagesSnapshot { messages, .. } => self.take_back(messages).into_iter().collect(),
            Event::RunFinished { timestamp, run_id, result, outcome, .. } if *run_id == self.ids.run => {
                let value = self.value(result);
                value.into_iter().chain([self.ended(*timestamp, result, outcome)]).collect()
            }
            Event::RunError { timestamp, message, code, .. } => {
                self.is_done = true;
                let metadata = houston(json!({"error_code": code}));
                vec![self.status(failed(&self.ids, message, time(*timestamp)), Some(metadata))]
            }
            other => working(other).map(|(at, metadata)| self.working(at, metadata)).into_iter().collect(),
        }
    }

    fn text(&mut self, id: EntityId, delta: &str) -> StreamResponse {
        let append = self.begun == Some(id);
        (self.begun, self.text) = (Some(id), Some(id));
        self.artifact(id, Part::text(delta), append, None)
    }

    fn complete(&mut self, id: EntityId) -> Option<StreamResponse> {
        // A message without text has no artifact.
        self.text = self.text.filter(|open| *open == id);
        (self.begun == Some(id)).then(|| self.artifact(id, Part::text(""), true, Some(true)))
    }

    /// The last artifact, if its text is not in the thread: an attempt broke off.
    fn take_back(&mut self, messages: &[SnapshotMessage]) -> Option<StreamResponse> {
        let id = self.text.take()?;
        if messages.iter().any(|message| message.id == id) {
            return None;
        }
        self.begun = None;
        Some(self.artifact(id, Part::text(""), false, Some(true)))
    }

    /// The last artifact again, as a value, if a form was asked for.
    fn value(&self, result: &RunResult<'_>) -> Option<StreamResponse> {
        let (id, value) = (self.begun?, result.output.as_deref()?.clone());
        Some(self.artifact(id, Part::data(value), false, Some(true)))
    }

    fn artifact(&self, id: EntityId, part: Part, append: bool, last_chunk: Option<bool>) -> StreamResponse {
        artifact_update(&self.ids, artifact(id, part), append, last_chunk)
    }

    fn working(&self, at: Timestamp, fact: Option<Value>) -> StreamResponse {
        let status = TaskStatus { state: TaskState::Working, message: None, timestamp: time(at) };
        self.status(status, fact.map(houston))
    }

    fn ended(&mut self, at: Timestamp, result: &RunResult<'_>, outcome: &Outcome<'_>) -> StreamResponse {
        self.is_done = true;
        let at = time(at);
        let status = |state| TaskStatus { state, message: None, timestamp: at };
        let status = match outcome {
            Outcome::Success => status(TaskState::Completed),
            Outcome::Cancelled => status(TaskState::Canceled),
            Outcome::Interrupt { interrupts } => input_required(&self.ids, interrupts.iter().cloned(), at),
        };
        let metadata = (result.status != RunStatus::Waiting).then(|| houston(json!(result)));
        self.status(status, metadata)
    }

    fn status(&self, status: TaskStatus, metadata: Option<Metadata>) -> StreamResponse {
        status_update(&self.ids, status, metadata)
    }
}

impl Dialect for Updates {
    fn push(&mut self, at: Position, event: &Event<'_>, frames: &mut SseEncoder) {
        for update in self.updates(event) {
            frames.push(at, &self.binding.frame(&update));
        }
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

/// What a client learns about work between texts; `None` if nothing.
fn working(event: &Event<'_>) -> Option<(Timestamp, Option<Value>)> {
    match event {
        Event::ToolCallStart { timestamp, tool_call_id, tool_call_name, .. } => {
            Some((*timestamp, Some(json!({"tool_call": {"id": tool_call_id, "name": tool_call_name}}))))
        }
        Event::ToolCallResult { timestamp, tool_call_id, content, metadata, .. } => {
            let is_error = metadata.as_ref().is_some_and(|metadata| metadata.houston.is_error);
            let result = json!({"id": tool_call_id, "content": content, "is_error": is_error});
            Some((*timestamp, Some(json!({"tool_result": result}))))
        }
        Event::Custom { timestamp, fact: Fact::AttemptStarted { .. } } => Some((*timestamp, None)),
        Event::Custom {
            timestamp,
            fact: fact @ (Fact::RetryScheduled { .. } | Fact::RunWaiting { .. } | Fact::ToolProgress { .. }),
        } => Some((*timestamp, Some(json!(fact)))),
        _ => None,
    }
}

fn time(at: Timestamp) -> Option<DateTime<Utc>> {
    at.and_then(DateTime::from_timestamp_millis)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use houston_domain::id::{MessageId, RunId};
    use houston_protocol::agui::{PROTOCOL_VERSION, Role};
    use uuid::Uuid;

    use super::*;

    fn run(nth: u128) -> RunId {
        RunId(Uuid::from_u128(nth))
    }

    fn updates() -> Updates {
        let ids = TaskIds { run: run(1), context: "trip".to_owned() };
        let mut updates = Updates::new(ids, Binding::Http, false);
        updates.updates(&started(1));
        updates
    }

    fn started(nth: u128) -> Event<'static> {
        Event::RunStarted {
            timestamp: None,
            thread_id: "goal_1".into(),
            run_id: run(nth),
            protocol_version: PROTOCOL_VERSION.into(),
        }
    }

    fn finished(nth: u128, outcome: Outcome<'static>) -> Event<'static> {
        let result = RunResult {
            status: RunStatus::Completed,
            cancelled_by: None,
            stop_reason: None,
            cost: None,
            output: None,
        };
        let thread_id = "goal_1".into();
        Event::RunFinished { timestamp: None, thread_id, run_id: run(nth), result, outcome, usage: None }
    }

    fn id(nth: u128) -> EntityId {
        EntityId::Message(MessageId(Uuid::from_u128(nth)))
    }

    fn text(nth: u128, delta: &str) -> Event<'_> {
        Event::TextMessageContent { timestamp: None, message_id: id(nth), delta: delta.into() }
    }

    fn end(nth: u128) -> Event<'static> {
        Event::TextMessageEnd { timestamp: None, message_id: id(nth), metadata: None }
    }

    /// Text, `append` and `lastChunk` of the only update, an artifact.
    fn piece(mut found: Vec<StreamResponse>) -> (String, bool, bool) {
        assert_eq!(found.len(), 1, "{found:?}");
        match found.remove(0) {
            StreamResponse::ArtifactUpdate(update) => {
                let text = update.artifact.parts[0].as_text().unwrap().to_owned();
                (text, update.append == Some(true), update.last_chunk == Some(true))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn first_piece_of_text_replaces_and_later_ones_append() {
        let mut updates = updates();
        assert_eq!(piece(updates.updates(&text(7, "Hel"))), ("Hel".to_owned(), false, false));
        assert_eq!(piece(updates.updates(&text(7, "lo"))), ("lo".to_owned(), true, false));
        assert_eq!(piece(updates.updates(&end(7))), (String::new(), true, true));
        assert_eq!(piece(updates.updates(&text(8, "More"))), ("More".to_owned(), false, false));
    }

    #[test]
    fn partial_text_of_a_broken_attempt_is_taken_back() {
        let mut updates = updates();
        updates.updates(&text(7, "Hel"));
        updates.updates(&end(7));
        let kept = [SnapshotMessage::text(id(6), Role::User, "hi".to_owned())];
        let snapshot =
            Event::MessagesSnapshot { timestamp: None, messages: Cow::Borrowed(&kept), metadata: None };
        assert_eq!(piece(updates.updates(&snapshot)), (String::new(), false, true));
        assert!(updates.updates(&snapshot).is_empty());
        assert_eq!(piece(updates.updates(&text(7, "Hi"))), ("Hi".to_owned(), false, false));
    }

    #[test]
    fn nothing_follows_the_end_of_the_task() {
        let mut updates = updates();
        let last = updates.updates(&finished(1, Outcome::Cancelled));
        let StreamResponse::StatusUpdate(update) = &last[0] else { panic!("{last:?}") };
        assert_eq!((update.status.state.clone(), updates.is_done), (TaskState::Canceled, true));
        for event in [started(2), text(9, "other"), finished(2, Outcome::Success)] {
            assert!(updates.updates(&event).is_empty());
        }
    }

    #[test]
    fn events_of_other_runs_are_not_of_the_task() {
        let ids = TaskIds { run: run(1), context: "trip".to_owned() };
        let mut updates = Updates::new(ids, Binding::Rpc(JsonRpcId::Number(5)), false);
        updates.updates(&started(3));
        assert!(updates.updates(&text(9, "other")).is_empty());
        updates.updates(&started(1));
        let update = updates.updates(&text(9, "own")).remove(0);
        let framed = serde_json::to_value(updates.binding.frame(&update)).unwrap();
        assert_eq!((&framed["id"], &framed["jsonrpc"]), (&json!(5), &json!("2.0")));
        assert_eq!(framed["result"]["artifactUpdate"]["taskId"], run(1).to_string());
    }
}
