//! The scenarios: what happens in each, how many faults of which kind, and what it must have seen.
//!
//! Many small ones instead of a large one: faults of different kinds multiply the states, and most of their
//! products show nothing that two of them do not show.

use crate::rules::Rules;
use crate::witness::Witness;

/// What a tool does outside, and what a crash allows. A `read` is repeated like an `idempotent` one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Effect,
    /// The outside can be asked by key. Asking and executing are one here.
    Checkable,
    Idempotent,
}

/// What may still happen, each so many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Budget {
    /// Messages.
    pub(crate) posts: u8,
    /// Cancels, each of the run that is open then.
    pub(crate) cancels: u8,
    /// Processes killed.
    pub(crate) crashes: u8,
    /// Leases of the living that run out: a pause, a partition, a wrong guess.
    pub(crate) expiries: u8,
    /// The queue is emptied.
    pub(crate) flushes: u8,
    /// A hint is delivered twice.
    pub(crate) duplicates: u8,
    /// A commit lands and its answer is lost.
    pub(crate) lost_answers: u8,
    /// The database refuses for good, and the drive breaks down in a worker that lives.
    pub(crate) breakdowns: u8,
    /// The model fails.
    pub(crate) failures: u8,
    /// A worker drains.
    pub(crate) drains: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) rules: Rules,
    pub(crate) workers: usize,
    /// What the first turn of each run asks for; empty: it answers at once.
    pub(crate) tools: &'static [Class],
    pub(crate) budget: Budget,
    /// Workers that die with a run in a row, without a committed step between, until its message is given up.
    pub(crate) max_crashes: u8,
    /// Failures of the model after which there is no further attempt.
    pub(crate) max_failures: u8,
    pub(crate) reaches: &'static [Witness],
}

impl Scenario {
    fn of(name: &'static str, tools: &'static [Class], budget: Budget, reaches: &'static [Witness]) -> Self {
        Self {
            name,
            rules: Rules::CHOSEN,
            workers: 2,
            tools,
            budget,
            max_crashes: 3,
            max_failures: 1,
            reaches,
        }
    }

    pub(crate) fn under(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }
}

const NONE: Budget = Budget {
    posts: 1,
    cancels: 0,
    crashes: 0,
    expiries: 0,
    flushes: 0,
    duplicates: 0,
    lost_answers: 0,
    breakdowns: 0,
    failures: 0,
    drains: 0,
};

use Class::{Checkable, Effect, Idempotent};
use Witness as W;

/// Three workers fight for one run with an effect in it.
pub(crate) fn takeover() -> Scenario {
    let budget = Budget { crashes: 1, expiries: 2, ..NONE };
    let reaches = &[
        W::Takeover,
        W::ZombieRefused,
        W::LeaseCameBack,
        W::LivingReaped,
        W::LateHint,
        W::OutcomeUnknown,
        W::Acquitted,
    ];
    Scenario { workers: 3, ..Scenario::of("takeover", &[Effect], budget, reaches) }
}

/// Messages come while a run is driven, while hints are lost.
pub(crate) fn double_texting() -> Scenario {
    let budget = Budget { posts: 3, crashes: 1, expiries: 1, flushes: 1, duplicates: 1, ..NONE };
    let reaches = &[W::ReleaseRace, W::WokenAfterFlush, W::ReadAtTakeover, W::ZombieRefused];
    Scenario::of("double texting", &[], budget, reaches)
}

/// The same with a tool in each run.
pub(crate) fn double_texting_with_tools() -> Scenario {
    let budget = Budget { posts: 2, crashes: 1, expiries: 1, flushes: 1, ..NONE };
    let reaches = &[W::ReleaseRace, W::ReadBetweenSteps, W::WokenAfterFlush, W::OutcomeUnknown];
    Scenario::of("double texting with a tool", &[Effect], budget, reaches)
}

/// Two tools of one turn side by side.
pub(crate) fn parallel_tools() -> Scenario {
    let budget = Budget { crashes: 2, expiries: 1, ..NONE };
    let reaches =
        &[W::SideBySide, W::KnownResponseKept, W::OutcomeUnknown, W::ExecutedAgain, W::ZombieRefused];
    Scenario::of("parallel tools", &[Effect, Idempotent], budget, reaches)
}

/// Two tools, one of which can be asked about.
pub(crate) fn checkable_tools() -> Scenario {
    let budget = Budget { crashes: 2, lost_answers: 1, ..NONE };
    let reaches = &[W::SideBySide, W::KnownResponseKept, W::OutcomeUnknown, W::OutsideAsked];
    Scenario::of("checkable tools", &[Effect, Checkable], budget, reaches)
}

/// A run is cancelled at every moment; messages come before and after.
pub(crate) fn cancel() -> Scenario {
    let budget = Budget { posts: 3, cancels: 1, crashes: 1, ..NONE };
    let reaches = &[W::CancelledMidTool, W::CancelledQueued, W::NextRunAfterCancel, W::Takeover];
    Scenario::of("cancel", &[Effect], budget, reaches)
}

/// Cancels under a false expiry and a lost hint.
pub(crate) fn cancel_twice() -> Scenario {
    let budget = Budget { posts: 2, cancels: 2, expiries: 1, flushes: 1, ..NONE };
    let reaches = &[W::CancelledMidTool, W::CancelledQueued, W::NextRunAfterCancel, W::ZombieRefused];
    Scenario::of("cancel twice", &[Effect], budget, reaches)
}

/// The model fails: the run waits, and is given up in the end.
pub(crate) fn retry_later() -> Scenario {
    let budget = Budget { posts: 2, cancels: 1, crashes: 1, flushes: 1, failures: 3, ..NONE };
    let reaches = &[W::Retried, W::GaveUp, W::WokenAfterFlush];
    Scenario::of("retry later", &[], budget, reaches)
}

/// Commits and claims land and nobody hears of it.
pub(crate) fn lost_answers() -> Scenario {
    let budget = Budget { posts: 2, lost_answers: 2, expiries: 1, ..NONE };
    let reaches = &[W::Landed, W::Abandoned, W::ZombieRefused, W::OutcomeUnknown];
    Scenario::of("lost answers", &[Effect], budget, reaches)
}

/// Lost answers of calls that run side by side, and a crash.
pub(crate) fn lost_answers_of_tools() -> Scenario {
    let budget = Budget { lost_answers: 2, breakdowns: 1, crashes: 1, cancels: 1, ..NONE };
    let reaches = &[W::Landed, W::KnownResponseKept, W::ExecutedAgain, W::CancelledMidTool];
    Scenario::of("lost answers of tools", &[Effect, Idempotent], budget, reaches)
}

/// A message takes down whoever touches it.
pub(crate) fn poison() -> Scenario {
    let budget = Budget { posts: 2, crashes: 3, ..NONE };
    let scenario = Scenario::of("poison message", &[Effect], budget, &[W::DeadLettered, W::Takeover]);
    Scenario { max_crashes: 1, ..scenario }
}

/// Workers are told to stop.
pub(crate) fn drain() -> Scenario {
    let budget = Budget { posts: 2, drains: 2, crashes: 1, flushes: 1, ..NONE };
    let reaches = &[W::HandedOver, W::ReadAtTakeover, W::WokenAfterFlush];
    Scenario::of("drain", &[Idempotent], budget, reaches)
}

/// All of them.
pub(crate) fn all() -> Vec<Scenario> {
    vec![
        takeover(),
        double_texting(),
        double_texting_with_tools(),
        parallel_tools(),
        checkable_tools(),
        cancel(),
        cancel_twice(),
        retry_later(),
        lost_answers(),
        lost_answers_of_tools(),
        poison(),
        drain(),
    ]
}
