//! What `[retention]` deletes by age, and what it must not.

use houston_domain::health::{Check, HealthStatus};
use houston_domain::id::AgentableId;
use houston_store::Error;
use houston_worker::Monitor;

use crate::cluster::TestCluster;
use crate::sweeps::{age, look_twice, of};

const SAID: &str = "/sim tool=create_note args={\"title\":\"a\",\"content\":\"b\"}";

/// A monitor that keeps everything for 30 days.
fn monitor(cluster: &TestCluster) -> Monitor {
    let mut monitor = cluster.monitor();
    let retention = &mut monitor.config.retention;
    (retention.events_days, retention.history_days, retention.model_calls_days) = (30, 30, 30);
    monitor
}

fn count(cluster: &TestCluster, table: &str, goal: AgentableId) -> i64 {
    let query = format!("select count(*) from houston.{table} where agentable_id = '{}'", goal.0);
    cluster.servers.sql(&query).unwrap().trim().parse().unwrap()
}

/// Stored events, entries and model calls.
fn stored(cluster: &TestCluster, goal: AgentableId) -> [i64; 3] {
    ["events", "history", "model_calls"].map(|table| count(cluster, table, goal))
}

/// A goal with a run that has ended, whose rows are so old.
async fn goal_of_age(cluster: &TestCluster, by: &str) -> AgentableId {
    let goal = cluster.new_goal().await;
    let run = cluster.post(goal, SAID).await.run;
    assert!(cluster.wait_for_end(run).await.status.is_terminal());
    make_older(cluster, goal, by);
    assert!(stored(cluster, goal).iter().all(|rows| *rows > 0), "{:?}", stored(cluster, goal));
    goal
}

fn make_older(cluster: &TestCluster, goal: AgentableId, by: &str) {
    age(cluster, goal, by);
    let statements = format!(
        "update houston.model_calls set created_at = created_at - interval '{by}' where agentable_id = '{0}';
         update houston.history set created_at = created_at - interval '{by}' where agentable_id = '{0}'",
        goal.0
    );
    cluster.servers.sql(&statements).unwrap();
}

/// Closes the session of a goal, as with its summary.
fn close(cluster: &TestCluster, goal: AgentableId) {
    let statements = format!(
        "select houston.close_session('{0}', 'reset');
         update houston.sessions set summary_due_at = null where agentable_id = '{0}'",
        goal.0
    );
    cluster.servers.sql(&statements).unwrap();
}

async fn retained(monitor: &Monitor) -> Check {
    of(&monitor.run_checks().await.unwrap(), "retention").clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_kept_unless_days_are_set() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let goal = goal_of_age(&cluster, "1000 days").await;
    worker.drain().await;
    let before = stored(&cluster, goal);
    let check = retained(&cluster.monitor()).await;
    assert_eq!(check.status, HealthStatus::Ok);
    assert_eq!(check.detail, "deleted by age: 0 records of the audit log");
    assert_eq!(stored(&cluster, goal), before);
    assert_eq!(cluster.servers.sql("select count(*) from houston.retention_walks").unwrap(), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn old_rows_are_deleted_once_and_young_ones_stay() {
    let cluster = TestCluster::start().await;
    let before = cluster.runs().event_position().await.unwrap();
    let worker = cluster.worker();
    let (old, young) = (goal_of_age(&cluster, "31 days").await, goal_of_age(&cluster, "29 days").await);
    worker.drain().await;
    let kept = stored(&cluster, young);
    let (messages, entries) = (count(&cluster, "messages", old), count(&cluster, "history", old));
    look_twice(&monitor(&cluster), &monitor(&cluster), "retention").await;
    retained(&monitor(&cluster)).await;
    assert_eq!(stored(&cluster, old), [0, entries, 0], "the open session stays");
    assert_eq!(stored(&cluster, young), kept);
    assert_eq!(count(&cluster, "messages", old), messages, "the thread stays");
    cluster.events(young).await;
    assert!(!cluster.runs().keeps_events_since(&before).await.unwrap(), "streams of all events begin anew");
    let now = cluster.runs().event_position().await.unwrap();
    assert!(cluster.runs().keeps_events_since(&now).await.unwrap());
    // As a stream of all events does that was opened before, and is not so far yet.
    let refused = cluster.requests().events_of_all(&before, 100).await;
    assert!(matches!(refused, Err(Error::EventsDeleted)), "{refused:?}");
    cluster.requests().events_of_all(&now, 100).await.unwrap();

    let refused = cluster.requests().events_after(old, 0, 100).await;
    let Err(Error::EventsExpired { from }) = refused else { panic!("{refused:?}") };
    cluster.requests().events_after(old, from - 1, 100).await.unwrap();
    let (head, events) = cluster.requests().open_stream("goal", old, None, 100).await.unwrap();
    assert_eq!((head.events_from, events.iter().all(|event| event.seq >= from)), (from, true));
    assert!(retained(&monitor(&cluster)).await.detail.contains("0 events"), "once is enough");
}

#[tokio::test(flavor = "multi_thread")]
async fn conversation_goes_on_after_its_events_are_gone() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let goal = goal_of_age(&cluster, "31 days").await;
    retained(&monitor(&cluster)).await;
    let run = cluster.post(goal, "hello").await.run;
    let ended = cluster.wait_for_end(run).await;
    assert!(ended.status.is_terminal());
    let (_, events) = cluster.requests().open_stream("goal", goal, None, 100).await.unwrap();
    assert!(!events.is_empty());
    for (event, seq) in events.iter().zip(ended.first_seq..) {
        assert_eq!((event.seq, event.run_id), (seq, run), "the new run is whole");
    }
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_sessions_are_deleted_once_they_are_summarised() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let goal = goal_of_age(&cluster, "31 days").await;
    worker.drain().await;
    close(&cluster, goal);
    let due = |when: &str| {
        let update = format!(
            "update houston.sessions set summary_due_at = {when}, completed_at = now() - interval '31 days'
              where agentable_id = '{}'",
            goal.0
        );
        cluster.servers.sql(&update).unwrap();
    };
    due("now()");
    retained(&monitor(&cluster)).await;
    assert!(count(&cluster, "history", goal) > 0, "its summary is not written");
    due("null");
    // The walk has passed the run: it is found when the walk begins again.
    cluster.servers.sql("update houston.retention_walks set began_at = now() - interval '8 days'").unwrap();
    retained(&monitor(&cluster)).await;
    retained(&monitor(&cluster)).await;
    assert_eq!(count(&cluster, "history", goal), 0);
    assert_eq!(count(&cluster, "sessions", goal), 1, "the summary stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_deleted_under_a_run() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let goal = goal_of_age(&cluster, "31 days").await;
    let held = cluster.post(goal, "/sim hold_ms=600000").await.run;
    let (events, entries) = (count(&cluster, "events", goal), count(&cluster, "history", goal));
    retained(&monitor(&cluster)).await;
    assert!(count(&cluster, "events", goal) >= events, "a run is open");
    assert!(count(&cluster, "history", goal) >= entries);
    cluster.events(goal).await;
    cluster.requests().cancel_run(held).await.unwrap();
    cluster.wait_for_end(held).await;
    worker.drain().await;
    // When the run is old as well, the walk comes to it.
    make_older(&cluster, goal, "31 days");
    retained(&monitor(&cluster)).await;
    assert_eq!(count(&cluster, "events", goal), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_and_deliveries_lose_no_event() {
    let cluster = TestCluster::start().await;
    let position = cluster.servers.sql("select pg_current_snapshot()").unwrap();
    let worker = cluster.worker();
    let goal = goal_of_age(&cluster, "31 days").await;
    worker.drain().await;
    let before = count(&cluster, "events", goal);
    // A reader that has not read them.
    cluster.servers.sql(&format!("insert into houston.readers values ('webhooks', '{position}')")).unwrap();
    retained(&monitor(&cluster)).await;
    assert_eq!(count(&cluster, "events", goal), before, "a webhook has not read them");
    // It has read them, and replays what has happened.
    let replay = format!(
        "delete from houston.readers;
         insert into houston.webhooks (id, tenant_id, url, description, topics, sealed, enabled, created_at, updated_at)
         values (gen_random_uuid(), '{}', 'http://127.0.0.1/', '', '{{**}}', '', false, now(), now());
         insert into houston.replays (webhook_id, tenant_id, since, until, after_agentable, after_seq)
         select id, tenant_id, '-infinity', now(), '00000000-0000-0000-0000-000000000000', 0 from houston.webhooks",
        cluster.tenant.0
    );
    cluster.servers.sql(&replay).unwrap();
    retained(&monitor(&cluster)).await;
    assert_eq!(count(&cluster, "events", goal), before, "a replay may need them");
    let deliver = format!(
        "insert into houston.open_deliveries (webhook_id, agentable_id, tenant_id, due_at)
         select webhook_id, '{}', tenant_id, now() from houston.replays;
         delete from houston.replays;
         update houston.retention_walks set ended_at = 'epoch'",
        goal.0
    );
    cluster.servers.sql(&deliver).unwrap();
    retained(&monitor(&cluster)).await;
    assert_eq!(count(&cluster, "events", goal), before, "a delivery is made from its event");
    cluster
        .servers
        .sql("delete from houston.open_deliveries; update houston.retention_walks set ended_at = 'epoch'")
        .unwrap();
    retained(&monitor(&cluster)).await;
    assert_eq!(count(&cluster, "events", goal), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_that_breaks_off_deletes_nothing_and_is_repeated() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let goal = goal_of_age(&cluster, "31 days").await;
    worker.drain().await;
    let before = count(&cluster, "events", goal);
    // As if its worker died: what the batch did is rolled back.
    let fail = "create function public.fail() returns trigger language plpgsql as
                    'begin raise exception ''killed''; end';
                create trigger fail before delete on houston.events for each row execute function public.fail()";
    cluster.servers.sql(fail).unwrap();
    assert_eq!(retained(&monitor(&cluster)).await.status, HealthStatus::Red);
    assert_eq!(count(&cluster, "events", goal), before);
    cluster.events(goal).await;
    cluster.servers.sql("drop trigger fail on houston.events").unwrap();
    let mut monitor = monitor(&cluster);
    // Ten rows at a time.
    monitor.config.tick.batch = 1;
    retained(&monitor).await;
    assert_eq!(count(&cluster, "events", goal), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_records_of_the_audit_log_are_deleted_in_batches() {
    let cluster = TestCluster::start().await;
    let records = format!(
        "insert into houston.audit (id, tenant_id, actor, operation, status, at)
         select gen_random_uuid(), '{}', 'key_1', 'update_agent', 200, now() - n * interval '30 days'
           from generate_series(1, 25) n",
        cluster.tenant.0
    );
    cluster.servers.sql(&records).unwrap();
    let left = || cluster.servers.sql("select count(*) from houston.audit").unwrap();
    let mut monitor = cluster.monitor();
    monitor.config.requests.audit_s = 0;
    assert!(retained(&monitor).await.detail.starts_with("everything is kept"), "for ever");
    assert_eq!(left(), "25");
    // Two batches of ten; two of the records are younger than 90 days.
    monitor.config.requests.audit_s = 90 * 86_400 - 3600;
    (monitor.config.tick.batch, monitor.config.tick.batches) = (1, 2);
    assert_eq!(retained(&monitor).await.detail, "deleted by age: 20 records of the audit log");
    retained(&monitor).await;
    assert_eq!(left(), "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_may_have_its_own_days() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let goal = goal_of_age(&cluster, "31 days").await;
    worker.drain().await;
    let before = stored(&cluster, goal);
    let mut monitor = monitor(&cluster);
    let mut own = monitor.config.retention.kinds.get("goal").copied().unwrap_or_default();
    (own.events_days, own.model_calls_days) = (Some(0), Some(40));
    monitor.config.retention.kinds.insert("goal".to_owned(), own);
    retained(&monitor).await;
    assert_eq!(stored(&cluster, goal), before);
    own.model_calls_days = None;
    monitor.config.retention.kinds.insert("goal".to_owned(), own);
    retained(&monitor).await;
    assert_eq!(stored(&cluster, goal), [before[0], before[1], 0]);
}
