//! Validation of the questions of a document.

use super::{Checked, invalid, line, storable, text, time};
use crate::conversation::Conversation;
use crate::question::{MAX_ANSWERED_BY_CHARS, QuestionKind, QuestionState};

impl Conversation {
    pub(super) fn check_questions(&self) -> Checked {
        for (index, question) in self.questions.iter().enumerate() {
            let at = |field: &str| format!("/questions/{index}/{field}");
            text(&at("text"), &question.text, usize::MAX)?;
            text(&at("subject"), question.subject.as_deref().unwrap_or_default(), usize::MAX)?;
            for (field, value) in [
                ("schema", &question.schema),
                ("default_value", &question.default_value),
                ("answer", &question.answer),
            ] {
                value.as_ref().map_or(Ok(()), |value| storable(&at(field), value))?;
            }
            if question.state == QuestionState::Open {
                return invalid(at("state"), "must not be `open`: no run of the import waits for an answer");
            }
            if let Some(approval) = &question.approval {
                if question.kind != QuestionKind::Approval || question.subject.is_none() {
                    let reason =
                        "is only allowed if `kind` is `approval` and `subject` is the id of the call";
                    return invalid(at("approval"), reason);
                }
                text(&at("approval/tool"), &approval.tool, usize::MAX)?;
                text(&at("approval/why"), &approval.why, usize::MAX)?;
                storable(&at("approval/input"), &approval.input)?;
            }
            let is_answered = question.state == QuestionState::Answered;
            if is_answered != question.answer.is_some() {
                return invalid(at("answer"), "must be there if `state` is `answered`, and only then");
            }
            if let Some(name) = &question.answered_by {
                if !is_answered {
                    return invalid(at("answered_by"), "is only allowed if `state` is `answered`");
                }
                line(&at("answered_by"), name, MAX_ANSWERED_BY_CHARS)?;
            }
            question.expires_at.map_or(Ok(()), |expires_at| time(&at("expires_at"), expires_at))?;
            time(&at("created_at"), question.created_at)?;
            time(&at("closed_at"), question.closed_at)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::conversation::check::tests::exported;

    /// Answered with `null`, which is a value like any other.
    fn asked() -> Conversation {
        let at = "2026-11-20T10:00:00Z";
        let mut document = serde_json::to_value(exported()).unwrap();
        document["questions"] = json!([{"kind": "input", "subject": "call_1", "text": "Which hotel?",
            "default_value": null, "state": "answered", "answer": null, "answered_by": "Ann", "created_at": at,
            "closed_at": at}, {"kind": "approval", "subject": "call_2", "text": "Delete note?", "state": "expired",
            "created_at": at, "closed_at": at,
            "approval": {"tool": "delete_note", "input": {"note_id": "x"}, "why": "it deletes something"}}]);
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn questions_round_trip_with_null_as_an_answer() {
        let document = asked();
        assert_eq!(document.check(), Ok(()));
        assert_eq!(document.questions[0].answer, Some(Value::Null));
        let text = serde_json::to_string(&document).unwrap();
        assert_eq!(serde_json::from_str::<Conversation>(&text).unwrap(), document);
    }

    #[test]
    fn errors_name_the_question_and_its_field() {
        type Change = fn(&mut Conversation);
        let cases: [(Change, &str); 9] = [
            (|c| c.questions[0].state = QuestionState::Open, "/questions/0/state"),
            (|c| c.questions[0].answer = None, "/questions/0/answer"),
            (|c| c.questions[0].state = QuestionState::Expired, "/questions/0/answer"),
            (
                |c| (c.questions[0].state, c.questions[0].answer) = (QuestionState::Expired, None),
                "/questions/0/answered_by",
            ),
            (|c| c.questions[0].answered_by = Some("A".repeat(201)), "/questions/0/answered_by"),
            (|c| c.questions[0].default_value = Some(json!("\0")), "/questions/0/default_value"),
            (|c| c.questions[1].kind = QuestionKind::Input, "/questions/1/approval"),
            (
                |c| c.questions[1].approval.as_mut().unwrap().input = json!("\0"),
                "/questions/1/approval/input",
            ),
            (|c| c.version = crate::conversation::Version::One, "/questions"),
        ];
        for (change, pointer) in cases {
            let mut document = asked();
            change(&mut document);
            assert_eq!(document.check().unwrap_err().pointer, pointer);
        }
    }
}
