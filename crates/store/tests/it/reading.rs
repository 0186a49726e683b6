//! Many unread messages: read exactly once, in order, some at a time.

use houston_domain::event::Event;
use houston_domain::history::{Block, Entry, Role};
use houston_domain::message::MessageStatus;
use houston_domain::run::RunStatus;
use houston_store::Fairness;
use houston_store::claim::Claimed;
use houston_store::step::{Commit, RunTransition};

use crate::fresh::{Fresh, goal};
use crate::step::{ending, finished};

const SHARE: Fairness = Fairness { max_running: 10, max_pending: 10_000, read_messages: 4, read_bytes: 100 };

/// Numbers that are the same each time.
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

/// One step of some kind. Returns whether the run is still held.
async fn walk(fresh: &Fresh, claimed: &Claimed, kind: u64) -> bool {
    let go_on = Event::StepFinished { iteration: 1, next_message_id: fresh.ids.next() };
    let then = match kind {
        0 => RunTransition::Continue { read: false, event: None },
        1 | 2 => RunTransition::Continue { read: true, event: None },
        3 => RunTransition::Release { event: Event::HandedOver { iteration: 1 } },
        4 | 5 => {
            let status = RunStatus::MaxIterations;
            RunTransition::Terminate { event: finished(status), ending: ending(fresh, status) }
        }
        _ => {
            let status = RunStatus::Completed;
            RunTransition::Complete { event: finished(status), go_on, ending: ending(fresh, status) }
        }
    };
    let leaves = matches!(then, RunTransition::Release { .. } | RunTransition::Terminate { .. } | RunTransition::Complete { .. });
    match fresh.store.commit(&claimed.fence, &fresh.step(claimed, then)).await.unwrap() {
        Commit::Done(done) => !leaves || done.went_on,
        Commit::Landed => panic!("it landed before"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_run_does_each_message_is_read_once_in_order_and_some_at_a_time() {
    let mut fresh = Fresh::start().await;
    fresh.store = fresh.store.with_fairness(SHARE);
    for seed in 0..6 {
        fresh.goal = goal(&fresh.store, &fresh.ids, fresh.tenant).await;
        let mut numbers = Numbers(seed);
        let (mut posted, mut ids, mut held) = (Vec::new(), Vec::new(), None::<Claimed>);
        for nth in 0..120 {
            // Posts more than is read, for a while.
            for _ in 0..numbers.below(if nth < 60 { 6 } else { 1 }) {
                let size = if numbers.below(10) == 0 { 300 } else { numbers.below(60) };
                let text = format!("{}:{}", posted.len(), "x".repeat(usize::try_from(size).unwrap()));
                ids.push(fresh.post(&text).await.id);
                posted.push(text);
            }
            if held.is_none() {
                held = fresh.claim().await;
            }
            if let Some(claimed) = &held
                && !walk(&fresh, claimed, numbers.below(9)).await
            {
                held = None;
            }
        }
        // Nobody posts any more: it is read to the end, without a hint ever being given.
        for _ in 0..1000 {
            match &held {
                Some(claimed) if walk(&fresh, claimed, 7).await => {}
                Some(_) => held = None,
                None if fresh.store.due(None, 10).await.unwrap().due.is_empty() => break,
                None => held = fresh.claim().await,
            }
        }
        assert!(held.is_none() && fresh.claim().await.is_none(), "seed {seed}: nothing is open");
        let entries = fresh.store.history(fresh.tenant, fresh.goal, 0, 10_000).await.unwrap();
        let mut read = Vec::new();
        for placed in entries.iter().filter(|placed| placed.entry.role == Role::User) {
            let texts: Vec<String> = texts(&placed.entry);
            let bytes: usize = texts.iter().map(String::len).sum();
            assert!(texts.len() <= 4 && (bytes <= 100 || texts.len() == 1), "seed {seed}: {texts:?}");
            read.extend(texts);
        }
        assert_eq!(read, posted, "seed {seed}");
        let unread =
            fresh.sql("select sum(unread) || ' ' || count(*) filter (where wake) from houston.run_locks");
        assert_eq!(unread.trim(), "0 0", "seed {seed}: unread, awake");
        for id in ids {
            let message = fresh.store.message(fresh.tenant, id).await.unwrap();
            assert_eq!(message.status, Some(MessageStatus::Answered), "seed {seed}: {message:?}");
            let run = message.message.run_id.unwrap();
            assert!(
                entries.iter().any(|placed| {
                    placed.run == run && texts(&placed.entry).contains(&message.message.content)
                }),
                "seed {seed}: a message names the run that has read it"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_takes_along_what_was_posted_before_however_much_it_is() {
    let mut fresh = Fresh::start().await;
    fresh.store = fresh.store.with_fairness(SHARE);
    let mut before = Vec::new();
    for nth in 0..20 {
        before.push(fresh.post(&format!("{nth}")).await);
    }
    let first = fresh.claim().await.unwrap();
    // The run ends at a limit: what it has not read waits for the next.
    assert!(!walk(&fresh, &first, 4).await);
    let run = fresh.claim().await.unwrap();
    fresh.store.cancel_run(fresh.tenant, run.run).await.unwrap();
    let after = fresh.post("after").await;
    let status = RunStatus::Cancelled;
    let then = RunTransition::Terminate { event: finished(status), ending: ending(&fresh, status) };
    fresh.store.commit(&run.fence, &fresh.step(&run, then)).await.unwrap();
    let last = fresh.claim().await.unwrap();
    let status = async |id| fresh.store.message(fresh.tenant, id).await.unwrap();
    for (nth, posted) in before.iter().enumerate() {
        let expected = if nth < 4 { MessageStatus::Answered } else { MessageStatus::Failed };
        assert_eq!(status(posted.id).await.status, Some(expected), "message {nth}");
    }
    let after = status(after.id).await;
    assert_eq!((after.status, after.message.run_id), (Some(MessageStatus::Processing), Some(last.run)));
    assert!(!walk(&fresh, &last, 7).await);
    let unread = fresh.sql("select sum(unread) from houston.run_locks");
    assert_eq!(unread.trim(), "0");
}
