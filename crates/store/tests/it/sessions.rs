//! Sessions: closed once, never during a run, and no message posted meanwhile is lost.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use houston_domain::event::Event;
use houston_domain::id::SessionId;
use houston_domain::knowledge::PromptLimits;
use houston_domain::session::{CompletionReason, SessionArchive, SummarySource};
use houston_store::claim::ClaimedRun;
use houston_store::session::Session;
use houston_store::session_summary::NewSummary;
use houston_store::{Archiving, Error};
use proptest::prelude::*;
use sqlx::{Connection as _, PgConnection};

use crate::step::answer;
use crate::test_store::{TestStore, goal};

/// A store that closes the sessions of goals after an hour of quiet.
pub(crate) async fn archiving() -> TestStore {
    let mut test = TestStore::start().await;
    let settings = SessionArchive { quiet_ms: 3_600_000, ..SessionArchive::default() };
    test.store =
        test.store.with(|own| own.archiving = Archiving { kinds: vec!["goal".into()], settings }.into());
    test
}

/// Moves all timestamps two hours back.
pub(crate) fn two_hours_pass(test: &TestStore) {
    test.sql(
        "update houston.history set created_at = created_at - interval '2 hours';
         update houston.runs set created_at = created_at - interval '2 hours';
         update houston.session_states set look_at = look_at - interval '2 hours';",
    );
}

/// A message and its answer.
pub(crate) async fn exchange(test: &TestStore, text: &str) -> ClaimedRun {
    test.post(text).await;
    let claimed = test.claim().await.unwrap();
    test.runs().commit(&claimed.fence, &answer(test, &claimed, &format!("about {text}"))).await.unwrap();
    claimed
}

/// Closes the open session, as a reset and the end of a feed do. Returns what became of it.
pub(crate) async fn close(test: &TestStore, reason: CompletionReason, session: SessionId) -> String {
    let mut connection = PgConnection::connect(test.database.url()).await.unwrap();
    let close = sqlx::query_scalar("select houston.close_session($1, $2, $3)").bind(test.goal.0);
    close.bind(reason.as_str()).bind(session.0).fetch_one(&mut connection).await.unwrap()
}

pub(crate) async fn sessions(test: &TestStore) -> Vec<Session> {
    test.requests().sessions(test.goal, None, 1000).await.unwrap()
}

/// The texts of the history that the run of `claimed` starts from.
async fn seen(test: &TestStore, claimed: &ClaimedRun) -> Vec<String> {
    let limits = PromptLimits::default();
    let context = test.runs().run_context(test.goal, claimed.run, 10, &limits).await.unwrap();
    context.history.iter().map(houston_domain::history::Entry::text).collect()
}

/// The numbers of the closed sessions in the event stream, in its order.
async fn reported(test: &TestStore) -> Vec<i64> {
    let events = test.requests().events_after(test.goal, 0, 100_000).await.unwrap();
    assert!(events.iter().zip(1..).all(|(event, seq)| event.seq == seq), "the stream has a gap");
    let number = |event: &Event| match event {
        Event::SessionArchived { number, .. } => Some(*number),
        _ => None,
    };
    events.iter().filter_map(|event| number(&event.event)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn message_after_quiet_time_opens_session_and_reports_the_last() {
    let test = archiving().await;
    exchange(&test, "Tokyo").await;
    exchange(&test, "Kyoto").await;
    two_hours_pass(&test);
    test.post("Osaka").await;
    let claimed = test.claim().await.unwrap();
    assert_eq!(seen(&test, &claimed).await, ["Osaka"], "the closed session is not sent again");
    let [session] = &sessions(&test).await[..] else { panic!("one session") };
    assert_eq!((session.number, session.first_position, session.last_position), (1, 1, 4));
    assert_eq!((session.reason, session.pending), (CompletionReason::SessionTimeout, true));
    assert_eq!(session.summary, "The user wrote: Tokyo / Kyoto", "the extract, until a summary is written");
    assert!(session.started_at < session.completed_at);
    assert_eq!(reported(&test).await, [1], "inside the run: between two runs a stream sends nothing");
    let events = test.requests().events_after(test.goal, claimed.event.seq, 10).await.unwrap();
    assert!(matches!(&events[..], [one] if one.run_id == claimed.run));
    // The rest of the run stays in the session.
    test.runs().commit(&claimed.fence, &answer(&test, &claimed, "yes")).await.unwrap();
    exchange(&test, "Nara").await;
    assert_eq!((sessions(&test).await.len(), reported(&test).await), (1, vec![1]));
    let entries = test.requests().session_history(session, 1, 10).await.unwrap();
    assert_eq!(entries.iter().map(|entry| entry.position).collect::<Vec<_>>(), [2, 3, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_worker_is_not_quiet_time() {
    let test = archiving().await;
    exchange(&test, "Tokyo").await;
    test.post("Kyoto").await;
    // The message was posted at once, but no worker claimed it.
    two_hours_pass(&test);
    let claimed = test.claim().await.unwrap();
    assert_eq!(seen(&test, &claimed).await.len(), 3);
    assert!(sessions(&test).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn sweep_closes_quiet_sessions_without_open_runs() {
    let test = archiving().await;
    exchange(&test, "Tokyo").await;
    assert!(test.runs().sessions_due(10).await.unwrap().is_empty(), "not yet");
    assert!(
        !test.runs().close_quiet(test.goal, test.ids.next()).await.unwrap(),
        "nor for who asks all the same"
    );
    two_hours_pass(&test);
    assert_eq!(test.runs().sessions_due(10).await.unwrap(), [test.goal]);
    test.post("Kyoto").await;
    assert!(!test.runs().close_quiet(test.goal, test.ids.next()).await.unwrap(), "a run is open");
    assert!(test.runs().sessions_due(10).await.unwrap().is_empty(), "looked at again in an hour");
    let claimed = test.claim().await.unwrap();
    assert_eq!(sessions(&test).await.len(), 1, "that message came after the quiet");
    two_hours_pass(&test);
    assert!(!test.runs().close_quiet(test.goal, test.ids.next()).await.unwrap(), "a run is held");
    test.runs().commit(&claimed.fence, &answer(&test, &claimed, "yes")).await.unwrap();
    two_hours_pass(&test);
    assert!(test.runs().close_quiet(test.goal, test.ids.next()).await.unwrap());
    assert!(!test.runs().close_quiet(test.goal, test.ids.next()).await.unwrap(), "once");
    assert!(test.runs().sessions_due(10).await.unwrap().is_empty(), "no session is open: nothing is due");
    assert_eq!(sessions(&test).await.len(), 2);
    assert_eq!(reported(&test).await, [1]);
    exchange(&test, "Osaka").await;
    assert_eq!(reported(&test).await, [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_fifty_concurrent_closes_succeeds() {
    let test = archiving().await;
    for round in 1..=3 {
        exchange(&test, "Tokyo").await;
        two_hours_pass(&test);
        let racing = (0..50).map(|nth| {
            let (test, session): (_, SessionId) = (&test, test.ids.next());
            async move {
                if nth % 10 > 0 {
                    test.runs().close_quiet(test.goal, session).await.unwrap()
                } else {
                    close(test, CompletionReason::FeedGenerationComplete, session).await == "closed"
                }
            }
        });
        let closed = join_all(racing).await.into_iter().filter(|closed| *closed).count();
        assert_eq!((closed, sessions(&test).await.len()), (1, round));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn close_during_a_run_is_deferred_until_the_next() {
    let test = archiving().await;
    let close = async || close(&test, CompletionReason::FeedGenerationComplete, test.ids.next()).await;
    assert_eq!(close().await, "nothing");
    test.post("the feed, please").await;
    let claimed = test.claim().await.unwrap();
    assert_eq!(close().await, "deferred");
    assert!(sessions(&test).await.is_empty());
    test.runs().commit(&claimed.fence, &answer(&test, &claimed, "there it is")).await.unwrap();
    // The next message was posted at once and is not part of that session.
    test.post("thanks").await;
    let next = test.claim().await.unwrap();
    assert_eq!(seen(&test, &next).await, ["thanks"]);
    let [session] = &sessions(&test).await[..] else { panic!("one session") };
    assert_eq!(
        (session.reason, session.first_position, session.last_position),
        (CompletionReason::FeedGenerationComplete, 1, 2)
    );
    test.runs().commit(&next.fence, &answer(&test, &next, "welcome")).await.unwrap();
    // A run that is queued but not claimed does not prevent closing: its message begins the next session.
    test.post("and now?").await;
    assert_eq!(close().await, "closed");
    let next = test.claim().await.unwrap();
    assert_eq!(seen(&test, &next).await, ["and now?"]);
    assert_eq!(reported(&test).await, [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn deferred_close_without_a_next_message_is_done_by_the_sweep() {
    let test = archiving().await;
    test.post("the feed, please").await;
    let claimed = test.claim().await.unwrap();
    let (reason, session) = (CompletionReason::Reset, test.ids.next());
    assert_eq!(close(&test, reason, session).await, "deferred");
    assert_eq!(
        test.runs().sessions_due(10).await.unwrap(),
        [test.goal],
        "soon, regardless of the quiet time"
    );
    test.runs().commit(&claimed.fence, &answer(&test, &claimed, "there it is")).await.unwrap();
    assert!(test.runs().close_quiet(test.goal, session).await.unwrap());
    assert_eq!(sessions(&test).await[0].reason, CompletionReason::Reset);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_reset_closes_sessions_of_kinds_that_keep_them() {
    let mut test = archiving().await;
    exchange(&test, "Tokyo").await;
    two_hours_pass(&test);
    test.store = test.store.clone().with(|own| own.archiving = Archiving::default().into());
    assert!(!test.runs().close_quiet(test.goal, test.ids.next()).await.unwrap());
    exchange(&test, "Kyoto").await;
    assert!(sessions(&test).await.is_empty() && test.runs().sessions_due(10).await.unwrap().is_empty());
    assert_eq!(close(&test, CompletionReason::Reset, test.ids.next()).await, "closed");
}

/// In whatever order a post and a close run, the message is read once and belongs to one session.
#[tokio::test(flavor = "multi_thread")]
async fn message_racing_with_a_session_close_is_read_once() {
    let test = archiving().await;
    for round in 0..40 {
        exchange(&test, &format!("before {round}")).await;
        two_hours_pass(&test);
        let text = format!("meanwhile {round}");
        let (session, other) = (test.ids.next(), test.ids.next());
        let claim = async {
            test.post(&text).await;
            test.claim().await.unwrap()
        };
        let (by_sweep, claimed, _) = tokio::join!(
            test.runs().close_quiet(test.goal, session),
            claim,
            close(&test, CompletionReason::SessionTimeout, other),
        );
        by_sweep.unwrap();
        assert_eq!(seen(&test, &claimed).await, [text.as_str()], "it begins the new session");
        assert_eq!(sessions(&test).await.len(), round + 1);
        test.runs().commit(&claimed.fence, &answer(&test, &claimed, "yes")).await.unwrap();
        // A close requested during the run is due now; a sweep during the run has postponed it by seconds.
        test.sql("update houston.session_states set look_at = now() where close_reason is not null");
        test.runs().close_quiet(test.goal, test.ids.next()).await.unwrap();
        let count = sessions(&test).await.len();
        assert!((round + 1..=round + 2).contains(&count));
        if count > round + 1 {
            return_to(&test, round + 1);
        }
    }
    let all = test.requests().history(test.goal, 0, 1000).await.unwrap();
    let texts: Vec<String> = all.iter().map(|entry| entry.entry.text()).collect();
    let distinct: BTreeSet<&String> = texts.iter().filter(|text| text.starts_with("meanwhile")).collect();
    assert_eq!(distinct.len(), 40);
    assert_eq!(texts.iter().filter(|text| text.starts_with("meanwhile")).count(), 40);
}

/// Undoes the last close, so that each round of a test begins alike.
fn return_to(test: &TestStore, number: usize) {
    test.sql(&format!(
        "delete from houston.sessions where number > {number};
         update houston.session_states set last_number = {number}, reported_number = {number};
         update houston.run_locks l set session_position = coalesce((select max(last_position) from houston.sessions s
          where s.agentable_id = l.agentable_id), 0)"
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn summary_is_written_once_even_if_its_writer_dies() {
    let test = archiving().await;
    exchange(&test, "Tokyo").await;
    two_hours_pass(&test);
    assert!(test.runs().close_quiet(test.goal, test.ids.next()).await.unwrap());
    let take = async |seconds| {
        test.runs().take_pending_summaries(std::time::Duration::from_secs(seconds), 10).await.unwrap()
    };
    let taken = take(600).await;
    assert_eq!((taken.len(), taken[0].attempts), (1, 1));
    assert_eq!((taken[0].first_position, taken[0].last_position), (1, 2));
    assert!(take(600).await.is_empty(), "another writer has it");
    // The writer dies: its lease expires.
    test.sql("update houston.sessions set summary_due_at = now()");
    assert_eq!(take(600).await[0].attempts, 2);
    test.runs().return_pending_summaries(&[taken[0].session]).await.unwrap();
    assert_eq!(take(600).await[0].attempts, 2, "giving back is no attempt");
    let new = |text| NewSummary {
        summary: Some(text),
        calls: &[],
        message_count: 2,
        token_count: 20,
        conversation: "Tokyo",
        untrusted: true,
    };
    assert!(test.runs().write_summary(taken[0].session, &new("A journey.")).await.unwrap());
    assert!(
        !test.runs().write_summary(taken[0].session, &new("Late.")).await.unwrap(),
        "the first summary stays"
    );
    let limits = PromptLimits::default();
    let context = test.runs().run_context(test.goal, test.ids.next(), 10, &limits).await.unwrap();
    let earlier = &context.sessions[0];
    assert_eq!((earlier.summary.as_str(), earlier.untrusted), ("A journey.", true));
    test.runs().return_pending_summaries(&[taken[0].session]).await.unwrap();
    assert!(take(600).await.is_empty());
    let session = test.requests().session(taken[0].session).await.unwrap();
    assert_eq!(
        (session.summary.as_str(), session.summary_source, session.pending),
        ("A journey.", SummarySource::Model, false)
    );
    assert_eq!((session.message_count, session.token_count), (Some(2), Some(20)));
    let other = test.store.operator().ensure_tenant(test.ids.next(), "other").await.unwrap();
    assert!(matches!(test.store.tenant(other).session(session.id).await, Err(Error::NotFound { .. })));
    assert!(test.store.tenant(other).sessions(test.goal, None, 10).await.unwrap().is_empty());
}

/// An action on an agentable.
#[derive(Debug, Clone, Copy)]
enum Action {
    Post,
    Claim,
    Finish,
    Quiet,
    Sweep,
    Close,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        3 => Just(Action::Post),
        3 => Just(Action::Claim),
        3 => Just(Action::Finish),
        2 => Just(Action::Quiet),
        2 => Just(Action::Sweep),
        1 => Just(Action::Close),
    ];
    proptest::collection::vec(action, 1..40)
}

/// Executes the actions and checks after each that the sessions partition the history: consecutive, without a gap,
/// each beginning with a user entry, none containing entries of a run that is still held.
async fn walk(test: &TestStore, actions: &[Action]) {
    let mut driven: Option<(ClaimedRun, i64)> = None;
    for action in actions {
        match action {
            Action::Post => drop(test.post("hi").await),
            Action::Claim if driven.is_none() => {
                let claimed = test.claim().await;
                driven = claimed.map(|claimed| (claimed, positions(test).0));
            }
            Action::Finish => {
                if let Some((mut claimed, _)) = driven.take() {
                    let step = answer(test, &claimed, "yes");
                    claimed.next_message = test.ids.next();
                    let done = crate::step::done(test.runs().commit(&claimed.fence, &step).await.unwrap());
                    driven = done.continued.then(|| (claimed, positions(test).0));
                }
            }
            Action::Quiet => two_hours_pass(test),
            Action::Sweep => drop(test.runs().close_quiet(test.goal, test.ids.next()).await.unwrap()),
            Action::Close => {
                let reason = CompletionReason::FeedGenerationComplete;
                close(test, reason, test.ids.next()).await;
            }
            Action::Claim => {}
        }
        let (closed_to, last) = positions(test);
        let mut next = 1;
        for (session, number) in sessions(test).await.iter().rev().zip(1..) {
            assert_eq!((session.number, session.first_position), (number, next), "{actions:?}");
            assert!(session.last_position >= next && session.last_position <= last);
            next = session.last_position + 1;
        }
        assert_eq!(next, closed_to + 1, "{actions:?}");
        if let Some((_, at_claim)) = &driven {
            assert_eq!(closed_to, *at_claim, "closed during a run: {actions:?}");
        }
    }
    let numbers: Vec<i64> = reported(test).await;
    assert!(numbers.iter().zip(1..).all(|(reported, number)| *reported == number), "{numbers:?} {actions:?}");
}

/// The position up to which sessions are closed, and the last position.
fn positions(test: &TestStore) -> (i64, i64) {
    let row = test.sql(&format!(
        "select session_position, last_position from houston.run_locks where agentable_id = '{}'",
        test.goal.0
    ));
    let (closed, last) = row.trim().split_once('|').unwrap();
    (closed.parse().unwrap(), last.parse().unwrap())
}

#[test]
fn sessions_always_partition_the_history() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let test = std::cell::RefCell::new(runtime.block_on(archiving()));
    let mut runner =
        proptest::test_runner::TestRunner::new(ProptestConfig { cases: 24, ..ProptestConfig::default() });
    let outcome = runner.run(&actions(), |actions| {
        let mut test = test.borrow_mut();
        runtime.block_on(async {
            test.goal = crate::test_store::goal(&test.store, &test.ids, test.tenant).await;
            walk(&test, &actions).await;
        });
        Ok(())
    });
    outcome.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn summaries_are_written_for_tenants_in_turns() {
    let test = archiving().await;
    exchange(&test, "Tokyo").await;
    two_hours_pass(&test);
    assert!(test.runs().close_quiet(test.goal, test.ids.next()).await.unwrap());
    let stranger = test.store.operator().ensure_tenant(test.ids.next(), "stranger").await.unwrap();
    let theirs = goal(&test.store, &test.ids, stranger).await;
    let copies = |count: i32, tenant: uuid::Uuid, goal: uuid::Uuid, due: &str| {
        test.sql(&format!(
            "insert into houston.sessions (id, tenant_id, agentable_id, number, first_position, last_position, started_at,
                                           completed_at, completion_reason, summary, summary_due_at)
             select gen_random_uuid(), '{tenant}', '{goal}', 100 + n, 1, 2, now(), now(), 'reset', 'x', now() - interval '{due}'
               from generate_series(1, {count}) n"
        ));
    };
    copies(50, test.tenant.0, test.goal.0, "1 hour");
    copies(1, stranger.0, theirs.0, "1 minute");
    let taken = test.runs().take_pending_summaries(std::time::Duration::from_secs(600), 4).await.unwrap();
    assert_eq!(taken.len(), 4);
    assert_eq!(taken.iter().filter(|one| one.tenant == stranger).count(), 1, "{taken:?}");
}
