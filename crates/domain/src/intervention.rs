//! Interventions: why the health monitor ends a run. It only requests the end: the worker that claims the run next
//! ends it through the engine, so that the history stays valid and the user is notified.

names! {
    /// A reason of the health monitor to end a run.
    #[derive(Hash)]
    pub enum Intervention {
        /// Its worker was alive, but the attempt did not end.
        Stuck = "stuck",
        /// It waited too long for its next attempt.
        Expired = "expired",
        /// No worker claimed it although workers were alive. The user is notified.
        Stale = "stale",
        /// Like `Stale`, for a task: the agent that created it is informed that it did nothing.
        StaleTask = "stale_task",
    }
}

impl Intervention {
    /// The error code of the run and of its error message.
    pub fn code(self) -> &'static str {
        match self {
            Self::Stuck => "HEALTH_MONITOR_STUCK",
            Self::Expired => "HEALTH_MONITOR_EXPIRED",
            Self::Stale | Self::StaleTask => "HEALTH_MONITOR_STALE",
        }
    }

    /// The message to the user.
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
