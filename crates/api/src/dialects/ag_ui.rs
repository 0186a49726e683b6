//! `POST /ag-ui/{target}` and `POST /v1/{kinds}/{id}/ag-ui`: the endpoints for an AG-UI client as it comes, such as `HttpAgent`.
//! A run posts the user's new message, or answers the interrupts of the run before, and streams what follows until
//! the run ends or needs a person. The first finds the conversation by the client's own thread id
//! ([`threads`](crate::dialects::threads)).
//!
//! Houston's run stays open between an interrupt and its answer: the AG-UI runs before and after it have its id.
//!
//! A request may be repeated: a message is posted once under its id, the same answer again is none, and a request with
//! `Last-Event-ID` only resumes its stream.
//!
//! Endpoints of other protocols use [`of_calls`]: a call that waits is named by the thread message that shows it,
//! which is its id in every stream (`msg_…`).

use axum::extract::Path;
use axum::http::HeaderMap;
use houston_domain::client_offer::{ClientOffer, failed, result_answer};
use houston_domain::id::{MessageId, QuestionId};
use houston_domain::question::{Question, QuestionState};
use houston_domain::storable::storable_value;
use houston_protocol::agui::{EntityId, InputMessage, ResumeEntry, ResumeStatus, RunAgentInput};
use serde_json::Value;

use crate::dialects::threads::{Asker, NewMessage, Thread, find_or_create};
use crate::events::position::Position;
use crate::events::stream::AgUi;
use crate::events::{Options, client_position, open};
use crate::request::prelude::*;
use crate::resources::messages::check_content;
use crate::resources::shared_state;

endpoints! {
    post "/ag-ui/{target}" for THREAD => run_thread,
    "run_ag_ui_thread" in "events": "Run an agent for an AG-UI client, in a conversation that the client names: post its message or its answers, and stream the run.",
    params(
        ("target" = String, Path, description = "Who answers: a kind that is conversational, or an agent, by its name or id."),
        ("Houston-User" = Option<String>, Header, description = "Whose conversation it is, if the key is of no user: the id of a user, or an external id, for which a user is created."),
        ("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last event the client has: nothing is posted or answered, and the stream is resumed."),
    ),
    body [RunAgentInput],
    200 "AG-UI events until the run ends, or waits for a person or for the client (outcome `interrupt`). `Location` is where the stream can be resumed." [houston_protocol::agui::Event, content_type = "text/event-stream"],
    204 "No newer events, and no run is open.",
    409 "`question_closed`: an interrupt was answered otherwise, has expired, or is not asked any more. `run_in_progress`: a run is open, and messages to it are refused. `not_creatable`: conversations of this kind are not created by clients.",
    429 "`too_many_streams`, `too_many_pending`.";

    post "/v1/{kinds}/{id}/ag-ui" for AGENTABLE => run,
    "run_ag_ui" in "events": "Run an agent for an AG-UI client: post its message or its answers, and stream the run.",
    params(("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last event the client has: nothing is posted or answered, and the stream is resumed.")),
    body [RunAgentInput],
    200 "AG-UI events until the run ends, or waits for a person (outcome `interrupt`)." [houston_protocol::agui::Event, content_type = "text/event-stream"],
    204 "No newer events, and no run is open.",
    409 "`question_closed`: an interrupt was answered otherwise, has expired, or is not asked any more. `run_in_progress`: a run is open, and messages to it are refused.",
    429 "`rate_limited`, `too_many_streams`, `too_many_pending`.";
}

async fn run(
    ctx: Ctx,
    path: AgentablePath,
    headers: HeaderMap,
    // A repeated request is recognised without the Idempotency-Key, which is ignored.
    WithImages { creation: Creation { value: input, key: _ }, permit }: WithImages<RunAgentInput>,
) -> Result<Response> {
    let named = input.thread_id.as_deref();
    let is_own = |id: &str| AgentablePath::of_public_id(&ctx.state.agent_types, id).is_some();
    if named.is_some_and(|id| id != path.public_id() && is_own(id)) {
        return Err(ApiError::field("/threadId", "names another conversation than the address"));
    }
    let dialect = AgUi { given: given(&input.messages) };
    let at = match client_position(&headers, None)? {
        Some(at) => Some(at),
        None => {
            ctx.streams.reserve(ctx.caller)?;
            let thread = Thread { ctx: ctx.clone(), path: path.clone() };
            begin(&thread, input).await?
        }
    };
    drop(permit);
    open(ctx, path, at, &Options::with_interrupts(), dialect).await
}

async fn run_thread(
    asker: Asker,
    Path(target): Path<String>,
    headers: HeaderMap,
    WithImages { creation: Creation { value: input, key: _ }, permit }: WithImages<RunAgentInput>,
) -> Result<Response> {
    let position = client_position(&headers, None)?;
    let dialect = AgUi { given: given(&input.messages) };
    let id = input.thread_id.as_deref();
    let id = id.ok_or_else(|| ApiError::field("/threadId", "missing field `threadId`"))?;
    asker.ctx.streams.reserve(asker.caller())?;
    let thread = find_or_create(&asker, &target, ("/threadId", id)).await?;
    let at = match position {
        Some(at) => Some(at),
        None => begin(&thread, input).await?,
    };
    drop(permit);
    let Thread { ctx, path } = thread;
    open(ctx, path, at, &Options::with_interrupts(), dialect).await
}

/// Does what the client asks for. Returns where its stream begins: with what follows the wait that was answered, or with the
/// run that reads the message.
async fn begin(thread: &Thread, input: RunAgentInput) -> Result<Option<Position>> {
    let Thread { ctx, path } = thread;
    let offer = offer(&input);
    thread.check_offer(&offer)?;
    let content = match new_message(&input.messages) {
        None => None,
        Some((nth, message)) => {
            let pointer = format!("/messages/{nth}/content");
            let other =
                "must be a text, or parts of the types `text` and `image` (with `data` or a `url` as source)";
            let (content, images) = message.parts().ok_or_else(|| ApiError::field(&pointer, other))?;
            check_content(&pointer, &content, !images.is_empty())?;
            Some((message, pointer, content, images))
        }
    };
    if content.is_some() && !path.conversational {
        return Err(ApiError::NotFound("conversation"));
    }
    shared_state::given(ctx, path, &input).await?;
    let mut answered = of_entries(thread, &input.resume).await?;
    answered.extend(of_calls(thread, new_results(&input.messages)?).await?);
    if !answered.is_empty() && !offer.is_empty() {
        ctx.store().change_client_offer(path.id, &offer).await?;
    }
    // Without a wait the answer came before the run had begun to wait: its stream begins with the run.
    let resumed = thread.answer(&answered).await?.wait.map(Position::after);
    let Some((message, pointer, content, images)) = content else { return Ok(resumed) };
    let key = Key::of_message(&path.public_id(), &message.id, &content, &images)?;
    let new = NewMessage {
        pointers: (&pointer, "/messages"),
        content,
        images: &images,
        offer: Some(&offer),
        key: Some(&key),
        ..NewMessage::default()
    };
    let (posted, _) = thread.post(new).await?;
    if resumed.is_some() {
        return Ok(resumed);
    }
    // A message to a run that waits takes the place of its answers.
    let wait = if posted.opened { None } else { ctx.store().wait_before(path.id, posted.seq).await? };
    Ok(Some(Position::after(wait.unwrap_or(posted.run_seq - 1))))
}

/// What the client offers the run that answers.
fn offer(input: &RunAgentInput) -> ClientOffer {
    let (tools, context) = (input.tools.clone(), input.context.clone());
    ClientOffer { tools, context, ..ClientOffer::default() }.focused()
}

/// The last message, if it is one of the user that the thread may not have. Houston's own messages have ids of Houston.
fn new_message(messages: &[InputMessage]) -> Option<(usize, &InputMessage)> {
    let (nth, last) = messages.iter().enumerate().next_back()?;
    (last.role == "user" && last.id.parse::<MessageId>().is_err()).then_some((nth, last))
}

/// The most answers in one request.
const MAX_ANSWERS: usize = 100;

/// Answers that were checked.
pub(crate) type Answers = Vec<(QuestionId, Value)>;

/// The result of a call that the client has carried out.
#[derive(Debug, Clone)]
pub(crate) struct CallResult {
    /// Where the request has it: a JSON Pointer.
    pub(crate) pointer: String,
    /// The thread message that shows the call.
    pub(crate) cell: MessageId,
    /// Any JSON value, or [`failed`].
    pub(crate) result: Value,
}

/// The answers that results of calls are.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when a call is none of the latest run that a client carries out.
pub(crate) async fn of_calls(thread: &Thread, results: Vec<CallResult>) -> Result<Answers> {
    if results.is_empty() {
        return Ok(Vec::new());
    }
    if results.len() > MAX_ANSWERS {
        return Err(ApiError::field("/messages", format!("must have at most {MAX_ANSWERS} new results")));
    }
    let cells: Vec<MessageId> = results.iter().map(|result| result.cell).collect();
    let Thread { ctx, path } = thread;
    let asked = ctx.store().questions_of_calls(path.id, &cells).await?;
    let mut answers = Answers::new();
    for CallResult { pointer, cell, result } in results {
        let question = asked.iter().find(|(of, question)| *of == cell && question.asked.is_client_call());
        let Some((_, question)) = question else {
            let reason = "is no call of the latest run that waits for its client";
            return Err(ApiError::field(&pointer, reason));
        };
        let id = question.asked.id;
        if !answers.iter().any(|(of, _)| *of == id) {
            answers.push((id, checked(question, result_answer(result), &pointer)?));
        }
    }
    Ok(answers)
}

/// The results in messages of the role `tool` after the last one of the agent; those of Houston itself, by their ids, are left out.
fn new_results(messages: &[InputMessage]) -> Result<Vec<CallResult>> {
    let mut results = Vec::new();
    for (nth, message) in messages.iter().enumerate().rev() {
        match message.role.as_str() {
            "assistant" => break,
            "tool" if message.id.parse::<EntityId>().is_err() => {}
            _ => continue,
        }
        let pointer = format!("/messages/{nth}/toolCallId");
        let call = message.tool_call_id.as_deref().unwrap_or_default();
        let Ok(EntityId::Message(cell)) = call.parse::<EntityId>() else {
            let reason = "must be the `toolCallId` of a call that waits, as in `msg_0190…`";
            return Err(ApiError::field(&pointer, reason));
        };
        let result = match &message.error {
            Some(error) => failed(error),
            None => message.result(),
        };
        results.push(CallResult { pointer, cell, result });
    }
    results.reverse();
    Ok(results)
}

/// The calls of which the request has new results.
fn given(messages: &[InputMessage]) -> Box<[MessageId]> {
    new_results(messages).into_iter().flatten().map(|result| result.cell).collect()
}

/// The answers that entries of `resume` are.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when an entry names no interrupt of the thread, or its payload is not accepted.
async fn of_entries(thread: &Thread, entries: &[ResumeEntry]) -> Result<Answers> {
    if entries.len() > MAX_ANSWERS {
        return Err(ApiError::field("/resume", format!("must have at most {MAX_ANSWERS} entries")));
    }
    let mut answers = Answers::with_capacity(entries.len());
    for (nth, entry) in entries.iter().enumerate() {
        let pointer = format!("/resume/{nth}");
        let wrong = |reason| ApiError::field(&format!("{pointer}/interruptId"), reason);
        let question = thread.question(entry.interrupt_id).await?.ok_or_else(|| {
            wrong("is no interrupt of this thread; send those of the last outcome `interrupt`")
        })?;
        ensure!(!answers.iter().any(|(id, _)| *id == entry.interrupt_id), wrong("is answered twice"));
        if let Some(answer) = answer(entry, &question, &pointer)? {
            answers.push((entry.interrupt_id, answer));
        }
    }
    Ok(answers)
}

/// The answer of an entry; `None` if it cancels what is not asked any more.
fn answer(entry: &ResumeEntry, question: &Question, pointer: &str) -> Result<Option<Value>> {
    let answer = match entry.status {
        ResumeStatus::Cancelled if !matches!(question.state, QuestionState::Open | QuestionState::Answered) => {
            return Ok(None);
        }
        ResumeStatus::Cancelled => question.asked.refusal().ok_or_else(|| {
            let reason = "cannot be cancelled: this question has no answer that means no. Answer it, or cancel the run";
            ApiError::field(&format!("{pointer}/status"), reason)
        })?,
        ResumeStatus::Resolved if question.asked.is_client_call() => result_answer(entry.payload.clone()),
        ResumeStatus::Resolved => entry.payload.clone(),
    };
    checked(question, answer, &format!("{pointer}/payload")).map(Some)
}

/// The answer, if the question accepts it and Postgres can store it.
pub(crate) fn checked(question: &Question, answer: Value, pointer: &str) -> Result<Value> {
    let mut storable = answer.clone();
    storable_value(&mut storable);
    ensure!(storable == answer, ApiError::field(pointer, "must not contain the character U+0000"));
    question.asked.check_answer(&answer).map_err(|wrong| wrong.below(pointer))?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use houston_protocol::agui::{Event, Role};
    use houston_protocol::sse::SseEncoder;
    use serde_json::{Value, json};

    use super::*;
    use crate::events::stream::Dialect as _;

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

    fn results(messages: Value) -> Result<Vec<(String, Value)>> {
        let messages: Vec<InputMessage> = serde_json::from_value(messages).unwrap();
        let results = new_results(&messages)?;
        Ok(results.into_iter().map(|of| (of.pointer, of.result)).collect())
    }

    #[test]
    fn new_results_are_those_after_the_last_answer() {
        let (call, own) = (format!("msg_{}", "1".repeat(32)), format!("result_{}", "2".repeat(32)));
        let found = results(json!([
            {"id": "a", "role": "tool", "toolCallId": "msg_0", "content": "old"},
            {"id": "b", "role": "assistant", "toolCalls": []},
            {"id": own, "role": "tool", "toolCallId": call, "content": "of Houston"},
            {"id": "c", "role": "tool", "toolCallId": call, "content": "seen"},
            {"id": "d", "role": "tool", "toolCallId": call, "content": "", "error": "no map"},
            {"id": "e", "role": "user", "content": "and now?"},
        ]));
        let expected = [
            ("/messages/3/toolCallId".to_owned(), json!("seen")),
            ("/messages/4/toolCallId".to_owned(), json!({"error": "no map"})),
        ];
        assert_eq!(found.unwrap(), expected);
        assert!(
            results(json!([{"id": "c", "role": "tool", "toolCallId": "call_1", "content": "x"}])).is_err()
        );
    }

    #[test]
    fn results_that_a_client_gives_are_not_sent_to_it() {
        let cells = [1, 2].map(|number| MessageId(uuid::Uuid::from_u128(number)));
        let call = EntityId::Message(cells[0]).to_string();
        let asked = json!([{"id": "c", "role": "tool", "toolCallId": call, "content": "seen"}]);
        let (mut dialect, mut frames) = (AgUi { given: given(&messages(asked)) }, SseEncoder::default());
        for (cell, seq) in cells.into_iter().zip(5..) {
            let event = Event::ToolCallResult {
                timestamp: None,
                message_id: EntityId::Result(cell),
                tool_call_id: EntityId::Message(cell),
                content: "seen".into(),
                role: Role::Tool,
                metadata: None,
            };
            dialect.push(Position::after(seq), &event, &mut frames);
        }
        let written = String::from_utf8(frames.take().unwrap()).unwrap();
        assert_eq!(
            (written.matches("data:").count(), written.starts_with("id: 6\n")),
            (1, true),
            "{written}"
        );
    }
}
