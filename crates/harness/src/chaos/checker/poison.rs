//! How often poisoned calls are executed.

use std::collections::{BTreeMap, HashMap, HashSet};

use houston_testkit::tool_ledger::Execution;

use super::DEATHS;
use crate::chaos::evidence::{EventRow, Rows, RunRow};

/// How often each poison was executed, and how often it may be: every execution kills a worker, and the rule in
/// `houston_domain::death` allows twice as many deaths as a run is given up for, and two more for each other poison that
/// was executed meanwhile, or run that may have died with it and was cancelled before it had shown what it is.
pub(super) fn poisonings<'l>(ledger: &'l [Execution], rows: &Rows) -> Vec<(&'l str, usize, usize)> {
    let cancelled = cancelled(rows);
    let mut of: BTreeMap<&str, Vec<&Execution>> = BTreeMap::new();
    for execution in ledger {
        of.entry(&execution.call_id).or_default().push(execution);
    }
    // Whether one was executed between executions of the other.
    let meet = |one: &[&Execution], other: &[&Execution]| {
        let first = |of: &[&Execution]| of.iter().map(|execution| execution.at).min();
        let last = |of: &[&Execution]| of.iter().map(|execution| execution.at).max();
        first(one) <= last(other) && first(other) <= last(one)
    };
    of.iter()
        .map(|(op, executions)| {
            let meanwhile = of.iter().filter(|(other, them)| *other != op && meet(executions, them)).count();
            let beside = cancelled
                .iter()
                .filter(|gaps| executions.iter().any(|one| is_in(gaps, seconds(one))))
                .count();
            (*op, executions.len(), 2 * DEATHS + 2 * (meanwhile + beside))
        })
        .collect()
}

fn seconds(execution: &Execution) -> f64 {
    execution.at.timestamp_micros() as f64 / 1e6
}

fn is_in(gaps: &[(f64, f64)], at: f64) -> bool {
    gaps.iter().any(|(from, to)| (*from..=*to).contains(&at))
}

/// For each cancelled run with more than one attempt, when it may have been dead: from an event to the next attempt, or to
/// its end.
fn cancelled(rows: &Rows) -> Vec<Vec<(f64, f64)>> {
    let is_cancelled = |run: &&RunRow| run.status == "cancelled" && run.attempt > 1;
    let ids: HashSet<&str> = rows.runs.iter().filter(is_cancelled).map(|run| run.id.as_str()).collect();
    let mut events: HashMap<&str, Vec<&EventRow>> = HashMap::new();
    for event in rows.events.iter().filter(|event| ids.contains(event.run.as_str())) {
        events.entry(&event.run).or_default().push(event);
    }
    let ends = |event: &EventRow| matches!(event.kind.as_str(), "attempt_started" | "run_finished");
    let gaps = |events: Vec<&EventRow>| {
        events.windows(2).filter(|two| ends(two[1])).map(|two| (two[0].at, two[1].at)).collect()
    };
    events.into_values().map(gaps).collect()
}
