//! The body of a task's stream: the task first, then its updates, and a clean end after the last of them.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use houston_protocol::a2a::{StreamResponse, Task};
use houston_protocol::sse::SseEncoder;
use http_body::Frame;
use http_body_util::BodyExt as _;

use super::dialect::{Binding, Updates};
use super::task::TaskIds;
use crate::error::ApiError;
use crate::events::get::Options;
use crate::events::position::Position;
use crate::threads::Thread;

/// A task and its updates as server-sent events.
struct TaskStream {
    task: Option<Bytes>,
    updates: Body,
    is_done: Arc<AtomicBool>,
}

impl http_body::Body for TaskStream {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(task) = self.task.take() {
            return Poll::Ready(Some(Ok(Frame::data(task))));
        }
        // The thread may have later runs, of which the task knows nothing.
        if self.is_done.load(Ordering::Relaxed) {
            return Poll::Ready(None);
        }
        let frame = ready!(Pin::new(&mut self.updates).poll_frame(cx));
        Poll::Ready(frame)
    }
}

fn first_frame(task: Task, binding: &Binding, at: Position, retry_ms: u32) -> Bytes {
    let mut frames = SseEncoder::new(retry_ms);
    let task = StreamResponse::Task(task);
    frames.push(at, &binding.frame(&task));
    frames.take().unwrap_or_default().into()
}

/// Streams a task and what follows position `at`.
///
/// # Errors
/// As [`Thread::open`].
pub(super) async fn stream(
    thread: Thread,
    (task, ids, binding): (Task, TaskIds, Binding),
    (at, is_begun): (Position, bool),
) -> Result<Response, ApiError> {
    let first = first_frame(task, &binding, at, thread.app.state.config.retry_ms);
    let updates = Updates::new(ids, binding, is_begun);
    let is_done = updates.is_done();
    let location = |_| String::new();
    let opened = thread.open(Some(at), &Options::with_interrupts(), (updates, location)).await?;
    let is_over = opened.status() == StatusCode::NO_CONTENT;
    let (mut head, body) = opened.into_parts();
    head.headers.remove(header::LOCATION);
    if is_over {
        return Ok(only(first));
    }
    let body = TaskStream { task: Some(first), updates: body, is_done };
    Ok(Response::from_parts(head, Body::new(body)))
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
///
/// # Errors
/// As [`Thread::open`].
pub(super) async fn wait(
    thread: Thread,
    ids: TaskIds,
    (at, is_begun): (Position, bool),
    (options, within): (&Options, Duration),
) -> Result<(), ApiError> {
    let updates = Updates::new(ids, Binding::Http, is_begun);
    let is_done = updates.is_done();
    let opened = thread.open(Some(at), options, (updates, |_| String::new())).await?;
    let mut body = TaskStream { task: None, updates: opened.into_body(), is_done };
    let read = async { while let Some(Ok(_)) = body.frame().await {} };
    // After that time the client gets the task as it is.
    let _ = tokio::time::timeout(within, read).await;
    Ok(())
}
