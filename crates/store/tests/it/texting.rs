use chrono::TimeDelta;
use houston_domain::agentable::DoubleTexting::{self, Enqueue, Interrupt, Reject, Rollback};
use houston_domain::event::{Committed, Event};
use houston_domain::knowledge::PromptLimits;
use houston_domain::message::MessageStatus;
use houston_domain::run::RunStatus;
use houston_store::Error;
use houston_store::idempotency::{Created, IdempotencyKey};
use houston_store::listen::Notification;
use houston_store::message::{Posted, ThreadMessage};
use houston_store::step::RunTransition;

use crate::fresh::Fresh;
use crate::step::{answer, done, ending, finished};

async fn post(fresh: &Fresh, policy: DoubleTexting, content: &str) -> Posted {
    match fresh.try_post_as(content, policy, None).await.unwrap() {
        Created::New(posted) => posted,
        other => panic!("{other:?}"),
    }
}

async fn message(fresh: &Fresh, posted: &Posted) -> ThreadMessage {
    fresh.store.message(fresh.tenant, posted.id).await.unwrap()
}

async fn status(fresh: &Fresh, posted: &Posted) -> MessageStatus {
    message(fresh, posted).await.status.unwrap()
}

/// What the next run would be sent, entry by entry.
async fn seen(fresh: &Fresh) -> Vec<String> {
    let context =
        fresh.store.run_context(fresh.goal, fresh.ids.next(), 10, &PromptLimits::default()).await.unwrap();
    context.history.iter().map(houston_domain::history::Entry::text).collect()
}

/// Of a step that ends as cancelled.
fn cancelled(fresh: &Fresh) -> RunTransition {
    let status = RunStatus::Cancelled;
    RunTransition::Terminate { event: finished(status), ending: ending(fresh, status) }
}

fn code(event: &Committed) -> (RunStatus, Option<&str>) {
    match &event.event {
        Event::RunFinished { status, code, .. } => (*status, code.as_deref()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_message_leaves_nothing_behind_not_even_its_key() {
    let fresh = Fresh::start().await;
    let key = Some(IdempotencyKey { key: "k", request_sha256: b"request" });
    let first = post(&fresh, Reject, "one").await;
    assert!(first.opened, "there was nothing to reject it for");
    for _ in 0..2 {
        let refused = fresh.try_post_as("two", Reject, key).await.unwrap_err();
        assert!(matches!(refused, Error::RunInProgress { run } if run == first.run), "{refused}");
    }
    assert_eq!(fresh.store.messages(fresh.tenant, fresh.goal, None, 10).await.unwrap().len(), 1);
    let claimed = fresh.claim().await.unwrap();
    let end = fresh.store.commit(&claimed.fence, &answer(&fresh, &claimed, "1")).await.unwrap();
    assert!(!done(end).went_on);
    let accepted = fresh.try_post_as("two", Reject, key).await.unwrap();
    assert!(matches!(accepted, Created::New(posted) if posted.opened), "{accepted:?}");
    // A replay is told what was accepted, although its own run is open by now.
    assert!(matches!(fresh.try_post_as("two", Reject, key).await.unwrap(), Created::Replayed(_)));
    assert_eq!(fresh.store.events_after(fresh.goal, 0, 100).await.unwrap().last().unwrap().seq, 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupts_in_a_row_of_a_run_nobody_has_taken_leave_only_the_last_to_be_answered() {
    let fresh = Fresh::start().await;
    let first = post(&fresh, Enqueue, "one").await;
    let second = post(&fresh, Interrupt, "two").await;
    let third = post(&fresh, Interrupt, "three").await;
    assert_eq!((second.run, third.run), (first.run, first.run));
    assert_eq!(status(&fresh, &third).await, MessageStatus::Pending);
    let claimed = fresh.claim().await.unwrap();
    assert_eq!(claimed.cancel_seq, Some(third.seq - 1));
    let ended =
        done(fresh.store.commit(&claimed.fence, &fresh.step(&claimed, cancelled(&fresh))).await.unwrap());
    assert!(ended.opened, "the third message opens the next run");
    let [end, queued] = &ended.events[..] else { panic!("{ended:?}") };
    assert_eq!(code(end), (RunStatus::Cancelled, Some("interrupt")));
    assert!(matches!(queued.event, Event::RunQueued {}));
    assert_eq!(ended.events, fresh.store.events_after(fresh.goal, end.seq - 1, 10).await.unwrap());
    for (posted, stands) in
        [(&first, MessageStatus::Failed), (&second, MessageStatus::Failed), (&third, MessageStatus::Pending)]
    {
        assert_eq!(status(&fresh, posted).await, stands);
    }
    let next = fresh.claim().await.unwrap();
    assert_eq!((message(&fresh, &third).await.message.run_id, next.cancel_seq), (Some(next.run), None));
    assert_eq!(seen(&fresh).await, ["one\n\ntwo", "three"], "what was said stays said");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_its_next_attempt_is_interrupted_now_and_reads_nothing_more() {
    let fresh = Fresh::start().await;
    let first = post(&fresh, Enqueue, "one").await;
    let claimed = fresh.claim().await.unwrap();
    let at = fresh.ids.clock().now() + TimeDelta::hours(1);
    let event = Event::RetryScheduled {
        attempt: 1,
        of: 5,
        retry_at: at,
        code: "RATE_LIMITED".into(),
        message: "slow down".into(),
        iteration: 1,
    };
    let retry = RunTransition::Retry { event, at, counts: true, ending: ending(&fresh, RunStatus::Retrying) };
    fresh.store.commit(&claimed.fence, &fresh.step(&claimed, retry.clone())).await.unwrap();
    let second = post(&fresh, Enqueue, "two").await;
    assert!(fresh.claim().await.is_none() && fresh.store.due(None, 10).await.unwrap().due.is_empty());
    let third = post(&fresh, Interrupt, "three").await;
    assert_eq!(fresh.store.due(None, 10).await.unwrap().due.len(), 1);
    let again = fresh.claim().await.unwrap();
    assert_eq!((again.run, again.cancel_seq), (first.run, Some(third.seq - 1)));
    // A driver that has not looked yet wants to read, and a model that failed wants to wait: neither is had.
    let read = fresh.step(&again, RunTransition::Continue { read: true, event: None });
    let read = done(fresh.store.commit(&again.fence, &read).await.unwrap());
    assert_eq!((read.read.len(), read.cancel_seq), (0, Some(third.seq - 1)));
    fresh.store.commit(&again.fence, &fresh.step(&again, retry)).await.unwrap();
    let last = fresh.claim().await.unwrap();
    assert_eq!(last.attempt, 3, "a cancelled run waits for nothing");
    let ended = done(fresh.store.commit(&last.fence, &fresh.step(&last, cancelled(&fresh))).await.unwrap());
    assert!(ended.opened);
    assert_eq!(status(&fresh, &second).await, MessageStatus::Failed, "it was posted before the interrupt");
    fresh.claim().await.unwrap();
    assert_eq!(seen(&fresh).await, ["one", "three"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_about_to_end_well_when_it_was_interrupted_ends_as_cancelled() {
    let fresh = Fresh::start().await;
    let first = post(&fresh, Enqueue, "one").await;
    let claimed = fresh.claim().await.unwrap();
    let second = post(&fresh, Interrupt, "two").await;
    let late = post(&fresh, Enqueue, "three").await;
    let ended = done(fresh.store.commit(&claimed.fence, &answer(&fresh, &claimed, "1")).await.unwrap());
    assert!(ended.opened && !ended.went_on && ended.read.is_empty(), "{ended:?}");
    assert_eq!(code(&ended.events[1]), (RunStatus::Cancelled, Some("interrupt")));
    assert_eq!(ended.events, fresh.store.events_after(fresh.goal, 5, 10).await.unwrap());
    let run = fresh.store.run(fresh.tenant, first.run).await.unwrap();
    assert_eq!((run.status, run.cancelled_by.as_deref()), (RunStatus::Cancelled, Some("interrupt")));
    let next = fresh.claim().await.unwrap();
    for posted in [&second, &late] {
        assert_eq!(message(&fresh, posted).await.message.run_id, Some(next.run));
    }
    assert_eq!(seen(&fresh).await, ["one", "1", "two\n\nthree"], "what the run did stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_rolled_back_is_forgotten_by_the_model_and_marked_for_people() {
    let fresh = Fresh::start().await;
    let kept = post(&fresh, Enqueue, "kept").await;
    let claimed = fresh.claim().await.unwrap();
    fresh.store.commit(&claimed.fence, &answer(&fresh, &claimed, "0")).await.unwrap();
    let first = post(&fresh, Enqueue, "one").await;
    let claimed = fresh.claim().await.unwrap();
    // Somebody cancels, then somebody wants it forgotten: the stronger wish holds, also against a later one.
    fresh.store.cancel_run(fresh.tenant, first.run).await.unwrap();
    let second = post(&fresh, Rollback, "two").await;
    let third = post(&fresh, Interrupt, "three").await;
    let ended = done(fresh.store.commit(&claimed.fence, &answer(&fresh, &claimed, "1")).await.unwrap());
    assert_eq!(code(&ended.events[1]), (RunStatus::Cancelled, Some("rollback")));
    let next = fresh.claim().await.unwrap();
    assert_eq!(seen(&fresh).await, ["kept", "0", "three"]);
    fresh.store.commit(&next.fence, &answer(&fresh, &next, "3")).await.unwrap();
    let placed = fresh.store.history(fresh.tenant, fresh.goal, 0, 10).await.unwrap();
    let positions: Vec<i64> = placed.iter().map(|entry| entry.position).collect();
    assert_eq!(positions, [1, 2, 5, 6], "no position is handed out twice");
    let thread = fresh.store.messages(fresh.tenant, fresh.goal, None, 10).await.unwrap();
    let marked: Vec<(&str, bool)> = thread
        .iter()
        .rev()
        .map(|one| (one.message.content.as_str(), one.message.metadata["rolled_back"] == true))
        .collect();
    assert_eq!(
        marked,
        [
            ("kept", false),
            ("0", false),
            ("one", true),
            ("two", true),
            ("three", false),
            ("1", true),
            ("3", false)
        ]
    );
    for (posted, stands) in [
        (&kept, MessageStatus::Answered),
        (&first, MessageStatus::Failed),
        (&second, MessageStatus::Failed),
        (&third, MessageStatus::Answered),
    ] {
        assert_eq!(status(&fresh, posted).await, stands);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_cancels_tells_all_workers_through_postgres() {
    let fresh = Fresh::start().await;
    let first = post(&fresh, Enqueue, "one").await;
    let mut notifications = fresh.store.listen().await.unwrap();
    let told = Some(Notification::Cancelled { agentable: fresh.goal, run: first.run });
    fresh.store.cancel_run(fresh.tenant, first.run).await.unwrap();
    assert_eq!(notifications.recv().await.unwrap(), told);
    post(&fresh, Interrupt, "two").await;
    assert_eq!(notifications.recv().await.unwrap(), told);
    // What is not known is passed over, and so is what follows it heard.
    fresh.sql("select pg_notify('houston', '9 dance')");
    assert_eq!(notifications.recv().await.unwrap(), None);
    let goal = fresh.goal.0;
    fresh.sql(&format!("select houston.post_message('{goal}', 'three', double_texting => 'rollback')"));
    assert_eq!(notifications.recv().await.unwrap(), told);
    assert_eq!(notifications.recv().await.unwrap(), Some(Notification::Posted(fresh.goal)));
    let refused = fresh.try_sql(&format!("select houston.post_message('{goal}', 'x', null, 'reject')"));
    assert!(refused.as_ref().is_err_and(|told| told.contains("is open")), "{refused:?}");
    let unknown = fresh.try_sql(&format!("select houston.post_message('{goal}', 'x', null, 'merge')"));
    assert!(unknown.as_ref().is_err_and(|told| told.contains("enqueue, interrupt, reject and rollback")));
    assert_eq!(fresh.store.messages(fresh.tenant, fresh.goal, None, 10).await.unwrap().len(), 3);
}
