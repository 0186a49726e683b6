//! What the health monitor mends, on states made by SQL: once or twice, by one monitor or two, all is the same.

use std::time::Duration;

use houston_domain::health::{Check, HealthStatus};
use houston_domain::id::{AgentableId, RunId, RunToken, WorkerId};
use houston_domain::message::{MessageStatus, Source};
use houston_domain::run::RunStatus;
use houston_store::claim::{Claimed, Crashes};
use houston_store::lease::LeaseConnection;
use houston_worker::Monitor;

use crate::rig::{Rig, assert_status, eventually};
use crate::watchdog::hang;
use crate::workers::simulated;

/// Makes everything of an agentable, and of its runs, older.
fn age(rig: &Rig, agentable: AgentableId, by: &str) {
    let id = agentable.0;
    let statements = format!(
        "update houston.runs set created_at = created_at - interval '{by}',
                started_at = started_at - interval '{by}', ended_at = ended_at - interval '{by}'
          where agentable_id = '{id}';
         update houston.events set created_at = created_at - interval '{by}' where agentable_id = '{id}';
         update houston.run_locks set woken_at = woken_at - interval '{by}' where agentable_id = '{id}';
         update houston.agentables set created_at = created_at - interval '{by}' where id = '{id}';"
    );
    rig.servers.sql(&statements).unwrap();
}

fn of<'c>(checks: &'c [Check], id: &str) -> &'c Check {
    checks.iter().find(|check| check.id == id).unwrap()
}

/// Two monitors at the same time. Returns what each found of one check.
async fn look_twice(one: &Monitor, other: &Monitor, id: &str) -> [Check; 2] {
    let (one, other) = tokio::join!(one.look(), other.look());
    [one.unwrap(), other.unwrap()].map(|checks| of(&checks, id).clone())
}

/// The worker of nobody: alive, and it does nothing.
async fn idler(rig: &Rig, since: &str) -> LeaseConnection {
    let url = rig.servers.database_url();
    let mut lease = LeaseConnection::open(url, rig.ids.next(), Duration::from_secs(600)).await.unwrap();
    lease.register("idler").await.unwrap();
    let id = lease.worker().0;
    let older =
        format!("update houston.workers set started_at = now() - interval '{since}' where id = '{id}'");
    rig.servers.sql(&older).unwrap();
    lease
}

async fn claim(rig: &Rig, agentable: AgentableId, worker: WorkerId) -> Claimed {
    let token: RunToken = rig.ids.next();
    rig.store.claim_run(agentable, worker, token, rig.ids.next(), Crashes::default()).await.unwrap().unwrap()
}

fn lock(rig: &Rig, agentable: AgentableId) -> String {
    let columns = "epoch, run_token is null, holder is null, wake";
    let query = format!("select {columns} from houston.run_locks where agentable_id = '{}'", agentable.0);
    rig.servers.sql(&query).unwrap()
}

fn reason(rig: &Rig, run: RunId) -> String {
    rig.servers.sql(&format!("select cancel_reason from houston.runs where id = '{}'", run.0)).unwrap()
}

/// The errors a user reads in a thread.
async fn errors(rig: &Rig, agentable: AgentableId) -> Vec<String> {
    let messages = rig.store.messages(rig.tenant, agentable, None, 100).await.unwrap();
    let errors = messages.into_iter().filter(|message| message.message.source == Source::Error);
    errors.map(|message| message.message.content).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_run_is_taken_from_its_holder_once_and_ended_through_the_engine() {
    let rig = Rig::start().await;
    let idler = idler(&rig, "1 hour").await;
    let (stuck, busy) = (rig.goal, rig.new_goal().await);
    let posted = rig.post_silently(stuck, "hello").await;
    let zombie = claim(&rig, stuck, idler.worker()).await;
    let working = rig.post_silently(busy, "hello").await;
    let alive = claim(&rig, busy, idler.worker()).await;
    let later = rig.post_silently(stuck, "are you there?").await;
    age(&rig, stuck, "31 minutes");
    age(&rig, busy, "29 minutes");

    let (one, other) = (rig.monitor(), rig.monitor());
    let found = look_twice(&one, &other, "stuck_runs").await;
    let warned = found.iter().filter(|check| check.detail.starts_with("1 attempts")).count();
    assert_eq!(warned, 1, "one of the two took it: {found:?}");
    assert_eq!(lock(&rig, stuck), "2|t|t|t", "one more epoch, no token, no holder, awake");
    assert_eq!(lock(&rig, busy), "1|f|f|f", "what is in time is left alone");
    assert_eq!(reason(&rig, posted.run), "stuck");
    let refused = rig.store.begin_fenced(&zombie.fence).await;
    assert!(matches!(refused, Err(houston_store::Error::Fenced)), "the holder is a zombie");
    assert!(rig.store.begin_fenced(&alive.fence).await.is_ok());
    assert_eq!(of(&one.look().await.unwrap(), "stuck_runs").status, HealthStatus::Ok, "once is enough");
    assert_eq!(lock(&rig, stuck), "2|t|t|t");

    let worker = rig.worker();
    let run = rig.ended(posted.run).await;
    assert_status(&run, RunStatus::Failed);
    assert_eq!(run.error_code.as_deref(), Some("HEALTH_MONITOR_STUCK"));
    assert!(errors(&rig, stuck).await[0].contains("health monitor stopped this"));
    let answered = eventually("the later message is answered", || async {
        let status = rig.message(later.id).await.status;
        status.filter(|status| *status == MessageStatus::Answered)
    });
    answered.await;
    rig.history(stuck).await;
    rig.events(stuck).await;
    idler.resign().await.unwrap();
    assert_status(&rig.ended(working.run).await, RunStatus::MessageSent);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_stuck_in_a_tool_is_ended_with_its_call_closed() {
    let rig = Rig::start().await;
    let worker = rig.worker_with(simulated(), hang(Duration::from_secs(6000)));
    let posted = rig.post(rig.goal, "/sim tool=hang args={}").await;
    let calls = format!("select count(*) from houston.tool_calls where run_id = '{}'", posted.run.0);
    eventually("the tool runs", || async { (rig.servers.sql(&calls).unwrap() == "1").then_some(()) }).await;
    age(&rig, rig.goal, "31 minutes");
    rig.monitor().look().await.unwrap();
    let run = rig.ended(posted.run).await;
    assert_status(&run, RunStatus::Failed);
    assert_eq!(run.error_code.as_deref(), Some("HEALTH_MONITOR_STUCK"));
    let history = serde_json::to_string(&rig.history(rig.goal).await).unwrap();
    assert!(history.contains("outcome unknown"), "{history}");
    rig.events(rig.goal).await;
    let next = rig.post(rig.goal, "hello again").await;
    assert_status(&rig.ended(next.run).await, RunStatus::MessageSent);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_of_the_dead_are_reaped_and_what_they_held_goes_on() {
    let rig = Rig::start().await;
    let dead = idler(&rig, "1 hour").await;
    let posted = rig.post_silently(rig.goal, "hello").await;
    claim(&rig, rig.goal, dead.worker()).await;
    let over = "update houston.workers set alive_until = now() - interval '2 minutes'";
    rig.servers.sql(over).unwrap();
    let (one, other) = (rig.monitor(), rig.monitor());
    let found = look_twice(&one, &other, "dead_leases").await;
    assert!(found.iter().any(|check| check.status == HealthStatus::Red), "over for two minutes: {found:?}");
    assert_eq!(rig.servers.sql("select count(*) from houston.workers").unwrap(), "0");
    assert_eq!(lock(&rig, rig.goal), "1|f|t|t", "released: no holder, awake");
    let again = one.look().await.unwrap();
    assert_eq!(of(&again, "dead_leases").status, HealthStatus::Ok);
    assert_eq!(of(&again, "workers").status, HealthStatus::Red, "work is due and nobody lives");
    assert_eq!(of(&again, "overdue_work").status, HealthStatus::Ok, "it was released a moment ago");
    let worker = rig.worker();
    assert_status(&rig.ended(posted.run).await, RunStatus::MessageSent);
    rig.history(rig.goal).await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_no_lock_knows_of_are_cancelled_and_no_others() {
    let rig = Rig::start().await;
    let open = rig.post_silently(rig.goal, "hello").await;
    let idle = rig.new_goal().await;
    for (agentable, status) in [(rig.goal, "running"), (idle, "queued"), (idle, "retrying")] {
        let zombie = format!(
            "insert into houston.runs (id, tenant_id, agentable_id, status, first_seq)
             values (gen_random_uuid(), '{}', '{}', '{status}', 1)",
            rig.tenant.0, agentable.0
        );
        rig.servers.sql(&zombie).unwrap();
    }
    let (one, other) = (rig.monitor(), rig.monitor());
    look_twice(&one, &other, "zombie_runs").await;
    let cancelled = "select count(*) from houston.runs where status = 'cancelled' and ended_at is not null";
    assert_eq!(rig.servers.sql(cancelled).unwrap(), "3");
    assert_eq!(rig.store.run(rig.tenant, open.run).await.unwrap().status, RunStatus::Queued);
    assert_eq!(of(&one.look().await.unwrap(), "zombie_runs").status, HealthStatus::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_waits_too_long_for_its_next_attempt_is_given_up_visibly() {
    let rig = Rig::start().await;
    let mut posts = Vec::new();
    for (agentable, by) in
        [(rig.new_task().await, "25 hours"), (rig.new_task().await, "23 hours"), (rig.goal, "25 hours")]
    {
        let posted = rig.post_silently(agentable, "hello").await;
        let waits = format!(
            "update houston.runs set status = 'retrying', attempt = 1 where id = '{}';
             update houston.run_locks set next_attempt_at = now() + interval '3 days' where agentable_id = '{}'",
            posted.run.0, agentable.0
        );
        rig.servers.sql(&waits).unwrap();
        age(&rig, agentable, by);
        posts.push((agentable, posted.run));
    }
    let (one, other) = (rig.monitor(), rig.monitor());
    look_twice(&one, &other, "paused_tasks").await;
    let reasons: Vec<String> = posts.iter().map(|(_, run)| reason(&rig, *run)).collect();
    assert_eq!(reasons, ["expired", "", ""], "a task after a day, and a goal never");
    let worker = rig.worker();
    let run = rig.ended(posts[0].1).await;
    assert_eq!((run.status, run.error_code.as_deref()), (RunStatus::Failed, Some("HEALTH_MONITOR_EXPIRED")));
    assert!(errors(&rig, posts[0].0).await[0].contains("waited for its next attempt for too long"));
    assert_eq!(rig.store.run(rig.tenant, posts[1].1).await.unwrap().status, RunStatus::Retrying);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forgotten_tasks_and_goals_are_given_up_with_an_error() {
    let rig = Rig::start().await;
    let (task, young, old) = (rig.new_task().await, rig.goal, rig.new_goal().await);
    let mut runs = Vec::new();
    for (agentable, by) in [(task, "3 hours"), (young, "3 hours"), (old, "7 hours")] {
        runs.push(rig.post_silently(agentable, "hello").await.run);
        age(&rig, agentable, by);
    }
    let (one, other) = (rig.monitor(), rig.monitor());
    one.look().await.unwrap();
    let reasons = |rig: &Rig| runs.iter().map(|run| reason(rig, *run)).collect::<Vec<_>>();
    assert_eq!(reasons(&rig), ["", "", ""], "nobody lived, so nobody forgot them");
    let idler = idler(&rig, "8 hours").await;
    rig.servers.sql("update houston.run_locks set woken_at = null").unwrap();
    look_twice(&one, &other, "stale_goals").await;
    assert_eq!(reasons(&rig), ["stale_task", "", "stale"]);
    let checks = one.look().await.unwrap();
    assert_eq!(of(&checks, "stale_tasks").status, HealthStatus::Ok, "marked once");

    let worker = rig.worker();
    let done = rig.ended(runs[0]).await;
    assert_eq!((done.status, done.error_code.as_deref()), (RunStatus::Failed, Some("HEALTH_MONITOR_STALE")));
    assert_eq!(errors(&rig, task).await.len(), 1);
    let thread = rig.store.messages(rig.tenant, young, None, 100).await.unwrap();
    let told = thread.iter().filter(|thread| thread.message.source == Source::System);
    let told: Vec<_> = told.map(|thread| thread.message.content.as_str()).collect();
    assert_eq!(told.len(), 1, "what it worked for is told once: {told:?}");
    assert!(told[0].contains("status=\"failed\" reason=\"health_monitor_stale\""), "{told:?}");
    let failed = rig.ended(runs[2]).await;
    assert_eq!(
        (failed.status, failed.error_code.as_deref()),
        (RunStatus::Failed, Some("HEALTH_MONITOR_STALE"))
    );
    assert!(errors(&rig, old).await[0].contains("nothing happened for too long"));
    assert_status(&rig.ended(runs[1]).await, RunStatus::MessageSent);
    let next = rig.post(old, "hello again").await;
    assert_status(&rig.ended(next.run).await, RunStatus::MessageSent);
    rig.history(old).await;
    idler.resign().await.unwrap();
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_waits_is_rung_again_and_red_after_a_minute() {
    let rig = Rig::start().await;
    let posted = rig.post_silently(rig.goal, "hello").await;
    let monitor = rig.monitor();
    assert_eq!(of(&monitor.look().await.unwrap(), "overdue_work").status, HealthStatus::Ok);
    age(&rig, rig.goal, "45 seconds");
    let checks = monitor.look().await.unwrap();
    assert_eq!(of(&checks, "overdue_work").status, HealthStatus::Warn, "{checks:?}");
    age(&rig, rig.goal, "45 seconds");
    let checks = monitor.look().await.unwrap();
    assert_eq!(of(&checks, "overdue_work").status, HealthStatus::Red);
    assert_eq!(of(&checks, "workers").status, HealthStatus::Red);
    let rung = eventually("it is rung", || async {
        let depths = houston_queue::depths(monitor.redis.as_ref().unwrap()).await.unwrap();
        depths.iter().find(|(_, count)| *count > 0).map(|(lane, _)| *lane)
    });
    assert_eq!(rung.await, houston_queue::Lane::Interactive);

    // A wake that was lost, by whatever bug: no sweep of a worker would find this run.
    rig.servers.sql("update houston.run_locks set wake = false where run_open").unwrap();
    let found = of(&monitor.look().await.unwrap(), "overdue_work").clone();
    assert!(found.detail.contains("were woken"), "{found:?}");
    let worker = rig.worker();
    assert_status(&rig.ended(posted.run).await, RunStatus::MessageSent);
    let checks = monitor.look().await.unwrap();
    let red: Vec<_> = checks.iter().filter(|check| check.status == HealthStatus::Red).collect();
    assert!(red.is_empty(), "{red:?}");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_ended_long_ago_go_with_all_their_rows_but_their_notes() {
    let rig = Rig::start().await;
    let worker = rig.worker();
    let (old, young) = (rig.new_task().await, rig.new_task().await);
    let mut runs = Vec::new();
    for agentable in [old, young, rig.goal] {
        let posted = rig.post(agentable, "Please create a note: buy milk").await;
        rig.ended(posted.run).await;
        runs.push(posted.run);
    }
    worker.drain().await;
    age(&rig, old, "16 days");
    age(&rig, young, "14 days");
    age(&rig, rig.goal, "16 days");
    let (one, other) = (rig.monitor(), rig.monitor());
    look_twice(&one, &other, "finished_tasks").await;
    let left = |table: &str, agentable: AgentableId| {
        let query = format!("select count(*) from houston.{table} where agentable_id = '{}'", agentable.0);
        rig.servers.sql(&query).unwrap().parse::<u32>().unwrap()
    };
    for table in ["runs", "run_locks", "messages", "events", "history", "tool_calls", "notes"] {
        assert_eq!(left(table, old), 0, "{table}");
    }
    for table in ["runs", "run_locks", "messages", "events", "history"] {
        assert!(left(table, young) > 0 && left(table, rig.goal) > 0, "{table}");
    }
    let kinds = "select string_agg(kind, ' ' order by kind) from houston.agentables";
    assert_eq!(rig.servers.sql(kinds).unwrap(), "goal task user_agent");
    for run in &runs[..2] {
        let query = format!(
            "select count(*) from houston.notes where agentable_id = '{}' and run_id = '{}'",
            rig.goal.0, run.0
        );
        assert_eq!(rig.servers.sql(&query).unwrap(), "1", "what they wrote is their goal's");
    }
    let again = one.look().await.unwrap();
    assert!(of(&again, "finished_tasks").detail.starts_with("0 tasks"), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_monitor_broken_off_anywhere_leaves_a_state_the_next_one_mends() {
    let rig = Rig::start().await;
    let idler = idler(&rig, "1 hour").await;
    let mut runs = Vec::new();
    for _ in 0..40 {
        let goal = rig.new_goal().await;
        runs.push(rig.post_silently(goal, "hello").await.run);
        claim(&rig, goal, idler.worker()).await;
        age(&rig, goal, "31 minutes");
    }
    let mut monitor = rig.monitor();
    monitor.config.tick.batch = 1;
    let marked = "select count(*) from houston.runs r join houston.run_locks l on l.run_id = r.id
                   where r.cancel_reason = 'stuck' and l.holder is null and l.epoch = 2";
    let half = "select count(*) from houston.runs r join houston.run_locks l on l.run_id = r.id
                 where (r.cancel_reason is null) <> (l.epoch = 1)";
    for nth in 0..60_u64 {
        tokio::select! {
            looked = monitor.look() => { looked.unwrap(); }
            () = tokio::time::sleep(Duration::from_micros(nth * 1500)) => {}
        }
        assert_eq!(rig.servers.sql(half).unwrap(), "0", "marked and fenced are one");
    }
    monitor.config.tick.batch = 500;
    monitor.look().await.unwrap();
    assert_eq!(rig.servers.sql(marked).unwrap(), "40");
    let worker = rig.worker();
    for run in runs {
        assert_status(&rig.ended(run).await, RunStatus::Failed);
    }
    idler.resign().await.unwrap();
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idempotency_keys_are_forgotten_after_a_day_some_at_a_time() {
    let rig = Rig::start().await;
    for (name, count, by) in [("old", 25, "25 hours"), ("young", 3, "23 hours")] {
        let keys = format!(
            "insert into houston.idempotency_keys (tenant_id, key, request_sha256, resource_id, created_at)
             select '{}', '{name} ' || n, '', gen_random_uuid(), now() - interval '{by}' from generate_series(1, {count}) n",
            rig.tenant.0
        );
        rig.servers.sql(&keys).unwrap();
    }
    let mut monitor = rig.monitor();
    // Two batches of ten.
    (monitor.config.tick.batch, monitor.config.tick.batches) = (1, 2);
    let left = || {
        rig.servers.sql(
            "select split_part(key, ' ', 1), count(*) from houston.idempotency_keys group by 1 order by 1",
        )
    };
    let checks = monitor.look().await.unwrap();
    let forgotten = of(&checks, "idempotency_keys");
    assert_eq!(forgotten.detail, "20 idempotency keys older than 1 d were forgotten");
    assert_eq!(left().unwrap(), "old|5\nyoung|3");
    look_twice(&monitor, &rig.monitor(), "idempotency_keys").await;
    assert_eq!(left().unwrap(), "young|3");
}
