//! R11: closed sessions are complete and in order, whichever fault happened while one was closed.

use std::collections::{HashMap, HashSet};

use super::super::evidence::{EntryRow, Evidence, SessionRow};
use super::{Finding, by_goal};

/// The closed sessions of an agentable follow each other without overlap or gap, none is closed twice, no run has
/// entries in two sessions, and the stream has at most one event per closed session, in order.
pub(super) fn sessions(evidence: &Evidence, finding: &mut Finding) {
    let goals = by_goal(&evidence.rows.sessions, |session| &session.goal);
    let entries = by_goal(&evidence.rows.history, |entry| &entry.goal);
    for lock in &evidence.rows.locks {
        let closed = goals.get(lock.goal.as_str()).map_or(&[][..], Vec::as_slice);
        let entries = entries.get(lock.goal.as_str()).map_or(&[][..], Vec::as_slice);
        borders(finding, &lock.goal, closed, entries, lock.session_position);
        torn(finding, &lock.goal, closed, entries);
        announced(finding, &lock.goal, closed, evidence);
    }
    finding.of = evidence.rows.sessions.len();
    let by_model = evidence.rows.sessions.iter().filter(|session| session.by_model).count();
    finding.note =
        format!("{} goals with closed sessions, {by_model} sessions summarised by the model", goals.len());
}

/// Sessions are numbered from 1; each begins with the first entry after the previous session; the open session begins
/// after the last closed one.
fn borders(
    finding: &mut Finding,
    goal: &str,
    closed: &[&SessionRow],
    entries: &[&EntryRow],
    open_after: i64,
) {
    let mut before = 0;
    for (session, number) in closed.iter().zip(1..) {
        let SessionRow { first, last, .. } = **session;
        if session.number != number {
            finding.add(format!("goal {goal}: session {} instead of {number}", session.number));
        }
        if last < first || first <= before {
            finding.add(format!("goal {goal}: session {number} has {first} to {last}, after {before}"));
        }
        let next = entries.iter().map(|entry| entry.position).find(|position| *position > before);
        if next != Some(first) {
            finding
                .add(format!("goal {goal}: session {number} begins at {first}, its first entry is {next:?}"));
        }
        before = last;
    }
    if before != open_after {
        finding.add(format!(
            "goal {goal}: the open session begins after {open_after}, the last ended at {before}"
        ));
    }
}

/// All entries of a run are in one session.
fn torn(finding: &mut Finding, goal: &str, closed: &[&SessionRow], entries: &[&EntryRow]) {
    let mut sessions: HashMap<&str, HashSet<usize>> = HashMap::new();
    for entry in entries {
        let session = closed.partition_point(|session| session.last < entry.position);
        sessions.entry(&entry.run).or_default().insert(session);
    }
    for (run, sessions) in sessions.iter().filter(|(_, sessions)| sessions.len() > 1) {
        finding.add(format!("goal {goal}: run {run} has entries in {} sessions", sessions.len()));
    }
}

fn announced(finding: &mut Finding, goal: &str, closed: &[&SessionRow], evidence: &Evidence) {
    let events = evidence.rows.events.iter().filter(|event| event.goal == goal);
    let announced: Vec<i64> = events.filter_map(|event| event.session).collect();
    if !announced.iter().copied().eq((1..).take(announced.len())) || announced.len() > closed.len() {
        finding.add(format!(
            "goal {goal}: its stream announced {announced:?}, of {} closed sessions",
            closed.len()
        ));
    }
}
