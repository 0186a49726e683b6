use chrono::TimeDelta;
use uuid::Uuid;

use super::*;
use crate::health::{Check, HealthStatus};
use crate::id::{RunId, WorkerId};
use crate::runtime_state::{Failure, Holder, Session};

fn at(second: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::seconds(second)
}

fn run(status: RunStatus) -> LatestRun {
    LatestRun {
        id: RunId(Uuid::nil()),
        open: !status.is_terminal(),
        status,
        attempt: 1,
        iterations: 1,
        cancel_requested: false,
        queued_at: at(990),
        started_at: None,
        ended_at: None,
    }
}

fn state(status: RunStatus) -> RuntimeState {
    RuntimeState {
        at: at(1_000),
        epoch: 1,
        holder: None,
        run: Some(run(status)),
        last_error: None,
        wake: true,
        waiting_since: Some(at(995)),
        next_attempt_at: None,
        unread: 0,
        failed_attempts: 0,
        claims_without_progress: 0,
        deaths: 0,
        workers_alive: true,
        session: Session { entries: 1, closed_entries: 0 },
        last_seq: 2,
        last_event_at: Some(at(995)),
        forked_from: None,
    }
}

fn facts(state: RuntimeState) -> Facts {
    Facts {
        state,
        questions: vec![],
        is_archived: false,
        has_retry: true,
        is_paused: false,
        is_lane_paused: false,
        open_tasks: 0,
        open_steps: 0,
        held_of_user: 0,
        max_running: 10,
        claiming_workers: 1,
        draining_workers: 0,
        health: HealthFacts::default(),
    }
}

/// The causes, each of which says what to do.
fn causes(facts: &Facts) -> Vec<Cause> {
    let reasons = facts.reasons();
    assert!(reasons.iter().all(|reason| !reason.todo.is_empty()), "{reasons:?}");
    reasons.into_iter().map(|reason| reason.cause).collect()
}

fn failure(message: &str) -> Failure {
    Failure {
        run: RunId(Uuid::nil()),
        code: "AUTH".to_owned(),
        message: message.to_owned(),
        at: Some(at(990)),
    }
}

/// The health of an installation one of whose checks found something.
fn failing(id: &str, status: HealthStatus) -> HealthFacts {
    let check = Check { id: id.to_owned(), status, detail: String::new(), since: at(900) };
    HealthFacts { failing: vec![check], ..HealthFacts::default() }
}

fn queued() -> RuntimeState {
    state(RunStatus::Queued)
}

fn held(until: i64) -> RuntimeState {
    let holder =
        Holder { worker: WorkerId(Uuid::nil()), name: None, alive_until: Some(at(until)), heard_at: None };
    RuntimeState { holder: Some(holder), ..state(RunStatus::Running) }
}

#[test]
fn run_without_a_worker_names_what_keeps_it() {
    let old = RuntimeState { waiting_since: Some(at(900)), ..queued() };
    let retry =
        RuntimeState { next_attempt_at: Some(at(1_030)), failed_attempts: 2, ..state(RunStatus::Retrying) };
    let put_off = RuntimeState { next_attempt_at: Some(at(1_030)), ..queued() };
    let overdue = RuntimeState { next_attempt_at: Some(at(999)), ..retry.clone() };
    let not_called = failure(&format!("acme: {}", ModelError::NOT_CALLED));
    let [called, skipped] = [": TIMEOUT: no answer", ": skipped: does not support images"].map(|other| {
        let message =
            format!("acme/m: RATE_LIMITED: {}; next attempt at 09:00:30 UTC", ModelError::NOT_CALLED);
        RuntimeState { last_error: Some(failure(&format!("{message}; b/m{other}"))), ..retry.clone() }
    });
    let first_not_called = RuntimeState { failed_attempts: 0, ..retry.clone() };
    let doubted =
        RuntimeState { run: Some(run(RunStatus::Running)), failed_attempts: 1, deaths: 1, ..put_off.clone() };
    for (facts, cause) in [
        (facts(queued()), Cause::Queued),
        (facts(old.clone()), Cause::SlotsFull),
        (Facts { held_of_user: 10, ..facts(old.clone()) }, Cause::Fairness),
        (Facts { is_lane_paused: true, ..facts(old.clone()) }, Cause::LanePaused),
        (Facts { claiming_workers: 0, ..facts(old.clone()) }, Cause::NoWorker),
        (Facts { claiming_workers: 0, draining_workers: 2, ..facts(old) }, Cause::Draining),
        (facts(RuntimeState { wake: false, ..queued() }), Cause::Forgotten),
        (facts(retry.clone()), Cause::Retry),
        (facts(overdue), Cause::Queued),
        (facts(put_off), Cause::RateLimit),
        (facts(RuntimeState { last_error: Some(not_called), ..retry.clone() }), Cause::BreakerOpen),
        (facts(first_not_called), Cause::BreakerOpen),
        (facts(skipped), Cause::BreakerOpen),
        (facts(called), Cause::Retry),
    ] {
        assert_eq!(causes(&facts), [cause]);
    }
    let alone = Facts { claiming_workers: 0, ..facts(doubted.clone()) };
    assert!(!alone.reasons()[0].todo.contains("within half a minute"), "no one takes it over");
    assert_eq!(causes(&facts(doubted)), [Cause::HolderDead, Cause::Suspect]);
    let alone = Facts { claiming_workers: 0, ..facts(retry.clone()) };
    assert_eq!(
        causes(&alone),
        [Cause::Retry, Cause::NoWorker],
        "the time will come, and no worker will be there"
    );
    assert_eq!(facts(retry).reasons()[0].until, Some(at(1_030)));
}

#[test]
fn run_that_a_worker_holds_is_running_quiet_or_orphaned() {
    assert_eq!(causes(&facts(held(1_010))), [Cause::Running]);
    let dead = facts(held(990));
    assert_eq!(causes(&dead), [Cause::HolderDead]);
    assert!(dead.reasons()[0].text.contains("takes it over within seconds"));
    for (unclaimed, cause) in [
        (Facts { claiming_workers: 0, ..dead.clone() }, Cause::NoWorker),
        (Facts { claiming_workers: 0, draining_workers: 1, ..dead.clone() }, Cause::Draining),
        (Facts { is_lane_paused: true, ..dead }, Cause::LanePaused),
    ] {
        assert_eq!(causes(&unclaimed), [Cause::HolderDead, cause]);
        assert!(!unclaimed.reasons()[0].text.contains("within seconds"), "no one takes it over");
    }
    let quiet = RuntimeState { last_event_at: Some(at(700)), ..held(1_010) };
    let reasons = facts(quiet).reasons();
    assert!(reasons[0].cause == Cause::Quiet && reasons[0].text.contains("300 s"), "{reasons:?}");
    let cancelled = RuntimeState {
        run: Some(LatestRun { cancel_requested: true, ..run(RunStatus::Running) }),
        deaths: 2,
        ..held(1_010)
    };
    assert_eq!(causes(&facts(cancelled)), [Cause::Cancelling, Cause::Running, Cause::Suspect]);
}

#[test]
fn run_that_waits_names_each_question_and_task() {
    let waits = RuntimeState { wake: false, ..state(RunStatus::Waiting) };
    assert_eq!(causes(&facts(waits.clone())), [Cause::Waiting]);
    let question = |kind| OpenQuestion {
        id: QuestionId(Uuid::nil()),
        kind,
        text: "May I?".to_owned(),
        expires_at: Some(at(2_000)),
    };
    let asks = Facts {
        questions: vec![question(QuestionKind::Approval), question(QuestionKind::Budget)],
        open_tasks: 2,
        is_paused: true,
        ..facts(waits.clone())
    };
    let plan = Facts { open_steps: 3, ..facts(waits.clone()) };
    assert!(plan.reasons()[0].cause == Cause::Tasks && plan.reasons()[0].text.contains('3'), "{plan:?}");
    assert_eq!(causes(&asks), [Cause::Paused, Cause::Question, Cause::Budget, Cause::Tasks]);
    let reasons = asks.reasons();
    assert_eq!((reasons[1].question, reasons[1].until), (Some(QuestionId(Uuid::nil())), Some(at(2_000))));
    let answered = RuntimeState { wake: true, ..waits };
    assert_eq!(causes(&facts(answered)), [Cause::Queued], "what it waited for has come");
}

#[test]
fn without_an_open_run_the_latest_one_says_why() {
    let failed = RuntimeState { last_error: Some(failure("wrong key")), ..state(RunStatus::Failed) };
    let reasons = facts(failed).reasons();
    assert!(reasons[0].text.contains("AUTH: wrong key") && !reasons[0].todo.is_empty(), "{reasons:?}");
    for status in [RunStatus::Failed, RunStatus::DeadLettered] {
        let todo = |has_retry| {
            let reasons = Facts { has_retry, ..facts(state(status)) }.reasons();
            reasons[0].todo.clone()
        };
        assert!(todo(true).contains("retry"), "{}", todo(true));
        assert!(!todo(false).contains("retry"), "a task, which no message of a user began: {}", todo(false));
    }
    for (status, cause) in [
        (RunStatus::MessageSent, Cause::Idle),
        (RunStatus::Cancelled, Cause::Cancelled),
        (RunStatus::DeadLettered, Cause::DeadLettered),
    ] {
        assert_eq!(causes(&facts(state(status))), [cause]);
    }
    let never = RuntimeState { run: None, ..queued() };
    assert_eq!(causes(&Facts { is_archived: true, ..facts(never) }), [Cause::Archived, Cause::Idle]);
}

#[test]
fn failed_checks_are_named_where_they_explain_something() {
    let old = RuntimeState { waiting_since: Some(at(900)), ..queued() };
    let retry =
        RuntimeState { next_attempt_at: Some(at(1_030)), failed_attempts: 2, ..state(RunStatus::Retrying) };
    let silent = HealthFacts { silent_since: Some(at(100)), ..HealthFacts::default() };
    let down = |since| HealthFacts { redis_down_since: Some(at(since)), ..HealthFacts::default() };
    let red = |id| failing(id, HealthStatus::Red);
    let warn = |id| failing(id, HealthStatus::Warn);
    for (state, health, expected) in [
        (queued(), warn("redis"), vec![Cause::RedisAway]),
        (queued(), down(990), vec![Cause::RedisAway]),
        (queued(), down(999), vec![Cause::Queued]),
        (old.clone(), down(990), vec![Cause::SlotsFull]),
        (held(1_010), down(990), vec![Cause::Running]),
        (retry.clone(), down(990), vec![Cause::Retry]),
        (state(RunStatus::MessageSent), down(990), vec![Cause::Idle]),
        (queued(), red("schema"), vec![Cause::Queued]),
        (queued(), red("connections"), vec![Cause::Queued]),
        (old.clone(), red("connections"), vec![Cause::SlotsFull, Cause::Health]),
        (old.clone(), red("overdue_work"), vec![Cause::SlotsFull, Cause::Health]),
        (held(990), red("dead_leases"), vec![Cause::HolderDead, Cause::Health]),
        (held(1_010), red("dead_leases"), vec![Cause::Running]),
        (old.clone(), red("dead_leases"), vec![Cause::SlotsFull]),
        (retry, warn("failed_runs"), vec![Cause::Retry, Cause::Health]),
        (state(RunStatus::Failed), warn("failed_runs"), vec![Cause::Failed]),
        (held(990), silent.clone(), vec![Cause::HolderDead, Cause::Health]),
        (old, red("retention"), vec![Cause::SlotsFull]),
        (state(RunStatus::MessageSent), silent, vec![Cause::Idle]),
    ] {
        let facts = Facts { health, ..facts(state) };
        assert_eq!(causes(&facts), expected, "{facts:?}");
    }
    let without = |health| causes(&Facts { claiming_workers: 0, health, ..facts(queued()) });
    assert_eq!(without(red("schema")), [Cause::NoWorker, Cause::Health]);
    assert_eq!(without(warn("schema")), [Cause::NoWorker]);
    let mut recovered = warn("redis");
    recovered.forget_redis();
    assert_eq!(causes(&Facts { health: recovered, ..facts(queued()) }), [Cause::Queued]);
}

#[test]
fn run_that_is_not_the_newest_says_how_it_ended() {
    let facts = facts(queued());
    let older = RunId(Uuid::max());
    let cause = |run, status| facts.reasons_of(run, status, Some(("AUTH", "wrong key"))).remove(0);
    assert_eq!(cause(RunId(Uuid::nil()), RunStatus::Queued).cause, Cause::Queued);
    assert_eq!(cause(older, RunStatus::Cancelled).cause, Cause::Cancelled);
    let failed = cause(older, RunStatus::Failed);
    assert!(failed.cause == Cause::Failed && failed.text.contains("AUTH: wrong key"), "{failed:?}");
}

#[test]
fn worker_that_is_not_heard_of_is_not_said_to_run_it() {
    for (heard, claiming, cause, words) in [
        (999, 1, Cause::Running, "A worker runs it."),
        (989, 1, Cause::Running, "A worker runs it."),
        (985, 1, Cause::HolderDead, "has not been heard of for 15 s"),
        (975, 3, Cause::HolderDead, "has not been heard of for 25 s"),
    ] {
        let mut state = held(heard + 30);
        state.holder.as_mut().unwrap().heard_at = Some(at(heard));
        let reasons = Facts { claiming_workers: claiming, ..facts(state) }.reasons();
        assert_eq!(reasons[0].cause, cause, "{heard}");
        assert!(reasons[0].text.contains(words), "{reasons:?}");
        let is_over = (cause == Cause::HolderDead).then(|| at(heard + 30));
        assert_eq!(reasons[0].until, is_over);
    }
}
