//! Answers of a client to what a run waits for: entries that name interrupts, and results of calls of the client's own tools.
//!
//! Endpoints of other protocols use [`of_calls`] and [`give`]: a call that waits is named by the thread message that shows it,
//! which is its id in every stream (`msg_…`).

use houston_domain::client_offer::{failed, result_answer};
use houston_domain::id::{MessageId, QuestionId};
use houston_domain::question::{Question, QuestionState};
use houston_domain::storable::storable_value;
use houston_protocol::agui::{EntityId, InputMessage, ResumeEntry, ResumeStatus};
use houston_store::Error;
use serde_json::Value;

use crate::error::ApiError;
use crate::events::position::Position;
use crate::threads::Thread;

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

/// Gives all answers or none, and wakes the run. Returns where it began to wait for them; `None` if there are no answers, or they
/// came before it waited.
///
/// # Errors
/// [`ApiError::QuestionClosed`].
pub(crate) async fn give(thread: &Thread, answers: &Answers) -> Result<Option<Position>, ApiError> {
    let Some((first, _)) = answers.first() else { return Ok(None) };
    thread.answer(answers).await?;
    let Thread { app, caller, path } = thread;
    let closed = app.store(*caller).closed_at(path.id, *first).await?;
    let wait = match closed {
        Some(closed) => app.store(*caller).wait_before(path.id, closed).await?,
        None => None,
    };
    // Without a wait the answer came before the run had begun to wait: its stream begins with the run.
    Ok(wait.map(Position::after))
}

/// The answers that results of calls are.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when a call is none of the latest run that a client carries out.
pub(crate) async fn of_calls(thread: &Thread, results: Vec<CallResult>) -> Result<Answers, ApiError> {
    if results.is_empty() {
        return Ok(Vec::new());
    }
    if results.len() > MAX_ANSWERS {
        return Err(ApiError::field("/messages", format!("must have at most {MAX_ANSWERS} new results")));
    }
    let cells: Vec<MessageId> = results.iter().map(|result| result.cell).collect();
    let Thread { app, caller, path } = thread;
    let asked = app.store(*caller).questions_of_calls(path.id, &cells).await?;
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

/// The results in messages of the role `tool` after the last one of the agent; those of Houston itself are left out.
///
/// # Errors
/// As [`of_calls`].
pub(super) async fn of_messages(thread: &Thread, messages: &[InputMessage]) -> Result<Answers, ApiError> {
    let results = new_results(messages)?;
    of_calls(thread, results).await
}

fn new_results(messages: &[InputMessage]) -> Result<Vec<CallResult>, ApiError> {
    let mut results = Vec::new();
    for (nth, message) in messages.iter().enumerate().rev() {
        match message.role.as_str() {
            "assistant" => break,
            "tool" if !is_own(&message.id) => {}
            _ => continue,
        }
        let pointer = format!("/messages/{nth}/toolCallId");
        let call = message.tool_call_id.as_deref().unwrap_or_default();
        let Ok(EntityId::Message(cell)) = call.parse::<EntityId>() else {
            return Err(ApiError::field(
                &pointer,
                "must be the `toolCallId` of a call that waits, as in `msg_0190…`",
            ));
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

/// Whether a message has an id of Houston's.
fn is_own(id: &str) -> bool {
    id.parse::<EntityId>().is_ok()
}

/// The answers that entries of `resume` are.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when an entry names no interrupt of the thread, or its payload is not accepted.
pub(super) async fn of_entries(thread: &Thread, entries: &[ResumeEntry]) -> Result<Answers, ApiError> {
    if entries.len() > MAX_ANSWERS {
        return Err(ApiError::field("/resume", format!("must have at most {MAX_ANSWERS} entries")));
    }
    let Thread { app, caller, path } = thread;
    let mut answers = Answers::with_capacity(entries.len());
    for (nth, entry) in entries.iter().enumerate() {
        let pointer = format!("/resume/{nth}");
        let asked = match app.store(*caller).question(entry.interrupt_id).await {
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
        if let Some(answer) = answer(entry, &asked.question, &pointer)? {
            answers.push((entry.interrupt_id, answer));
        }
    }
    Ok(answers)
}

/// The answer of an entry; `None` if it cancels what is not asked any more.
fn answer(entry: &ResumeEntry, question: &Question, pointer: &str) -> Result<Option<Value>, ApiError> {
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
pub(crate) fn checked(question: &Question, answer: Value, pointer: &str) -> Result<Value, ApiError> {
    let mut storable = answer.clone();
    storable_value(&mut storable);
    if storable != answer {
        return Err(ApiError::field(pointer, "must not contain the character U+0000"));
    }
    question
        .asked
        .check_answer(&answer)
        .map_err(|wrong| ApiError::field(&format!("{pointer}{}", wrong.pointer), wrong.reason))?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn results(messages: Value) -> Result<Vec<(String, Value)>, ApiError> {
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
}
