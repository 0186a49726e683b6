//! What a plain yes or no answers.

use serde_json::Value;

use super::approval::ApprovalAnswer;
use super::budget::{self, BudgetAnswer};
use super::input::InputAnswer;
use super::pause::PauseAnswer;
use super::{NewQuestion, QuestionKind};

impl NewQuestion {
    /// The answer of a person who says yes, or no with a message for the model: a call is carried out or not, a paused run
    /// goes on or ends, a budget is raised by what is proposed or the run ends, what a call asks to be done elsewhere is done or
    /// not. `None`: the question needs another answer.
    #[must_use]
    pub fn plain_answer(&self, yes: bool, message: Option<String>) -> Option<Value> {
        let answer = match (self.approval.is_some(), self.kind, yes) {
            (true, _, true) => serde_json::to_value(ApprovalAnswer::Approve { remember: None }),
            (true, _, false) => serde_json::to_value(ApprovalAnswer::Reject { message }),
            _ if !self.is_own() => return None,
            (false, QuestionKind::Budget, true) => {
                let amount = self.schema.as_ref().and_then(budget::proposed)?;
                serde_json::to_value(BudgetAnswer::Raise { amount })
            }
            (false, QuestionKind::Budget, false) => serde_json::to_value(BudgetAnswer::Stop {}),
            (false, QuestionKind::Input, true) => {
                let accepted = serde_json::to_value(InputAnswer::Accept { content: None }).ok()?;
                return self.check_answer(&accepted).is_ok().then_some(accepted);
            }
            (false, QuestionKind::Input, false) => serde_json::to_value(InputAnswer::Decline {}),
            (false, _, true) => serde_json::to_value(PauseAnswer::Continue {}),
            (false, _, false) => serde_json::to_value(PauseAnswer::Stop {}),
        };
        answer.ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{input, pause};
    use super::*;
    use crate::id::QuestionId;

    fn asked(kind: QuestionKind, subject: &str, schema: Value) -> NewQuestion {
        NewQuestion {
            id: QuestionId(uuid::Uuid::nil()),
            kind,
            subject: Some(subject.to_owned()),
            text: "Go on?".to_owned(),
            schema: Some(schema),
            default_value: None,
            expires_at: None,
            approval: None,
            message_id: None,
        }
    }

    #[test]
    fn each_question_of_houston_has_a_plain_answer() {
        let pause = asked(QuestionKind::Approval, "houston:overseer:repeats:3", pause::answer_schema());
        let schema = json!({"oneOf": [{"properties": {"amount": {"default": 2.5}}}]});
        let budget = asked(QuestionKind::Budget, "houston:budget", schema);
        let answers =
            [&pause, &budget].map(|asked| [true, false].map(|yes| asked.plain_answer(yes, None).unwrap()));
        assert_eq!(
            answers,
            [
                [json!({"decision": "continue"}), json!({"decision": "stop"})],
                [json!({"decision": "raise", "amount": 2.5}), json!({"decision": "stop"})]
            ]
        );
        let other = asked(QuestionKind::Input, "step", json!({"type": "string"}));
        assert_eq!(other.plain_answer(true, None), None, "yes has no meaning here");
        let address = asked(QuestionKind::Input, "houston:input:c1", input::answer_schema(None));
        assert_eq!(address.plain_answer(true, None), Some(json!({"action": "accept"})));
        let form = asked(QuestionKind::Input, "houston:input:c1", input::answer_schema(Some(&json!({}))));
        assert_eq!(form.plain_answer(true, None), None, "yes is no name");
        assert_eq!(form.plain_answer(false, None), Some(json!({"action": "decline"})));
    }
}
