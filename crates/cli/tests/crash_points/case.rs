//! The 132 cases.

use std::time::Duration;

/// A crash point: where in the code the fault is injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CrashPoint {
    /// The request is read, the insert not committed.
    C1,
    /// The message is inserted, the response not sent.
    C2,
    /// The message is inserted, the hint not sent.
    C3,
    /// The hint is in Redis, no worker has fetched it.
    C4,
    /// The hint is fetched, the run not claimed.
    C5,
    /// The run is claimed, the model not called.
    C6,
    /// In the middle of the model's stream.
    C7,
    /// The model has answered, nothing is committed.
    C8,
    /// The assistant entry and the intents are committed, no tool has started.
    C9,
    /// A tool has executed, its result is not committed.
    C10,
    /// The result of one tool is committed, the others run.
    C11,
    /// All results are committed, the model is not called again.
    C12,
    /// A step is committed, its events have not reached a stream.
    C13,
    /// The final answer is committed, the worker has no confirmation.
    C14,
    /// The lock is released, the hint not acknowledged.
    C15,
    /// In the middle of reaping a dead worker.
    C16,
    /// The message that starts a feed is written, not committed.
    C17,
    /// It is committed, the caller has no confirmation.
    C18,
    /// The rows of a task are written, the step of its creator is not committed.
    C19,
    /// It is committed, the caller has no confirmation.
    C20,
    /// A batch of posts is complete, its statement not sent.
    C21,
    /// It is committed, the writer has no confirmation.
    C22,
    /// A batch of claims is decided, its statement not sent.
    C23,
    /// It is committed, the writer has no confirmation.
    C24,
    /// A batch of steps is complete, its statement not sent.
    C25,
    /// It is committed, the writer has no confirmation.
    C26,
    /// The rows of a plan are written, the step of its creator is not committed.
    C27,
    /// The states of a plan's steps and an executor are written, not committed.
    C28,
    /// They are committed, nothing of it has begun.
    C29,
    /// What an executor returned is written and its plan is awake, the end of the executor is not committed.
    C30,
    /// The changed document of a plan is written, not committed.
    C31,
    /// The end of a plan is reported, not committed.
    C32,
    /// A step of a plan that another worker had begun is taken over, and not begun again.
    C33,
}

/// The fault that is injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Kill,
    Pause,
    Error,
    Delay,
}

pub(crate) const CRASH_POINTS: [CrashPoint; 33] = {
    use CrashPoint::*;
    [
        C1, C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13, C14, C15, C16, C17, C18, C19, C20, C21, C22,
        C23, C24, C25, C26, C27, C28, C29, C30, C31, C32, C33,
    ]
};
pub(crate) const ACTIONS: [Action; 4] = [Action::Kill, Action::Pause, Action::Error, Action::Delay];

/// One of the 132 cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) point: CrashPoint,
    pub(crate) action: Action,
}

/// The durations of a case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// The lease, the interval of its renewals, and how long the worker trusts it, in seconds.
    pub(crate) lease: [u64; 3],
    /// How long a paused process sleeps: longer than the lease.
    pub(crate) pause: Duration,
    pub(crate) delay: Duration,
}

impl Case {
    pub(crate) fn all() -> Vec<Self> {
        CRASH_POINTS.into_iter().flat_map(|point| ACTIONS.map(|action| Self { point, action })).collect()
    }

    pub(crate) fn name(self) -> String {
        format!("{:?}-{:?}", self.point, self.action).to_lowercase().replacen('c', "C", 1)
    }

    /// Whether the case takes the times of production. At C15 the run is over and must have been driven once: a busy machine
    /// must not cost its worker the lease before.
    pub(crate) fn is_in_real_time(self) -> bool {
        use CrashPoint::{C6, C7, C10, C14, C15};
        matches!(
            (self.point, self.action),
            (C6 | C7 | C10 | C14 | C15, Action::Pause) | (C7 | C10 | C14, Action::Delay)
        )
    }

    pub(crate) fn times(self) -> Times {
        let seconds = Duration::from_secs;
        if self.is_in_real_time() {
            Times { lease: [30, 5, 25], pause: seconds(35), delay: seconds(10) }
        } else {
            Times { lease: [6, 1, 5], pause: seconds(9), delay: seconds(2) }
        }
    }

    /// The value of `FAILPOINTS` for the faulty process.
    pub(crate) fn failpoints(self) -> String {
        let action = match self.action {
            Action::Kill => "kill".to_owned(),
            Action::Pause => "pause".to_owned(),
            Action::Error => "error".to_owned(),
            Action::Delay => format!("delay:{}", self.times().delay.as_millis()),
        };
        // At the fifth piece of the stream.
        let before = if self.point == CrashPoint::C7 { "4*off->" } else { "" };
        format!("{:?}={before}1*return({action})", self.point)
    }

    /// Whether the fault interrupts the run, so that it must be taken over.
    pub(crate) fn cuts_off(self) -> bool {
        use CrashPoint::{C21, C22, C23, C24, C25};
        // The items of a batch whose connection broke are written again, one by one. A step that turns out to be committed
        // is continued by the next claim (C26).
        let recovers = matches!(self.point, C21 | C22 | C23 | C24 | C25) && self.action == Action::Error;
        self.action != Action::Delay && !recovers
    }
}
