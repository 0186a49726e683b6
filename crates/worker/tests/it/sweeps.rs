//! Repairs of the health monitor, on states created by SQL: the result is the same for one monitor or two at once.

use std::time::Duration;

use houston_domain::health::{Check, HealthStatus};
use houston_domain::id::{AgentableId, RunId, RunToken, WorkerId};
use houston_domain::message::{MessageStatus, Source};
use houston_domain::run::RunStatus;
use houston_store::claim::{Claim, ClaimRequest, ClaimedRun, CrashPolicy, Trial};
use houston_store::lease::{LeaseConnection, WorkerDescription};
use houston_worker::Monitor;

use crate::cluster::{TestCluster, assert_status, eventually};
use crate::watchdog::hang;
use crate::workers::simulated;

/// Moves all times of an agentable and its runs into the past.
pub(crate) fn age(cluster: &TestCluster, agentable: AgentableId, by: &str) {
    let id = agentable.0;
    let statements = format!(
        "update houston.runs set created_at = created_at - interval '{by}',
                started_at = started_at - interval '{by}', ended_at = ended_at - interval '{by}'
          where agentable_id = '{id}';
         update houston.events set created_at = created_at - interval '{by}' where agentable_id = '{id}';
         update houston.messages set created_at = created_at - interval '{by}' where agentable_id = '{id}';
         update houston.run_locks set woken_at = woken_at - interval '{by}' where agentable_id = '{id}';
         update houston.agentables set created_at = created_at - interval '{by}' where id = '{id}';"
    );
    cluster.servers.sql(&statements).unwrap();
}

pub(crate) fn of<'c>(checks: &'c [Check], id: &str) -> &'c Check {
    checks.iter().find(|check| check.id == id).unwrap()
}

/// Runs two monitors at the same time. Returns each result of one check.
pub(crate) async fn look_twice(one: &Monitor, other: &Monitor, id: &str) -> [Check; 2] {
    let (one, other) = tokio::join!(one.run_checks(), other.run_checks());
    [one.unwrap(), other.unwrap()].map(|checks| of(&checks, id).clone())
}

/// Registers a worker that is alive and does nothing.
async fn idler(cluster: &TestCluster, since: &str) -> LeaseConnection {
    let url = cluster.servers.database_url();
    let mut lease = LeaseConnection::open(url, cluster.ids.next(), Duration::from_secs(600)).await.unwrap();
    lease.register(WorkerDescription { name: "idler".into(), ..WorkerDescription::default() }).await.unwrap();
    let id = lease.worker().0;
    let older =
        format!("update houston.workers set started_at = now() - interval '{since}' where id = '{id}'");
    cluster.servers.sql(&older).unwrap();
    lease
}

async fn claim(cluster: &TestCluster, agentable: AgentableId, worker: WorkerId) -> ClaimedRun {
    let token: RunToken = cluster.ids.next();
    let request = ClaimRequest {
        agentable,
        worker,
        token,
        next_message: cluster.ids.next(),
        crashes: CrashPolicy::default(),
        trial: Trial::None,
        context: None,
    };
    match cluster.runs().claim(request).await.unwrap() {
        Claim::Run(claimed) => *claimed,
        other => panic!("{other:?}"),
    }
}

fn lock(cluster: &TestCluster, agentable: AgentableId) -> String {
    let columns = "epoch, run_token is null, holder is null, wake";
    let query = format!("select {columns} from houston.run_locks where agentable_id = '{}'", agentable.0);
    cluster.servers.sql(&query).unwrap()
}

fn reason(cluster: &TestCluster, run: RunId) -> String {
    cluster.servers.sql(&format!("select cancel_reason from houston.runs where id = '{}'", run.0)).unwrap()
}

/// The errors a user reads in a thread.
async fn errors(cluster: &TestCluster, agentable: AgentableId) -> Vec<String> {
    let messages = cluster.requests().messages(agentable, None, 100).await.unwrap();
    let errors = messages.into_iter().filter(|message| message.source == Source::Error);
    errors.map(|message| message.content).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn stuck_run_is_taken_once_and_ended_by_the_engine() {
    let cluster = TestCluster::start().await;
    let idler = idler(&cluster, "1 hour").await;
    let (stuck, busy) = (cluster.goal, cluster.new_goal().await);
    let posted = cluster.post_silently(stuck, "hello").await;
    let zombie = claim(&cluster, stuck, idler.worker()).await;
    let working = cluster.post_silently(busy, "hello").await;
    let alive = claim(&cluster, busy, idler.worker()).await;
    let later = cluster.post_silently(stuck, "are you there?").await;
    age(&cluster, stuck, "31 minutes");
    age(&cluster, busy, "29 minutes");

    let (one, other) = (cluster.monitor(), cluster.monitor());
    let found = look_twice(&one, &other, "stuck_runs").await;
    let warned = found.iter().filter(|check| check.detail.starts_with("1 attempts")).count();
    assert_eq!(warned, 1, "one of the two took it: {found:?}");
    assert_eq!(lock(&cluster, stuck), "2|t|t|t", "one more epoch, no token, no holder, awake");
    assert_eq!(lock(&cluster, busy), "1|f|f|f", "what is in time is left alone");
    assert_eq!(reason(&cluster, posted.run), "stuck");
    let refused = cluster.runs().begin_fenced(&zombie.fence).await;
    assert!(matches!(refused, Err(houston_store::Error::Fenced)), "the holder is a zombie");
    assert!(cluster.runs().begin_fenced(&alive.fence).await.is_ok());
    assert_eq!(of(&one.run_checks().await.unwrap(), "stuck_runs").status, HealthStatus::Ok, "once is enough");
    assert_eq!(lock(&cluster, stuck), "2|t|t|t");

    let worker = cluster.worker();
    let run = cluster.wait_for_end(posted.run).await;
    assert_status(&run, RunStatus::Failed);
    assert_eq!(run.error_code(), Some("HEALTH_MONITOR_STUCK"));
    assert!(errors(&cluster, stuck).await[0].contains("health monitor stopped this"));
    let answered = eventually("the later message is answered", || async {
        let status = cluster.message(later.id).await.status;
        status.filter(|status| *status == MessageStatus::Answered)
    });
    answered.await;
    cluster.history(stuck).await;
    cluster.events(stuck).await;
    idler.deregister().await.unwrap();
    assert_status(&cluster.wait_for_end(working.run).await, RunStatus::MessageSent);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_stuck_in_a_tool_is_ended_with_its_call_closed() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker_with(simulated(), hang(Duration::from_secs(6000)));
    let posted = cluster.post(cluster.goal, "/sim tool=hang args={}").await;
    let calls = format!("select count(*) from houston.tool_calls where run_id = '{}'", posted.run.0);
    eventually("the tool runs", || async { (cluster.servers.sql(&calls).unwrap() == "1").then_some(()) })
        .await;
    age(&cluster, cluster.goal, "31 minutes");
    cluster.monitor().run_checks().await.unwrap();
    let run = cluster.wait_for_end(posted.run).await;
    assert_status(&run, RunStatus::Failed);
    assert_eq!(run.error_code(), Some("HEALTH_MONITOR_STUCK"));
    let history = serde_json::to_string(&cluster.history(cluster.goal).await).unwrap();
    assert!(history.contains("outcome unknown"), "{history}");
    cluster.events(cluster.goal).await;
    let next = cluster.post(cluster.goal, "hello again").await;
    assert_status(&cluster.wait_for_end(next.run).await, RunStatus::MessageSent);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_leases_are_reaped_and_their_runs_continue() {
    let cluster = TestCluster::start().await;
    let dead = idler(&cluster, "1 hour").await;
    let posted = cluster.post_silently(cluster.goal, "hello").await;
    claim(&cluster, cluster.goal, dead.worker()).await;
    let over = "update houston.workers set alive_until = now() - interval '2 minutes'";
    cluster.servers.sql(over).unwrap();
    let (one, other) = (cluster.monitor(), cluster.monitor());
    let found = look_twice(&one, &other, "dead_leases").await;
    assert!(found.iter().any(|check| check.status == HealthStatus::Red), "over for two minutes: {found:?}");
    assert_eq!(cluster.servers.sql("select count(*) from houston.workers").unwrap(), "0");
    assert_eq!(lock(&cluster, cluster.goal), "1|f|t|t", "released: no holder, awake");
    let again = one.run_checks().await.unwrap();
    assert_eq!(of(&again, "dead_leases").status, HealthStatus::Ok);
    assert_eq!(of(&again, "workers").status, HealthStatus::Red, "work is due and no worker lives");
    assert_eq!(of(&again, "overdue_work").status, HealthStatus::Ok, "it was released a moment ago");
    let worker = cluster.worker();
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    cluster.history(cluster.goal).await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_runs_without_a_lock_are_cancelled() {
    let cluster = TestCluster::start().await;
    let open = cluster.post_silently(cluster.goal, "hello").await;
    let idle = cluster.new_goal().await;
    for (agentable, status) in [(cluster.goal, "running"), (idle, "queued"), (idle, "retrying")] {
        let zombie = format!(
            "insert into houston.runs (id, tenant_id, agentable_id, status, first_seq)
             values (gen_random_uuid(), '{}', '{}', '{status}', 1)",
            cluster.tenant.0, agentable.0
        );
        cluster.servers.sql(&zombie).unwrap();
    }
    let (one, other) = (cluster.monitor(), cluster.monitor());
    look_twice(&one, &other, "zombie_runs").await;
    let cancelled = "select count(*) from houston.runs where status = 'cancelled' and ended_at is not null";
    assert_eq!(cluster.servers.sql(cancelled).unwrap(), "3");
    assert_eq!(cluster.requests().run(open.run).await.unwrap().status, RunStatus::Queued);
    assert_eq!(of(&one.run_checks().await.unwrap(), "zombie_runs").status, HealthStatus::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn task_whose_retry_is_due_for_too_long_is_given_up() {
    let cluster = TestCluster::start().await;
    let idler = idler(&cluster, "2 days").await;
    let mut posts = Vec::new();
    for (agentable, by, due) in [
        (cluster.new_task().await, "25 hours", "-25 hours"),
        // Its provider has asked for so long a wait.
        (cluster.new_task().await, "25 hours", "3 days"),
        (cluster.goal, "25 hours", "3 days"),
    ] {
        let posted = cluster.post_silently(agentable, "hello").await;
        let waits = format!(
            "update houston.runs set status = 'retrying', attempt = 1 where id = '{}';
             update houston.run_locks set next_attempt_at = now() + interval '{due}' where agentable_id = '{}'",
            posted.run.0, agentable.0
        );
        cluster.servers.sql(&waits).unwrap();
        age(&cluster, agentable, by);
        posts.push((agentable, posted.run));
    }
    let (one, other) = (cluster.monitor(), cluster.monitor());
    look_twice(&one, &other, "paused_tasks").await;
    let reasons: Vec<String> = posts.iter().map(|(_, run)| reason(&cluster, *run)).collect();
    assert_eq!(reasons, ["expired", "", ""], "a task after a day, and not before it is due");
    let worker = cluster.worker();
    let run = cluster.wait_for_end(posts[0].1).await;
    assert_eq!((run.status, run.error_code()), (RunStatus::Failed, Some("HEALTH_MONITOR_EXPIRED")));
    assert!(errors(&cluster, posts[0].0).await[0].contains("waited for its next attempt for too long"));
    assert_eq!(cluster.requests().run(posts[1].1).await.unwrap().status, RunStatus::Retrying);
    idler.deregister().await.unwrap();
    worker.drain().await;
}

/// Regression: what waited through the night in a paused lane was given up, and still when the lane was resumed.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_an_operator_is_not_stale() {
    let cluster = TestCluster::start().await;
    let (task, goal) = (cluster.new_task().await, cluster.goal);
    let mut runs = Vec::new();
    for agentable in [task, goal] {
        runs.push(cluster.post_silently(agentable, "hello").await.run);
        age(&cluster, agentable, "7 hours");
    }
    let idler = idler(&cluster, "8 hours").await;
    let monitor = cluster.monitor();
    let reasons = |cluster: &TestCluster| runs.iter().map(|run| reason(cluster, *run)).collect::<Vec<_>>();
    let pause = async |is_paused| {
        for lane in ["interactive", "background", "maintenance"] {
            cluster.store.api().set_lane_paused(lane, is_paused).await.unwrap();
        }
    };
    pause(true).await;
    monitor.run_checks().await.unwrap();
    assert_eq!(reasons(&cluster), ["", ""], "the lanes are paused");
    pause(false).await;
    let checks = monitor.run_checks().await.unwrap();
    assert_eq!(reasons(&cluster), ["", ""], "they were a moment ago");
    assert_eq!(of(&checks, "overdue_work").status, HealthStatus::Ok, "so it is not late either");
    let resumed = "update houston.resumed_lanes set resumed_at = now() - interval '3 hours'";
    cluster.servers.sql(resumed).unwrap();
    // The worker slept, or did not reach Postgres.
    let slept = "update houston.workers set alive_until = now() - interval '1 minute'";
    cluster.servers.sql(slept).unwrap();
    let mut idler = idler;
    assert!(idler.renew().await.unwrap());
    monitor.run_checks().await.unwrap();
    assert_eq!(reasons(&cluster), ["", ""], "no worker was there for some time");
    cluster.servers.sql("update houston.workers set served_since = null").unwrap();
    monitor.run_checks().await.unwrap();
    assert_eq!(reasons(&cluster), ["stale_task", ""], "three hours are too long for a task");
    cluster.servers.sql("delete from houston.resumed_lanes").unwrap();
    monitor.run_checks().await.unwrap();
    assert_eq!(reasons(&cluster), ["stale_task", "stale"]);
    idler.deregister().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_tasks_and_goals_are_given_up_with_an_error() {
    let cluster = TestCluster::start().await;
    let (task, young, old) = (cluster.new_task().await, cluster.goal, cluster.new_goal().await);
    let mut runs = Vec::new();
    for (agentable, by) in [(task, "3 hours"), (young, "3 hours"), (old, "7 hours")] {
        runs.push(cluster.post_silently(agentable, "hello").await.run);
        age(&cluster, agentable, by);
    }
    let (one, other) = (cluster.monitor(), cluster.monitor());
    one.run_checks().await.unwrap();
    let reasons = |cluster: &TestCluster| runs.iter().map(|run| reason(cluster, *run)).collect::<Vec<_>>();
    assert_eq!(reasons(&cluster), ["", "", ""], "no worker lived, so none forgot them");
    let idler = idler(&cluster, "8 hours").await;
    cluster.servers.sql("update houston.run_locks set woken_at = null").unwrap();
    look_twice(&one, &other, "stale_goals").await;
    assert_eq!(reasons(&cluster), ["stale_task", "", "stale"]);
    let checks = one.run_checks().await.unwrap();
    assert_eq!(of(&checks, "stale_tasks").status, HealthStatus::Ok, "marked once");

    let worker = cluster.worker();
    let done = cluster.wait_for_end(runs[0]).await;
    assert_eq!((done.status, done.error_code()), (RunStatus::Failed, Some("HEALTH_MONITOR_STALE")));
    assert_eq!(errors(&cluster, task).await.len(), 1);
    let thread = cluster.requests().messages(young, None, 100).await.unwrap();
    let told = thread.iter().filter(|thread| thread.source == Source::System);
    let told: Vec<_> = told.map(|thread| thread.content.as_str()).collect();
    assert_eq!(told.len(), 1, "what it worked for is told once: {told:?}");
    assert!(told[0].contains("status=\"failed\" reason=\"health_monitor_stale\""), "{told:?}");
    let failed = cluster.wait_for_end(runs[2]).await;
    assert_eq!((failed.status, failed.error_code()), (RunStatus::Failed, Some("HEALTH_MONITOR_STALE")));
    assert!(errors(&cluster, old).await[0].contains("nothing happened for too long"));
    assert_status(&cluster.wait_for_end(runs[1]).await, RunStatus::MessageSent);
    let next = cluster.post(old, "hello again").await;
    assert_status(&cluster.wait_for_end(next.run).await, RunStatus::MessageSent);
    cluster.history(old).await;
    idler.deregister().await.unwrap();
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_work_gets_another_hint_and_is_red_after_a_minute() {
    let cluster = TestCluster::start().await;
    let posted = cluster.post_silently(cluster.goal, "hello").await;
    let monitor = cluster.monitor();
    assert_eq!(of(&monitor.run_checks().await.unwrap(), "overdue_work").status, HealthStatus::Ok);
    age(&cluster, cluster.goal, "45 seconds");
    let checks = monitor.run_checks().await.unwrap();
    assert_eq!(of(&checks, "overdue_work").status, HealthStatus::Warn, "{checks:?}");
    age(&cluster, cluster.goal, "45 seconds");
    let checks = monitor.run_checks().await.unwrap();
    assert_eq!(of(&checks, "overdue_work").status, HealthStatus::Red);
    assert_eq!(of(&checks, "workers").status, HealthStatus::Red);
    let lane = eventually("a hint is sent", || async {
        let depths = houston_queue::depths(monitor.redis.as_ref().unwrap()).await.unwrap();
        depths.iter().find(|(_, count)| *count > 0).map(|(lane, _)| *lane)
    });
    assert_eq!(lane.await, houston_queue::Lane::Interactive);

    // A lost `wake`, as by a bug: no sweep of a worker would find this run.
    cluster.servers.sql("update houston.run_locks set wake = false where run_open").unwrap();
    let found = of(&monitor.run_checks().await.unwrap(), "overdue_work").clone();
    assert!(found.detail.contains("were woken"), "{found:?}");
    let worker = cluster.worker();
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    let checks = monitor.run_checks().await.unwrap();
    let red: Vec<_> = checks.iter().filter(|check| check.status == HealthStatus::Red).collect();
    assert!(red.is_empty(), "{red:?}");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_tasks_are_deleted_with_all_rows_but_their_notes() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let (old, young) = (cluster.new_task().await, cluster.new_task().await);
    let mut runs = Vec::new();
    for agentable in [old, young, cluster.goal] {
        let posted = cluster.post(agentable, "Please create a note: buy milk").await;
        cluster.wait_for_end(posted.run).await;
        runs.push(posted.run);
    }
    worker.drain().await;
    age(&cluster, old, "16 days");
    age(&cluster, young, "14 days");
    age(&cluster, cluster.goal, "16 days");
    let (one, other) = (cluster.monitor(), cluster.monitor());
    look_twice(&one, &other, "finished_tasks").await;
    let left = |table: &str, agentable: AgentableId| {
        let query = format!("select count(*) from houston.{table} where agentable_id = '{}'", agentable.0);
        cluster.servers.sql(&query).unwrap().parse::<u32>().unwrap()
    };
    for table in ["runs", "run_locks", "messages", "events", "history", "tool_calls", "knowledge_items"] {
        assert_eq!(left(table, old), 0, "{table}");
    }
    for table in ["runs", "run_locks", "messages", "events", "history"] {
        assert!(left(table, young) > 0 && left(table, cluster.goal) > 0, "{table}");
    }
    let kinds = "select string_agg(kind, ' ' order by kind) from houston.agentables";
    assert_eq!(cluster.servers.sql(kinds).unwrap(), "goal task user_agent");
    for run in &runs[..2] {
        let query = format!(
            "select count(*) from houston.knowledge_items where agentable_id = '{}' and run_id = '{}'",
            cluster.goal.0, run.0
        );
        assert_eq!(cluster.servers.sql(&query).unwrap(), "1", "what they wrote is their goal's");
    }
    let again = one.run_checks().await.unwrap();
    assert!(of(&again, "finished_tasks").detail.starts_with("0 tasks"), "{again:?}");
}

/// Runs the checks; `None` if an interrupted check held a lock for too long.
async fn tried(monitor: &Monitor) -> Option<Vec<Check>> {
    monitor.run_checks().await.map_err(|error| assert!(error.is_transient(), "{error}")).ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_monitor_leaves_a_state_the_next_repairs() {
    let cluster = TestCluster::start().await;
    let idler = idler(&cluster, "1 hour").await;
    let mut runs = Vec::new();
    for _ in 0..40 {
        let goal = cluster.new_goal().await;
        runs.push(cluster.post_silently(goal, "hello").await.run);
        claim(&cluster, goal, idler.worker()).await;
        age(&cluster, goal, "31 minutes");
    }
    let mut monitor = cluster.monitor();
    monitor.config.tick.batch = 1;
    let marked = "select count(*) from houston.runs r join houston.run_locks l on l.run_id = r.id
                   where r.cancel_reason = 'stuck' and l.holder is null and l.epoch = 2";
    let half = "select count(*) from houston.runs r join houston.run_locks l on l.run_id = r.id
                 where (r.cancel_reason is null) <> (l.epoch = 1)";
    for nth in 0..60_u64 {
        tokio::select! {
            _ = tried(&monitor) => {}
            () = tokio::time::sleep(Duration::from_micros(nth * 1500)) => {}
        }
        assert_eq!(cluster.servers.sql(half).unwrap(), "0", "marked and fenced are one");
    }
    monitor.config.tick.batch = 500;
    eventually("a run of the checks", || tried(&monitor)).await;
    assert_eq!(cluster.servers.sql(marked).unwrap(), "40");
    let worker = cluster.worker();
    for run in runs {
        assert_status(&cluster.wait_for_end(run).await, RunStatus::Failed);
    }
    idler.deregister().await.unwrap();
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idempotency_keys_are_deleted_after_a_day_in_batches() {
    let cluster = TestCluster::start().await;
    for (name, count, by) in [("old", 25, "25 hours"), ("young", 3, "23 hours")] {
        let keys = format!(
            "insert into houston.idempotency_keys (tenant_id, key, request_sha256, resource_id, created_at)
             select '{}', '{name} ' || n, '', gen_random_uuid(), now() - interval '{by}' from generate_series(1, {count}) n",
            cluster.tenant.0
        );
        cluster.servers.sql(&keys).unwrap();
    }
    let mut monitor = cluster.monitor();
    // Two batches of ten.
    (monitor.config.tick.batch, monitor.config.tick.batches) = (1, 2);
    let left = || {
        cluster.servers.sql(
            "select split_part(key, ' ', 1), count(*) from houston.idempotency_keys group by 1 order by 1",
        )
    };
    let checks = monitor.run_checks().await.unwrap();
    let forgotten = of(&checks, "idempotency_keys");
    assert_eq!(forgotten.detail, "20 idempotency keys older than 1 d were deleted");
    assert_eq!(left().unwrap(), "old|5\nyoung|3");
    look_twice(&monitor, &cluster.monitor(), "idempotency_keys").await;
    assert_eq!(left().unwrap(), "young|3");
}
