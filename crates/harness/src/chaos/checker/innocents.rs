//! R13: whose runs are given up while poisoned ones kill their workers.

use std::collections::HashSet;

use super::super::evidence::{EventRow, Evidence};
use super::super::message_script::scripts_in;
use super::{DEATHS, Finding};

/// R13: no run is given up because another one killed its workers. One that was held by enough workers that were killed
/// from outside cannot be distinguished from one that killed them. Messages of a run that was given up may have been answered by a
/// later run.
pub(super) fn innocents(evidence: &Evidence, finding: &mut Finding) {
    let poisoned: HashSet<&str> = evidence
        .rows
        .messages
        .iter()
        .filter(|message| {
            message.source == "user" && scripts_in(&message.content).any(|(_, script)| script.is_poison())
        })
        .map(|message| message.run.as_str())
        .collect();
    let killed: HashSet<(&str, i64)> = evidence
        .faults
        .kills
        .iter()
        .flat_map(|kill| &kill.held)
        .map(|(goal, epoch)| (goal.as_str(), *epoch))
        .collect();
    let (mut poison, mut injected) = (0, 0);
    for run in evidence.rows.runs.iter().filter(|run| run.status == "dead_lettered") {
        finding.of += 1;
        let attempts: Vec<&EventRow> = evidence
            .rows
            .events
            .iter()
            .filter(|event| event.run == run.id && event.kind == "attempt_started")
            .collect();
        let kills =
            attempts.iter().filter(|event| killed.contains(&(event.goal.as_str(), event.epoch))).count();
        if poisoned.contains(run.id.as_str()) {
            poison += 1;
        } else if kills >= DEATHS {
            injected += 1;
        } else {
            let claims = attempts.iter().map(|event| format!("epoch {} at {:.3}", event.epoch, event.at));
            let claims: Vec<String> = claims.collect();
            finding.add(format!("goal {}, {kills} injected kills: {}", run.goal, claims.join(", ")));
        }
    }
    finding.note = format!("{poison} poisoned, {injected} killed from outside {DEATHS} times");
}
