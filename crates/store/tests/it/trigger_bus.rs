//! Triggers under load: the reader misses, doubles and inverts nothing, whatever dies; times fire once on the nights when the
//! clocks change.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use futures_util::future::join_all;
use houston_domain::id::{AgentableId, TriggerId};
use houston_domain::trigger::{Misfire, When};
use houston_store::trigger_firing::FiringLimits;
use houston_store::trigger_reader::Listened;
use sqlx::{Connection as _, PgConnection};

use crate::test_store::{TestStore, goal};
use crate::triggers::{LIMITS, READING, create, event, ids, new};

const WRITERS: usize = 8;
const MESSAGES: usize = 25;

/// Polls a future at most so often, then drops it, as a process that dies drops its connection.
async fn polled<F: Future>(future: F, mut polls: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    std::future::poll_fn(|context| {
        let Some(left) = polls.checked_sub(1) else { return Poll::Ready(None) };
        polls = left;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// Reads as a process that dies again and again, at another place each time. Returns how often it has died.
async fn dying_reader(test: &TestStore, open: &AtomicUsize) -> usize {
    let (mut round, mut deaths) = (0_usize, 0);
    while open.load(Ordering::Relaxed) > 0 || deaths < 50 {
        let read = test.runs().listen_for_triggers(READING, test.ids.clock().now());
        deaths += usize::from(polled(read, 1 + round * 7 % 40).await.is_none());
        round += 1;
    }
    deaths
}

async fn fire_heard(test: &TestStore) {
    let limits = FiringLimits { per_hour: 100_000, ..LIMITS };
    for heard in test.runs().heard(1000, 1000).await.unwrap() {
        let now = test.ids.clock().now();
        test.runs().fire_at_event(heard, limits, ids(test, now)).await.unwrap();
    }
}

async fn read_all(test: &TestStore) {
    loop {
        match test.runs().listen_for_triggers(READING, test.ids.clock().now()).await.unwrap() {
            Listened::Read { has_more: false, .. } => return,
            Listened::Restarted => panic!("the position is lost"),
            Listened::Read { .. } | Listened::Idle => {}
        }
    }
}

/// What users wrote, and what triggers have reported, in their orders.
fn written_and_reported(test: &TestStore, goal: AgentableId) -> (Vec<String>, Vec<String>) {
    let lines = |sql: &str| test.sql(sql).lines().map(|line| line.trim().to_owned()).collect();
    let written = format!(
        "select 'msg_' || replace(id::text, '-', '') from houston.messages where agentable_id = '{}' and source = 'user' order by seq",
        goal.0
    );
    let reported = format!(
        "select substring(content from '(msg_[0-9a-f]+)') from houston.messages
          where agentable_id = '{}' and metadata ->> 'type' = 'trigger' order by seq",
        goal.0
    );
    (lines(&written), lines(&reported))
}

#[tokio::test(flavor = "multi_thread")]
async fn reader_that_dies_misses_doubles_and_inverts_nothing() {
    let test = TestStore::start().await;
    let goals = join_all((0..=WRITERS).map(|_| goal(&test.store, &test.ids, test.tenant))).await;
    for goal in &goals {
        let mut trigger = new(&test, *goal, event("message.posted")).await;
        trigger.instructions = "{{ event.data.message_id }}".into();
        create(&test, trigger).await;
    }
    let (late_goal, busy) = goals.split_last().unwrap();
    // A transaction that is open all the time delays its own events only.
    let mut application = PgConnection::connect(test.database.url()).await.unwrap();
    let mut late = application.begin().await.unwrap();
    let post = "select houston.post_message($1, 'late')";
    sqlx::query(post).bind(late_goal.0).execute(&mut *late).await.unwrap();
    let open = AtomicUsize::new(busy.len());
    let write = join_all(busy.iter().map(async |goal| {
        for _ in 0..MESSAGES {
            test.post_to(*goal, "hi").await.unwrap();
        }
        open.fetch_sub(1, Ordering::Relaxed);
    }));
    let fire = async {
        while open.load(Ordering::Relaxed) > 0 {
            fire_heard(&test).await;
        }
    };
    let (_, first, second, ()) =
        tokio::join!(write, dying_reader(&test, &open), dying_reader(&test, &open), fire);
    assert!(first + second >= 100, "{first} {second}");
    read_all(&test).await;
    fire_heard(&test).await;
    assert_eq!(written_and_reported(&test, *late_goal).1, [""; 0], "nothing of the open transaction");
    late.commit().await.unwrap();
    read_all(&test).await;
    fire_heard(&test).await;
    for goal in &goals {
        let (written, reported) = written_and_reported(&test, *goal);
        assert_eq!(reported, written, "each once, in its order");
        assert_eq!(written.len(), if goal == late_goal { 1 } else { MESSAGES });
    }
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

/// Fires what is due at `now`, as four workers at once.
async fn fire_as_four(test: &TestStore, now: DateTime<Utc>) {
    let worker = || async {
        for due in test.runs().due_triggers(now, 10).await.unwrap() {
            test.runs().fire_at_time(due, LIMITS, ids(test, now)).await.unwrap();
        }
    };
    join_all((0..4).map(|_| worker())).await;
}

/// On which days of its zone a trigger has fired.
fn days_of(test: &TestStore, id: TriggerId) -> Vec<NaiveDate> {
    let sql = format!(
        "select substring(content from ' at=\"(.{{10}})') from houston.messages where metadata ->> 'trigger_id' = '{id}' order by seq"
    );
    test.sql(&sql).lines().map(|day| day.trim().parse().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nights_when_the_clocks_change_fire_once() {
    let test = TestStore::start().await;
    for (cron, zone, night) in [
        ("30 2 * * *", "Europe/Berlin", "2026-03-29"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25"),
        ("30 2 * * *", "America/New_York", "2026-03-08"),
        ("30 1 * * *", "America/New_York", "2026-11-01"),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-04"),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-05"),
        ("30 0 * * *", "Africa/Cairo", "2026-04-24"),
        ("30 23 * * *", "Africa/Cairo", "2026-10-29"),
        ("30 0 * * *", "America/Santiago", "2026-09-06"),
        ("30 23 * * *", "America/Santiago", "2026-04-04"),
    ] {
        let when = When::Cron { cron: cron.into(), zone: zone.into(), misfire: Misfire::Once };
        let start = at(&format!("{night}T00:00:00Z")) - TimeDelta::hours(24);
        let mut trigger = new(&test, test.goal, when.clone()).await;
        trigger.next_at = when.first_after(start).unwrap();
        let id = create(&test, trigger).await;
        for step in 0..(3 * 48) {
            fire_as_four(&test, start + TimeDelta::minutes(30) * step).await;
        }
        let days = days_of(&test, id);
        let night: NaiveDate = night.parse().unwrap();
        assert!(days.contains(&night), "{zone}: {days:?}");
        let mut each = days.clone();
        each.dedup();
        assert_eq!(days, each, "{zone}: each day once");
        assert!(days.windows(2).all(|two| two[0].succ_opt() == Some(two[1])), "{zone}: {days:?}");
        test.requests().delete_trigger(id).await.unwrap();
    }
}
