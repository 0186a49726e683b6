//! Hints, the members of the lanes: "look at this agentable". The lanes: queues of hints with a priority, each a sorted set in
//! Redis.

pub use houston_domain::agentable::Lane;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::connection::{RESPONSE_TIMEOUT, Redis};
use crate::error::{Error, Failure};

/// The version of the payload format that this build writes and reads.
const HINT_VERSION: u8 = 1;

/// What to do when a hint arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HintKind {
    /// Claim the agentable and drive its run.
    Run,
}

/// "Look at this agentable." A hint has no data: the worker reads from Postgres what is to be done, if anything. In a
/// lane:
///
/// ```json
/// {"v":1,"kind":"run","id":"019a0000-0000-7000-8000-000000000001"}
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hint {
    /// Version of the payload format.
    v: u8,
    /// What the worker does.
    pub kind: HintKind,
    /// Id of the agentable.
    pub id: Uuid,
}

impl Hint {
    /// A hint to run `agentable`.
    pub fn run(agentable: houston_domain::id::AgentableId) -> Self {
        Self { v: HINT_VERSION, kind: HintKind::Run, id: agentable.0 }
    }

    /// The agentable of the hint.
    pub fn agentable(self) -> houston_domain::id::AgentableId {
        self.id.into()
    }

    /// The member of the lane: always the same text for the same hint, so that the set holds it once.
    pub(crate) fn encode(self) -> String {
        // Cannot fail: it has no map.
        serde_json::to_string(&self).unwrap_or_default()
    }

    /// The hint of a member; an error for people: it is no hint, or one that only a newer release has.
    pub(crate) fn decode(member: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            v: u8,
        }
        let undecodable = |_| "the member is not a hint".to_owned();
        // The version first: a newer version may have any kind.
        match serde_json::from_slice(member).map_err(undecodable)? {
            Version { v: HINT_VERSION } => serde_json::from_slice(member).map_err(undecodable),
            Version { v } => {
                Err(format!("the hint has version {v}; this build reads version {HINT_VERSION}"))
            }
        }
    }
}

/// The number of hints in each lane, the most urgent lane first.
///
/// # Errors
/// [`Error::Redis`] when Redis does not answer within seconds.
pub async fn depths(redis: &Redis) -> Result<[(Lane, u64); 3], Error> {
    let mut connection = redis.connect(Some(RESPONSE_TIMEOUT)).await?;
    let mut commands = redis::pipe();
    for lane in Lane::ALL {
        commands.cmd("ZCARD").arg(redis.lane(lane));
    }
    let counts: [u64; 3] = commands.query_async(&mut connection).await.map_err(Failure::from)?;
    Ok([0, 1, 2].map(|i| (Lane::ALL[i], counts[i])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_format_is_stable() {
        let id = Uuid::from_u128(7);
        let hint = Hint::run(id.into());
        let text = r#"{"v":1,"kind":"run","id":"00000000-0000-0000-0000-000000000007"}"#;
        assert_eq!(hint.encode(), text);
        assert_eq!(serde_json::to_string(&hint).unwrap(), text, "one spelling");
        assert_eq!(Hint::decode(text.as_bytes()).unwrap(), hint);
    }

    #[test]
    fn invalid_and_newer_payloads_are_refused() {
        let id = Uuid::from_u128(7);
        let error = |member: &[u8]| Hint::decode(member).unwrap_err();
        assert_eq!(error(b"garbage"), "the member is not a hint");
        assert_eq!(error(b"\xff\xfe"), "the member is not a hint");
        let other = format!(r#"{{"v":1,"kind":"dance","id":"{id}"}}"#);
        assert_eq!(error(other.as_bytes()), "the member is not a hint");
        let newer = format!(r#"{{"v":2,"kind":"dance","id":"{id}"}}"#);
        assert_eq!(error(newer.as_bytes()), "the hint has version 2; this build reads version 1");
    }
}
