//! What a model must have been through to prove anything.
//!
//! Noted beside the states, not in them: as part of a state each would double their number. So a witness has no
//! path, only a name; [`crate::scenario::Scenario::reaches`] says which each scenario must have.

use std::sync::atomic::{AtomicU32, Ordering};

macro_rules! witnesses {
    ($($(#[doc = $text:literal])* $name:ident),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Witness {
            $($(#[doc = $text])* $name),*
        }
        impl Witness {
            pub(crate) const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

witnesses! {
    /// A run of a dead worker was claimed by another.
    Takeover,
    /// The fence refused a write.
    ZombieRefused,
    /// An expired lease was renewed before anybody reaped it.
    LeaseCameBack,
    /// A worker that lived was reaped, noticed, and began anew.
    LivingReaped,
    /// The queue was flushed, and the sweep rang again.
    WokenAfterFlush,
    /// A message came in the instant of release, and the run went on.
    ReleaseRace,
    /// A message entered a run between two model calls.
    ReadBetweenSteps,
    /// A message that came between two attempts was read by the second.
    ReadAtTakeover,
    /// A hint came late and found nothing to claim.
    LateHint,
    /// An effect was cut off by a crash: outcome unknown.
    OutcomeUnknown,
    /// A checkable call was cut off, the outside says it happened.
    OutsideAsked,
    /// A response that was committed before the crash was not asked for again.
    KnownResponseKept,
    /// A repeatable call was executed again.
    ExecutedAgain,
    /// Responses of one turn were committed one by one.
    SideBySide,
    /// A run was cancelled while a tool ran.
    CancelledMidTool,
    /// A run was cancelled before any worker saw it.
    CancelledQueued,
    /// What was posted after the cancel opened the next run.
    NextRunAfterCancel,
    /// A retry waited, became due, and was claimed.
    Retried,
    /// A run failed for good, visibly.
    GaveUp,
    /// A message took its workers down too often.
    DeadLettered,
    /// A worker a run seemed to have died with turned out to live.
    Acquitted,
    /// A drained worker handed its run over.
    HandedOver,
    /// A commit that had landed was sent again.
    Landed,
    /// A claim was granted, its answer lost, the lock let go.
    Abandoned,
}

/// Those seen so far.
#[derive(Debug, Default)]
pub(crate) struct Witnesses(AtomicU32);

impl Witnesses {
    pub(crate) fn see(&self, witness: Witness) {
        self.0.fetch_or(1 << witness as u32, Ordering::Relaxed);
    }

    pub(crate) fn has(&self, witness: Witness) -> bool {
        self.0.load(Ordering::Relaxed) & 1 << witness as u32 != 0
    }

    pub(crate) fn all(&self) -> Vec<Witness> {
        Witness::ALL.iter().copied().filter(|witness| self.has(*witness)).collect()
    }
}
