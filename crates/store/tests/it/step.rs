use houston_domain::event::Event;
use houston_domain::history::{Block, Entry};
use houston_domain::id::{MessageId, RunId};
use houston_domain::knowledge::PromptLimits;
use houston_domain::message::{MessageStatus, MessageType, Source};
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_domain::tool_call::Record;
use houston_store::Error;
use houston_store::claim::Claimed;
use houston_store::record::Owner;
use houston_store::step::{Commit, Done, Ending, NewMessage, Step, RunTransition};
use serde_json::json;

use crate::fresh::Fresh;

pub(crate) fn finished(status: RunStatus) -> Event {
    Event::RunFinished { status, iteration: Some(1), usage: Usage::default(), message: None, code: None }
}

pub(crate) fn ending(fresh: &Fresh, status: RunStatus) -> Ending {
    Ending { status, next_run: fresh.ids.next(), error_code: None, error_message: None }
}

/// A step that answers and ends.
pub(crate) fn answer(fresh: &Fresh, claimed: &Claimed, text: &str) -> Step {
    let go_on = Event::StepFinished { iteration: 1, next_message_id: fresh.ids.next() };
    let status = RunStatus::Completed;
    let mut step =
        fresh.step(claimed, RunTransition::Complete { event: finished(status), go_on, ending: ending(fresh, status) });
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

pub(crate) fn done(commit: Commit) -> Done {
    match commit {
        Commit::Done(done) => done,
        Commit::Landed => panic!("it landed before"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_sent_twice_is_committed_once() {
    let fresh = Fresh::start().await;
    let posted = fresh.post("hi").await;
    let claimed = fresh.claim().await.unwrap();
    let step = answer(&fresh, &claimed, "hello");
    let first = done(fresh.store.commit(&claimed.fence, &step).await.unwrap());
    assert_eq!(first.events.len(), 2);
    assert_eq!(
        first.events,
        fresh.store.events_after(fresh.goal, 3, 10).await.unwrap(),
        "streams are told the truth"
    );
    // The answer to the first try was lost; the run is released, and yet the second try knows that it is in.
    assert_eq!(fresh.store.commit(&claimed.fence, &step).await.unwrap(), Commit::Landed);
    assert!(fresh.store.has_landed(&claimed.fence, step.write).await.unwrap());
    let message = fresh.store.message(fresh.tenant, posted.id).await.unwrap();
    assert_eq!(message.status, Some(MessageStatus::Answered));
    assert_eq!(fresh.store.messages(fresh.tenant, fresh.goal, None, 10).await.unwrap().len(), 2);
    // Anything else under the old fence is a zombie's.
    let late = answer(&fresh, &claimed, "again");
    assert!(matches!(fresh.store.commit(&claimed.fence, &late).await, Err(Error::Fenced)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_came_meanwhile_keeps_the_run_going() {
    let fresh = Fresh::start().await;
    fresh.post("one").await;
    let claimed = fresh.claim().await.unwrap();
    let late = fresh.post("two").await;
    assert_eq!(late.run, claimed.run);
    let first = done(fresh.store.commit(&claimed.fence, &answer(&fresh, &claimed, "1")).await.unwrap());
    assert!(first.went_on);
    assert_eq!(first.read.iter().map(|read| read.text.as_str()).collect::<Vec<_>>(), ["two"]);
    assert!(matches!(first.events.last().unwrap().event, Event::StepFinished { .. }));
    let mut second = answer(&fresh, &claimed, "2");
    second.messages[0].id = fresh.ids.next();
    second.events[0] = Event::MessageSent { message_id: second.messages[0].id };
    assert!(!done(fresh.store.commit(&claimed.fence, &second).await.unwrap()).went_on);
    let roles: Vec<&str> = fresh
        .store
        .history(fresh.tenant, fresh.goal, 0, 10)
        .await
        .unwrap()
        .iter()
        .map(|placed| placed.entry.role.as_str())
        .collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
    assert!(fresh.claim().await.is_none(), "the run is over");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_fails_leaves_unread_messages_to_the_next_and_a_cancelled_one_takes_its_own_along() {
    let fresh = Fresh::start().await;
    fresh.post("one").await;
    let claimed = fresh.claim().await.unwrap();
    let unread = fresh.post("two").await;
    let status = RunStatus::Failed;
    let end = RunTransition::Terminate { event: finished(status), ending: ending(&fresh, status) };
    let failed = done(fresh.store.commit(&claimed.fence, &fresh.step(&claimed, end)).await.unwrap());
    assert!(failed.opened);
    assert!(matches!(failed.events.last().unwrap().event, Event::RunQueued {}));
    let next = fresh.claim().await.unwrap();
    assert_ne!(next.run, claimed.run);
    assert_eq!(fresh.store.message(fresh.tenant, unread.id).await.unwrap().message.run_id, Some(next.run));

    let third = fresh.post("three").await;
    fresh.store.cancel_run(fresh.tenant, next.run).await.unwrap().unwrap();
    let fourth = fresh.post("four").await;
    let status = RunStatus::Cancelled;
    let end = RunTransition::Terminate { event: finished(status), ending: ending(&fresh, status) };
    let cancelled = done(fresh.store.commit(&next.fence, &fresh.step(&next, end)).await.unwrap());
    assert!(cancelled.opened, "what was posted after the cancel is for the next run");
    let last = fresh.claim().await.unwrap();
    assert_eq!(
        fresh.store.message(fresh.tenant, third.id).await.unwrap().status,
        Some(MessageStatus::Failed)
    );
    let fourth = fresh.store.message(fresh.tenant, fourth.id).await.unwrap();
    assert_eq!((fourth.status, fourth.message.run_id), (Some(MessageStatus::Processing), Some(last.run)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_posted_after_a_cancel_is_never_taken_along_however_the_run_ends() {
    let fresh = Fresh::start().await;
    let end = |status| RunTransition::Terminate { event: finished(status), ending: ending(&fresh, status) };
    // While somebody drives the run: no step of it reads the message, not even the last.
    let steps = || {
        let go_on = Event::StepFinished { iteration: 1, next_message_id: fresh.ids.next() };
        let status = RunStatus::MessageSent;
        [
            RunTransition::Continue { read: true, event: None },
            RunTransition::Complete { event: finished(status), go_on, ending: ending(&fresh, status) },
        ]
    };
    for then in steps() {
        fresh.post("one").await;
        let claimed = fresh.claim().await.unwrap();
        fresh.store.cancel_run(fresh.tenant, claimed.run).await.unwrap().unwrap();
        let later = fresh.post("later").await;
        let over = matches!(then, RunTransition::Complete { .. });
        let mut last = done(fresh.store.commit(&claimed.fence, &fresh.step(&claimed, then)).await.unwrap());
        assert!(last.read.is_empty() && !last.went_on && last.cancel_seq.is_some());
        if !over {
            let step = fresh.step(&claimed, end(RunStatus::Cancelled));
            last = done(fresh.store.commit(&claimed.fence, &step).await.unwrap());
        }
        assert!(last.opened, "it is for the next run");
        answered_by_the_next_run(&fresh, claimed.run, later.id).await;
    }
    // Before anybody drives it.
    let first = fresh.post("one").await;
    fresh.store.cancel_run(fresh.tenant, first.run).await.unwrap().unwrap();
    let later = fresh.post("later").await;
    let claimed = fresh.claim().await.unwrap();
    let context =
        fresh.store.run_context(fresh.goal, claimed.run, 10, &PromptLimits::default()).await.unwrap();
    assert_eq!(context.history.last().unwrap().text(), "one");
    let step = fresh.step(&claimed, end(RunStatus::Cancelled));
    assert!(done(fresh.store.commit(&claimed.fence, &step).await.unwrap()).opened);
    let status = fresh.store.message(fresh.tenant, first.id).await.unwrap().status;
    assert_eq!(status, Some(MessageStatus::Failed));
    answered_by_the_next_run(&fresh, claimed.run, later.id).await;
}

/// The next run reads `message`, which `cancelled` left alone, and ends.
async fn answered_by_the_next_run(fresh: &Fresh, cancelled: RunId, message: MessageId) {
    let next = fresh.claim().await.unwrap();
    assert_ne!(next.run, cancelled);
    let message = fresh.store.message(fresh.tenant, message).await.unwrap();
    assert_eq!((message.status, message.message.run_id), (Some(MessageStatus::Processing), Some(next.run)));
    let context = fresh.store.run_context(fresh.goal, next.run, 10, &PromptLimits::default()).await.unwrap();
    assert_eq!(context.history.last().unwrap().text(), "later");
    let status = RunStatus::Failed;
    let end = RunTransition::Terminate { event: finished(status), ending: ending(fresh, status) };
    assert!(!done(fresh.store.commit(&next.fence, &fresh.step(&next, end)).await.unwrap()).opened);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_committed_with_their_step_or_not_at_all() {
    let fresh = Fresh::start().await;
    fresh.post("note this").await;
    let claimed = fresh.claim().await.unwrap();
    let owner = Owner { tenant: fresh.tenant, user: claimed.user, agentable: fresh.goal, run: claimed.run };
    let note = Record::CreateNote { title: "milk".into(), content: "buy it".into() };
    let mut abandoned = fresh.store.begin_fenced(&claimed.fence).await.unwrap();
    abandoned.record(owner, fresh.ids.next(), &note).await.unwrap();
    drop(abandoned);
    let mut tx = fresh.store.begin_fenced(&claimed.fence).await.unwrap();
    assert!(tx.record(owner, fresh.ids.next(), &note).await.unwrap().is_success());
    let step = fresh.step(&claimed, RunTransition::Continue { read: true, event: None });
    done(tx.commit(&step).await.unwrap());
    let context =
        fresh.store.run_context(fresh.goal, claimed.run, 10, &PromptLimits::default()).await.unwrap();
    assert_eq!(context.notes.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_is_refused_with_the_fix() {
    let fresh = Fresh::start().await;
    let newer = "insert into houston.migrations (version, description, success, checksum, execution_time)
                 values (99990101000000, 'from the future', true, '', 0)";
    fresh.sql(newer);
    let error = fresh.store.migrate().await.unwrap_err();
    assert!(matches!(error, Error::SchemaNewer { found: 99_990_101_000_000, .. }));
    assert!(error.to_string().contains("install the newer"), "{error}");
}
