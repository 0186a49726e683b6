//! When a plan has to have ended. Only the time in which it could go on counts: neither that in which it waits for a person or
//! for a time that another side has asked for, nor that in which no worker took it.

use chrono::{DateTime, TimeDelta, Utc};

use super::document::{Action, Document};
use super::resolve::step;
use super::state::{State, States, Status, is_moving};

/// A plan that is claimed no later than this after something of it is due was not held up.
const AT_ONCE: TimeDelta = TimeDelta::seconds(30);

/// Until when the plan waits at most: for answers, or for the next attempts of steps.
pub fn waits_until(states: &States) -> Option<DateTime<Utc>> {
    let waits = |state: &&State| matches!(state.status, Status::Asking | Status::Retrying);
    states.values().filter(waits).filter_map(|state| state.due).max()
}

/// The deadline of a plan with the deadline `deadline` that waited until `before` ([`waits_until`]), and waits until `after` now.
/// As long as the plan waits, it is the latest time at which it may end; once the wait is over, the plan has as long as it had
/// before it.
pub fn deadline(
    before: Option<DateTime<Utc>>,
    deadline: DateTime<Utc>,
    after: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> DateTime<Utc> {
    let left = deadline - before.unwrap_or(now);
    match (before, after) {
        (None, None) => deadline,
        (Some(before), Some(after)) if before == after => deadline,
        (_, Some(after)) => after + left.max(TimeDelta::zero()),
        (Some(before), None) => now.min(before) + left.max(TimeDelta::zero()),
    }
}

/// How long a plan was left alone although something of it was due, when a worker claims it: none was there, or its lane was
/// paused. `queued_at`: when it was made, in its first attempt.
pub fn held_up(
    states: &States,
    deadline: DateTime<Utc>,
    queued_at: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> TimeDelta {
    let dues = states.values().filter(|state| is_moving(state.status)).filter_map(|state| state.due);
    let due = queued_at.unwrap_or_else(|| dues.fold(deadline, DateTime::min));
    let late = now - due;
    if late > AT_ONCE { late } else { TimeDelta::zero() }
}

/// Puts off what running steps are due for. Answers and next attempts have times of their own.
pub fn put_off(states: &mut States, by: TimeDelta) {
    for path in states.paths(|_, state| state.status == Status::Running) {
        let state = states.of(&path);
        state.due = state.due.map(|due| due + by);
    }
}

/// The paths of steps whose executors have no time left: theirs, or that of the plan.
pub fn overdue_tasks(
    document: &Document,
    states: &States,
    deadline: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Vec<String> {
    let is_overdue = |state: &State| state.due.is_some_and(|due| due <= now || deadline <= now);
    let running = states.iter().filter(|(_, state)| state.status == Status::Running && is_overdue(state));
    let is_task =
        |path: &str| step(document, path).is_some_and(|step| matches!(step.action, Action::Task { .. }));
    running.filter(|(path, _)| is_task(path)).map(|(path, _)| path.clone()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn deadline(before: &States, holds: DateTime<Utc>, after: &States, now: DateTime<Utc>) -> DateTime<Utc> {
        super::deadline(waits_until(before), holds, waits_until(after), now)
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
    }

    fn states(all: &[(Status, i64)]) -> States {
        let one = |(nth, (status, due)): (usize, &(Status, i64))| {
            (format!("s{nth}"), State { status: *status, due: Some(at(*due)), ..State::default() })
        };
        all.iter().enumerate().map(one).collect()
    }

    #[test]
    fn deadline_stands_while_the_plan_waits_for_a_person() {
        let (runs, asks) = (states(&[(Status::Running, 60)]), states(&[(Status::Asking, 86_500)]));
        // Asked at second 100, with 500 of 600 seconds left.
        let asking = deadline(&runs, at(600), &asks, at(100));
        assert_eq!(asking, at(87_000), "later than the question expires");
        assert_eq!(deadline(&asks, asking, &asks, at(5_000)), asking, "whatever else happens");
        // Answered after two hours.
        assert_eq!(deadline(&asks, asking, &runs, at(7_300)), at(7_800));
        // A second question while the first is open, and the first is answered.
        let both = states(&[(Status::Asking, 86_500), (Status::Asking, 90_000)]);
        let longer = deadline(&asks, asking, &both, at(3_600));
        assert_eq!(longer, at(90_500));
        assert_eq!(deadline(&both, longer, &asks, at(4_000)), asking);
        // Nobody has answered, and the worker that notices is late.
        assert_eq!(deadline(&asks, asking, &runs, at(86_900)), at(87_000));
        // An older release has not moved it.
        assert_eq!(deadline(&asks, at(600), &runs, at(7_300)), at(7_300));
    }

    #[test]
    fn plan_that_nobody_took_is_held_up() {
        let waits = states(&[(Status::Running, 300), (Status::Succeeded, 10)]);
        for (queued, now, late) in [
            (None, 200, 0),
            (None, 330, 0),
            (None, 331, 31),
            (None, 90_000, 89_700),
            (Some(0), 30, 0),
            (Some(0), 7_200, 7_200),
        ] {
            let held_up = held_up(&waits, at(600), queued.map(at), at(now));
            assert_eq!(held_up.num_seconds(), late, "{queued:?} {now}");
        }
        assert_eq!(held_up(&States::new(), at(600), None, at(700)).num_seconds(), 100);
        let mut later = states(&[(Status::Running, 300), (Status::Asking, 300)]);
        put_off(&mut later, TimeDelta::seconds(7));
        assert_eq!(later, states(&[(Status::Running, 307), (Status::Asking, 300)]));
    }

    proptest! {
        /// Whatever a plan waits for, and however long: the time in which it did not wait is as long as it may be.
        #[test]
        fn exactly_the_time_without_a_wait_counts(
            spans in proptest::collection::vec((1..1_000i64, any::<bool>(), 1..100_000i64), 1..20)
        ) {
            let (mut now, mut states_now, mut holds, mut used) = (0, states(&[]), at(600), 0);
            for (lasts, waits, more) in spans {
                let next = if waits { states(&[(Status::Asking, now + lasts + more)]) } else { states(&[]) };
                holds = deadline(&states_now, holds, &next, at(now));
                if !waits && used + lasts > 600 {
                    prop_assert!(holds <= at(now + lasts), "it has no time left");
                    return Ok(());
                }
                now += lasts;
                used += if waits { 0 } else { lasts };
                prop_assert!(holds >= at(now), "it has {} of 600 seconds left", 600 - used);
                states_now = next;
            }
            let after = deadline(&states_now, holds, &states(&[]), at(now));
            prop_assert_eq!(after, at(now + 600 - used));
        }
    }
}
