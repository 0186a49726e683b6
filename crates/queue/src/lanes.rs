//! The lanes: queues of hints with a priority, each a sorted set in Redis.

use houston_domain::agentable::Urgency;

use crate::connection::{RESPONSE_TIMEOUT, Redis};
use crate::error::{Error, Failure};

/// The priority of a hint. A lane is read only when those above it are empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// A user is waiting.
    Interactive,
    /// No user is waiting: tasks, check-ins, feeds.
    Background,
    /// Houston's own work: summaries, titles.
    Maintenance,
}

impl Lane {
    /// All lanes, the most urgent first.
    pub const ALL: [Self; 3] = [Self::Interactive, Self::Background, Self::Maintenance];

    /// Name of the lane in Redis, logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Background => "background",
            Self::Maintenance => "maintenance",
        }
    }

    /// Index of the lane in [`Lane::ALL`].
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Key of the sorted set.
    pub(crate) fn key(self, redis: &Redis) -> String {
        redis.key(&format!("hints:{}", self.as_str()))
    }
}

impl From<Urgency> for Lane {
    fn from(urgency: Urgency) -> Self {
        match urgency {
            Urgency::Interactive => Self::Interactive,
            Urgency::Background => Self::Background,
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
        commands.cmd("ZCARD").arg(lane.key(redis));
    }
    let counts: [u64; 3] = commands.query_async(&mut connection).await.map_err(Failure::from)?;
    Ok([0, 1, 2].map(|i| (Lane::ALL[i], counts[i])))
}
