//! Ids of responses and conversations: made from Houston's own, so that nothing is stored about them.
//!
//! | id | |
//! |---|---|
//! | `resp_<32 hex digits>` | a run, until its end or until it needs an answer |
//! | `resp_<n>_<32 hex digits>` | the run after it has waited with its event `n` |
//! | `conv_goal_<32 hex digits>` | the agentable `goal_<32 hex digits>` |

use std::fmt;
use std::str::FromStr;

use houston_domain::id::{QuestionId, RunId};

use crate::request::auth::uuid_of;

/// The id of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResponseId {
    pub(crate) run: RunId,
    /// How many events of the run are before it: 0, or those up to the wait that was answered.
    pub(crate) after: i64,
}

/// The text is no such id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an id of this kind")]
pub(crate) struct InvalidId;

impl fmt::Display for ResponseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.run.0.simple();
        match self.after {
            0 => write!(f, "resp_{digits}"),
            after => write!(f, "resp_{after}_{digits}"),
        }
    }
}

impl FromStr for ResponseId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let rest = text.strip_prefix("resp_").ok_or(InvalidId)?;
        let after = match rest.split_once('_') {
            None => 0,
            Some((after, _)) => i64::from(after.parse::<u32>().map_err(|_| InvalidId)?),
        };
        let id = Self { run: RunId(uuid_of(text).ok_or(InvalidId)?), after };
        if id.to_string() == text { Ok(id) } else { Err(InvalidId) }
    }
}

const CONVERSATION: &str = "conv_";

/// The id of a conversation from Houston's id of the agentable.
pub(crate) fn conversation_id(public_id: &str) -> String {
    format!("{CONVERSATION}{public_id}")
}

/// Houston's id of the agentable; `None` if it is the client's own name of a thread.
pub(crate) fn agentable_of(conversation: &str) -> Option<&str> {
    let id = conversation.strip_prefix(CONVERSATION)?;
    uuid_of(id).map(|_| id)
}

/// The id of the item with which a question is asked.
pub(crate) fn approval_id(question: QuestionId) -> String {
    format!("mcpr_{}", question.0.simple())
}

/// The question of such an item, or of a `call_id`.
pub(crate) fn question_of(id: &str) -> Option<QuestionId> {
    uuid_of(id).map(QuestionId)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        let run = RunId(Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_00ab));
        for after in [0, 1, 4_000_000] {
            let id = ResponseId { run, after };
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for bad in [
            "resp_1",
            "resp__0",
            "resp_0_0190000000007000800000000000 0ab",
            "run_1",
            "resp_-1_01900000000070008000000000000ab0",
        ] {
            assert_eq!(bad.parse::<ResponseId>(), Err(InvalidId), "{bad}");
        }
        // One response has one id.
        let zero = format!("resp_0_{}", run.0.simple());
        assert_eq!(zero.parse::<ResponseId>(), Err(InvalidId));
        let goal = format!("goal_{}", run.0.simple());
        assert_eq!(agentable_of(&conversation_id(&goal)), Some(goal.as_str()));
        assert_eq!(agentable_of("conv_mine"), None);
        assert_eq!(question_of(&approval_id(QuestionId(run.0))), Some(QuestionId(run.0)));
    }
}
