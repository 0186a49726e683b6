//! Sessions: closed once, never under a run, and nothing that comes meanwhile is lost.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use houston_domain::event::Event;
use houston_domain::id::SessionId;
use houston_domain::knowledge::PromptLimits;
use houston_domain::session::{CompletionReason, SessionArchive};
use houston_store::claim::Claimed;
use houston_store::session::{Closed, Session};
use houston_store::session_summary::NewSummary;
use houston_store::{Archiving, Error};
use proptest::prelude::*;

use crate::fresh::Fresh;
use crate::step::answer;

/// An hour of quiet closes the sessions of goals.
pub(crate) async fn archiving() -> Fresh {
    let mut fresh = Fresh::start().await;
    let settings = SessionArchive { quiet_ms: 3_600_000, ..SessionArchive::default() };
    fresh.store = fresh.store.with_archiving(Archiving { kinds: vec!["goal".into()], settings });
    fresh
}

/// Lets two hours pass since all that happened.
pub(crate) fn two_hours_pass(fresh: &Fresh) {
    fresh.sql(
        "update houston.history set created_at = created_at - interval '2 hours';
         update houston.runs set created_at = created_at - interval '2 hours';
         update houston.session_states set look_at = look_at - interval '2 hours';",
    );
}

/// A message that is answered.
pub(crate) async fn exchange(fresh: &Fresh, text: &str) -> Claimed {
    fresh.post(text).await;
    let claimed = fresh.claim().await.unwrap();
    fresh.store.commit(&claimed.fence, &answer(fresh, &claimed, &format!("about {text}"))).await.unwrap();
    claimed
}

pub(crate) async fn sessions(fresh: &Fresh) -> Vec<Session> {
    fresh.store.sessions(fresh.tenant, fresh.goal, None, 1000).await.unwrap()
}

/// What the run of `claimed` starts from.
async fn seen(fresh: &Fresh, claimed: &Claimed) -> Vec<String> {
    let limits = PromptLimits::default();
    let context = fresh.store.run_context(fresh.goal, claimed.run, 10, &limits).await.unwrap();
    context.history.iter().map(houston_domain::history::Entry::text).collect()
}

/// The numbers of the sessions the stream was told of, in its order.
async fn told(fresh: &Fresh) -> Vec<i64> {
    let events = fresh.store.events_after(fresh.goal, 0, 100_000).await.unwrap();
    assert!(events.iter().zip(1..).all(|(event, seq)| event.seq == seq), "the stream has a gap");
    let number = |event: &Event| match event {
        Event::SessionArchived { number, .. } => Some(*number),
        _ => None,
    };
    events.iter().filter_map(|event| number(&event.event)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_message_after_the_quiet_begins_a_session_and_tells_of_the_last() {
    let fresh = archiving().await;
    exchange(&fresh, "Tokyo").await;
    exchange(&fresh, "Kyoto").await;
    two_hours_pass(&fresh);
    fresh.post("Osaka").await;
    let claimed = fresh.claim().await.unwrap();
    assert_eq!(seen(&fresh, &claimed).await, ["Osaka"], "the old conversation is not sent once more");
    let [session] = &sessions(&fresh).await[..] else { panic!("one session") };
    assert_eq!((session.number, session.positions), (1, (1, 4)));
    assert_eq!((session.reason, session.pending), (CompletionReason::SessionTimeout, true));
    assert_eq!(session.summary, "The user wrote: Tokyo / Kyoto", "until somebody writes a better one");
    assert!(session.started_at < session.completed_at);
    assert_eq!(told(&fresh).await, [1], "inside the run: between two runs a stream may say nothing");
    let events = fresh.store.events_after(fresh.goal, claimed.event.seq, 10).await.unwrap();
    assert!(matches!(&events[..], [one] if one.run_id == claimed.run));
    // What it goes on with stays in the session.
    fresh.store.commit(&claimed.fence, &answer(&fresh, &claimed, "yes")).await.unwrap();
    exchange(&fresh, "Nara").await;
    assert_eq!((sessions(&fresh).await.len(), told(&fresh).await), (1, vec![1]));
    let entries = fresh.store.session_history(fresh.tenant, session, 1, 10).await.unwrap();
    assert_eq!(entries.iter().map(|entry| entry.position).collect::<Vec<_>>(), [2, 3, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_waited_long_for_a_worker_was_no_quiet() {
    let fresh = archiving().await;
    exchange(&fresh, "Tokyo").await;
    fresh.post("Kyoto").await;
    // It came at once; no worker did.
    two_hours_pass(&fresh);
    let claimed = fresh.claim().await.unwrap();
    assert_eq!(seen(&fresh, &claimed).await.len(), 3);
    assert!(sessions(&fresh).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sweep_closes_what_is_quiet_and_nothing_that_is_at_work() {
    let fresh = archiving().await;
    exchange(&fresh, "Tokyo").await;
    assert!(fresh.store.sessions_due(10).await.unwrap().is_empty(), "not yet");
    assert!(
        !fresh.store.close_quiet(fresh.goal, fresh.ids.next()).await.unwrap(),
        "nor for who asks all the same"
    );
    two_hours_pass(&fresh);
    assert_eq!(fresh.store.sessions_due(10).await.unwrap(), [fresh.goal]);
    fresh.post("Kyoto").await;
    assert!(!fresh.store.close_quiet(fresh.goal, fresh.ids.next()).await.unwrap(), "a run is open");
    assert!(fresh.store.sessions_due(10).await.unwrap().is_empty(), "looked at again in an hour");
    let claimed = fresh.claim().await.unwrap();
    assert_eq!(sessions(&fresh).await.len(), 1, "that message came after the quiet");
    two_hours_pass(&fresh);
    assert!(!fresh.store.close_quiet(fresh.goal, fresh.ids.next()).await.unwrap(), "a run is held");
    fresh.store.commit(&claimed.fence, &answer(&fresh, &claimed, "yes")).await.unwrap();
    two_hours_pass(&fresh);
    assert!(fresh.store.close_quiet(fresh.goal, fresh.ids.next()).await.unwrap());
    assert!(!fresh.store.close_quiet(fresh.goal, fresh.ids.next()).await.unwrap(), "once");
    assert!(fresh.store.sessions_due(10).await.unwrap().is_empty(), "nothing is open: nobody looks");
    assert_eq!(sessions(&fresh).await.len(), 2);
    assert_eq!(told(&fresh).await, [1]);
    exchange(&fresh, "Osaka").await;
    assert_eq!(told(&fresh).await, [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_who_close_one_does() {
    let fresh = archiving().await;
    for round in 1..=3 {
        exchange(&fresh, "Tokyo").await;
        two_hours_pass(&fresh);
        let racing = (0..50).map(|nth| {
            let (store, session): (_, SessionId) = (&fresh.store, fresh.ids.next());
            async move {
                if nth % 2 == 0 {
                    store.close_quiet(fresh.goal, session).await.unwrap()
                } else {
                    let reason = CompletionReason::FeedGenerationComplete;
                    store.close_session(fresh.goal, reason, session).await.unwrap() == Closed::Now(session)
                }
            }
        });
        let closed = join_all(racing).await.into_iter().filter(|closed| *closed).count();
        assert_eq!((closed, sessions(&fresh).await.len()), (1, round));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_closes_while_a_run_writes_has_it_done_before_the_next_one() {
    let fresh = archiving().await;
    let close = async || {
        let reason = CompletionReason::FeedGenerationComplete;
        fresh.store.close_session(fresh.goal, reason, fresh.ids.next()).await.unwrap()
    };
    assert_eq!(close().await, Closed::Nothing);
    fresh.post("the feed, please").await;
    let claimed = fresh.claim().await.unwrap();
    assert_eq!(close().await, Closed::Deferred);
    assert!(sessions(&fresh).await.is_empty());
    fresh.store.commit(&claimed.fence, &answer(&fresh, &claimed, "there it is")).await.unwrap();
    // The next message came at once, and is no part of it.
    fresh.post("thanks").await;
    let next = fresh.claim().await.unwrap();
    assert_eq!(seen(&fresh, &next).await, ["thanks"]);
    let [session] = &sessions(&fresh).await[..] else { panic!("one session") };
    assert_eq!((session.reason, session.positions), (CompletionReason::FeedGenerationComplete, (1, 2)));
    fresh.store.commit(&next.fence, &answer(&fresh, &next, "welcome")).await.unwrap();
    // A run that was queued and never begun is in nobody's way: its message begins the next session.
    fresh.post("and now?").await;
    assert!(matches!(close().await, Closed::Now(_)));
    let next = fresh.claim().await.unwrap();
    assert_eq!(seen(&fresh, &next).await, ["and now?"]);
    assert_eq!(told(&fresh).await, [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wish_that_no_message_follows_is_done_by_the_sweep() {
    let fresh = archiving().await;
    fresh.post("the feed, please").await;
    let claimed = fresh.claim().await.unwrap();
    let (reason, session) = (CompletionReason::Reset, fresh.ids.next());
    assert_eq!(fresh.store.close_session(fresh.goal, reason, session).await.unwrap(), Closed::Deferred);
    assert_eq!(fresh.store.sessions_due(10).await.unwrap(), [fresh.goal], "soon, whatever was said when");
    fresh.store.commit(&claimed.fence, &answer(&fresh, &claimed, "there it is")).await.unwrap();
    assert!(fresh.store.close_quiet(fresh.goal, session).await.unwrap());
    assert_eq!(sessions(&fresh).await[0].reason, CompletionReason::Reset);
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_that_do_not_archive_keep_their_history_unless_somebody_resets_it() {
    let mut fresh = archiving().await;
    exchange(&fresh, "Tokyo").await;
    two_hours_pass(&fresh);
    fresh.store = fresh.store.clone().with_archiving(Archiving::default());
    assert!(!fresh.store.close_quiet(fresh.goal, fresh.ids.next()).await.unwrap());
    let close = async |reason| fresh.store.close_session(fresh.goal, reason, fresh.ids.next()).await;
    assert_eq!(close(CompletionReason::SessionTimeout).await.unwrap(), Closed::Nothing);
    exchange(&fresh, "Kyoto").await;
    assert!(sessions(&fresh).await.is_empty() && fresh.store.sessions_due(10).await.unwrap().is_empty());
    assert!(matches!(close(CompletionReason::Reset).await, Ok(Closed::Now(_))));
}

/// However a message and an archiver meet, the message is read once, and whole in one session.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_comes_while_a_session_is_closed_is_read_once() {
    let fresh = archiving().await;
    for round in 0..40 {
        exchange(&fresh, &format!("before {round}")).await;
        two_hours_pass(&fresh);
        let text = format!("meanwhile {round}");
        let (session, other) = (fresh.ids.next(), fresh.ids.next());
        let claim = async {
            fresh.post(&text).await;
            fresh.claim().await.unwrap()
        };
        let (by_sweep, claimed, by_wish) = tokio::join!(
            fresh.store.close_quiet(fresh.goal, session),
            claim,
            fresh.store.close_session(fresh.goal, CompletionReason::SessionTimeout, other),
        );
        by_sweep.unwrap();
        by_wish.unwrap();
        assert_eq!(seen(&fresh, &claimed).await, [text.as_str()], "it begins the new session");
        assert_eq!(sessions(&fresh).await.len(), round + 1);
        fresh.store.commit(&claimed.fence, &answer(&fresh, &claimed, "yes")).await.unwrap();
        // What was wished while it ran is done, or nothing was; whoever swept meanwhile put it off for seconds.
        fresh.sql("update houston.session_states set look_at = now() where close_reason is not null");
        fresh.store.close_quiet(fresh.goal, fresh.ids.next()).await.unwrap();
        let made = sessions(&fresh).await.len();
        assert!((round + 1..=round + 2).contains(&made));
        if made > round + 1 {
            return_to(&fresh, round + 1);
        }
    }
    let all = fresh.store.history(fresh.tenant, fresh.goal, 0, 1000).await.unwrap();
    let texts: Vec<String> = all.iter().map(|entry| entry.entry.text()).collect();
    let distinct: BTreeSet<&String> = texts.iter().filter(|text| text.starts_with("meanwhile")).collect();
    assert_eq!(distinct.len(), 40);
    assert_eq!(texts.iter().filter(|text| text.starts_with("meanwhile")).count(), 40);
}

/// Takes the last session back, so that each round of a test begins alike.
fn return_to(fresh: &Fresh, number: usize) {
    fresh.sql(&format!(
        "delete from houston.sessions where number > {number};
         update houston.session_states set last_number = {number}, told_number = {number};
         update houston.run_locks l set session_position = coalesce((select max(last_position) from houston.sessions s
          where s.agentable_id = l.agentable_id), 0)"
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_is_written_once_and_by_another_when_its_writer_dies() {
    let fresh = archiving().await;
    exchange(&fresh, "Tokyo").await;
    two_hours_pass(&fresh);
    assert!(fresh.store.close_quiet(fresh.goal, fresh.ids.next()).await.unwrap());
    let take = async |seconds| {
        fresh.store.take_unsummarised(std::time::Duration::from_secs(seconds), 10).await.unwrap()
    };
    let taken = take(600).await;
    assert_eq!((taken.len(), taken[0].attempts, taken[0].positions), (1, 1, (1, 2)));
    assert!(take(600).await.is_empty(), "somebody has it");
    // They die: the lease runs out.
    fresh.sql("update houston.sessions set summary_due_at = now()");
    assert_eq!(take(600).await[0].attempts, 2);
    fresh.store.give_back_unsummarised(&[taken[0].session]).await.unwrap();
    assert_eq!(take(600).await[0].attempts, 2, "giving back is no attempt");
    let new = |text| NewSummary {
        summary: Some(text),
        call: None,
        message_count: 2,
        token_count: 20,
        conversation: "Tokyo",
    };
    assert!(fresh.store.write_summary(taken[0].session, &new("A journey.")).await.unwrap());
    assert!(!fresh.store.write_summary(taken[0].session, &new("Late.")).await.unwrap(), "the first is kept");
    fresh.store.give_back_unsummarised(&[taken[0].session]).await.unwrap();
    assert!(take(600).await.is_empty());
    let session = fresh.store.session(fresh.tenant, taken[0].session).await.unwrap();
    assert_eq!((session.summary.as_str(), session.by_model, session.pending), ("A journey.", true, false));
    assert_eq!((session.message_count, session.token_count), (Some(2), Some(20)));
    let other = fresh.store.ensure_tenant(fresh.ids.next(), "other").await.unwrap();
    assert!(matches!(fresh.store.session(other, session.id).await, Err(Error::NotFound { .. })));
    assert!(fresh.store.sessions(other, fresh.goal, None, 10).await.unwrap().is_empty());
}

/// What may happen to an agentable.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Post,
    Claim,
    Finish,
    Quiet,
    Sweep,
    Close,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        3 => Just(Deed::Post),
        3 => Just(Deed::Claim),
        3 => Just(Deed::Finish),
        2 => Just(Deed::Quiet),
        2 => Just(Deed::Sweep),
        1 => Just(Deed::Close),
    ];
    proptest::collection::vec(deed, 1..40)
}

/// Does them, and looks after each whether the sessions divide the history: one after the other, without a gap, each
/// beginning with the user, none reaching into what a run still writes.
async fn walk(fresh: &Fresh, deeds: &[Deed]) {
    let mut driven: Option<(Claimed, i64)> = None;
    for deed in deeds {
        match deed {
            Deed::Post => drop(fresh.post("hi").await),
            Deed::Claim if driven.is_none() => {
                let claimed = fresh.claim().await;
                driven = claimed.map(|claimed| (claimed, positions(fresh).0));
            }
            Deed::Finish => {
                if let Some((claimed, _)) = driven.take() {
                    let step = answer(fresh, &claimed, "yes");
                    let done = crate::step::done(fresh.store.commit(&claimed.fence, &step).await.unwrap());
                    driven = done.went_on.then(|| (claimed, positions(fresh).0));
                }
            }
            Deed::Quiet => two_hours_pass(fresh),
            Deed::Sweep => drop(fresh.store.close_quiet(fresh.goal, fresh.ids.next()).await.unwrap()),
            Deed::Close => {
                let reason = CompletionReason::FeedGenerationComplete;
                fresh.store.close_session(fresh.goal, reason, fresh.ids.next()).await.unwrap();
            }
            Deed::Claim => {}
        }
        let (closed_to, last) = positions(fresh);
        let mut next = 1;
        for (session, number) in sessions(fresh).await.iter().rev().zip(1..) {
            assert_eq!((session.number, session.positions.0), (number, next), "{deeds:?}");
            assert!(session.positions.1 >= next && session.positions.1 <= last);
            next = session.positions.1 + 1;
        }
        assert_eq!(next, closed_to + 1, "{deeds:?}");
        if let Some((_, at_claim)) = &driven {
            assert_eq!(closed_to, *at_claim, "closed under a run: {deeds:?}");
        }
    }
    let numbers: Vec<i64> = told(fresh).await;
    assert!(numbers.iter().zip(1..).all(|(told, number)| *told == number), "{numbers:?} {deeds:?}");
}

/// How far sessions are closed, and how far the history goes.
fn positions(fresh: &Fresh) -> (i64, i64) {
    let row = fresh.sql(&format!(
        "select session_position, last_position from houston.run_locks where agentable_id = '{}'",
        fresh.goal.0
    ));
    let (closed, last) = row.trim().split_once('|').unwrap();
    (closed.parse().unwrap(), last.parse().unwrap())
}

#[test]
fn whatever_happens_sessions_divide_the_history() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fresh = std::cell::RefCell::new(runtime.block_on(archiving()));
    let mut runner =
        proptest::test_runner::TestRunner::new(ProptestConfig { cases: 24, ..ProptestConfig::default() });
    let outcome = runner.run(&deeds(), |deeds| {
        let mut fresh = fresh.borrow_mut();
        runtime.block_on(async {
            fresh.goal = crate::fresh::goal(&fresh.store, &fresh.ids, fresh.tenant).await;
            walk(&fresh, &deeds).await;
        });
        Ok(())
    });
    outcome.unwrap();
}
