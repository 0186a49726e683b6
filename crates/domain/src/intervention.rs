//! Interventions: why the health monitor ends a run. It only requests the end: the worker that claims the run next
//! ends it through the engine, so that the history stays valid and the user is notified.

/// A reason of the health monitor to end a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Intervention {
    /// Its worker was alive, but the attempt did not end.
    Stuck,
    /// It waited too long for its next attempt.
    Expired,
    /// No worker claimed it although workers were alive. The user is notified.
    Stale,
    /// Like `Stale`, for a task: the agent that created it is informed that it did nothing.
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

    /// Parses the name; `None` if it is not a reason of the health monitor.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Stuck, Self::Expired, Self::Stale, Self::StaleTask]
            .into_iter()
            .find(|intervention| intervention.as_str() == name)
    }

    /// The error code of the run and of its error message.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Stuck => "HEALTH_MONITOR_STUCK",
            Self::Expired => "HEALTH_MONITOR_EXPIRED",
            Self::Stale | Self::StaleTask => "HEALTH_MONITOR_STALE",
        }
    }

    /// The message to the user.
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
    fn names_round_trip() {
        for one in [Intervention::Stuck, Intervention::Expired, Intervention::Stale, Intervention::StaleTask]
        {
            assert_eq!(Intervention::from_name(one.as_str()), Some(one));
        }
        assert_eq!(Intervention::from_name("user"), None);
    }
}
