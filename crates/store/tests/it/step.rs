use houston_domain::event::Event;
use houston_domain::history::{Block, Entry};
use houston_domain::id::{MessageId, RunId};
use houston_domain::knowledge::{KnowledgeKind, PromptLimits};
use houston_domain::message::{MessageStatus, MessageType, Source};
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_domain::step::{Ending, NewMessage, RunTransition, Step};
use houston_store::Error;
use houston_store::claim::ClaimedRun;
use houston_store::record::{FencedTx, Owner};
use houston_store::step::{Commit, CommittedStep};
use serde_json::json;

use crate::test_store::TestStore;

pub(crate) fn finished(status: RunStatus) -> Event {
    Event::RunFinished {
        status,
        iteration: Some(1),
        usage: Usage::default(),
        message: None,
        code: None,
        result: None,
    }
}

pub(crate) fn ending(status: RunStatus) -> Ending {
    Ending { status, error_code: None, error_message: None }
}

/// A step that answers and completes the run.
pub(crate) fn answer(test: &TestStore, claimed: &ClaimedRun, text: &str) -> Step {
    let continue_event = Event::StepFinished { iteration: 1, next_message_id: test.ids.next() };
    let status = RunStatus::Completed;
    let mut step = test.step(
        claimed,
        RunTransition::Complete { event: finished(status), continue_event, ending: ending(status) },
    );
    step.entries.push(Entry::assistant(vec![Block::text(text)]));
    step.events.push(Event::MessageSent { message_id: claimed.next_message });
    step.messages.push(NewMessage {
        id: claimed.next_message,
        event: 0,
        source: Source::Agent,
        message_type: MessageType::Text,
        content: text.into(),
        metadata: json!({}),
    });
    step
}

pub(crate) fn done(commit: Commit) -> CommittedStep {
    match commit {
        Commit::Done(done) => done,
        Commit::AlreadyCommitted => panic!("already committed"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn step_sent_twice_is_committed_once() {
    let test = TestStore::start().await;
    let posted = test.post("hi").await;
    let claimed = test.claim().await.unwrap();
    let step = answer(&test, &claimed, "hello");
    let first = done(test.runs().commit(&claimed.fence, &step).await.unwrap());
    assert_eq!(first.events.len(), 2);
    assert_eq!(
        first.events,
        test.requests().events_after(test.goal, 3, 10).await.unwrap(),
        "the returned events are the stored ones"
    );
    // The response to the first try was lost. The run is released, and the second try still finds it committed.
    assert_eq!(test.runs().commit(&claimed.fence, &step).await.unwrap(), Commit::AlreadyCommitted);
    assert!(test.runs().was_committed(&claimed.fence, step.write).await.unwrap());
    let message = test.requests().message(posted.id).await.unwrap();
    assert_eq!(message.status, Some(MessageStatus::Answered));
    assert_eq!(test.requests().messages(test.goal, None, 10).await.unwrap().len(), 2);
    // Any other step under the old fence is refused.
    let late = answer(&test, &claimed, "again");
    assert!(matches!(test.runs().commit(&claimed.fence, &late).await, Err(Error::Fenced)));
}

#[tokio::test(flavor = "multi_thread")]
async fn message_posted_before_the_end_continues_the_run() {
    let test = TestStore::start().await;
    test.post("one").await;
    let claimed = test.claim().await.unwrap();
    let late = test.post("two").await;
    assert_eq!(late.run, claimed.run);
    let first = done(test.runs().commit(&claimed.fence, &answer(&test, &claimed, "1")).await.unwrap());
    assert!(first.continued);
    assert_eq!(first.read.iter().map(|read| read.text.as_str()).collect::<Vec<_>>(), ["two"]);
    assert!(matches!(first.events.last().unwrap().event, Event::StepFinished { .. }));
    let mut second = answer(&test, &claimed, "2");
    second.messages[0].id = test.ids.next();
    second.events[0] = Event::MessageSent { message_id: second.messages[0].id };
    assert!(!done(test.runs().commit(&claimed.fence, &second).await.unwrap()).continued);
    let roles: Vec<&str> = test
        .requests()
        .history(test.goal, 0, 10)
        .await
        .unwrap()
        .iter()
        .map(|stored| stored.entry.role.as_str())
        .collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
    assert!(test.claim().await.is_none(), "the run is over");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_run_leaves_unread_messages_cancelled_run_takes_them() {
    let test = TestStore::start().await;
    test.post("one").await;
    let claimed = test.claim().await.unwrap();
    let unread = test.post("two").await;
    let status = RunStatus::Failed;
    let end = RunTransition::Terminate { event: finished(status), ending: ending(status) };
    let failed = done(test.runs().commit(&claimed.fence, &test.step(&claimed, end)).await.unwrap());
    assert!(failed.opened);
    assert!(matches!(failed.events.last().unwrap().event, Event::RunQueued {}));
    let next = test.claim().await.unwrap();
    assert_ne!(next.run, claimed.run);
    assert_eq!(test.requests().message(unread.id).await.unwrap().run_id, Some(next.run));

    let third = test.post("three").await;
    test.requests().cancel_run(next.run).await.unwrap().unwrap();
    let fourth = test.post("four").await;
    let status = RunStatus::Cancelled;
    let end = RunTransition::Terminate { event: finished(status), ending: ending(status) };
    let cancelled = done(test.runs().commit(&next.fence, &test.step(&next, end)).await.unwrap());
    assert!(cancelled.opened, "a message posted after the cancel opens the next run");
    let last = test.claim().await.unwrap();
    assert_eq!(test.requests().message(third.id).await.unwrap().status, Some(MessageStatus::Failed));
    let fourth = test.requests().message(fourth.id).await.unwrap();
    assert_eq!((fourth.status, fourth.run_id), (Some(MessageStatus::Processing), Some(last.run)));
}

#[tokio::test(flavor = "multi_thread")]
async fn message_posted_after_cancel_is_left_to_the_next_run() {
    let test = TestStore::start().await;
    let end = |status| RunTransition::Terminate { event: finished(status), ending: ending(status) };
    // While a worker drives the run: none of its steps reads the message, not even the last.
    let steps = || {
        let continue_event = Event::StepFinished { iteration: 1, next_message_id: test.ids.next() };
        let status = RunStatus::MessageSent;
        [
            RunTransition::Continue { read: true, event: None },
            RunTransition::Complete { event: finished(status), continue_event, ending: ending(status) },
        ]
    };
    for then in steps() {
        test.post("one").await;
        let claimed = test.claim().await.unwrap();
        test.requests().cancel_run(claimed.run).await.unwrap().unwrap();
        let later = test.post("later").await;
        let over = matches!(then, RunTransition::Complete { .. });
        let mut last = done(test.runs().commit(&claimed.fence, &test.step(&claimed, then)).await.unwrap());
        assert!(last.read.is_empty() && !last.continued && last.cancel_seq.is_some());
        if !over {
            let step = test.step(&claimed, end(RunStatus::Cancelled));
            last = done(test.runs().commit(&claimed.fence, &step).await.unwrap());
        }
        assert!(last.opened, "the message opens the next run");
        answered_by_the_next_run(&test, claimed.run, later.id).await;
    }
    // Before a worker claims the run.
    let first = test.post("one").await;
    test.requests().cancel_run(first.run).await.unwrap().unwrap();
    let later = test.post("later").await;
    let claimed = test.claim().await.unwrap();
    let context =
        test.runs().run_context(test.goal, claimed.run, 10, &PromptLimits::default()).await.unwrap();
    assert_eq!(context.history.last().unwrap().text(), "one");
    let step = test.step(&claimed, end(RunStatus::Cancelled));
    assert!(done(test.runs().commit(&claimed.fence, &step).await.unwrap()).opened);
    let status = test.requests().message(first.id).await.unwrap().status;
    assert_eq!(status, Some(MessageStatus::Failed));
    answered_by_the_next_run(&test, claimed.run, later.id).await;
}

/// The next run reads `message`, which the run `cancelled` has not read, and ends.
async fn answered_by_the_next_run(test: &TestStore, cancelled: RunId, message: MessageId) {
    let next = test.claim().await.unwrap();
    assert_ne!(next.run, cancelled);
    let message = test.requests().message(message).await.unwrap();
    assert_eq!((message.status, message.run_id), (Some(MessageStatus::Processing), Some(next.run)));
    let context = test.runs().run_context(test.goal, next.run, 10, &PromptLimits::default()).await.unwrap();
    assert_eq!(context.history.last().unwrap().text(), "later");
    let status = RunStatus::Failed;
    let end = RunTransition::Terminate { event: finished(status), ending: ending(status) };
    assert!(!done(test.runs().commit(&next.fence, &test.step(&next, end)).await.unwrap()).opened);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_committed_with_their_step_or_not_at_all() {
    let test = TestStore::start().await;
    test.post("note this").await;
    let claimed = test.claim().await.unwrap();
    let owner = Owner {
        tenant: test.tenant,
        user: claimed.user,
        agentable: test.goal,
        run: claimed.run,
        untrusted: false,
    };
    let note = async |tx: &mut FencedTx| {
        test.rows(tx, owner).create_item(KnowledgeKind::Note, Some("milk"), "buy it").await.unwrap();
    };
    let mut abandoned = test.runs().begin_fenced(&claimed.fence).await.unwrap();
    note(&mut abandoned).await;
    drop(abandoned);
    let mut tx = test.runs().begin_fenced(&claimed.fence).await.unwrap();
    note(&mut tx).await;
    let step = test.step(&claimed, RunTransition::Continue { read: true, event: None });
    done(tx.commit(&step).await.unwrap());
    let context =
        test.runs().run_context(test.goal, claimed.run, 10, &PromptLimits::default()).await.unwrap();
    assert_eq!(context.notes.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn newer_schema_is_refused_with_the_fix() {
    let test = TestStore::start().await;
    let newer = "insert into houston.migrations (version, description, success, checksum, execution_time)
                 values (99990101000000, 'from the future', true, '', 0)";
    test.sql(newer);
    let error = test.store.migrate().await.unwrap_err();
    assert!(matches!(error, Error::SchemaNewer { found: 99_990_101_000_000, .. }));
    assert!(error.to_string().contains("install the newer"), "{error}");
}
