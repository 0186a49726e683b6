//! Checks a scenario, and formats the results as a table.

use std::fmt::Write;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

use crate::observation::Observation;
use crate::protocol::Protocol;
use crate::scenario::Scenario;

/// The result of checking a scenario.
pub(crate) struct CheckResult {
    pub(crate) variant: &'static str,
    pub(crate) scenario: &'static str,
    pub(crate) states: usize,
    pub(crate) took: Duration,
    /// The violated properties, in alphabetical order.
    pub(crate) violated: Vec<&'static str>,
    pub(crate) depth: usize,
    pub(crate) observed: Vec<Observation>,
}

/// Visits every state of the scenario.
pub(crate) fn check(variant: &'static str, scenario: &Scenario) -> CheckResult {
    let began = Instant::now();
    let checker = Protocol::new(scenario.clone()).checker().spawn_bfs().join();
    let mut violated: Vec<&'static str> = checker.discoveries().into_keys().collect();
    violated.sort_unstable();
    CheckResult {
        variant,
        scenario: scenario.name,
        states: checker.unique_state_count(),
        took: began.elapsed(),
        violated,
        depth: checker.max_depth(),
        observed: checker.model().observed.all(),
    }
}

/// A short path to the first violation, one action per line.
pub(crate) fn shortest(scenario: &Scenario) -> String {
    let checker = Protocol::new(scenario.clone()).checker().finish_when(HasDiscoveries::AnyFailures);
    let discoveries = checker.spawn_bfs().join().discoveries();
    let paths = discoveries.into_iter().map(|(property, path)| {
        let actions: Vec<String> = path.into_actions().iter().map(|action| format!("  {action:?}")).collect();
        format!("{property}:\n{}", actions.join("\n"))
    });
    paths.collect::<Vec<_>>().join("\n")
}

/// The results as a table, one line each.
pub(crate) fn table(found: &[CheckResult]) -> String {
    let mut text =
        format!("\n{:<22}{:<28}{:>9}{:>7}{:>8}  violated\n", "variant", "scenario", "states", "depth", "s");
    for one in found {
        let violated = if one.violated.is_empty() { "–".to_owned() } else { one.violated.join("; ") };
        writeln!(
            text,
            "{:<22}{:<28}{:>9}{:>7}{:>8.2}  {violated}",
            one.variant,
            one.scenario,
            one.states,
            one.depth,
            one.took.as_secs_f64()
        )
        .unwrap();
    }
    let states: usize = found.iter().map(|one| one.states).sum();
    let took: Duration = found.iter().map(|one| one.took).sum();
    writeln!(text, "{states} states, {:.1} s", took.as_secs_f64()).unwrap();
    text
}
