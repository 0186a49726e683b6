//! A message to a task that waits for a person, as answers to its questions.

use houston_domain::id::QuestionId;
use houston_domain::question::NewQuestion;
use serde_json::{Value, json};

use super::content::Content;
use crate::error::ApiError;

/// The answers in a message; none if the message says something else, which then takes their place.
///
/// - Data that fits the only open question answers it.
/// - Data of the form `{"answers": {"question_…": …}}` answers several, all of them or none.
/// - A text that is a JSON value which fits answers the only open question, and so does one that names a decision (`approve`).
///
/// # Errors
/// [`ApiError::InvalidRequest`] when `answers` names another question, or an answer does not fit.
pub(super) fn answers(content: &Content, open: &[NewQuestion]) -> Result<Vec<(QuestionId, Value)>, ApiError> {
    if let Some(given) = content.data.as_ref().and_then(|data| data["answers"].as_object()) {
        return given.iter().map(|(id, answer)| named(id, answer, open)).collect();
    }
    let [question] = open else { return Ok(Vec::new()) };
    let text = content.text.trim();
    let candidates = [
        content.data.clone(),
        serde_json::from_str(text).ok(),
        Some(json!({"decision": text.to_lowercase()})),
        Some(json!(text)),
    ];
    let fits = |answer: &Value| question.schema.is_some() && question.check_answer(answer).is_ok();
    Ok(candidates.into_iter().flatten().find(fits).map(|answer| (question.id, answer)).into_iter().collect())
}

fn named(id: &str, answer: &Value, open: &[NewQuestion]) -> Result<(QuestionId, Value), ApiError> {
    let pointer = format!("/message/parts/answers/{id}");
    let Some(question) = open.iter().find(|question| question.id.to_string() == id) else {
        let ids: Vec<String> = open.iter().map(|question| question.id.to_string()).collect();
        let reason = format!("is no open question of this task; those are: {}", ids.join(", "));
        return Err(ApiError::field(&pointer, reason));
    };
    let wrong = question.check_answer(answer).err();
    match wrong {
        None => Ok((question.id, answer.clone())),
        Some(wrong) => Err(ApiError::field(&format!("{pointer}{}", wrong.pointer), wrong.reason)),
    }
}

#[cfg(test)]
mod tests {
    use houston_domain::question::QuestionKind;
    use uuid::Uuid;

    use super::*;

    fn question(nth: u128, schema: Value) -> NewQuestion {
        NewQuestion {
            id: QuestionId(Uuid::from_u128(nth)),
            kind: QuestionKind::Input,
            subject: None,
            text: "Which?".to_owned(),
            schema: Some(schema),
            default_value: None,
            expires_at: None,
            approval: None,
            message_id: None,
        }
    }

    fn said(text: &str, data: Option<Value>) -> Content {
        Content { text: text.to_owned(), data, images: Vec::new() }
    }

    fn decision() -> Value {
        json!({"type": "object", "required": ["decision"], "properties": {"decision": {"enum": ["approve", "reject"]}}})
    }

    #[test]
    fn one_question_is_answered_by_data_or_text() {
        let open = [question(1, decision())];
        let answer = |content: Content| answers(&content, &open).unwrap().pop().map(|(_, answer)| answer);
        let approve = json!({"decision": "approve"});
        assert_eq!(answer(said("", Some(approve.clone()))), Some(approve.clone()));
        assert_eq!(answer(said("Approve", None)), Some(approve.clone()));
        assert_eq!(answer(said("{\"decision\": \"approve\"}", None)), Some(approve));
        assert_eq!(
            answer(said("No, use the other one.", None)),
            None,
            "a message in the place of the answer"
        );
        let open = [question(1, json!({"type": "string"}))];
        assert_eq!(answers(&said("Rome", None), &open).unwrap()[0].1, json!("Rome"));
    }

    #[test]
    fn several_questions_are_answered_by_their_ids() {
        let open = [question(1, json!({"type": "boolean"})), question(2, json!({"type": "boolean"}))];
        assert!(answers(&said("true", None), &open).unwrap().is_empty());
        let (first, second) = (open[0].id.to_string(), open[1].id.to_string());
        let both = json!({"answers": {first.clone(): true, second: false}});
        assert_eq!(answers(&said("", Some(both)), &open).unwrap().len(), 2);
        assert!(answers(&said("", Some(json!({"answers": {first: "yes"}}))), &open).is_err());
        let other = json!({"answers": {QuestionId(Uuid::from_u128(3)).to_string(): true}});
        assert!(answers(&said("", Some(other)), &open).is_err());
    }
}
