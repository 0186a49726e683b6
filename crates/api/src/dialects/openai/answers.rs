//! Answers in OpenAI's words: a yes or no, or the output of a function, as what a question accepts.

use houston_domain::client_offer;
use houston_domain::ensure;
use houston_domain::id::QuestionId;
use houston_domain::question::{NewQuestion, QuestionKind, QuestionState};
use houston_domain::storable::storable_value;
use houston_protocol::openai::input::{Answer, Answered, Input};
use houston_store::answer::AskedQuestion;
use serde_json::{Map, Value, json};

use super::id::{approval_id, question_of};
use crate::dialects::threads::Thread;
use crate::error::{ApiError, Result};

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
) -> Result<Vec<(QuestionId, Value)>> {
    if answers.len() > MAX_ANSWERS {
        return Err(ApiError::field(pointer, format!("must have at most {MAX_ANSWERS} answers")));
    }
    let mut checked: Vec<(QuestionId, Value)> = Vec::with_capacity(answers.len());
    for answer in answers {
        let at = format!("{pointer}{}", answer.pointer);
        let unknown = || ApiError::field(&at, "answers nothing that this conversation has asked");
        let id = question_of(&answer.to).ok_or_else(unknown)?;
        let question = thread.question(id).await?.ok_or_else(unknown)?;
        ensure!(!checked.iter().any(|(other, _)| *other == id), ApiError::field(&at, "is answered twice"));
        let is_refusal = matches!(answer.answer, Answered::Approval { approve: false, .. });
        if is_refusal && !matches!(question.state, QuestionState::Open | QuestionState::Answered) {
            // The question is closed.
            continue;
        }
        let mut value = value(&question.asked, &answer.answer).map_err(|why| ApiError::field(&at, why))?;
        storable_value(&mut value);
        checked.push((id, value));
    }
    Ok(checked)
}

/// Words that mean yes or no, for clients that can only say text.
const YES: [&str; 11] =
    ["yes", "y", "ok", "okay", "sure", "approve", "approved", "allow", "accept", "confirm", "continue"];
const NO: [&str; 9] = ["no", "n", "reject", "deny", "decline", "refuse", "stop", "cancel", "disallow"];

/// What a text says if it is an answer and nothing else.
fn answered(text: &str) -> Option<Answered> {
    let text = text.trim();
    if text.starts_with('{') && serde_json::from_str::<Map<String, Value>>(text).is_ok() {
        return Some(Answered::Output(text.to_owned()));
    }
    let word = text.trim_end_matches(['.', '!']).to_lowercase();
    let approve = match word.as_str() {
        yes if YES.contains(&yes) => true,
        no if NO.contains(&no) => false,
        _ => return None,
    };
    Some(Answered::Approval { approve, reason: None })
}

/// Takes the user's text for the answers to all that waits for an approval, if it is a word that means yes or no, or the JSON of
/// a decision. Any other text stays a message, which takes the place of the answers.
pub(super) async fn read_words(thread: &Thread, input: &mut Input) -> Result<()> {
    let is_only_text = input.answers.is_empty() && input.images.is_empty();
    let Some(answer) = is_only_text.then(|| answered(&input.text)).flatten() else { return Ok(()) };
    let open = thread.ctx.store().open_questions_of_agentable(thread.path.id).await?;
    let fits = |asked: &NewQuestion| asked.kind != QuestionKind::Input && value(asked, &answer).is_ok();
    if open.is_empty() || !open.iter().all(|question| fits(&question.question.asked)) {
        return Ok(());
    }
    let answer = |question: &AskedQuestion| Answer {
        pointer: input.at.clone(),
        to: approval_id(question.question.asked.id),
        answer: answer.clone(),
    };
    input.answers = open.iter().map(answer).collect();
    input.text.clear();
    Ok(())
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
    use houston_domain::question::{approval, input, pause};

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
    fn only_a_whole_yes_or_no_is_an_answer_in_words() {
        let approves = |text: &str| match answered(text) {
            Some(Answered::Approval { approve, .. }) => Some(approve),
            _ => None,
        };
        assert_eq!([approves("yes"), approves(" Approve. "), approves("OK!")], [Some(true); 3]);
        assert_eq!([approves("No"), approves("reject")], [Some(false); 2]);
        assert_eq!(
            [approves("yes, but to Rome"), approves("no, use the other one"), approves("")],
            [None; 3]
        );
        let json = "{\"decision\": \"approve\"}";
        assert_eq!(answered(json), Some(Answered::Output(json.to_owned())));
        let tool = asked(Some(approval::answer_schema(&json!({}), false)));
        assert_eq!(value(&tool, &answered(json).unwrap()), Ok(json!({"decision": "approve"})));
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
