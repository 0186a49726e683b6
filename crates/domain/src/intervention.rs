//! Why the health monitor ends a run. It only asks: whichever worker takes the run next ends it through the engine,
//! so that its history stays valid and its user is told.

/// A reason of the health monitor's to end a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Intervention {
    /// Its worker lived, but the attempt went on for ever.
    Stuck,
    /// It waited for its next attempt for too long.
    Expired,
    /// Nobody took it although workers were there; somebody may still read of it.
    Stale,
    /// The same of a task; the agent that created it reads that it did nothing.
    StaleTask,
}

impl Intervention {
    /// The name in the database (`runs.cancel_reason`).
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stuck => "stuck",
            Self::Expired => "expired",
            Self::Stale => "stale",
            Self::StaleTask => "stale_task",
        }
    }

    /// Parses the name; none of one that is not the monitor's.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Stuck, Self::Expired, Self::Stale, Self::StaleTask]
            .into_iter()
            .find(|intervention| intervention.as_str() == name)
    }

    /// The error of the run and of the message that tells of it.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Stuck => "HEALTH_MONITOR_STUCK",
            Self::Expired => "HEALTH_MONITOR_EXPIRED",
            Self::Stale | Self::StaleTask => "HEALTH_MONITOR_STALE",
        }
    }

    /// What the user is told.
    #[must_use]
    pub fn notice(self) -> &'static str {
        match self {
            Self::Stuck => {
                "The health monitor stopped this: it was running for too long without an end. Some of it may have happened. Ask me to go on."
            }
            Self::Expired => {
                "The health monitor gave this up: it waited for its next attempt for too long. It will not be tried again."
            }
            Self::Stale => {
                "The health monitor gave this up: nothing happened for too long. Send the message again to try once more."
            }
            Self::StaleTask => {
                "The health monitor gave this task up: no worker went on with it for too long."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for one in [Intervention::Stuck, Intervention::Expired, Intervention::Stale, Intervention::StaleTask]
        {
            assert_eq!(Intervention::from_name(one.as_str()), Some(one));
        }
        assert_eq!(Intervention::from_name("user"), None);
    }
}
