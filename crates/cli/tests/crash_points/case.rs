//! The 80 cases.

use std::time::Duration;

/// Where a process is struck: the places of the design's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Request read, before the insert is committed.
    C1,
    /// Inserted, before the answer.
    C2,
    /// Inserted, before the hint.
    C3,
    /// The hint is in Redis, before a worker fetches it.
    C4,
    /// Fetched, before the claim.
    C5,
    /// Claimed, before the model is called.
    C6,
    /// In the middle of the model's stream.
    C7,
    /// The model is done, before anything is committed.
    C8,
    /// Assistant entry and intents committed, before the tools execute.
    C9,
    /// A tool executed, before its result is committed.
    C10,
    /// One of several tools committed, the others running.
    C11,
    /// All results committed, before the next model call.
    C12,
    /// A step committed, before its events reach a stream.
    C13,
    /// The final answer committed, before the worker knows.
    C14,
    /// Released, before the hint is done with.
    C15,
    /// In the middle of reaping a dead worker.
    C16,
    /// A feed's agent was told, before that is committed.
    C17,
    /// The same, committed, before anybody knows.
    C18,
    /// The rows of a task are written, before the step of its creator commits.
    C19,
    /// The same, committed, before anybody knows.
    C20,
}

/// What happens there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    Kill,
    Pause,
    Error,
    Delay,
}

pub(crate) const PLACES: [Place; 20] = {
    use Place::*;
    [C1, C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13, C14, C15, C16, C17, C18, C19, C20]
};
pub(crate) const DEEDS: [Deed; 4] = [Deed::Kill, Deed::Pause, Deed::Error, Deed::Delay];

/// One of the 80.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) place: Place,
    pub(crate) deed: Deed,
}

/// How long things last in a case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// The lease, its renewals, and how long it is trusted, in seconds.
    pub(crate) lease: [u64; 3],
    /// Longer than the lease.
    pub(crate) pause: Duration,
    pub(crate) delay: Duration,
}

impl Case {
    pub(crate) fn all() -> Vec<Self> {
        PLACES.into_iter().flat_map(|place| DEEDS.map(|deed| Self { place, deed })).collect()
    }

    pub(crate) fn name(self) -> String {
        format!("{:?}-{:?}", self.place, self.deed).to_lowercase().replacen('c', "C", 1)
    }

    /// Cases that take as long as they would outside of a test.
    pub(crate) fn is_in_real_time(self) -> bool {
        use Place::{C6, C7, C10, C14};
        matches!((self.place, self.deed), (C6 | C7 | C10 | C14, Deed::Pause) | (C7 | C10 | C14, Deed::Delay))
    }

    pub(crate) fn times(self) -> Times {
        let seconds = Duration::from_secs;
        if self.is_in_real_time() {
            Times { lease: [30, 5, 25], pause: seconds(35), delay: seconds(10) }
        } else {
            Times { lease: [6, 1, 5], pause: seconds(9), delay: seconds(2) }
        }
    }

    /// What `FAILPOINTS` says to the process that is struck.
    pub(crate) fn failpoints(self) -> String {
        let deed = match self.deed {
            Deed::Kill => "kill".to_owned(),
            Deed::Pause => "pause".to_owned(),
            Deed::Error => "error".to_owned(),
            Deed::Delay => format!("delay:{}", self.times().delay.as_millis()),
        };
        // In the middle of a stream, not at its first piece.
        let before = if self.place == Place::C7 { "4*off->" } else { "" };
        format!("{:?}={before}1*return({deed})", self.place)
    }

    /// Whether the run is cut off where the process is struck: it has to be taken up again.
    pub(crate) fn cuts_off(self) -> bool {
        self.deed != Deed::Delay
    }
}
