//! Questions of Houston in a chat: the calls that wait for the user, pauses, budgets that are reached; and the lines that
//! decide them.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use houston_domain::guard::GrantScope;
use houston_domain::id::QuestionId;
use houston_domain::question::approval::{ApprovalAnswer, Remember};
use houston_domain::question::budget::{self, BudgetAnswer};
use houston_domain::question::input::{self, InputAnswer};
use houston_domain::question::pause::PauseAnswer;
use houston_domain::question::{OWN_PREFIX, QuestionKind};
use houston_protocol::agui::Fact;
use houston_protocol::question::QuestionResponse;
use serde::Serialize;
use serde_json::{Number, Value};

use super::output::one_line;

/// What a question asks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Asks {
    /// Whether a call may be carried out.
    Call {
        /// Whether a lasting yes is possible.
        lasting: bool,
    },
    /// Whether a paused run may go on.
    Pause,
    /// Whether more may be spent, and the US dollars that are proposed.
    Budget(Option<Number>),
    /// What a step of a plan needs to know: the schema of an answer, and the answer that holds without one.
    Free(Option<Value>, Option<Value>),
    /// Input that a call needs: its fields, with whether each is required; none: something is to be done elsewhere.
    Input(Vec<(String, bool)>),
}

impl Asks {
    /// `None` if the question is not one of Houston's.
    pub(crate) fn of(fact: &Fact<'_>) -> Option<Self> {
        let Fact::QuestionAsked { kind, subject, schema, approval, .. } = fact else { return None };
        if let Some(call) = approval {
            return Some(Self::Call { lasting: call.lasting });
        }
        let is_own = subject.as_deref().is_some_and(|subject| subject.starts_with(OWN_PREFIX));
        match kind {
            QuestionKind::Approval if is_own => Some(Self::Pause),
            QuestionKind::Budget if is_own => {
                Some(Self::Budget(schema.as_deref().and_then(budget::proposed)))
            }
            QuestionKind::Input if is_own => {
                Some(Self::Input(schema.as_deref().map(fields).unwrap_or_default()))
            }
            QuestionKind::Input => {
                let Fact::QuestionAsked { default_value, .. } = fact else { return None };
                Some(Self::Free(schema.as_deref().cloned(), default_value.as_deref().cloned()))
            }
            _ => None,
        }
    }

    /// Its text in one line: whole if it has an address that the user is to see.
    pub(crate) fn text(&self, text: &str) -> String {
        match self {
            Self::Input(_) => text.replace(char::is_control, " "),
            _ => one_line(text),
        }
    }

    /// The lines that decide it, for the screen.
    pub(crate) fn choices(&self) -> String {
        match self {
            Self::Call { lasting: true } => format!("a allows this tool here from now on · {}", Self::Call { lasting: false }.choices()),
            Self::Call { lasting: false } => "y allows it · n [why] refuses it · e {…} changes the arguments · r TEXT is its result · any other line is a message instead".to_owned(),
            Self::Free(schema, _) if is_boolean(schema.as_ref()) => "y yes · n no · any other line is a message instead".to_owned(),
            Self::Free(_, Some(default)) => format!("y ANSWER answers · y alone: {default} · any other line is a message instead"),
            Self::Free(_, None) => "y ANSWER answers · any other line is a message instead".to_owned(),
            Self::Pause => "y goes on · n stops · any other line is a message instead".to_owned(),
            Self::Budget(Some(amount)) => format!("y adds ${amount} · y AMOUNT adds that · n stops · any other line is a message"),
            Self::Input(fields) if fields.is_empty() => "y it is done · n declines · cancel ends the call · any other line is a message instead".to_owned(),
            Self::Input(fields) => format!("y {} answers (in {{…}}: fields with ? may be left out) · n declines · cancel ends the call · any other line is a message instead", form(fields)),
            Self::Budget(None) => "y AMOUNT adds so many US dollars · n stops · any other line is a message".to_owned(),
        }
    }

    /// What a line means: `None` if it decides nothing, an error if it begins like a decision and is none.
    fn read(&self, word: &str, rest: &str) -> Option<Result<Value, String>> {
        let message = || (!rest.is_empty()).then(|| rest.to_owned());
        Some(match (self, word) {
            (Self::Call { .. }, "y" | "yes") if rest.is_empty() => value(ApprovalAnswer::APPROVE),
            (Self::Call { lasting: true }, "a" | "always") if rest.is_empty() => {
                let remember = Remember { scope: GrantScope::Agentable, when: BTreeMap::new() };
                value(ApprovalAnswer::Approve { remember: Some(remember) })
            }
            (Self::Call { .. }, "n" | "no") => value(ApprovalAnswer::Reject { message: message() }),
            (Self::Call { .. }, "e") => match serde_json::from_str::<Value>(rest) {
                Ok(input @ Value::Object(_)) => value(ApprovalAnswer::Edit { input }),
                Ok(_) => Err("e: the arguments must be a JSON object".to_owned()),
                Err(error) => Err(format!("e: the arguments are not JSON: {error}")),
            },
            (Self::Call { .. }, "r") => match message() {
                Some(message) => value(ApprovalAnswer::Respond { message }),
                None => Err("r: the text is missing".to_owned()),
            },
            (Self::Input(fields), "y" | "yes") if rest.is_empty() => match fields.as_slice() {
                [] => value(InputAnswer::Accept { content: None }),
                fields => Err(format!("y: the answer is missing; as in y {}", form(fields))),
            },
            (Self::Input(fields), "y" | "yes") if !fields.is_empty() && rest.starts_with('{') => {
                match serde_json::from_str::<Value>(rest) {
                    Ok(content) => value(InputAnswer::Accept { content: Some(content) }),
                    Err(error) => Err(format!("y: the answer is not JSON: {error}")),
                }
            }
            (Self::Input(_), "n" | "no") if rest.is_empty() => value(InputAnswer::Decline {}),
            (Self::Input(_), "cancel") if rest.is_empty() => value(InputAnswer::Cancel {}),
            (Self::Free(schema, _), "y" | "yes" | "n" | "no") if is_boolean(schema.as_ref()) => {
                rest.is_empty().then(|| Ok(Value::Bool(word.starts_with('y'))))?
            }
            (Self::Free(schema, default), "y" | "yes") => match (rest.is_empty(), default) {
                (true, Some(default)) => Ok(default.clone()),
                (true, None) => Err("y: the answer is missing".to_owned()),
                (false, _) => free(schema.as_ref(), rest),
            },
            (Self::Pause, "y" | "yes") if rest.is_empty() => value(PauseAnswer::Continue {}),
            (Self::Pause, "n" | "no") if rest.is_empty() => value(PauseAnswer::Stop {}),
            (Self::Budget(_), "n" | "no") if rest.is_empty() => value(BudgetAnswer::Stop {}),
            (Self::Budget(proposed), "y" | "yes") if rest.is_empty() => match proposed {
                Some(amount) => value(BudgetAnswer::Raise { amount: amount.clone() }),
                None => Err("y: the amount is missing, in US dollars".to_owned()),
            },
            (Self::Budget(_), "y" | "yes") => {
                let amount: Number = rest.trim_start_matches('$').parse().ok()?;
                value(BudgetAnswer::Raise { amount })
            }
            _ => return None,
        })
    }
}

fn is_boolean(schema: Option<&Value>) -> bool {
    schema.is_some_and(|schema| schema["type"] == "boolean")
}

/// The answer in a line: JSON where the schema wants more than a text.
fn free(schema: Option<&Value>, text: &str) -> Result<Value, String> {
    let kind = schema.and_then(|schema| schema["type"].as_str()).unwrap_or("string");
    match kind {
        "string" => Ok(text.into()),
        _ => {
            serde_json::from_str(text).map_err(|error| format!("y: the answer must be JSON, {kind}: {error}"))
        }
    }
}

/// A question that was read, as streams tell of it.
pub(crate) fn asked(question: &QuestionResponse) -> Fact<'_> {
    Fact::QuestionAsked {
        question_id: question.id,
        kind: question.kind,
        subject: question.subject.as_deref().map(Into::into),
        text: question.text.as_str().into(),
        schema: question.schema.as_ref().map(Cow::Borrowed),
        default_value: question.default_value.as_ref().map(Cow::Borrowed),
        expires_at: question.expires_at,
        approval: question.approval.clone().map(Box::new),
    }
}

fn fields(schema: &Value) -> Vec<(String, bool)> {
    input::fields(schema).into_iter().map(|(name, required)| (name.to_owned(), required)).collect()
}

/// An answer to fill in: `{"name": …, "size"?: …}`.
fn form(fields: &[(String, bool)]) -> String {
    let fields = fields.iter().map(|(name, required)| {
        let mark = if *required { "" } else { "?" };
        format!("{}{mark}: …", Value::from(name.as_str()))
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

fn value(answer: impl Serialize) -> Result<Value, String> {
    serde_json::to_value(answer).map_err(|error| error.to_string())
}

/// The same where no lines are typed.
pub(crate) const ANSWER_ELSEWHERE: &str = "`houston approvals` decides it";

/// The questions that wait for the user, in the order in which they were asked.
#[derive(Debug, Default)]
pub(crate) struct Approvals {
    open: VecDeque<(QuestionId, Asks)>,
    /// Those whose answers were sent.
    sent: Vec<(QuestionId, Asks)>,
}

/// A line typed while a question waits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Typed {
    /// It answers the question that was asked first.
    Decision(QuestionId, Value),
    /// It begins like a decision and is none; the text says why.
    Wrong(String),
    /// It is no decision.
    Other,
}

impl Approvals {
    /// Takes note of questions that are asked and closed.
    pub(crate) fn on_fact(&mut self, fact: &Fact<'_>) {
        match fact {
            Fact::QuestionAsked { question_id, .. } if !self.open.iter().any(|(id, _)| id == question_id) => {
                self.open.extend(Asks::of(fact).map(|asks| (*question_id, asks)));
            }
            Fact::QuestionClosed { question_id, .. } => {
                self.open.retain(|(id, _)| id != question_id);
                self.sent.retain(|(id, _)| id != question_id);
            }
            _ => {}
        }
    }

    /// Whether a question waits for the user.
    pub(crate) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// What a line means.
    pub(crate) fn read(&mut self, line: &str) -> Typed {
        let Some((question, asks)) = self.open.front() else { return Typed::Other };
        let question = *question;
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match asks.read(&word.to_ascii_lowercase(), rest.trim()) {
            None => Typed::Other,
            Some(Err(why)) => Typed::Wrong(why),
            Some(Ok(answer)) => {
                self.sent.extend(self.open.pop_front());
                Typed::Decision(question, answer)
            }
        }
    }

    /// A decision was not accepted: it is asked for again.
    pub(crate) fn refused(&mut self, question: QuestionId) {
        if let Some(at) = self.sent.iter().position(|(id, _)| *id == question) {
            self.open.push_front(self.sent.swap_remove(at));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use houston_domain::id::MessageId;
    use houston_domain::question::QuestionState;
    use houston_protocol::question::CallToApprove;
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    const FIRST: QuestionId = QuestionId(Uuid::from_u128(1));
    const SECOND: QuestionId = QuestionId(Uuid::from_u128(2));

    fn asked(question_id: QuestionId) -> Fact<'static> {
        let message_id = Some(MessageId(Uuid::nil()));
        let call = CallToApprove {
            tool: "t".into(),
            input: json!({}),
            why: "w".into(),
            message_id,
            preview: None,
            lasting: question_id == SECOND,
        };
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
        assert_eq!(approvals.read("Yes "), Typed::Decision(FIRST, json!({"decision": "approve"})));
        let reject = json!({"decision": "reject", "message": "not now"});
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
    fn lasting_yes_is_read_only_where_one_is_possible() {
        let mut approvals = Approvals::default();
        approvals.on_fact(&asked(FIRST));
        assert_eq!(approvals.read("a"), Typed::Other);
        approvals.on_fact(&Fact::QuestionClosed {
            question_id: FIRST,
            state: QuestionState::Superseded,
            answer: None,
        });
        approvals.on_fact(&asked(SECOND));
        let always = json!({"decision": "approve", "remember": {"scope": "agentable"}});
        assert_eq!(approvals.read("a"), Typed::Decision(SECOND, always));
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
        let edit = json!({"decision": "edit", "input": {"a": 1}});
        assert_eq!(approvals.read(r#"e {"a": 1}"#), Typed::Decision(FIRST, edit));
    }
    fn own(kind: QuestionKind, subject: &'static str, schema: Option<Value>) -> Approvals {
        let Fact::QuestionAsked { question_id, text, .. } = asked(FIRST) else { unreachable!() };
        let fact = Fact::QuestionAsked {
            question_id,
            kind,
            subject: Some(subject.into()),
            text,
            schema: schema.map(Cow::Owned),
            default_value: None,
            expires_at: None,
            approval: None,
        };
        let mut approvals = Approvals::default();
        approvals.on_fact(&fact);
        approvals
    }

    #[test]
    fn lines_let_a_paused_run_go_on_or_stop_it() {
        let pause = || own(QuestionKind::Approval, "houston:overseer:repeats:4", None);
        assert_eq!(pause().read("y"), Typed::Decision(FIRST, json!({"decision": "continue"})));
        assert_eq!(pause().read("No"), Typed::Decision(FIRST, json!({"decision": "stop"})));
        assert_eq!(pause().read("no, try the other file"), Typed::Other);
        assert!(!own(QuestionKind::Approval, "of a driver", None).is_open());
    }

    #[test]
    fn lines_give_a_call_the_input_that_it_needs() {
        let form =
            json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
        let ask = |content: Option<&Value>| {
            own(QuestionKind::Input, "houston:input:c1", Some(input::answer_schema(content)))
        };
        let accepted = json!({"action": "accept", "content": {"name": "Ada"}});
        assert_eq!(ask(Some(&form)).read(r#"y {"name": "Ada"}"#), Typed::Decision(FIRST, accepted));
        for slip in ["y", "y {name}"] {
            assert!(matches!(ask(Some(&form)).read(slip), Typed::Wrong(_)), "{slip}");
        }
        assert_eq!(ask(None).read("y"), Typed::Decision(FIRST, json!({"action": "accept"})));
        assert_eq!(ask(None).read("n"), Typed::Decision(FIRST, json!({"action": "decline"})));
        assert_eq!(ask(Some(&form)).read("cancel"), Typed::Decision(FIRST, json!({"action": "cancel"})));
        assert_eq!(ask(Some(&form)).read("y, I am Ada"), Typed::Other);
    }

    #[test]
    fn lines_raise_a_budget_or_stop_the_run() {
        let schema = json!({"oneOf": [{"properties": {"amount": {"default": 2.5}}}]});
        let ask = |schema| own(QuestionKind::Budget, "houston:budget:run", schema);
        let raise = |amount: f64| Typed::Decision(FIRST, json!({"decision": "raise", "amount": amount}));
        assert_eq!(ask(Some(schema.clone())).read("y"), raise(2.5));
        assert_eq!(ask(Some(schema)).read("y $0.5"), raise(0.5));
        assert!(matches!(ask(None).read("y"), Typed::Wrong(_)));
        assert_eq!(ask(None).read("y please"), Typed::Other);
        assert_eq!(ask(None).read("n"), Typed::Decision(FIRST, json!({"decision": "stop"})));
    }
}
