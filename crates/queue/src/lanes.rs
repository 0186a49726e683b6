//! The lanes hints wait in: one sorted set each, read in order of priority.

use houston_domain::agentable::Urgency;

use crate::connection::{ANSWER_WITHIN, Redis};
use crate::error::{Error, Failure};

/// How urgent a hint is. A lane is read only when those above it are empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// A person waits.
    Interactive,
    /// No person is waiting: tasks, check-ins, feeds.
    Background,
    /// Houston's own work: summaries, titles.
    Maintenance,
}

impl Lane {
    /// All lanes, the most urgent first.
    pub const ALL: [Self; 3] = [Self::Interactive, Self::Background, Self::Maintenance];

    /// Its name in Redis, logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Background => "background",
            Self::Maintenance => "maintenance",
        }
    }

    /// Its index in [`Lane::ALL`].
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Its key.
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

/// How many hints wait in each lane, the most urgent lane first.
///
/// # Errors
/// [`Error::Redis`] when Redis does not answer within seconds.
pub async fn depths(redis: &Redis) -> Result<[(Lane, u64); 3], Error> {
    let mut connection = redis.connect(Some(ANSWER_WITHIN)).await?;
    let mut commands = redis::pipe();
    for lane in Lane::ALL {
        commands.cmd("ZCARD").arg(lane.key(redis));
    }
    let counts: [u64; 3] = commands.query_async(&mut connection).await.map_err(Failure::from)?;
    Ok([0, 1, 2].map(|i| (Lane::ALL[i], counts[i])))
}
