//! [`Question`] and [`Decision`]: what runs ask, and what the program answers.

use houston_domain::id::{QuestionId, RunId};
use houston_domain::question::NewQuestion;
use houston_domain::question::approval::ApprovalAnswer;
use houston_domain::question::schema::Mismatch;
use serde_json::Value;

/// A question of a run: whether a tool call may be carried out, whether more may be spent, whether to go on.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Question {
    /// The id of the question, also over the API.
    pub id: QuestionId,
    /// The run that asks.
    pub run: RunId,
    /// The text for people.
    pub text: String,
    /// The tool call that it is about.
    pub call: Option<AskedCall>,
    asked: Box<NewQuestion>,
}

/// A tool call that a person must allow.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AskedCall {
    /// The name of the tool.
    pub tool: String,
    /// Its arguments.
    pub input: Value,
    /// Why a person is asked, as a clause: `it sends something out`.
    pub why: String,
}

/// What the program answers.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Decision {
    /// Yes.
    Approve,
    /// No, with a reason for the model.
    Reject(Option<String>),
    /// The call is carried out with these arguments, if the guards allow them.
    Edit(Value),
    /// The call is not carried out: the model reads this as its result.
    Respond(String),
    /// An answer of another shape, for questions that are no approvals.
    Answer(Value),
    /// The question stays open: a person answers it, here or over the API, now or in days.
    Later,
}

impl Decision {
    /// No, for this reason.
    pub fn reject(reason: impl Into<String>) -> Self {
        Self::Reject(Some(reason.into()))
    }
}

impl Question {
    pub(crate) fn new(run: RunId, asked: NewQuestion) -> Self {
        let call = asked.approval.as_ref().map(|approval| AskedCall {
            tool: approval.tool.clone(),
            input: approval.input.clone(),
            why: approval.why.clone(),
        });
        Self { id: asked.id, run, text: asked.text.clone(), call, asked: Box::new(asked) }
    }

    /// The JSON Schema of an answer; `None`: any JSON value.
    pub fn schema(&self) -> Option<&Value> {
        self.asked.schema.as_ref()
    }

    /// The answer as it is stored; `None` for [`Decision::Later`].
    ///
    /// # Errors
    /// Where it does not fit the question.
    pub(crate) fn answer(&self, decision: Decision) -> Result<Option<Value>, Mismatch> {
        let approval = |answer: ApprovalAnswer| serde_json::to_value(answer).ok();
        let answer = match decision {
            Decision::Approve => self.asked.plain_answer(true, None),
            Decision::Reject(reason) => self.asked.plain_answer(false, reason),
            Decision::Edit(input) => approval(ApprovalAnswer::Edit { input }),
            Decision::Respond(message) => approval(ApprovalAnswer::Respond { message }),
            Decision::Answer(answer) => Some(answer),
            Decision::Later => return Ok(None),
        };
        let answer = answer.ok_or_else(|| {
            let reason = "it is no question of yes or no: use Decision::Answer".to_owned();
            Mismatch { pointer: String::new(), reason }
        })?;
        self.asked.check_answer(&answer)?;
        Ok(Some(answer))
    }
}
