//! The scenarios: their tools, the number of faults of each kind, and what must be observed in each.
//!
//! There are many small ones, since faults of different kinds multiply the number of states, and combinations of more
//! than two kinds rarely show anything new.

use crate::observation::Observation;
use crate::rules::Rules;

/// The effect class of a tool. `read` is modelled as `Idempotent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Effect,
    /// The effect can be looked up by key. Lookup and execution are one action here.
    Checkable,
    Idempotent,
}

/// How many client actions and faults of each kind may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Budget {
    /// Messages.
    pub(crate) posts: u8,
    /// Cancels of the open run.
    pub(crate) cancels: u8,
    /// Killed processes.
    pub(crate) crashes: u8,
    /// Expired leases of living workers: a pause, a partition, a wrong suspicion.
    pub(crate) expiries: u8,
    /// Flushes of the queue.
    pub(crate) flushes: u8,
    /// Duplicated hints.
    pub(crate) duplicates: u8,
    /// Claims and commits that are applied but whose response is lost.
    pub(crate) lost_answers: u8,
    /// Permanent database errors: the run breaks down in a living worker.
    pub(crate) breakdowns: u8,
    /// Failures of the model.
    pub(crate) failures: u8,
    /// Hand-overs of draining workers.
    pub(crate) drains: u8,
}

/// What each run waits for before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    Never,
    /// It asks first, calls its tools, and then waits for the answer.
    ForAnswer,
    UntilTime,
}

/// A scenario to check exhaustively.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) rules: Rules,
    pub(crate) workers: usize,
    /// The tools called in the first turn of each run; empty: the model answers at once.
    pub(crate) tools: &'static [Class],
    pub(crate) waits: Waits,
    pub(crate) budget: Budget,
    /// Consecutive deaths of workers with a run, without a committed step between them, before it is given up.
    pub(crate) max_crashes: u8,
    /// Failures of the model before the run fails.
    pub(crate) max_failures: u8,
    /// Observations without which the check proves nothing.
    pub(crate) must_observe: &'static [Observation],
}

impl Scenario {
    fn of(
        name: &'static str,
        tools: &'static [Class],
        budget: Budget,
        must_observe: &'static [Observation],
    ) -> Self {
        Self {
            name,
            rules: Rules::CHOSEN,
            workers: 2,
            tools,
            waits: Waits::Never,
            budget,
            max_crashes: 3,
            max_failures: 1,
            must_observe,
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
use Observation as O;

/// Three workers compete for one run with an effect.
pub(crate) fn takeover() -> Scenario {
    let budget = Budget { crashes: 1, expiries: 2, ..NONE };
    let must_observe = &[
        O::Takeover,
        O::ZombieRefused,
        O::LeaseCameBack,
        O::LivingReaped,
        O::LateHint,
        O::OutcomeUnknown,
        O::DeathTakenBack,
    ];
    Scenario { workers: 3, ..Scenario::of("takeover", &[Effect], budget, must_observe) }
}

/// Messages arrive during a run while hints are lost.
pub(crate) fn double_texting() -> Scenario {
    let budget = Budget { posts: 3, crashes: 1, expiries: 1, flushes: 1, duplicates: 1, ..NONE };
    let must_observe = &[O::ReleaseRace, O::WokenAfterFlush, O::ReadAtTakeover, O::ZombieRefused];
    Scenario::of("double texting", &[], budget, must_observe)
}

/// Double texting with a tool in each run.
pub(crate) fn double_texting_with_tools() -> Scenario {
    let budget = Budget { posts: 2, crashes: 1, expiries: 1, flushes: 1, ..NONE };
    let must_observe = &[O::ReleaseRace, O::ReadBetweenSteps, O::WokenAfterFlush, O::OutcomeUnknown];
    Scenario::of("double texting with a tool", &[Effect], budget, must_observe)
}

/// Two tools of one turn in parallel.
pub(crate) fn parallel_tools() -> Scenario {
    let budget = Budget { crashes: 2, expiries: 1, ..NONE };
    let must_observe = &[
        O::ParallelResponses,
        O::CommittedResponseKept,
        O::OutcomeUnknown,
        O::ExecutedAgain,
        O::ZombieRefused,
    ];
    Scenario::of("parallel tools", &[Effect, Idempotent], budget, must_observe)
}

/// Two tools, one of them checkable.
pub(crate) fn checkable_tools() -> Scenario {
    let budget = Budget { crashes: 2, lost_answers: 1, ..NONE };
    let must_observe =
        &[O::ParallelResponses, O::CommittedResponseKept, O::OutcomeUnknown, O::EffectLookedUp];
    Scenario::of("checkable tools", &[Effect, Checkable], budget, must_observe)
}

/// A run is cancelled at every moment, with messages before and after.
pub(crate) fn cancel() -> Scenario {
    let budget = Budget { posts: 3, cancels: 1, crashes: 1, ..NONE };
    let must_observe = &[O::CancelledMidTool, O::CancelledQueued, O::NextRunAfterCancel, O::Takeover];
    Scenario::of("cancel", &[Effect], budget, must_observe)
}

/// Cancels with a false expiry and a lost hint.
pub(crate) fn cancel_twice() -> Scenario {
    let budget = Budget { posts: 2, cancels: 2, expiries: 1, flushes: 1, ..NONE };
    let must_observe = &[O::CancelledMidTool, O::CancelledQueued, O::NextRunAfterCancel, O::ZombieRefused];
    Scenario::of("cancel twice", &[Effect], budget, must_observe)
}

/// The model fails: the run waits for a retry and finally fails.
pub(crate) fn retry_later() -> Scenario {
    let budget = Budget { posts: 2, cancels: 1, crashes: 1, flushes: 1, failures: 3, ..NONE };
    let must_observe = &[O::Retried, O::GaveUp, O::WokenAfterFlush];
    Scenario::of("retry later", &[], budget, must_observe)
}

/// Commits and claims are applied but their responses are lost.
pub(crate) fn lost_answers() -> Scenario {
    let budget = Budget { posts: 2, lost_answers: 2, expiries: 1, ..NONE };
    let must_observe = &[O::ResentAfterApplied, O::Abandoned, O::ZombieRefused, O::OutcomeUnknown];
    Scenario::of("lost answers", &[Effect], budget, must_observe)
}

/// Lost responses with parallel calls, and a crash.
pub(crate) fn lost_answers_of_tools() -> Scenario {
    let budget = Budget { lost_answers: 2, breakdowns: 1, crashes: 1, cancels: 1, ..NONE };
    let must_observe =
        &[O::ResentAfterApplied, O::CommittedResponseKept, O::ExecutedAgain, O::CancelledMidTool];
    Scenario::of("lost answers of tools", &[Effect, Idempotent], budget, must_observe)
}

/// A poison message kills every worker that reads it.
pub(crate) fn poison() -> Scenario {
    let budget = Budget { posts: 2, crashes: 3, ..NONE };
    let scenario = Scenario::of("poison message", &[Effect], budget, &[O::DeadLettered, O::Takeover]);
    Scenario { max_crashes: 1, ..scenario }
}

/// Workers drain.
pub(crate) fn drain() -> Scenario {
    let budget = Budget { posts: 2, drains: 2, crashes: 1, flushes: 1, ..NONE };
    let must_observe = &[O::HandedOver, O::ReadAtTakeover, O::WokenAfterFlush];
    Scenario::of("drain", &[Idempotent], budget, must_observe)
}

/// Runs ask, call a tool, and wait for the answer, which may arrive at any time.
pub(crate) fn waiting_for_answers() -> Scenario {
    let budget = Budget { posts: 2, cancels: 1, expiries: 1, ..NONE };
    let must_observe = &[
        O::WokenByAnswer,
        O::WokenByMessage,
        O::WokenByCancel,
        O::AnsweredBeforeWait,
        O::WaitGaveWay,
        O::ZombieRefused,
        O::LateHint,
    ];
    let scenario = Scenario::of("waiting for answers", &[Effect], budget, must_observe);
    Scenario { waits: Waits::ForAnswer, ..scenario }
}

/// Runs wait for answers while workers die, hints are lost, and responses of commits as well.
pub(crate) fn waiting_with_losses() -> Scenario {
    let budget = Budget { posts: 2, crashes: 1, flushes: 1, lost_answers: 1, ..NONE };
    let must_observe = &[O::WokenByAnswer, O::WokenByMessage, O::WokenAfterFlush, O::ResentAfterApplied];
    let scenario = Scenario::of("waiting with losses", &[], budget, must_observe);
    Scenario { waits: Waits::ForAnswer, ..scenario }
}

/// Runs wait until a time.
pub(crate) fn waiting_until_a_time() -> Scenario {
    let budget = Budget { posts: 2, cancels: 1, crashes: 1, expiries: 1, ..NONE };
    let must_observe =
        &[O::WokenByTime, O::WokenByMessage, O::WokenByCancel, O::WaitGaveWay, O::ZombieRefused];
    let scenario = Scenario::of("waiting until a time", &[], budget, must_observe);
    Scenario { waits: Waits::UntilTime, ..scenario }
}

/// All scenarios.
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
        waiting_for_answers(),
        waiting_with_losses(),
        waiting_until_a_time(),
    ]
}
