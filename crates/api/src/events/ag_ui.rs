//! `POST /v1/{kinds}/{id}/ag-ui`: the endpoint for an AG-UI client as it comes, such as `HttpAgent`. A run posts the user's
//! new message, or answers the interrupts of the run before, and streams what follows until the run ends or needs a person.
//!
//! Houston's run stays open between an interrupt and its answer: the AG-UI runs before and after it have its id.
//!
//! A request may be repeated: a message is posted once under its id, the same answer again is none, and a request with
//! `Last-Event-ID` only resumes its stream.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use houston_domain::id::{MessageId, QuestionId};
use houston_domain::question::QuestionState;
use houston_domain::storable::storable_value;
use houston_protocol::agui::{Event, InputMessage, ResumeEntry, ResumeStatus, RunAgentInput};
use houston_protocol::schema;
use houston_store::Error;
use houston_store::answer::AskedQuestion;
use houston_store::rate::Whose;
use serde_json::{Map, Value};

use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::body::{Creation, WithImages};
use crate::error::ApiError;
use crate::events::get::{Options, client_position};
use crate::events::open::open;
use crate::events::position::Position;
use crate::idempotency::Key;
use crate::messages::images::with_images;
use crate::messages::post::{check_content, store};
use crate::rates::ask;
use crate::state::App;

/// The most interrupts that one request answers.
const MAX_ENTRIES: usize = 100;

#[utoipa::path(
    post,
    path = "/v1/{kinds}/{id}/ag-ui",
    tag = "events",
    operation_id = "run_ag_ui",
    summary = "Run an agent for an AG-UI client: post its message or its answers, and stream the run.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = schema::AgentableId, Path, description = "Id of the agentable."),
        ("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last event the client has: nothing is posted or answered, and the stream is resumed.")
    ),
    request_body = RunAgentInput,
    responses(
        (status = 200, description = "AG-UI events until the run ends, or waits for a person (outcome `interrupt`).", body = Event, content_type = "text/event-stream"),
        (status = 204, description = "No newer events, and no run is open."),
        (status = 409, description = "`question_closed`: an interrupt was answered otherwise, has expired, or is not asked any more. `run_in_progress`: a run is open, and messages to it are refused."),
        (status = 429, description = "`rate_limited`, `too_many_streams`, `too_many_pending`.")
    ),
)]
pub(crate) async fn run(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
    headers: HeaderMap,
    // A repeated request is recognised without the Idempotency-Key, which is ignored.
    WithImages { creation: Creation { value: input, key: _ }, permit }: WithImages<RunAgentInput>,
) -> Result<Response, ApiError> {
    let at = match client_position(&headers, None)? {
        Some(at) => Some(at),
        None => begin(&app, caller, &path, &input).await?,
    };
    drop((input, permit));
    open(app, caller, path, at, &Options::with_interrupts()).await
}

/// Does what the client asks for. Returns where its stream begins: with what follows the wait that was answered, or with the
/// run that reads the message.
async fn begin(
    app: &Arc<App>,
    caller: Caller,
    path: &AgentablePath,
    input: &RunAgentInput,
) -> Result<Option<Position>, ApiError> {
    let content = match new_message(&input.messages) {
        None => None,
        Some((nth, message)) => {
            let pointer = format!("/messages/{nth}/content");
            let other =
                "must be a text, or parts of the types `text` and `image` (with `data` or a `url` as source)";
            let (content, images) = message.parts().ok_or_else(|| ApiError::field(&pointer, other))?;
            check_content(&pointer, &content, !images.is_empty())?;
            Some((message, content, images))
        }
    };
    if content.is_some() && !path.conversational {
        return Err(ApiError::NotFound { what: "conversation" });
    }
    let resumed = resume(app, caller, path, &input.resume).await?;
    let Some((message, content, images)) = content else { return Ok(resumed) };
    let key = Key::of_message(&path.public_id(), &message.id, &content, &images)?;
    if !images.is_empty() {
        // Before images are fetched and stored.
        ask(app, caller, Whose::Agentable(path.id), Some(&key)).await?;
    }
    let content = with_images(app, caller, path, "/messages", (content, &images), Some(&key)).await?;
    let metadata = Value::Object(Map::new());
    let (posted, _) =
        store(app, caller, path, (&content, &metadata, path.double_texting), Some(&key)).await?;
    if resumed.is_some() {
        return Ok(resumed);
    }
    // A message to a run that waits takes the place of its answers.
    let wait = if posted.opened { None } else { app.store(caller).wait_before(path.id, posted.seq).await? };
    Ok(Some(Position::after(wait.unwrap_or(posted.run_seq - 1))))
}

/// The last message, if it is one of the user that the thread may not have. Houston's own messages have ids of Houston.
fn new_message(messages: &[InputMessage]) -> Option<(usize, &InputMessage)> {
    let (nth, last) = messages.iter().enumerate().next_back()?;
    (last.role == "user" && last.id.parse::<MessageId>().is_err()).then_some((nth, last))
}

/// Answers the interrupts, all of them or none. Returns where the run began to wait for them.
async fn resume(
    app: &Arc<App>,
    caller: Caller,
    path: &AgentablePath,
    entries: &[ResumeEntry],
) -> Result<Option<Position>, ApiError> {
    let Some(first) = entries.first() else { return Ok(None) };
    if entries.len() > MAX_ENTRIES {
        return Err(ApiError::field("/resume", format!("must have at most {MAX_ENTRIES} entries")));
    }
    let mut answers: Vec<(QuestionId, Value)> = Vec::with_capacity(entries.len());
    for (nth, entry) in entries.iter().enumerate() {
        let pointer = format!("/resume/{nth}");
        let asked = match app.store(caller).question(entry.interrupt_id).await {
            Ok(asked) if asked.agentable == path.id => asked,
            Ok(_) | Err(Error::NotFound { .. }) => {
                let reason = "is no interrupt of this thread; send those of the last outcome `interrupt`";
                return Err(ApiError::field(&format!("{pointer}/interruptId"), reason));
            }
            Err(error) => return Err(error.into()),
        };
        if answers.iter().any(|(id, _)| *id == entry.interrupt_id) {
            return Err(ApiError::field(&format!("{pointer}/interruptId"), "is answered twice"));
        }
        if let Some(answer) = answer(entry, &asked, &pointer)? {
            answers.push((entry.interrupt_id, answer));
        }
    }
    if let Some(closed) = app.store(caller).answer_questions(&answers).await? {
        return Err(question_closed(closed));
    }
    app.publish_nudge(path.id);
    app.send_hint(path.id, path.urgency);
    let closed = app.store(caller).closed_at(path.id, first.interrupt_id).await?;
    let wait = match closed {
        Some(closed) => app.store(caller).wait_before(path.id, closed).await?,
        None => None,
    };
    // Without a wait the answer came before the run had begun to wait: its stream begins with the run.
    Ok(wait.map(Position::after))
}

/// The answer of an entry; `None` if it cancels what is not asked any more.
fn answer(entry: &ResumeEntry, asked: &AskedQuestion, pointer: &str) -> Result<Option<Value>, ApiError> {
    let question = &asked.question;
    let answer = match entry.status {
        ResumeStatus::Cancelled if !matches!(question.state, QuestionState::Open | QuestionState::Answered) => {
            return Ok(None);
        }
        ResumeStatus::Cancelled => question.asked.refusal().ok_or_else(|| {
            let reason = "cannot be cancelled: this question has no answer that means no. Answer it, or cancel the run";
            ApiError::field(&format!("{pointer}/status"), reason)
        })?,
        ResumeStatus::Resolved => entry.payload.clone(),
    };
    let pointer = format!("{pointer}/payload");
    let mut storable = answer.clone();
    storable_value(&mut storable);
    if storable != answer {
        return Err(ApiError::field(&pointer, "must not contain the character U+0000"));
    }
    question
        .asked
        .check_answer(&answer)
        .map_err(|wrong| ApiError::field(&format!("{pointer}{}", wrong.pointer), wrong.reason))?;
    Ok(Some(answer))
}

fn question_closed(asked: AskedQuestion) -> ApiError {
    let (id, state) = (asked.question.asked.id, asked.question.state);
    let answer = asked.question.answer.filter(|_| state == QuestionState::Answered);
    ApiError::QuestionClosed { id, state, answer }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(list: Value) -> Vec<InputMessage> {
        serde_json::from_value(list).unwrap()
    }

    #[test]
    fn only_a_last_message_of_the_user_is_new() {
        let asked = messages(json!([
            {"id": "a", "role": "user", "content": "one"},
            {"id": "b", "role": "user", "content": [{"type": "text", "text": "t"}, {"type": "text", "text": "wo"}]},
        ]));
        let (nth, message) = new_message(&asked).unwrap();
        assert_eq!((nth, message.parts()), (1, Some(("two".to_owned(), Vec::new()))));
        let answered = messages(json!([
            {"id": "a", "role": "user", "content": "one"}, {"id": "c", "role": "assistant", "toolCalls": []}
        ]));
        assert!(new_message(&answered).is_none());
        let id = format!("msg_{}", "0".repeat(32));
        assert!(new_message(&messages(json!([{"id": id, "role": "user", "content": "one"}]))).is_none());
        assert!(new_message(&[]).is_none());
    }
}
