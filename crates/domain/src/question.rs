//! Questions that a run asks a person: may this be done, which of these, may it cost more.
//!
//! A question is asked in the step of a run, and closed once: by an answer, by its expiry, by the run, or by the end of
//! the run. Its end wakes the run.

pub mod approval;
pub mod budget;
pub mod input;
pub mod pause;
pub mod schema;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use self::approval::{Approval, ApprovalAnswer};
use self::budget::BudgetAnswer;
use self::input::InputAnswer;
use self::pause::PauseAnswer;
use self::schema::check;
use crate::id::{MessageId, QuestionId};

/// Maximum number of characters of the name of who answers.
pub const MAX_ANSWERED_BY_CHARS: usize = 200;

/// The beginning of the subjects of the questions that Houston itself asks for a run, which questions of drivers must not have:
/// whether a paused run may go on ([`pause`]), whether more may be spent ([`budget`]), and what a tool call needs in its
/// middle ([`input`]).
pub const OWN_PREFIX: &str = "houston:";

names! {
    /// What a question is for.
    pub enum QuestionKind {
        /// Whether something may be done.
        Approval = "approval",
        /// Something that the run needs to know.
        Input = "input",
        /// Whether more may be spent.
        Budget = "budget",
    }
}

names! {
    /// Whether a question is open, and if not, what closed it.
    pub enum QuestionState {
        /// It can be answered.
        Open = "open",
        /// A person answered.
        Answered = "answered",
        /// No answer came in time.
        Expired = "expired",
        /// The run does not need the answer any more.
        Superseded = "superseded",
        /// The run ended.
        Cancelled = "cancelled",
    }
}

impl QuestionState {
    /// The state that an answer leads to. `expires_at`: when the question expires; `run_is_open`: whether its run is
    /// open.
    ///
    /// An answer that comes too late does not count, even if nothing has closed the question yet.
    pub fn after_answer(
        self,
        expires_at: Option<DateTime<Utc>>,
        run_is_open: bool,
        now: DateTime<Utc>,
    ) -> Self {
        match self {
            Self::Open if !run_is_open => Self::Cancelled,
            Self::Open if expires_at.is_some_and(|at| at <= now) => Self::Expired,
            Self::Open => Self::Answered,
            closed => closed,
        }
    }
}

/// A question as it is asked.
///
/// ```json
/// {"question_id": "question_0192a3b4c5d67e8f9a0b1c2d3e4f5061", "kind": "approval", "subject": "call_1",
///  "text": "May I delete all notes?", "schema": {"type": "boolean"}, "default_value": false,
///  "expires_at": "2026-11-23T09:00:00Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewQuestion {
    /// The question's id.
    #[serde(rename = "question_id")]
    pub id: QuestionId,
    /// What it is for.
    pub kind: QuestionKind,
    /// What it is about, in the words of who asks: a tool call's id, the path of a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The text for people.
    pub text: String,
    /// The JSON Schema of an answer; `None`: any JSON value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The answer that holds if no answer comes in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_value: Option<Value>,
    /// When it expires; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<DateTime<Utc>>,
    /// The tool call that an approval is about; boxed, because most questions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Box<Approval>>,
    /// For input that a tool call needs: the thread message (tool cell) that shows the call. It is in the event with which the
    /// question is asked, not in the question's row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
}

impl NewQuestion {
    /// A question with this text and nothing else.
    pub fn new(id: QuestionId, kind: QuestionKind, text: String) -> Self {
        let (subject, schema, default_value, expires_at) = (None, None, None, None);
        let (approval, message_id) = (None, None);
        Self { id, kind, subject, text, schema, default_value, expires_at, approval, message_id }
    }

    /// Checks an answer: that it matches the schema, and that a lasting yes is one.
    ///
    /// # Errors
    /// [`schema::Mismatch`] at the first value that does not match.
    pub fn check_answer(&self, answer: &Value) -> Result<(), schema::Mismatch> {
        self.schema.as_ref().map_or(Ok(()), |schema| schema::check(schema, answer))?;
        self.approval.as_ref().map_or(Ok(()), |approval| approval::granted(approval, answer).map(|_| ()))
    }
}

/// A question that was closed.
///
/// ```json
/// {"question_id": "question_0192a3b4c5d67e8f9a0b1c2d3e4f5061", "state": "answered", "answer": true}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClosedQuestion {
    /// The question's id.
    #[serde(rename = "question_id")]
    pub id: QuestionId,
    /// What closed it; never `open`.
    pub state: QuestionState,
    /// The answer, if it was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
}

/// A question of a run as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// What was asked.
    pub asked: NewQuestion,
    /// Whether it is open, and if not, what closed it.
    pub state: QuestionState,
    /// The answer, if it was answered.
    pub answer: Option<Value>,
    /// Who answered, in the words of the API's client.
    pub answered_by: Option<String>,
    /// When it was asked.
    pub created_at: DateTime<Utc>,
    /// When it was closed.
    pub closed_at: Option<DateTime<Utc>>,
}

impl Question {
    /// What the run goes on with: the answer, or the default value of a question that expired. `None` while it is open,
    /// and if it was closed without either.
    pub fn outcome(&self) -> Option<&Value> {
        match self.state {
            QuestionState::Answered => self.answer.as_ref(),
            QuestionState::Expired => self.asked.default_value.as_ref(),
            QuestionState::Open | QuestionState::Superseded | QuestionState::Cancelled => None,
        }
    }
}

/// The questions that a step asks and closes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QuestionChanges {
    /// New questions.
    pub asked: Vec<NewQuestion>,
    /// Questions of the run that become `superseded`, unless they are closed already.
    pub superseded: Vec<QuestionId>,
}

impl QuestionChanges {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.superseded.is_empty()
    }
}

impl NewQuestion {
    /// The answer of a person who says yes, or no with a message for the model: a call is carried out or not, a paused run
    /// goes on or ends, a budget is raised by what is proposed or the run ends, what a call asks to be done elsewhere is done or
    /// not. `None`: the question needs another answer.
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

    /// The answer that refuses: to reject or cancel the call, to stop the run, `false`, or else the default value. `None`: the
    /// question has no such answer.
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

    /// Whether Houston itself asks, and the question is not whether a tool call may be carried out.
    pub fn is_own(&self) -> bool {
        self.begins_with(OWN_PREFIX)
    }

    /// Whether it is no approval, and its subject begins so.
    fn begins_with(&self, prefix: &str) -> bool {
        self.approval.is_none() && self.subject.as_deref().is_some_and(|subject| subject.starts_with(prefix))
    }
}

/// One of the answers to a question, with at most one field of its own.
struct Choice<'c> {
    title: &'c str,
    name: &'c str,
    field: Option<(&'c str, &'c Value)>,
    is_required: bool,
}

impl<'c> Choice<'c> {
    fn new(title: &'c str, name: &'c str) -> Self {
        Self { title, name, field: None, is_required: false }
    }

    /// With a field of this schema, if there is one.
    fn with(self, field: &'c str, schema: Option<&'c Value>, is_required: bool) -> Self {
        Self { field: schema.map(|schema| (field, schema)), is_required, ..self }
    }
}

/// The JSON Schema of an answer whose field `key` names one of `choices`.
fn one_of(key: &str, choices: &[Choice<'_>]) -> Value {
    let option = |Choice { title, name, field, is_required }: &Choice<'_>| {
        let mut properties = Map::from_iter([(key.to_owned(), json!({"const": name}))]);
        properties.extend(field.map(|(field, schema)| (field.to_owned(), schema.clone())));
        let own = field.filter(|_| *is_required).map(|(field, _)| field);
        let required: Vec<&str> = std::iter::once(key).chain(own).collect();
        json!({"title": title, "properties": properties, "required": required, "additionalProperties": false})
    };
    let names: Vec<&str> = choices.iter().map(|choice| choice.name).collect();
    let options: Vec<Value> = choices.iter().map(option).collect();
    json!({"type": "object", "properties": {key: {"enum": names}}, "required": [key], "oneOf": options})
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{approval, input, pause, *};
    use crate::id::QuestionId;

    #[test]
    fn answer_counts_only_while_the_question_and_its_run_are_open() {
        use QuestionState::{Answered, Cancelled, Expired, Open, Superseded};
        let now = DateTime::UNIX_EPOCH;
        let later = Some(now + chrono::TimeDelta::seconds(1));
        assert_eq!(Open.after_answer(None, true, now), Answered);
        assert_eq!(Open.after_answer(later, true, now), Answered);
        assert_eq!(Open.after_answer(Some(now), true, now), Expired);
        assert_eq!(Open.after_answer(later, false, now), Cancelled);
        for closed in [Answered, Expired, Superseded, Cancelled] {
            assert_eq!(closed.after_answer(later, true, now), closed);
        }
    }

    #[test]
    fn names_are_those_of_json() {
        for state in QuestionState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
            assert_eq!(QuestionState::from_name(state.as_str()), Some(state));
        }
        for kind in [QuestionKind::Approval, QuestionKind::Input, QuestionKind::Budget] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
            assert_eq!(QuestionKind::from_name(kind.as_str()), Some(kind));
        }
    }

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
