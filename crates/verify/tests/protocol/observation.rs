//! Situations that a check must have reached to prove anything.
//!
//! They are recorded outside the states, since each would double the number of states. So an observation has no path,
//! only a name; [`crate::scenario::Scenario::must_observe`] lists those of each scenario.

use std::sync::atomic::{AtomicU32, Ordering};

macro_rules! observations {
    ($($(#[doc = $text:literal])* $name:ident),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Observation {
            $($(#[doc = $text])* $name),*
        }
        impl Observation {
            pub(crate) const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

observations! {
    /// A run of a dead worker was claimed by another.
    Takeover,
    /// The fence refused a write.
    ZombieRefused,
    /// An expired lease was renewed before it was reaped.
    LeaseCameBack,
    /// A living worker was reaped, noticed it, and registered again.
    LivingReaped,
    /// The queue was flushed, and the sweep sent a new hint.
    WokenAfterFlush,
    /// A message arrived at the moment of release, and the run continued.
    ReleaseRace,
    /// A message entered a run between two model calls.
    ReadBetweenSteps,
    /// A message that arrived between two attempts was read by the second.
    ReadAtTakeover,
    /// A late hint found nothing to claim.
    LateHint,
    /// An effect was interrupted by a crash: its outcome is unknown.
    OutcomeUnknown,
    /// A checkable call was interrupted; the lookup shows that it happened.
    EffectLookedUp,
    /// A response committed before a crash was kept.
    CommittedResponseKept,
    /// A repeatable call was executed again.
    ExecutedAgain,
    /// Responses of parallel calls were committed one by one.
    ParallelResponses,
    /// A run was cancelled while a tool ran.
    CancelledMidTool,
    /// A run was cancelled before any worker saw it.
    CancelledQueued,
    /// Messages posted after the cancel opened the next run.
    NextRunAfterCancel,
    /// A retry waited, became due, and was claimed.
    Retried,
    /// A run failed permanently and visibly.
    GaveUp,
    /// A message was given up after too many deaths.
    DeadLettered,
    /// A worker suspected to have died with a run turned out to be alive.
    DeathTakenBack,
    /// A drained worker handed its run over.
    HandedOver,
    /// A commit that had been applied was sent again.
    ResentAfterApplied,
    /// A claim succeeded, its response was lost, and the lock was released.
    Abandoned,
    /// A waiting run was claimed because of an answer, or because its question has expired.
    WokenByAnswer,
    /// A waiting run was claimed because of a message.
    WokenByMessage,
    /// A waiting run was claimed because of a cancel.
    WokenByCancel,
    /// A waiting run was claimed because its time had come.
    WokenByTime,
    /// A run did not wait because its question was closed, although no wake flag said so any more.
    AnsweredBeforeWait,
    /// A run did not wait because something arrived at that moment.
    WaitGaveWay,
}

/// The observations so far, as a bit set.
#[derive(Debug, Default)]
pub(crate) struct Observations(AtomicU32);

impl Observations {
    pub(crate) fn record(&self, observation: Observation) {
        self.0.fetch_or(1 << observation as u32, Ordering::Relaxed);
    }

    pub(crate) fn has(&self, observation: Observation) -> bool {
        self.0.load(Ordering::Relaxed) & 1 << observation as u32 != 0
    }

    pub(crate) fn all(&self) -> Vec<Observation> {
        Observation::ALL.iter().copied().filter(|observation| self.has(*observation)).collect()
    }
}
