//! Reading the events of all agentables: each once, however late its transaction commits.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use houston_domain::event::{Committed, Event};
use houston_domain::id::AgentableId;
use houston_domain::step::RunTransition;
use houston_store::Error;
use houston_store::event::{EventPosition, InvalidPosition};
use sqlx::{Connection as _, PgConnection};

use crate::step::{answer, done};
use crate::test_store::{TestStore, goal};

/// What a reader has read of each agentable.
type Streams = HashMap<AgentableId, Vec<Committed>>;

/// Reads what is visible after `position`, page by page, through the text of the position.
async fn read(test: &TestStore, position: &mut EventPosition, limit: i64, streams: &mut Streams) {
    loop {
        let page = test.store.api().events_of_tenants(position, limit, &[test.tenant]).await.unwrap();
        assert!(page.events.len() <= usize::try_from(limit).unwrap());
        for any in page.events {
            assert_eq!(any.tenant, test.tenant);
            streams.entry(any.owner.agentable).or_default().push(any.event);
        }
        *position = page.next.to_string().parse().unwrap();
        assert_eq!(*position, page.next);
        if !page.has_more {
            return;
        }
    }
}

async fn turn(test: &TestStore, goal: AgentableId) {
    test.post_to(goal, "hi").await.unwrap();
    let claimed = test.claim_of(goal).await.unwrap();
    // A step whose event is stored, and an end that follows from the run.
    let event = Event::Thought { text: "hm".into(), withdrawn_at: None };
    let step = test.step(&claimed, RunTransition::Continue { read: false, event: Some(event) });
    done(test.runs().commit(&claimed.fence, &step).await.unwrap());
    done(test.runs().commit(&claimed.fence, &answer(test, &claimed, "hello")).await.unwrap());
}

/// Goals of as many users, so that none waits for another.
async fn goals(test: &TestStore, count: usize) -> Vec<AgentableId> {
    join_all((0..count).map(|_| goal(&test.store, &test.ids, test.tenant))).await
}

async fn post_by_sql(connection: &mut PgConnection, goal: AgentableId) {
    let post = "select houston.post_message($1, 'late')";
    sqlx::query(post).bind(goal.0).execute(connection).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn event_that_cannot_be_read_stops_no_reader() {
    let test = TestStore::start().await;
    let goals = goals(&test, 2).await;
    let mut position = test.runs().event_position().await.unwrap();
    for goal in &goals {
        turn(&test, *goal).await;
    }
    let broken = test.sql(&format!(
        "update houston.events set data = '{{\"type\": 7}}' where agentable_id = '{}' and message_id is null returning seq",
        goals[0].0
    ));
    let broken: i64 = broken.lines().next().unwrap().trim().parse().unwrap();
    let mut streams = Streams::new();
    read(&test, &mut position, 100, &mut streams).await;
    let seqs = |goal: &AgentableId| streams[goal].iter().map(|event| event.seq).collect::<Vec<_>>();
    let (first, second) = (seqs(&goals[0]), seqs(&goals[1]));
    assert_eq!(first, second.iter().copied().filter(|seq| *seq != broken).collect::<Vec<_>>());
    assert!(second.contains(&broken));
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_all_are_read_once_and_in_order() {
    let test = TestStore::start().await;
    let goals = goals(&test, 6).await;
    let mut position = test.runs().event_position().await.unwrap();
    let open = AtomicUsize::new(goals.len());
    let write = join_all(goals.iter().enumerate().map(async |(nth, goal)| {
        for _ in 0..8 {
            turn(&test, *goal).await;
            // The transaction of an application commits after several turns of the other agentables.
            let mut application = PgConnection::connect(test.database.url()).await.unwrap();
            let mut tx = application.begin().await.unwrap();
            post_by_sql(&mut tx, *goal).await;
            let others = goals[(nth + 1) % goals.len()];
            test.requests().events_after(others, 0, 1000).await.unwrap();
            tx.commit().await.unwrap();
            let claimed = test.claim_of(*goal).await.unwrap();
            done(test.runs().commit(&claimed.fence, &answer(&test, &claimed, "hello")).await.unwrap());
        }
        open.fetch_sub(1, Ordering::Relaxed);
    }));
    let mut streams = Streams::new();
    let follow = async {
        while open.load(Ordering::Relaxed) > 0 {
            read(&test, &mut position, 7, &mut streams).await;
        }
        read(&test, &mut position, 7, &mut streams).await;
    };
    tokio::join!(write, follow);
    for goal in &goals {
        let stream = test.requests().events_after(*goal, 0, 10_000).await.unwrap();
        assert_eq!(stream.len(), 8 * (6 + 5), "{stream:?}");
        assert_eq!(streams.remove(goal).unwrap(), stream);
    }
    assert!(streams.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn open_transaction_delays_only_its_own_events() {
    let test = TestStore::start().await;
    let goals = goals(&test, 2).await;
    let mut position = test.runs().event_position().await.unwrap();
    let mut application = PgConnection::connect(test.database.url()).await.unwrap();
    let mut tx = application.begin().await.unwrap();
    post_by_sql(&mut tx, goals[0]).await;
    turn(&test, goals[1]).await;

    let mut streams = Streams::new();
    read(&test, &mut position, 100, &mut streams).await;
    assert_eq!(streams.keys().collect::<Vec<_>>(), [&goals[1]]);
    tx.commit().await.unwrap();
    let mut late = Streams::new();
    read(&test, &mut position, 1, &mut late).await;
    assert_eq!(late.remove(&goals[0]).unwrap(), test.requests().events_after(goals[0], 0, 10).await.unwrap());
    assert!(late.is_empty());

    // A position goes on where it is, whatever was read since.
    read(&test, &mut position, 100, &mut late).await;
    assert!(late.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn position_of_another_database_is_refused() {
    let test = TestStore::start().await;
    for text in ["9000000000:9000000001:9000000000", "1:2:~1:9000000000:~0190a5c1e0e07000800000000000cafe~3"]
    {
        let position = text.parse().unwrap();
        let error = test.store.api().events_of_tenants(&position, 10, &[test.tenant]).await.unwrap_err();
        assert!(matches!(error, Error::UnknownPosition), "{error}");
    }
}

#[test]
fn texts_that_are_no_positions_are_refused() {
    for text in [
        "",
        "1",
        "1:2",
        "0:2:",
        "3:2:",
        "1:2:2",
        "1:4:3,2",
        "1:4:x",
        "1:2:~1:3:",
        "1:2:~1:3:~x~1",
        "a:b:c",
        "1:2:~1:3:~0190a5c1e0e07000800000000000cafe~1~2",
        "1:2:3:4",
        "1:2:'; drop",
    ] {
        assert_eq!(text.parse::<EventPosition>(), Err(InvalidPosition), "{text}");
    }
}
