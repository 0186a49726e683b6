//! The reader of webhooks and its outbox: each event becomes one delivery, in order, whatever reads at the same time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use chrono::TimeDelta;
use futures_util::future::join_all;
use houston_domain::event::Event;
use houston_domain::id::{AgentableId, TenantId, WebhookId};
use houston_domain::step::RunTransition;
use houston_domain::webhook::MAX_PENDING;
use houston_store::Error;
use houston_store::fan_out::FannedOut;
use houston_store::outbox::{Attempted, ClaimedDeliveries, DueDeliveries, Settled};
use houston_store::task_push::{NewTaskPush, StoredPush};
use houston_store::webhook::{NewWebhook, UpdateWebhook};
use sqlx::{Connection as _, PgConnection};

use crate::step::{answer, done};
use crate::test_store::{TestStore, goal};

async fn subscribe(test: &TestStore, topics: &[&str], agentable: Option<AgentableId>) -> WebhookId {
    let topics: Vec<String> = topics.iter().map(|topic| (*topic).to_owned()).collect();
    let id = test.ids.next();
    let new = NewWebhook {
        id,
        url: "https://hooks.example.com",
        description: "",
        topics: &topics,
        user: None,
        kind: None,
        agentable,
        sealed: b"secret",
    };
    test.requests().create_webhook(&new).await.unwrap();
    id
}

/// Reads until nothing is left, as one of several processes.
async fn read(test: &TestStore, limit: i64) {
    loop {
        let now = test.ids.clock().now();
        match test.runs().fan_out(&test.ids, limit, now).await.unwrap() {
            FannedOut::Read { has_more: true, .. } => {}
            FannedOut::Read { .. } | FannedOut::Idle => return,
            FannedOut::Restarted => panic!("the position is lost"),
        }
    }
}

async fn turn(test: &TestStore, goal: AgentableId) {
    test.post_to(goal, "hi").await.unwrap();
    let claimed = test.claim_of(goal).await.unwrap();
    let event = Event::Thought { text: "hm".into(), withdrawn_at: None };
    let step = test.step(&claimed, RunTransition::Continue { read: false, event: Some(event) });
    done(test.runs().commit(&claimed.fence, &step).await.unwrap());
    done(test.runs().commit(&claimed.fence, &answer(test, &claimed, "hello")).await.unwrap());
}

/// The positions of the deliveries of each agentable.
fn delivered(test: &TestStore, webhook: WebhookId) -> BTreeMap<String, Vec<i64>> {
    let rows = test.sql(&format!(
        "select agentable_id || ' ' || seq from houston.deliveries where webhook_id = '{}' order by agentable_id, seq",
        webhook.0
    ));
    let mut all: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for (agentable, seq) in rows.lines().filter_map(|line| line.split_once(' ')) {
        all.entry(agentable.to_owned()).or_default().push(seq.parse().unwrap());
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn each_event_becomes_one_delivery_beside_8_writers() {
    let test = TestStore::start().await;
    let goals = join_all((0..8).map(|_| goal(&test.store, &test.ids, test.tenant))).await;
    let webhook = subscribe(&test, &["**"], None).await;
    // A transaction that is open all the time delays its own events only.
    let mut application = PgConnection::connect(test.database.url()).await.unwrap();
    let mut late = application.begin().await.unwrap();
    let post = "select houston.post_message($1, 'late')";
    sqlx::query(post).bind(test.goal.0).execute(&mut *late).await.unwrap();
    let open = AtomicUsize::new(goals.len());
    let write = join_all(goals.iter().map(async |goal| {
        for _ in 0..10 {
            turn(&test, *goal).await;
        }
        open.fetch_sub(1, Ordering::Relaxed);
    }));
    let follow = || async {
        while open.load(Ordering::Relaxed) > 0 {
            read(&test, 7).await;
        }
    };
    tokio::join!(write, follow(), follow(), follow());
    read(&test, 7).await;
    let before = delivered(&test, webhook);
    assert_eq!(before.len(), 8, "all but the goal of the open transaction");
    late.commit().await.unwrap();
    read(&test, 7).await;
    let all = delivered(&test, webhook);
    for goal in goals.iter().chain([&test.goal]) {
        let stream = test.requests().events_after(*goal, 0, 1000).await.unwrap();
        let seqs: Vec<i64> = stream.iter().map(|event| event.seq).collect();
        assert_eq!(all[&goal.0.to_string()], seqs);
    }
    assert_eq!(all.len(), 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn reader_exists_only_while_a_webhook_is_on() {
    let test = TestStore::start().await;
    assert!(!test.runs().has_webhooks().await.unwrap());
    turn(&test, test.goal).await;
    let webhook = subscribe(&test, &["run.finished"], Some(test.goal)).await;
    turn(&test, test.goal).await;
    read(&test, 100).await;
    let all = delivered(&test, webhook);
    assert_eq!(all.values().map(Vec::len).sum::<usize>(), 1, "nothing from before, one topic: {all:?}");
    let now = test.ids.clock().now();
    let off = UpdateWebhook { enabled: Some(false), ..UpdateWebhook::default() };
    test.requests().change_webhook(webhook, &off, now).await.unwrap();
    read(&test, 100).await;
    assert_eq!(test.sql("select count(*) from houston.readers").trim(), "0");
    turn(&test, test.goal).await;
    let on = UpdateWebhook { enabled: Some(true), ..UpdateWebhook::default() };
    test.requests().change_webhook(webhook, &on, now).await.unwrap();
    turn(&test, test.goal).await;
    read(&test, 100).await;
    let all = delivered(&test, webhook);
    assert_eq!(all.values().map(Vec::len).sum::<usize>(), 2, "nothing from while it was off: {all:?}");
    let stranger = test.store.operator().ensure_tenant(test.ids.next(), "stranger").await.unwrap();
    let theirs = test.store.tenant(stranger);
    assert!(matches!(theirs.webhook(webhook).await, Err(Error::NotFound { .. })));
    assert!(theirs.deliveries(webhook, None, None, 10).await.unwrap().is_empty());
    test.requests().delete_webhook(webhook).await.unwrap();
    assert!(!test.runs().has_webhooks().await.unwrap() || delivered(&test, webhook).is_empty());
}

async fn claim(test: &TestStore, per_webhook: i64) -> Vec<ClaimedDeliveries> {
    let now = test.ids.clock().now();
    let due = DueDeliveries {
        busy: &[],
        per_webhook,
        busy_tenants: &[],
        per_tenant: 100,
        limit: 100,
        after: None,
        now,
        until: now + TimeDelta::minutes(1),
    };
    static CLAIMS: AtomicU64 = AtomicU64::new(1);
    let claim = uuid::Uuid::from_u128(CLAIMS.fetch_add(1, Ordering::Relaxed).into());
    let mut claimed = test.runs().claim_deliveries(&due, claim).await.unwrap();
    claimed.sort_by_key(|claimed| claimed.agentable);
    claimed
}

/// Stores what became of the first of the claimed deliveries, one for each of `settled`.
async fn settle(
    test: &TestStore,
    claimed: &ClaimedDeliveries,
    settled: &[Settled],
) -> houston_store::Result<bool> {
    let attempted = claimed.deliveries.iter().zip(settled).map(|(delivery, settled)| {
        let (status, error) = match settled {
            Settled::Delivered => (204, None),
            Settled::Gone => (410, None),
            Settled::Retry(_) | Settled::Dead => (500, Some("no".to_owned())),
        };
        Attempted {
            id: delivery.id,
            settled: *settled,
            status: Some(status),
            error,
            at: test.ids.clock().now(),
        }
    });
    test.runs().settle_deliveries(claimed, &attempted.collect::<Vec<_>>()).await
}

/// A webhook of a tenant with a delivery for each of these, which is due since so many minutes.
async fn overdue(test: &TestStore, tenant: TenantId, goals: &[AgentableId], minutes: u32) {
    let id = test.ids.next();
    let new = NewWebhook {
        id,
        url: "https://hooks.example.com",
        description: "",
        topics: &["**".to_owned()],
        user: None,
        kind: None,
        agentable: None,
        sealed: b"secret",
    };
    test.store.tenant(tenant).create_webhook(&new).await.unwrap();
    for goal in goals {
        let (webhook, goal, tenant) = (id.0, goal.0, tenant.0);
        test.sql(&format!(
            "insert into houston.open_deliveries (webhook_id, agentable_id, tenant_id, due_at)
             values ('{webhook}', '{goal}', '{tenant}', now() - interval '{minutes} minutes');
             insert into houston.deliveries (id, tenant_id, webhook_id, agentable_id, seq, topic, created_at)
             values (gen_random_uuid(), '{tenant}', '{webhook}', '{goal}', 1, 'run.started', now())"
        ));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_webhooks_of_a_tenant_hold_back_no_other_tenant() {
    let test = TestStore::start().await;
    let stranger = test.store.operator().ensure_tenant(test.ids.next(), "stranger").await.unwrap();
    let theirs = goal(&test.store, &test.ids, stranger).await;
    let other = goal(&test.store, &test.ids, test.tenant).await;
    for _ in 0..5 {
        overdue(&test, test.tenant, &[test.goal, other], 60).await;
    }
    overdue(&test, stranger, &[theirs], 1).await;
    let now = test.ids.clock().now();
    let claim = async |busy: i64, limit| {
        let due = DueDeliveries {
            busy: &[],
            per_webhook: 4,
            busy_tenants: &[(test.tenant, busy)],
            per_tenant: 3,
            limit,
            after: None,
            now,
            until: now + TimeDelta::minutes(1),
        };
        let claimed = test.runs().claim_deliveries(&due, uuid::Uuid::from_u128(7)).await.unwrap();
        let of = |tenant| claimed.iter().filter(|delivery| delivery.tenant == tenant).count();
        (of(test.tenant), of(stranger))
    };
    assert_eq!(claim(3, 10).await, (0, 1), "a tenant that is busy enough");
    assert_eq!(claim(2, 10).await, (1, 0), "room for one more");
    test.sql("update houston.open_deliveries set due_at = now() - interval '1 minute', claim = null");
    assert_eq!(claim(0, 2).await, (1, 1), "each its turn");
    assert_eq!(claim(0, 10).await, (3, 0), "as many as one tenant may have");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_delivery_holds_back_its_agentable_only() {
    let test = TestStore::start().await;
    let other = goal(&test.store, &test.ids, test.tenant).await;
    subscribe(&test, &["**"], None).await;
    for goal in [test.goal, other] {
        turn(&test, goal).await;
    }
    read(&test, 100).await;
    let now = test.ids.clock().now();
    let first = claim(&test, 4).await;
    assert_eq!(first.len(), 2, "those of each agentable: {first:?}");
    assert!(claim(&test, 4).await.is_empty(), "both are being sent");
    let waits = Settled::Retry(now + TimeDelta::hours(1));
    assert!(settle(&test, &first[0], &[Settled::Delivered, waits]).await.unwrap());
    assert!(settle(&test, &first[1], &[Settled::Delivered]).await.unwrap());
    assert!(!settle(&test, &first[1], &[Settled::Delivered]).await.unwrap(), "a claim settles once");
    let states =
        "select string_agg(state || attempts, ' ' order by agentable_id, seq) from houston.deliveries
                   where attempts > 0";
    assert_eq!(test.sql(states).trim(), "delivered1 pending1 delivered1");
    let second = claim(&test, 4).await;
    let seqs = |claimed: &ClaimedDeliveries| claimed.deliveries.iter().map(|one| one.seq).collect::<Vec<_>>();
    assert_eq!(second.len(), 1, "{second:?}");
    assert_eq!(second[0].agentable, first[1].agentable);
    assert!(seqs(&second[0]).starts_with(&seqs(&first[1])[1..]), "{first:?} {second:?}");
    // What is new waits behind the one that failed.
    turn(&test, first[0].agentable).await;
    read(&test, 100).await;
    assert!(claim(&test, 4).await.is_empty());
    let events = test.runs().delivered_events(&second).await.unwrap();
    let events: Vec<i64> = events[0].iter().map(|event| event.as_ref().unwrap().1.seq).collect();
    assert_eq!(events, seqs(&second[0]));
    let mut claimed = second;
    while let [all] = &claimed[..] {
        assert!(settle(&test, all, &vec![Settled::Delivered; all.deliveries.len()]).await.unwrap());
        claimed = claim(&test, 4).await;
    }
    assert_eq!(
        test.sql("select count(*) from houston.open_deliveries").trim(),
        "1",
        "that of the one that failed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn push_that_ends_while_deliveries_are_made_waits_for_them() {
    let test = TestStore::start().await;
    let posted = test.post("hi").await;
    let (id, run) = (WebhookId(posted.run.0), posted.run);
    let url = "https://hooks.example.com";
    let new = NewTaskPush { id, run, push_id: "own", context: "trip", url, sealed: b"", after: None };
    assert_eq!(test.requests().put_task_push(&test.ids, &new).await.unwrap(), StoredPush::Stored);
    test.claim().await.unwrap();
    read(&test, 100).await;
    let [delivery] = &claim(&test, 4).await[..] else { panic!("no delivery") };

    // The reader has made a delivery, and goes on to note that it is open.
    let mut connection = PgConnection::connect(test.database.url()).await.unwrap();
    let mut reader = connection.begin().await.unwrap();
    let make =
        "insert into houston.deliveries (id, tenant_id, webhook_id, agentable_id, seq, topic, created_at)
                select $1, tenant_id, webhook_id, agentable_id, seq + 100, topic, created_at
                  from houston.deliveries where id = $2";
    sqlx::query(make)
        .bind(uuid::Uuid::from_u128(1))
        .bind(delivery.deliveries[0].id.0)
        .execute(&mut *reader)
        .await
        .unwrap();
    let settling = async {
        loop {
            // On a busy machine it waits for longer than `lock_timeout`.
            match settle(&test, delivery, &[Settled::Gone]).await {
                Err(error) if error.sqlstate().as_deref() == Some("55P03") => {}
                result => return result,
            }
        }
    };
    let noting = async {
        let waiting = "select count(*) from pg_stat_activity
                        where datname = current_database() and wait_event_type = 'Lock'";
        while test.sql(waiting).trim() == "0" {
            tokio::task::yield_now().await;
        }
        let note = "insert into houston.open_deliveries (webhook_id, agentable_id, tenant_id, due_at)
                    select webhook_id, agentable_id, tenant_id, due_at from houston.open_deliveries
                        on conflict (webhook_id, agentable_id) do update set tenant_id = excluded.tenant_id";
        sqlx::query(note).execute(&mut *reader).await?;
        reader.commit().await
    };
    let (settled, noted) = tokio::join!(settling, noting);
    noted.unwrap();
    assert!(settled.unwrap());
    assert_eq!(test.sql("select count(*) from houston.webhooks").trim(), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn delivery_is_settled_while_it_is_asked_for_again() {
    let test = TestStore::start().await;
    let webhook = subscribe(&test, &["run.finished"], None).await;
    turn(&test, test.goal).await;
    read(&test, 100).await;
    for _ in 0..40 {
        let [delivery] = &claim(&test, 4).await[..] else { panic!("it was not asked for again") };
        let now = test.ids.clock().now();
        let again = async { test.requests().redeliver(webhook, delivery.deliveries[0].id, now).await };
        let (settled, asked) = tokio::join!(settle(&test, delivery, &[Settled::Delivered]), again);
        assert!(settled.unwrap());
        asked.unwrap();
        // If it was settled last.
        test.requests().redeliver(webhook, delivery.deliveries[0].id, now).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn position_of_another_database_begins_anew() {
    let test = TestStore::start().await;
    let webhook = subscribe(&test, &["**"], None).await;
    test.sql("update houston.readers set position = '9000000000:9000000001:9000000000'");
    let now = test.ids.clock().now();
    assert_eq!(test.runs().fan_out(&test.ids, 10, now).await.unwrap(), FannedOut::Restarted);
    turn(&test, test.goal).await;
    read(&test, 100).await;
    assert_eq!(delivered(&test, webhook).len(), 1);
}

/// Regression: a replay locked its own row before that of the webhook, and who deletes a webhook does the opposite.
#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_deleted_while_they_are_replayed() {
    let test = TestStore::start().await;
    turn(&test, test.goal).await;
    let ended = std::sync::atomic::AtomicBool::new(false);
    let now = test.ids.clock().now();
    let replay = async {
        let mut failed = Vec::new();
        while !ended.load(Ordering::Relaxed) {
            failed.extend(test.runs().replay_some(&test.ids, 1, now + TimeDelta::hours(1)).await.err());
        }
        failed
    };
    let delete = async {
        let mut failed = Vec::new();
        for _ in 0..60 {
            let webhooks = [subscribe(&test, &["**"], None).await, subscribe(&test, &["**"], None).await];
            for webhook in webhooks {
                let (since, until) = (now - TimeDelta::hours(1), now + TimeDelta::hours(1));
                test.requests().request_replay(webhook, since, until).await.unwrap();
            }
            let deleted = webhooks.map(|webhook| test.requests().delete_webhook(webhook));
            failed.extend(join_all(deleted).await.into_iter().filter_map(Result::err));
        }
        ended.store(true, Ordering::Relaxed);
        failed
    };
    let (replayed, deleted) = tokio::join!(replay, delete);
    assert!(replayed.is_empty() && deleted.is_empty(), "{replayed:?} {deleted:?}");
    let left = "select (select count(*) from houston.replays), (select count(*) from houston.webhooks)";
    assert_eq!(test.sql(left).trim(), "0|0");
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_for_which_too_much_waits_is_switched_off() {
    let test = TestStore::start().await;
    let (slow, usual) = (subscribe(&test, &["**"], None).await, subscribe(&test, &["**"], None).await);
    turn(&test, test.goal).await;
    read(&test, 100).await;
    // What the receiver has let wait: made as rows, not by so many events.
    let fill = |webhook: WebhookId, count: i64| {
        test.sql(&format!(
            "insert into houston.deliveries (id, tenant_id, webhook_id, agentable_id, seq, topic, created_at)
             select gen_random_uuid(), '{}', '{}', '{}', 1000000 + nth, 'run.queued', now() from generate_series(1, {count}) nth",
            test.tenant.0, webhook.0, test.goal.0
        ));
    };
    fill(slow, MAX_PENDING);
    fill(usual, 100);
    let now = test.ids.clock().now();
    assert_eq!(test.runs().switch_off_backlogged_webhooks(now).await.unwrap(), 1);
    let (slow, usual) =
        (test.requests().webhook(slow).await.unwrap(), test.requests().webhook(usual).await.unwrap());
    assert_eq!((slow.enabled, slow.disabled_because.as_deref()), (false, Some("backlog")));
    assert_eq!((usual.enabled, usual.disabled_because), (true, None));
    assert_eq!(test.runs().switch_off_backlogged_webhooks(now).await.unwrap(), 0, "once");
}

/// The process that claimed deliveries ends, and the time of its claims with it.
fn ends(test: &TestStore) {
    test.sql(
        "update houston.open_deliveries set due_at = now() - interval '1 second' where claim is not null",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_end_with_a_delivery_are_counted() {
    let test = TestStore::start().await;
    let other = goal(&test.store, &test.ids, test.tenant).await;
    subscribe(&test, &["**"], None).await;
    for goal in [test.goal, other] {
        turn(&test, goal).await;
    }
    read(&test, 100).await;
    let now = test.ids.clock().now();
    let deaths = |claimed: &[ClaimedDeliveries]| claimed.iter().map(|one| one.deaths).collect::<Vec<_>>();
    let first = claim(&test, 4).await;
    assert_eq!(deaths(&first), [0, 0]);
    ends(&test);
    let second = claim(&test, 4).await;
    assert_eq!(deaths(&second), [1, 1]);
    assert!(settle(&test, &second[0], &[Settled::Delivered]).await.unwrap());
    test.runs().give_back_deliveries(&second[1..], now).await.unwrap();
    assert!(!settle(&test, &second[1], &[Settled::Delivered]).await.unwrap(), "it was given back");
    let third = claim(&test, 4).await;
    assert_eq!(deaths(&third), [0, 1], "the next ones of the first, and the second one again");
    assert!(first[0].deliveries.len() > 2, "several are claimed together: {first:?}");
    let counts: Vec<usize> = third.iter().map(|one| one.deliveries.len()).collect();
    assert_eq!(
        counts,
        [1, 1],
        "what was claimed together with what a process has ended with is sent one by one"
    );
    // A claim that is over gives nothing back.
    test.runs().give_back_deliveries(&second, now).await.unwrap();
    ends(&test);
    assert_eq!(deaths(&claim(&test, 4).await), [1, 2]);
}
