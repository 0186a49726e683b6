//! A dump that was restored to another server: readers of events go on where they were, and take no old event for a new one.

use std::collections::BTreeMap;

use houston_domain::event::Event;
use houston_domain::step::RunTransition;
use houston_store::fan_out::FannedOut;
use houston_store::webhook::NewWebhook;

use crate::step::{answer, done};
use crate::test_store::TestStore;

/// How far the other server was ahead.
const AHEAD: u64 = 5_000_000;

async fn turn(test: &TestStore) {
    test.post_to(test.goal, "hi").await.unwrap();
    let claimed = test.claim_of(test.goal).await.unwrap();
    let event = Event::Thought { text: "hm".into(), withdrawn_at: None };
    let step = test.step(&claimed, RunTransition::Continue { read: false, event: Some(event) });
    done(test.runs().commit(&claimed.fence, &step).await.unwrap());
    done(test.runs().commit(&claimed.fence, &answer(test, &claimed, "hello")).await.unwrap());
}

async fn subscribe(test: &TestStore) {
    let new = NewWebhook {
        id: test.ids.next(),
        url: "https://hooks.example.com",
        description: "",
        topics: &["**".to_owned()],
        user: None,
        kind: None,
        agentable: None,
        sealed: b"secret",
    };
    test.requests().create_webhook(&new).await.unwrap();
}

/// Reads for webhooks until nothing is left; returns what there is to deliver by now.
async fn read(test: &TestStore) -> BTreeMap<i64, i64> {
    loop {
        let now = test.ids.clock().now();
        match test.runs().fan_out(&test.ids, 100, now).await.unwrap() {
            FannedOut::Read { has_more: true, .. } => {}
            FannedOut::Read { .. } | FannedOut::Idle => break,
            FannedOut::Restarted => panic!("the position is lost"),
        }
    }
    let rows = test.sql("select seq, count(*) from houston.deliveries group by 1");
    let number = |text: &str| text.parse::<i64>().unwrap();
    rows.lines()
        .filter_map(|line| line.split_once('|'))
        .map(|(seq, count)| (number(seq), number(count)))
        .collect()
}

/// What the rows would be after a dump of a server that is ahead.
fn come_from_another_server(test: &TestStore) {
    for (table, column) in [
        ("events", "xid"),
        ("messages", "xid"),
        ("runs", "first_xid"),
        ("runs", "started_xid"),
        ("runs", "last_xid"),
    ] {
        test.sql(&format!("update houston.{table} set {column} = {column} + {AHEAD}"));
    }
    let position = test.sql("select position from houston.readers");
    let ahead =
        |number: &str| number.parse::<u64>().map_or(String::new(), |number| (number + AHEAD).to_string());
    let parts: Vec<String> = position
        .trim()
        .split(':')
        .map(|part| part.split(',').map(ahead).collect::<Vec<_>>().join(","))
        .collect();
    test.sql(&format!("update houston.readers set position = '{}'", parts.join(":")));
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_events_are_delivered_once_and_old_ones_never() {
    let test = TestStore::start().await;
    turn(&test).await;
    subscribe(&test).await;
    turn(&test).await;
    let before = read(&test).await;
    assert!(!before.is_empty());
    // The events of this one are unread when the dump is taken.
    turn(&test).await;
    come_from_another_server(&test);

    test.store.migrate().await.unwrap();
    let events = test.requests().events_after(test.goal, 0, 1000).await.unwrap();
    let unread = *before.keys().max().unwrap();
    let subscribed = *before.keys().min().unwrap();
    let expected: BTreeMap<i64, i64> =
        events.iter().map(|event| event.seq).filter(|seq| *seq >= subscribed).map(|seq| (seq, 1)).collect();
    assert!(events.last().unwrap().seq > unread);
    assert_eq!(read(&test).await, expected, "what was unread, and nothing twice");

    let ahead = "select count(*) from houston.events where xid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
    assert_eq!(test.sql(ahead).trim(), "0");
    // Another migration finds nothing to do, and what happens now is read as ever.
    let position = test.sql("select position from houston.readers");
    test.store.migrate().await.unwrap();
    assert_eq!(test.sql("select position from houston.readers"), position);
    turn(&test).await;
    let read = read(&test).await;
    assert!(read.len() > expected.len() && read.values().all(|count| *count == 1), "{read:?}");
}
