//! A hint: "look at this agentable". The only thing a lane contains.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The version of the payload this build writes and reads.
pub const HINT_VERSION: u8 = 1;

/// What to do when a hint arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HintKind {
    /// Claim the agentable and run what waits for it.
    Run,
}

/// "Look at this agentable." A hint carries no fact: Postgres says what there is to do, if anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hint {
    /// The payload's version.
    v: u8,
    /// What to do.
    pub kind: HintKind,
    /// The agentable.
    pub id: Uuid,
}

/// Why this build cannot read a member of a lane.
#[derive(Debug, thiserror::Error)]
pub enum HintError {
    /// Neither JSON nor of the known shape, or of a kind of a newer release.
    #[error("undecodable")]
    Undecodable(#[from] serde_json::Error),
    /// Of another version.
    #[error("of version {found}, not {HINT_VERSION}")]
    Version {
        /// The version it says.
        found: u8,
    },
}

impl Hint {
    /// Asks for a run of `agentable`.
    #[must_use]
    pub fn run(agentable: houston_domain::id::AgentableId) -> Self {
        Self { v: HINT_VERSION, kind: HintKind::Run, id: agentable.0 }
    }

    /// The agentable it is about.
    #[must_use]
    pub fn agentable(self) -> houston_domain::id::AgentableId {
        self.id.into()
    }

    /// The member of the lane: always the same text for the same hint, so that a set holds it once.
    pub(crate) fn encode(self) -> String {
        let kind = match self.kind {
            HintKind::Run => "run",
        };
        format!(r#"{{"v":{},"kind":"{kind}","id":"{}"}}"#, self.v, self.id)
    }

    pub(crate) fn decode(member: &[u8]) -> Result<Self, HintError> {
        #[derive(Deserialize)]
        struct Version {
            v: u8,
        }
        // The version first: a newer one may have any kind.
        let Version { v } = serde_json::from_slice(member)?;
        if v != HINT_VERSION {
            return Err(HintError::Version { found: v });
        }
        Ok(serde_json::from_slice(member)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_keeps_its_shape() {
        let id = Uuid::from_u128(7);
        let hint = Hint::run(id.into());
        let text = r#"{"v":1,"kind":"run","id":"00000000-0000-0000-0000-000000000007"}"#;
        assert_eq!(hint.encode(), text);
        assert_eq!(serde_json::to_string(&hint).unwrap(), text, "one spelling");
        assert_eq!(Hint::decode(text.as_bytes()).unwrap(), hint);
    }

    #[test]
    fn what_is_not_for_us_is_refused() {
        let id = Uuid::from_u128(7);
        assert!(matches!(Hint::decode(b"garbage"), Err(HintError::Undecodable(_))));
        assert!(matches!(Hint::decode(b"\xff\xfe"), Err(HintError::Undecodable(_))));
        let other = format!(r#"{{"v":1,"kind":"dance","id":"{id}"}}"#);
        assert!(matches!(Hint::decode(other.as_bytes()), Err(HintError::Undecodable(_))));
        let newer = format!(r#"{{"v":2,"kind":"dance","id":"{id}"}}"#);
        assert!(matches!(Hint::decode(newer.as_bytes()), Err(HintError::Version { found: 2 })));
    }
}
