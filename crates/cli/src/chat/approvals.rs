//! Approvals in a chat: the calls that wait for the user, and the lines that decide them.

use std::collections::VecDeque;

use houston_domain::id::QuestionId;
use houston_domain::question::approval::ApprovalAnswer;
use houston_protocol::agui::Fact;
use serde_json::Value;

/// The lines that decide a call, for the screen.
pub(crate) const CHOICES: &str = "y allows it · n [why] refuses it · e {…} changes the arguments · r TEXT is its result · any other line is a message instead";

/// The same where no lines are typed.
pub(crate) const ANSWER_ELSEWHERE: &str = "`houston approvals` decides it";

/// The calls that wait for the user, in the order in which they were asked about.
#[derive(Debug, Default)]
pub(crate) struct Approvals(VecDeque<QuestionId>);

/// A line typed while a call waits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Typed {
    /// It decides the call that was asked about first.
    Decision(QuestionId, ApprovalAnswer),
    /// It begins like a decision and is none; the text says why.
    Wrong(String),
    /// It is no decision.
    Other,
}

impl Approvals {
    /// Takes note of questions that are asked and closed.
    pub(crate) fn on_fact(&mut self, fact: &Fact<'_>) {
        match fact {
            Fact::QuestionAsked { question_id, approval: Some(_), .. } if !self.0.contains(question_id) => {
                self.0.push_back(*question_id);
            }
            Fact::QuestionClosed { question_id, .. } => self.0.retain(|open| open != question_id),
            _ => {}
        }
    }

    /// Whether a call waits for the user.
    pub(crate) fn is_open(&self) -> bool {
        !self.0.is_empty()
    }

    /// What a line means.
    pub(crate) fn read(&mut self, line: &str) -> Typed {
        let Some(question) = self.0.front().copied() else { return Typed::Other };
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let message = || (!rest.is_empty()).then(|| rest.to_owned());
        let answer = match word.to_ascii_lowercase().as_str() {
            "y" | "yes" if rest.is_empty() => ApprovalAnswer::Approve {},
            "n" | "no" => ApprovalAnswer::Reject { message: message() },
            "e" => match serde_json::from_str::<Value>(rest) {
                Ok(input @ Value::Object(_)) => ApprovalAnswer::Edit { input },
                Ok(_) => return Typed::Wrong("e: the arguments must be a JSON object".to_owned()),
                Err(error) => return Typed::Wrong(format!("e: the arguments are not JSON: {error}")),
            },
            "r" => match message() {
                Some(message) => ApprovalAnswer::Respond { message },
                None => return Typed::Wrong("r: the text is missing".to_owned()),
            },
            _ => return Typed::Other,
        };
        self.0.pop_front();
        Typed::Decision(question, answer)
    }

    /// A decision was not accepted: it is asked for again.
    pub(crate) fn refused(&mut self, question: QuestionId) {
        if !self.0.contains(&question) {
            self.0.push_front(question);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use houston_domain::id::MessageId;
    use houston_domain::question::{QuestionKind, QuestionState};
    use houston_protocol::question::CallToApprove;
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    const FIRST: QuestionId = QuestionId(Uuid::from_u128(1));
    const SECOND: QuestionId = QuestionId(Uuid::from_u128(2));

    fn asked(question_id: QuestionId) -> Fact<'static> {
        let message_id = MessageId(Uuid::nil());
        let call = CallToApprove { tool: "t".into(), input: json!({}), why: "w".into(), message_id };
        Fact::QuestionAsked {
            question_id,
            kind: QuestionKind::Approval,
            subject: None,
            text: Cow::Borrowed("May I?"),
            schema: None,
            default_value: None,
            expires_at: None,
            approval: Some(Box::new(call)),
        }
    }

    #[test]
    fn lines_decide_the_calls_in_order() {
        let mut approvals = Approvals::default();
        assert_eq!(approvals.read("y"), Typed::Other, "nothing waits");
        approvals.on_fact(&asked(FIRST));
        approvals.on_fact(&asked(FIRST));
        approvals.on_fact(&asked(SECOND));
        assert_eq!(approvals.read("Yes "), Typed::Decision(FIRST, ApprovalAnswer::Approve {}));
        let reject = ApprovalAnswer::Reject { message: Some("not now".to_owned()) };
        assert_eq!(approvals.read("n  not now"), Typed::Decision(SECOND, reject));
        assert!(!approvals.is_open());
        approvals.refused(SECOND);
        assert!(approvals.is_open());
        let closed =
            Fact::QuestionClosed { question_id: SECOND, state: QuestionState::Expired, answer: None };
        approvals.on_fact(&closed);
        assert!(!approvals.is_open());
    }

    #[test]
    fn other_lines_stay_messages_and_slips_are_explained() {
        let mut approvals = Approvals::default();
        approvals.on_fact(&asked(FIRST));
        for message in ["yes, but first tell me why", "not today", "hello", "/help"] {
            assert_eq!(approvals.read(message), Typed::Other, "{message}");
        }
        for slip in ["e", "e 1", "e {x}", "r"] {
            assert!(matches!(approvals.read(slip), Typed::Wrong(_)), "{slip}");
        }
        let edit = ApprovalAnswer::Edit { input: json!({"a": 1}) };
        assert_eq!(approvals.read(r#"e {"a": 1}"#), Typed::Decision(FIRST, edit));
    }
}
