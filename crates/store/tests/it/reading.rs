//! Reading many unread messages: exactly once, in order, in bounded batches.

use houston_domain::event::Event;
use houston_domain::history::{Block, Entry, Role};
use houston_domain::message::MessageStatus;
use houston_domain::run::RunStatus;
use houston_domain::step::RunTransition;
use houston_store::Fairness;
use houston_store::claim::ClaimedRun;
use houston_store::step::Commit;

use crate::step::{ending, finished};
use crate::test_store::{TestStore, goal};

const SHARE: Fairness = Fairness { max_running: 10, max_pending: 10_000, read_messages: 4, read_bytes: 100 };

/// A seeded pseudo-random generator: the same numbers in each run of the test.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn texts(entry: &Entry) -> Vec<String> {
    let text = |block: &Block| match block {
        Block::Text { text, .. } => Some(text.clone()),
        _ => None,
    };
    entry.content.iter().filter_map(text).collect()
}

/// Commits one step of a random kind. Returns whether the run is still held.
async fn walk(test: &TestStore, claimed: &ClaimedRun, kind: u64) -> bool {
    let continue_event = Event::StepFinished { iteration: 1, next_message_id: test.ids.next() };
    let then = match kind {
        0 => RunTransition::Continue { read: false, event: None },
        1 | 2 => RunTransition::Continue { read: true, event: None },
        3 => RunTransition::Release { event: Event::HandedOver { iteration: 1 } },
        4 | 5 => {
            let status = RunStatus::MaxIterations;
            RunTransition::Terminate { event: finished(status), ending: ending(status) }
        }
        _ => {
            let status = RunStatus::Completed;
            RunTransition::Complete { event: finished(status), continue_event, ending: ending(status) }
        }
    };
    let leaves = matches!(
        then,
        RunTransition::Release { .. } | RunTransition::Terminate { .. } | RunTransition::Complete { .. }
    );
    match test.runs().commit(&claimed.fence, &test.step(claimed, then)).await.unwrap() {
        Commit::Done(done) => !leaves || done.continued,
        Commit::AlreadyCommitted => panic!("already committed"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_read_once_in_order_and_in_bounded_batches() {
    let mut test = TestStore::start().await;
    test.store = test.store.with(|own| own.fairness = SHARE);
    for seed in 0..6 {
        test.goal = goal(&test.store, &test.ids, test.tenant).await;
        let mut numbers = Numbers(seed);
        let (mut posted, mut ids, mut held) = (Vec::new(), Vec::new(), None::<ClaimedRun>);
        for nth in 0..120 {
            // For a while, posts more than is read.
            for _ in 0..numbers.below(if nth < 60 { 6 } else { 1 }) {
                let size = if numbers.below(10) == 0 { 300 } else { numbers.below(60) };
                let text = format!("{}:{}", posted.len(), "x".repeat(usize::try_from(size).unwrap()));
                ids.push(test.post(&text).await.id);
                posted.push(text);
            }
            if held.is_none() {
                held = test.claim().await;
            }
            if let Some(claimed) = &held
                && !walk(&test, claimed, numbers.below(9)).await
            {
                held = None;
            }
        }
        // Posting has stopped: everything is read to the end, without a hint.
        for _ in 0..1000 {
            match &held {
                Some(claimed) if walk(&test, claimed, 7).await => {}
                Some(_) => held = None,
                None if test.runs().due(None, 10).await.unwrap().due.is_empty() => break,
                None => held = test.claim().await,
            }
        }
        assert!(held.is_none() && test.claim().await.is_none(), "seed {seed}: no run is open");
        let entries = test.requests().history(test.goal, 0, 10_000).await.unwrap();
        let mut read = Vec::new();
        for stored in entries.iter().filter(|stored| stored.entry.role == Role::User) {
            let texts: Vec<String> = texts(&stored.entry);
            let bytes: usize = texts.iter().map(String::len).sum();
            assert!(texts.len() <= 4 && (bytes <= 100 || texts.len() == 1), "seed {seed}: {texts:?}");
            read.extend(texts);
        }
        assert_eq!(read, posted, "seed {seed}");
        let unread =
            test.sql("select sum(unread) || ' ' || count(*) filter (where wake) from houston.run_locks");
        assert_eq!(unread.trim(), "0 0", "seed {seed}: unread, awake");
        for id in ids {
            let message = test.requests().message(id).await.unwrap();
            assert_eq!(message.status, Some(MessageStatus::Answered), "seed {seed}: {message:?}");
            let run = message.run_id.unwrap();
            assert!(
                entries
                    .iter()
                    .any(|stored| { stored.run == run && texts(&stored.entry).contains(&message.content) }),
                "seed {seed}: a message names the run that has read it"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_run_takes_all_messages_posted_before_it() {
    let mut test = TestStore::start().await;
    test.store = test.store.with(|own| own.fairness = SHARE);
    let mut before = Vec::new();
    for nth in 0..20 {
        before.push(test.post(&format!("{nth}")).await);
    }
    let first = test.claim().await.unwrap();
    // The run ends at a limit: unread messages wait for the next run.
    assert!(!walk(&test, &first, 4).await);
    let run = test.claim().await.unwrap();
    test.requests().cancel_run(run.run).await.unwrap();
    let after = test.post("after").await;
    let status = RunStatus::Cancelled;
    let then = RunTransition::Terminate { event: finished(status), ending: ending(status) };
    test.runs().commit(&run.fence, &test.step(&run, then)).await.unwrap();
    let last = test.claim().await.unwrap();
    let status = async |id| test.requests().message(id).await.unwrap();
    for (nth, posted) in before.iter().enumerate() {
        let expected = if nth < 4 { MessageStatus::Answered } else { MessageStatus::Failed };
        assert_eq!(status(posted.id).await.status, Some(expected), "message {nth}");
    }
    let after = status(after.id).await;
    assert_eq!((after.status, after.run_id), (Some(MessageStatus::Processing), Some(last.run)));
    assert!(!walk(&test, &last, 7).await);
    let unread = test.sql("select sum(unread) from houston.run_locks");
    assert_eq!(unread.trim(), "0");
}
