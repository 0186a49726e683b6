//! R7: how long the runs of a killed worker waited until another worker claimed them.

use super::checker::Finding;
use super::evidence::{EventRow, Evidence};
use crate::spread::rank;

/// Seconds within which 50 %, 99 % and 100 % of the runs must be claimed again. The second one counts only kills
/// without an outage of Postgres: while Postgres is unreachable no run can be claimed, and that is another fault.
const TARGETS: (f64, f64, f64) = (3.0, 10.0, 35.0);
/// Events that release a lock without a crash.
const RELEASING_EVENTS: [&str; 4] = ["run_finished", "retry_scheduled", "run_waiting", "handed_over"];

/// A run that the killed worker held.
#[derive(Debug)]
struct Wait {
    seconds: f64,
    /// Whether Postgres was reachable all the time.
    undisturbed: bool,
    what: String,
}

/// From each kill to the next claim of each run the worker held, shortest first. Runs that had ended are left out.
fn waits(evidence: &Evidence) -> Vec<Wait> {
    let events = &evidence.rows.events;
    let mut waits = Vec::new();
    for kill in &evidence.faults.kills {
        for (goal, epoch) in &kill.held {
            let from = events.partition_point(|event| event.goal < *goal);
            let to = from + events[from..].partition_point(|event| event.goal == *goal);
            let Some(seconds) = wait(&events[from..to], *epoch, kill.now) else { continue };
            let end = kill.now + seconds;
            let undisturbed = !evidence.faults.outages.iter().any(|(from, to)| *from < end && *to > kill.now);
            let tries = tries(&events[from..to], *epoch);
            let what = format!(
                "goal {goal}, epoch {epoch}, attempt {tries} without a step, killed at {:.3}",
                kill.now
            );
            waits.push(Wait { seconds, undisturbed, what });
        }
    }
    waits.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    waits
}

fn wait(events: &[EventRow], epoch: i64, killed: f64) -> Option<f64> {
    let released =
        events.iter().any(|event| event.epoch == epoch && RELEASING_EVENTS.contains(&event.kind.as_str()));
    if released {
        return None;
    }
    let next = events.iter().find(|event| event.epoch > epoch)?;
    // `None` if another worker had claimed the run before the kill.
    (next.at >= killed).then_some(next.at - killed)
}

/// How many attempts in a row, the last of them under `epoch`, have written nothing but their beginning. Runs that may have
/// killed several workers wait for each other.
fn tries(events: &[EventRow], epoch: i64) -> usize {
    let of_workers = events.iter().rev().filter(|event| (1..=epoch).contains(&event.epoch));
    of_workers.take_while(|event| event.kind == "attempt_started").count()
}

/// R7: recovery times within their targets.
pub(crate) fn times(evidence: &Evidence, finding: &mut Finding) {
    let waits = waits(evidence);
    finding.of = waits.len();
    let all: Vec<f64> = waits.iter().map(|wait| wait.seconds).collect();
    let alone: Vec<f64> = waits.iter().filter(|wait| wait.undisturbed).map(|wait| wait.seconds).collect();
    let (half, most, max) = (rank(&all, 50), rank(&alone, 99), rank(&all, 100));
    finding.note = format!(
        "p50 {half:.1} s, p99 {:.1} s ({most:.1} s of {} without an outage of Postgres), max {max:.1} s",
        rank(&all, 99),
        alone.len()
    );
    for (time, target, what) in
        [(half, TARGETS.0, "p50"), (most, TARGETS.1, "p99 without an outage"), (max, TARGETS.2, "max")]
    {
        if time > target {
            finding.add(format!("{what} is {time:.1} s, the target is {target} s"));
        }
    }
    if finding.count > 0 {
        let say = |wait: &Wait| format!("{:.1} s: {}", wait.seconds, wait.what);
        finding.examples.extend(waits.iter().rev().take(3).map(say));
        let undisturbed = waits.iter().rev().filter(|wait| wait.undisturbed);
        finding.examples.extend(undisturbed.take(10).map(|wait| say(wait) + ", Postgres reachable"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(seq: i64, epoch: i64, kind: &str, at: f64) -> EventRow {
        EventRow {
            goal: "g".into(),
            seq,
            epoch,
            run: "r".into(),
            kind: kind.into(),
            message: None,
            session: None,
            at,
        }
    }

    #[test]
    fn attempts_without_a_step_are_counted() {
        let events = [
            event(1, 1, "attempt_started", 10.0),
            event(2, 1, "tool_called", 11.0),
            event(3, 2, "attempt_started", 12.0),
            event(4, 0, "message_posted", 13.0),
            event(5, 3, "attempt_started", 14.0),
            event(6, 4, "attempt_started", 15.0),
        ];
        assert_eq!([1, 2, 3, 4].map(|epoch| tries(&events, epoch)), [0, 1, 2, 3]);
    }

    #[test]
    fn released_run_has_no_recovery_time() {
        let held = [event(1, 1, "attempt_started", 10.0), event(2, 2, "attempt_started", 14.0)];
        assert_eq!(wait(&held, 1, 12.0), Some(2.0));
        assert_eq!(wait(&held, 1, 15.0), None, "it was claimed before the kill");
        assert_eq!(wait(&held[..1], 1, 12.0), None, "not claimed again: R9 reports that");
        let over = [event(1, 1, "run_finished", 11.0), event(2, 2, "attempt_started", 14.0)];
        assert_eq!(wait(&over, 1, 12.0), None);
    }
}
