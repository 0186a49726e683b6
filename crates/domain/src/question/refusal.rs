//! The answer of a person who does not want what is asked about, for clients that have one word for it.

use serde_json::{Value, json};

use super::NewQuestion;
use super::schema::check;

impl NewQuestion {
    /// The answer that refuses: to reject or cancel the call, to stop the run, `false`, or else the default value. `None`: the
    /// question has no such answer.
    #[must_use]
    pub fn refusal(&self) -> Option<Value> {
        let Some(schema) = &self.schema else { return self.default_value.clone() };
        let refusals = [
            json!({"decision": "reject"}),
            json!({"decision": "stop"}),
            json!({"action": "cancel"}),
            json!(false),
        ];
        refusals
            .into_iter()
            .find(|answer| check(schema, answer).is_ok())
            .or_else(|| self.default_value.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::QuestionId;
    use crate::question::{QuestionKind, approval, input, pause};

    fn refusal(schema: Option<Value>, default_value: Option<Value>) -> Option<Value> {
        let question = NewQuestion {
            id: QuestionId(uuid::Uuid::nil()),
            kind: QuestionKind::Input,
            subject: None,
            text: String::new(),
            schema,
            default_value,
            expires_at: None,
            approval: None,
            message_id: None,
        };
        question.refusal()
    }

    #[test]
    fn refusal_is_an_answer_that_the_question_accepts() {
        let reject = json!({"decision": "reject"});
        assert_eq!(refusal(Some(approval::answer_schema(&json!({}), true)), None), Some(reject));
        assert_eq!(refusal(Some(pause::answer_schema()), None), Some(json!({"decision": "stop"})));
        let cancel = json!({"action": "cancel"});
        assert_eq!(refusal(Some(input::answer_schema(None)), None), Some(cancel));
        assert_eq!(refusal(Some(json!({"type": "boolean"})), Some(json!(true))), Some(json!(false)));
        assert_eq!(refusal(Some(json!({"type": "string"})), Some(json!("later"))), Some(json!("later")));
        assert_eq!(refusal(Some(json!({"type": "string"})), None), None);
        assert_eq!(refusal(None, None), None);
    }
}
