//! The chosen protocol holds; without one of its rules it does not.

use std::collections::BTreeSet;

use crate::property::{
    ANSWERED_ONCE, CANCEL_TAKES_EARLIER, EFFECT_ONCE, ENDS_ONCE, NO_STALE_WRITE, NOT_FORGOTTEN,
    NOTHING_PENDING_AT_REST, SETTLES, VALID_HISTORY,
};
use crate::rules::{Fence, Intent, Rules};
use crate::scenario::{self, Scenario};
use crate::table::{check, shortest, table};
use crate::witness::Witness;

/// A protocol with a rule less, where that shows, and everything that breaks there.
struct Weakened {
    name: &'static str,
    rules: Rules,
    scenario: Scenario,
    breaks: &'static [&'static str],
}

/// Two who write for one agentable break whatever there is to break.
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
            // Nothing is forgotten, and nobody ever looks.
            &[NOTHING_PENDING_AT_REST, SETTLES],
        ),
        weak("no wake flag", Rules { wake: false, ..chosen }, scenario::double_texting(), FORGOTTEN),
        weak("no re-reading", Rules { reread: false, ..chosen }, scenario::double_texting(), FORGOTTEN),
        weak(
            "no write id",
            Rules { write_id: false, ..chosen },
            scenario::lost_answers(),
            // A step that lets go cannot land twice: its lock is gone.
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

#[test]
fn the_chosen_protocol_holds() {
    let found: Vec<_> = scenario::all().iter().map(|scenario| check("chosen", scenario)).collect();
    println!("{}", table(&found));
    for (scenario, found) in scenario::all().iter().zip(&found) {
        if let Some(property) = found.violated.first() {
            panic!("{}: violated: {property}\n{}", scenario.name, shortest(scenario));
        }
        let missed: Vec<&Witness> =
            scenario.reaches.iter().filter(|witness| !found.seen.contains(witness)).collect();
        assert!(missed.is_empty(), "{} never came to {missed:?}: it proves nothing", scenario.name);
    }
    let seen: Vec<&Witness> =
        Witness::ALL.iter().filter(|witness| found.iter().any(|one| one.seen.contains(witness))).collect();
    assert_eq!(seen.len(), Witness::ALL.len(), "seen were {seen:?} alone");
}

#[test]
fn without_one_of_its_rules_the_protocol_is_found_broken() {
    let mut found = Vec::new();
    for weak in weakened() {
        let scenario = weak.scenario.under(weak.rules);
        found.push(check(weak.name, &scenario));
    }
    println!("{}", table(&found));
    for (weak, found) in weakened().iter().zip(&found) {
        let violated: BTreeSet<_> = found.violated.iter().copied().collect();
        assert_eq!(violated, BTreeSet::from_iter(weak.breaks.iter().copied()), "{}", weak.name);
    }
}
