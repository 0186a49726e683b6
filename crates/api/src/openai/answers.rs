//! Answers in OpenAI's words: a yes or no, or the output of a function, as what a question accepts.

use houston_domain::client_offer;
use houston_domain::id::QuestionId;
use houston_domain::question::{NewQuestion, QuestionState};
use houston_domain::storable::storable_value;
use houston_protocol::openai::input::{Answer, Answered};
use houston_store::Error;
use serde_json::{Value, json};

use super::id::question_of;
use crate::error::ApiError;
use crate::threads::Thread;

/// The most answers of one request.
const MAX_ANSWERS: usize = 100;

/// Reads the questions that are answered, and checks the answers. `pointer`: where the request has its items.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when one is no question of the thread, is answered twice, or does not accept the answer; the
/// store's errors.
pub(super) async fn checked(
    thread: &Thread,
    pointer: &str,
    answers: &[Answer],
) -> Result<Vec<(QuestionId, Value)>, ApiError> {
    if answers.len() > MAX_ANSWERS {
        return Err(ApiError::field(pointer, format!("must have at most {MAX_ANSWERS} answers")));
    }
    let mut checked: Vec<(QuestionId, Value)> = Vec::with_capacity(answers.len());
    for answer in answers {
        let at = format!("{pointer}{}", answer.pointer);
        let unknown = || ApiError::field(&at, "answers nothing that this conversation has asked");
        let id = question_of(&answer.to).ok_or_else(unknown)?;
        let asked = match thread.app.store(thread.caller).question(id).await {
            Ok(asked) if asked.agentable == thread.path.id => asked,
            Ok(_) | Err(Error::NotFound { .. }) => return Err(unknown()),
            Err(error) => return Err(error.into()),
        };
        if checked.iter().any(|(other, _)| *other == id) {
            return Err(ApiError::field(&at, "is answered twice"));
        }
        let is_refusal = matches!(answer.answer, Answered::Approval { approve: false, .. });
        if is_refusal && !matches!(asked.question.state, QuestionState::Open | QuestionState::Answered) {
            // The question is closed.
            continue;
        }
        let mut value =
            value(&asked.question.asked, &answer.answer).map_err(|why| ApiError::field(&at, why))?;
        storable_value(&mut value);
        checked.push((id, value));
    }
    Ok(checked)
}

/// The answer as the question accepts it.
fn value(asked: &NewQuestion, answer: &Answered) -> Result<Value, String> {
    let accepts = |value: &Value| asked.check_answer(value).is_ok();
    match answer {
        Answered::Approval { approve: true, .. } => {
            let yes = [
                json!({"decision": "approve"}),
                json!({"decision": "continue"}),
                json!({"action": "accept"}),
                json!(true),
            ];
            let needs =
                "needs more than a yes: send a `function_call_output` with the `call_id` and the answer";
            yes.into_iter().find(accepts).ok_or_else(|| needs.to_owned())
        }
        Answered::Approval { approve: false, reason } => {
            let with_reason = reason.as_ref().map(|reason| json!({"decision": "reject", "message": reason}));
            let no = with_reason.filter(accepts).or_else(|| asked.refusal());
            no.ok_or_else(|| "has no answer that means no: cancel the response instead".to_owned())
        }
        Answered::Output(output) if asked.is_client_call() => {
            // Any JSON value is a result.
            let result = serde_json::from_str(output).unwrap_or_else(|_| Value::String(output.clone()));
            Ok(client_offer::result_answer(result))
        }
        Answered::Output(output) => {
            let json: Option<Value> = serde_json::from_str(output).ok();
            let text = Value::String(output.clone());
            let given = json.clone().unwrap_or_else(|| text.clone());
            let candidates = [
                json.clone(),
                Some(text),
                json.map(|content| json!({"action": "accept", "content": content})),
                Some(json!({"decision": "respond", "message": output})),
            ];
            candidates.into_iter().flatten().find(accepts).ok_or_else(|| match asked.check_answer(&given) {
                Err(mismatch) => format!("`{}` of the answer {}", mismatch.pointer, mismatch.reason),
                Ok(()) => "is not accepted".to_owned(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use houston_domain::question::{QuestionKind, approval, input, pause};

    use super::*;

    fn asked(schema: Option<Value>) -> NewQuestion {
        NewQuestion {
            id: QuestionId(uuid::Uuid::nil()),
            kind: QuestionKind::Approval,
            subject: None,
            text: String::new(),
            schema,
            default_value: None,
            expires_at: None,
            approval: None,
            message_id: None,
        }
    }

    #[test]
    fn yes_and_no_are_what_the_question_accepts() {
        let tool = asked(Some(approval::answer_schema(&json!({}), false)));
        let paused = asked(Some(pause::answer_schema()));
        let plain = asked(Some(json!({"type": "boolean"})));
        let yes = Answered::Approval { approve: true, reason: None };
        let no = Answered::Approval { approve: false, reason: Some("later".into()) };
        assert_eq!(value(&tool, &yes), Ok(json!({"decision": "approve"})));
        assert_eq!(value(&tool, &no), Ok(json!({"decision": "reject", "message": "later"})));
        assert_eq!(value(&paused, &yes), Ok(json!({"decision": "continue"})));
        assert_eq!(value(&paused, &no), Ok(json!({"decision": "stop"})));
        assert_eq!((value(&plain, &yes), value(&plain, &no)), (Ok(json!(true)), Ok(json!(false))));
        assert!(value(&asked(Some(json!({"type": "string"}))), &yes).is_err());
    }

    #[test]
    fn output_is_json_or_text() {
        let output = |text: &str| Answered::Output(text.to_owned());
        let content =
            json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
        let form = asked(Some(input::answer_schema(Some(&content))));
        let accepted = json!({"action": "accept", "content": {"city": "Rome"}});
        assert_eq!(value(&form, &output(r#"{"city": "Rome"}"#)), Ok(accepted));
        assert_eq!(value(&form, &output(r#"{"action": "decline"}"#)), Ok(json!({"action": "decline"})));
        assert!(value(&form, &output("Rome")).is_err());
        assert_eq!(value(&asked(Some(json!({"type": "string"}))), &output("7")), Ok(json!("7")));
        assert_eq!(value(&asked(None), &output("Rome")), Ok(json!("Rome")));
    }
}
