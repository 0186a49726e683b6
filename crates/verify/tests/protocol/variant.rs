//! The protocol satisfies all properties; without any one of its rules it does not.

use std::collections::BTreeSet;

use crate::observation::Observation;
use crate::property::{
    ANSWERED_ONCE, CANCEL_TAKES_EARLIER, EFFECT_ONCE, ENDS_ONCE, NO_STALE_WRITE, NOT_FORGOTTEN,
    NOTHING_PENDING_AT_REST, ONE_HOLDER, SETTLES, VALID_HISTORY, WAITING_IS_FREE, WAKE_IS_KEPT,
};
use crate::rules::{Fence, Intent, Rules};
use crate::scenario::{self, Scenario};
use crate::table::{check, shortest, table};

/// A protocol without one rule, a scenario that shows the difference, and the properties that are violated.
struct Weakened {
    name: &'static str,
    rules: Rules,
    scenario: Scenario,
    breaks: &'static [&'static str],
}

/// What two concurrent writers of one agentable violate.
const TWO_WRITERS: &[&str] =
    &[NO_STALE_WRITE, EFFECT_ONCE, ANSWERED_ONCE, VALID_HISTORY, ENDS_ONCE, NOTHING_PENDING_AT_REST, SETTLES];
const FORGOTTEN: &[&str] = &[NOT_FORGOTTEN, NOTHING_PENDING_AT_REST, SETTLES];

fn weakened() -> Vec<Weakened> {
    let chosen = Rules::CHOSEN;
    let weak = |name, rules, scenario, breaks| Weakened { name, rules, scenario, breaks };
    vec![
        weak("no fence", Rules { fence: Fence::None, ..chosen }, scenario::parallel_tools(), TWO_WRITERS),
        weak(
            "check, then write",
            Rules { fence: Fence::CheckThenWrite, ..chosen },
            scenario::parallel_tools(),
            TWO_WRITERS,
        ),
        weak(
            "no intent",
            Rules { intent: Intent::Absent, ..chosen },
            scenario::parallel_tools(),
            &[EFFECT_ONCE],
        ),
        weak(
            "intents run again",
            Rules { intent: Intent::RunAgain, ..chosen },
            scenario::parallel_tools(),
            &[EFFECT_ONCE],
        ),
        weak(
            "no sweep",
            Rules { sweep: false, ..chosen },
            scenario::double_texting(),
            // The wake flag is set, but nothing queries it.
            &[NOTHING_PENDING_AT_REST, SETTLES],
        ),
        weak("no wake flag", Rules { wake: false, ..chosen }, scenario::double_texting(), FORGOTTEN),
        weak("no re-reading", Rules { reread: false, ..chosen }, scenario::double_texting(), FORGOTTEN),
        weak(
            "no write id",
            Rules { write_id: false, ..chosen },
            scenario::lost_answers(),
            // A step that releases the lock cannot be applied twice.
            &[VALID_HISTORY],
        ),
        weak(
            "cancel reads on",
            Rules { cancel_bounds: false, ..chosen },
            scenario::cancel(),
            &[CANCEL_TAKES_EARLIER],
        ),
    ]
}

/// The rules of runs that wait.
fn weakened_waits() -> Vec<Weakened> {
    let chosen = Rules::CHOSEN;
    let weak = |name, rules, scenario, breaks| Weakened { name, rules, scenario, breaks };
    vec![
        weak(
            "wait forgets wake",
            Rules { wait_rereads: false, ..chosen },
            scenario::waiting_for_answers(),
            &[NOT_FORGOTTEN, WAKE_IS_KEPT],
        ),
        weak(
            "wait forgets answer",
            Rules { wait_looks_at_answer: false, ..chosen },
            scenario::waiting_for_answers(),
            // The step that called tools has cleared the wake flag of the answer.
            &[WAKE_IS_KEPT, NOTHING_PENDING_AT_REST, SETTLES],
        ),
        weak(
            "no sweep of waits",
            Rules { sweep: false, ..chosen },
            scenario::waiting_until_a_time(),
            &[NOTHING_PENDING_AT_REST, SETTLES],
        ),
        weak(
            "wait keeps the lock",
            Rules { wait_releases: false, ..chosen },
            scenario::waiting_for_answers(),
            &[WAITING_IS_FREE, NOTHING_PENDING_AT_REST, SETTLES],
        ),
        weak(
            "wake takes any lock",
            Rules { claims_free_locks_only: false, ..chosen },
            scenario::waiting_with_losses(),
            &[ONE_HOLDER],
        ),
    ]
}

#[test]
fn protocol_satisfies_all_properties() {
    let found: Vec<_> = scenario::all().iter().map(|scenario| check("chosen", scenario)).collect();
    println!("{}", table(&found));
    for (scenario, found) in scenario::all().iter().zip(&found) {
        if let Some(property) = found.violated.first() {
            panic!("{}: violated: {property}\n{}", scenario.name, shortest(scenario));
        }
        let missed: Vec<&Observation> = scenario
            .must_observe
            .iter()
            .filter(|observation| !found.observed.contains(observation))
            .collect();
        assert!(
            missed.is_empty(),
            "{} did not observe {missed:?}, so its check proves nothing",
            scenario.name
        );
    }
    let observed: Vec<&Observation> = Observation::ALL
        .iter()
        .filter(|observation| found.iter().any(|one| one.observed.contains(observation)))
        .collect();
    assert_eq!(observed.len(), Observation::ALL.len(), "observed only: {observed:?}");
}

#[test]
fn protocol_without_a_rule_violates_properties() {
    let weakened: Vec<Weakened> = weakened().into_iter().chain(weakened_waits()).collect();
    let mut found = Vec::new();
    for weak in &weakened {
        let scenario = weak.scenario.clone().under(weak.rules);
        found.push(check(weak.name, &scenario));
    }
    println!("{}", table(&found));
    for (weak, found) in weakened.iter().zip(&found) {
        let violated: BTreeSet<_> = found.violated.iter().copied().collect();
        assert_eq!(violated, BTreeSet::from_iter(weak.breaks.iter().copied()), "{}", weak.name);
    }
}
