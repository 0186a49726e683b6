use chrono::TimeDelta;
use houston_domain::agentable::DoubleTexting::{self, Enqueue, Interrupt, Reject, Rollback};
use houston_domain::event::{Committed, Event};
use houston_domain::knowledge::PromptLimits;
use houston_domain::message::MessageStatus;
use houston_domain::run::RunStatus;
use houston_domain::step::RunTransition;
use houston_store::Error;
use houston_store::idempotency::{Created, IdempotencyKey};
use houston_store::listen::Notification;
use houston_store::message::{Message, Posted};

use crate::step::{answer, done, ending, finished};
use crate::test_store::TestStore;

async fn post(test: &TestStore, policy: DoubleTexting, content: &str) -> Posted {
    match test.try_post_as(content, policy, None).await.unwrap() {
        Created::New(posted) => posted,
        other => panic!("{other:?}"),
    }
}

async fn message(test: &TestStore, posted: &Posted) -> Message {
    test.requests().message(posted.id).await.unwrap()
}

async fn status(test: &TestStore, posted: &Posted) -> MessageStatus {
    message(test, posted).await.status.unwrap()
}

/// The history that the next run would be sent, entry by entry.
async fn seen(test: &TestStore) -> Vec<String> {
    let context =
        test.runs().run_context(test.goal, test.ids.next(), 10, &PromptLimits::default()).await.unwrap();
    context.history.iter().map(houston_domain::history::Entry::text).collect()
}

/// The transition of a step that ends the run as cancelled.
fn cancelled() -> RunTransition {
    let status = RunStatus::Cancelled;
    RunTransition::Terminate { event: finished(status), ending: ending(status) }
}

fn code(event: &Committed) -> (RunStatus, Option<&str>) {
    match &event.event {
        Event::RunFinished { status, code, .. } => (*status, code.as_deref()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_message_stores_nothing_not_even_its_key() {
    let test = TestStore::start().await;
    let key = Some(IdempotencyKey { key: "k", request_sha256: b"request" });
    let first = post(&test, Reject, "one").await;
    assert!(first.opened, "no run was open");
    for _ in 0..2 {
        let refused = test.try_post_as("two", Reject, key).await.unwrap_err();
        assert!(matches!(refused, Error::RunInProgress { run } if run == first.run), "{refused}");
    }
    assert_eq!(test.requests().messages(test.goal, None, 10).await.unwrap().len(), 1);
    let claimed = test.claim().await.unwrap();
    let end = test.runs().commit(&claimed.fence, &answer(&test, &claimed, "1")).await.unwrap();
    assert!(!done(end).continued);
    let accepted = test.try_post_as("two", Reject, key).await.unwrap();
    assert!(matches!(accepted, Created::New(posted) if posted.opened), "{accepted:?}");
    // A repeated request gets its first answer, although its own run is open by now.
    assert!(matches!(test.try_post_as("two", Reject, key).await.unwrap(), Created::Replayed(_)));
    assert_eq!(test.requests().events_after(test.goal, 0, 100).await.unwrap().last().unwrap().seq, 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_interrupts_of_unclaimed_run_answer_only_the_last() {
    let test = TestStore::start().await;
    let first = post(&test, Enqueue, "one").await;
    let second = post(&test, Interrupt, "two").await;
    let third = post(&test, Interrupt, "three").await;
    assert_eq!((second.run, third.run), (first.run, first.run));
    assert_eq!(status(&test, &third).await, MessageStatus::Pending);
    let claimed = test.claim().await.unwrap();
    assert_eq!(claimed.cancel_seq, Some(third.seq - 1));
    let count = format!("select unread from houston.run_locks where agentable_id = '{}'", test.goal.0);
    assert_eq!(test.sql(&count).trim(), "1", "the run that is being cancelled leaves the third message");
    let ended = done(test.runs().commit(&claimed.fence, &test.step(&claimed, cancelled())).await.unwrap());
    assert!(ended.opened, "the third message opens the next run");
    let [end, queued] = &ended.events[..] else { panic!("{ended:?}") };
    assert_eq!(code(end), (RunStatus::Cancelled, Some("interrupt")));
    assert!(matches!(queued.event, Event::RunQueued {}));
    assert_eq!(ended.events, test.requests().events_after(test.goal, end.seq - 1, 10).await.unwrap());
    for (posted, expected) in
        [(&first, MessageStatus::Failed), (&second, MessageStatus::Failed), (&third, MessageStatus::Pending)]
    {
        assert_eq!(status(&test, posted).await, expected);
    }
    let next = test.claim().await.unwrap();
    assert_eq!((message(&test, &third).await.run_id, next.cancel_seq), (Some(next.run), None));
    assert_eq!(
        seen(&test).await,
        ["one\n\ntwo", "three"],
        "messages of interrupted runs stay in the history"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupt_ends_a_retrying_run_at_once() {
    let test = TestStore::start().await;
    let first = post(&test, Enqueue, "one").await;
    let claimed = test.claim().await.unwrap();
    let at = test.ids.clock().now() + TimeDelta::hours(1);
    let event = Event::RetryScheduled {
        attempt: 1,
        of: 5,
        retry_at: at,
        code: "RATE_LIMITED".into(),
        message: "slow down".into(),
        iteration: 1,
    };
    let retry = RunTransition::Retry { event, at, counts: true, ending: ending(RunStatus::Retrying) };
    test.runs().commit(&claimed.fence, &test.step(&claimed, retry.clone())).await.unwrap();
    let second = post(&test, Enqueue, "two").await;
    assert!(test.claim().await.is_none() && test.runs().due(None, 10).await.unwrap().due.is_empty());
    let third = post(&test, Interrupt, "three").await;
    assert_eq!(test.runs().due(None, 10).await.unwrap().due.len(), 1);
    let again = test.claim().await.unwrap();
    assert_eq!((again.run, again.cancel_seq), (first.run, Some(third.seq - 1)));
    // A step that reads and a step that schedules a retry arrive after the interrupt: neither takes effect.
    let read = test.step(&again, RunTransition::Continue { read: true, event: None });
    let read = done(test.runs().commit(&again.fence, &read).await.unwrap());
    assert_eq!((read.read.len(), read.cancel_seq), (0, Some(third.seq - 1)));
    test.runs().commit(&again.fence, &test.step(&again, retry)).await.unwrap();
    let last = test.claim().await.unwrap();
    assert_eq!(last.attempt, 3, "a cancelled run does not wait for its retry");
    let ended = done(test.runs().commit(&last.fence, &test.step(&last, cancelled())).await.unwrap());
    assert!(ended.opened);
    assert_eq!(status(&test, &second).await, MessageStatus::Failed, "it was posted before the interrupt");
    test.claim().await.unwrap();
    assert_eq!(seen(&test).await, ["one", "three"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupt_at_natural_completion_cancels_the_run() {
    let test = TestStore::start().await;
    let first = post(&test, Enqueue, "one").await;
    let claimed = test.claim().await.unwrap();
    let second = post(&test, Interrupt, "two").await;
    let late = post(&test, Enqueue, "three").await;
    let ended = done(test.runs().commit(&claimed.fence, &answer(&test, &claimed, "1")).await.unwrap());
    assert!(ended.opened && !ended.continued && ended.read.is_empty(), "{ended:?}");
    assert_eq!(code(&ended.events[1]), (RunStatus::Cancelled, Some("interrupt")));
    assert_eq!(ended.events, test.requests().events_after(test.goal, 5, 10).await.unwrap());
    let run = test.requests().run(first.run).await.unwrap();
    assert_eq!((run.status, run.cancelled_by.as_deref()), (RunStatus::Cancelled, Some("interrupt")));
    let next = test.claim().await.unwrap();
    for posted in [&second, &late] {
        assert_eq!(message(&test, posted).await.run_id, Some(next.run));
    }
    assert_eq!(seen(&test).await, ["one", "1", "two\n\nthree"], "entries of the run stay");
}

#[tokio::test(flavor = "multi_thread")]
async fn rollback_hides_run_from_model_and_marks_it_for_people() {
    let test = TestStore::start().await;
    let earlier = post(&test, Enqueue, "kept").await;
    let claimed = test.claim().await.unwrap();
    test.runs().commit(&claimed.fence, &answer(&test, &claimed, "0")).await.unwrap();
    let first = post(&test, Enqueue, "one").await;
    let claimed = test.claim().await.unwrap();
    // A cancel, then a rollback, then an interrupt: the rollback wins, also over the later request.
    test.requests().cancel_run(first.run).await.unwrap();
    let second = post(&test, Rollback, "two").await;
    let third = post(&test, Interrupt, "three").await;
    let ended = done(test.runs().commit(&claimed.fence, &answer(&test, &claimed, "1")).await.unwrap());
    assert_eq!(code(&ended.events[1]), (RunStatus::Cancelled, Some("rollback")));
    let next = test.claim().await.unwrap();
    assert_eq!(seen(&test).await, ["kept", "0", "three"]);
    test.runs().commit(&next.fence, &answer(&test, &next, "3")).await.unwrap();
    let stored = test.requests().history(test.goal, 0, 10).await.unwrap();
    let positions: Vec<i64> = stored.iter().map(|entry| entry.position).collect();
    assert_eq!(positions, [1, 2, 5, 6], "no position is handed out twice");
    let thread = test.requests().messages(test.goal, None, 10).await.unwrap();
    let marked: Vec<(&str, bool)> =
        thread.iter().rev().map(|one| (one.content.as_str(), one.metadata["rolled_back"] == true)).collect();
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
    for (posted, expected) in [
        (&earlier, MessageStatus::Answered),
        (&first, MessageStatus::Failed),
        (&second, MessageStatus::Failed),
        (&third, MessageStatus::Answered),
    ] {
        assert_eq!(status(&test, posted).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_notifies_all_workers_through_postgres() {
    let test = TestStore::start().await;
    let first = post(&test, Enqueue, "one").await;
    let mut notifications = test.runs().listen().await.unwrap();
    let expected = Some(Notification::Cancelled { agentable: test.goal, run: first.run });
    test.requests().cancel_run(first.run).await.unwrap();
    assert_eq!(notifications.recv().await.unwrap(), expected);
    post(&test, Interrupt, "two").await;
    assert_eq!(notifications.recv().await.unwrap(), expected);
    // An unrecognised payload is ignored, and later ones still arrive.
    test.sql("select pg_notify('houston', '9 dance')");
    assert_eq!(notifications.recv().await.unwrap(), None);
    let goal = test.goal.0;
    test.sql(&format!("select houston.post_message('{goal}', 'three', double_texting => 'rollback')"));
    assert_eq!(notifications.recv().await.unwrap(), expected);
    assert_eq!(notifications.recv().await.unwrap(), Some(Notification::Posted(test.goal)));
    let refused = test.try_sql(&format!("select houston.post_message('{goal}', 'x', null, 'reject')"));
    assert!(refused.as_ref().is_err_and(|error| error.contains("is open")), "{refused:?}");
    let unknown = test.try_sql(&format!("select houston.post_message('{goal}', 'x', null, 'merge')"));
    assert!(unknown.as_ref().is_err_and(|error| error.contains("enqueue, interrupt, reject and rollback")));
    assert_eq!(test.requests().messages(test.goal, None, 10).await.unwrap().len(), 3);
}
