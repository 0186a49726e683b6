//! How often poisoned calls are executed.

use std::collections::{BTreeMap, HashMap, HashSet};

use houston_testkit::tool_ledger::Execution;

use super::DEATHS;
use crate::chaos::evidence::{Rows, RunRow};

/// How often each poison was executed, and how often it may be: every execution kills a worker, and the rule in
/// `houston_domain::death` allows twice as many deaths as a run is given up for, and two more for each other poison that
/// was executed meanwhile, or run that was cancelled after it may have died with it. Of the latter one is allowed for: more
/// than one is hardly ever beside the same poison, and most of those meanwhile never were.
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
            let span = |(begun, ended): &(f64, f64)| {
                executions.iter().any(|execution| (*begun..=*ended).contains(&seconds(execution)))
            };
            let beside = usize::from(cancelled.iter().any(span));
            (*op, executions.len(), 2 * DEATHS + 2 * (meanwhile + beside))
        })
        .collect()
}

fn seconds(execution: &Execution) -> f64 {
    execution.at.timestamp_micros() as f64 / 1e6
}

/// When the cancelled runs with more than one attempt began and ended.
fn cancelled(rows: &Rows) -> Vec<(f64, f64)> {
    let is_cancelled = |run: &&RunRow| run.status == "cancelled" && run.attempt > 1;
    let ids: HashSet<&str> = rows.runs.iter().filter(is_cancelled).map(|run| run.id.as_str()).collect();
    let mut spans: HashMap<&str, (f64, f64)> = HashMap::new();
    for event in rows.events.iter().filter(|event| ids.contains(event.run.as_str())) {
        let span = spans.entry(&event.run).or_insert((event.at, event.at));
        *span = (span.0.min(event.at), span.1.max(event.at));
    }
    spans.into_values().collect()
}
