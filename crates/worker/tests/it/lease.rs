//! Workers that lose their lease, or its connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use houston_domain::event::Event;
use houston_domain::id::{AgentableId, RunId, WorkerId};
use houston_domain::model::ModelError;
use houston_domain::run::RunStatus;
use houston_llm::model::{Description, EventStream, Request};
use houston_llm::{Model, Simulated};
use houston_store::claim::{Claim, ClaimRequest, CrashPolicy, Trial};
use houston_store::lease::{LeaseConnection, WorkerDescription};
use houston_testkit::event_stream::EVENTS;

use crate::cluster::{TestCluster, assert_status, eventually};

/// A model whose calls panic.
struct Poison {
    simulated: Simulated,
    calls: AtomicUsize,
}

impl Model for Poison {
    fn description(&self) -> &Description {
        self.simulated.description()
    }

    fn stream<'a>(&'a self, _: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        panic!("poison");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn message_is_given_up_after_three_panics_of_its_run() {
    let cluster = TestCluster::start().await;
    let poison = Arc::new(Poison { simulated: Simulated::new(), calls: AtomicUsize::new(0) });
    let worker = cluster.worker_with(Arc::clone(&poison) as Arc<dyn Model>, vec![]);
    let posted = cluster.post(cluster.goal, "hello").await;
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::DeadLettered);
    assert_eq!(poison.calls.load(Ordering::SeqCst), 3);
    cluster.history(cluster.goal).await;
    worker.drain().await;
}

/// Waits until a model call of the goal's run streams text.
async fn writing(cluster: &TestCluster, attempt: i32) {
    let begun = format!(
        "select count(*) from ({EVENTS}) e where agentable_id = '{}' and e.data ->> 'type' = 'attempt_started'
            and (e.data ->> 'attempt')::int >= {attempt}",
        cluster.goal.0
    );
    eventually("the run is driven", || async { (cluster.servers.sql(&begun).unwrap() == "1").then_some(()) })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_keeps_its_runs_when_its_lease_connection_breaks() {
    let mut cluster = TestCluster::start().await;
    // Longer than a busy machine takes to connect again.
    cluster.suspect_ms = 30_000;
    let (worker, other) = (cluster.worker(), cluster.worker());
    let posted = cluster.post(cluster.goal, "/sim chunks=100 delay_ms=60").await;
    writing(&cluster, 1).await;
    worker.running.registered().await;
    other.running.registered().await;
    let beats = "select string_agg(id::text, ' ' order by id) from houston.workers";
    let before = cluster.servers.sql(beats).unwrap();
    for _ in 0..3 {
        let cut = "select pg_terminate_backend(pid) from pg_stat_activity
              where application_name = 'houston lease' and datname = current_database()";
        cluster.servers.sql(cut).unwrap();
        let locks = "select count(*) from pg_locks where locktype = 'advisory' and objsubid = 1 and granted
                        and database = (select oid from pg_database where datname = current_database())";
        let back = || async { (cluster.servers.sql(locks).unwrap() == "2").then_some(()) };
        eventually("the workers have their locks back", back).await;
    }
    let run = cluster.wait_for_end(posted.run).await;
    assert_status(&run, RunStatus::MessageSent);
    assert_eq!(run.attempt, 1, "nobody took it over");
    assert_eq!(cluster.servers.sql(beats).unwrap(), before, "nobody was reaped");
    worker.drain().await;
    other.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_taken_for_dead_withdraws_its_deaths_from_its_runs() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let posted = cluster.post(cluster.goal, "/sim chunks=100 delay_ms=100").await;
    writing(&cluster, 1).await;
    let other = cluster.worker();
    eventually("both live", || async {
        (cluster.servers.sql("select count(*) from houston.workers").unwrap() == "2").then_some(())
    })
    .await;
    cluster.servers
        .sql(&format!(
            "delete from houston.workers where id = (select holder from houston.run_locks where agentable_id = '{}')",
            cluster.goal.0
        ))
        .unwrap();
    writing(&cluster, 2).await;
    let accused = format!(
        "select cardinality(died_with) from houston.run_locks where agentable_id = '{}' and holder is not null
            and run_open",
        cluster.goal.0
    );
    eventually("it is acquitted", || async { (cluster.servers.sql(&accused).unwrap() == "0").then_some(()) })
        .await;
    assert!(!cluster.requests().run(posted.run).await.unwrap().status.is_terminal(), "no step forgave it");
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    let attempts = cluster.events(cluster.goal).await;
    let takeovers =
        attempts.iter().filter(|event| matches!(event.event, Event::AttemptStarted { takeover: true, .. }));
    assert_eq!(takeovers.count(), 1);
    worker.drain().await;
    other.drain().await;
}

/// A run of the agentable that a worker holds, which dies when its lease is dropped.
async fn doomed_run(cluster: &TestCluster, goal: AgentableId) -> (LeaseConnection, RunId) {
    let id: WorkerId = cluster.ids.next();
    let ttl = Duration::from_secs(3600);
    let mut lease = LeaseConnection::open(cluster.servers.database_url(), id, ttl).await.unwrap();
    lease
        .register(WorkerDescription { name: "doomed".into(), ..WorkerDescription::default() })
        .await
        .unwrap();
    let posted = cluster.post_silently(goal, "hello").await;
    let request = ClaimRequest {
        agentable: goal,
        worker: id,
        token: cluster.ids.next(),
        next_message: cluster.ids.next(),
        crashes: CrashPolicy::default(),
        trial: Trial::None,
        context: None,
    };
    let Claim::Run(claimed) = cluster.runs().claim(request).await.unwrap() else { panic!("not claimed") };
    assert_eq!(claimed.run, posted.run);
    (lease, posted.run)
}

#[tokio::test(flavor = "multi_thread")]
async fn neighbour_takes_over_the_runs_of_dead_workers() {
    let mut cluster = TestCluster::start().await;
    // Only the neighbour's look can find the deaths.
    (cluster.suspect_ms, cluster.reap_every_ms, cluster.sweep_ms) = (3_600_000, 3_600_000, 3_600_000);
    // The second is found when the first is gone.
    let mut doomed = Vec::new();
    for goal in [cluster.goal, cluster.new_goal().await] {
        doomed.push(doomed_run(&cluster, goal).await);
    }
    // Not before: its first sweep would claim what is not claimed yet.
    let worker = cluster.worker();
    worker.running.registered().await;
    for (lease, run) in doomed {
        drop(lease);
        assert_status(&cluster.wait_for_end(run).await, RunStatus::MessageSent);
    }
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suspect_that_waited_is_claimed_without_a_sweep() {
    let mut cluster = TestCluster::start().await;
    (cluster.suspect_ms, cluster.reap_every_ms, cluster.sweep_ms) = (3_600_000, 3_600_000, 3_600_000);
    let (lease, run) = doomed_run(&cluster, cluster.goal).await;
    let two_deaths = format!(
        "update houston.run_locks set died_with = array[gen_random_uuid(), gen_random_uuid()] where agentable_id = '{}'",
        cluster.goal.0
    );
    cluster.servers.sql(&two_deaths).unwrap();
    let worker = cluster.worker();
    worker.running.registered().await;
    // The third death: it waits, since that worker may be alive, and is given up then.
    drop(lease);
    assert_status(&cluster.wait_for_end(run).await, RunStatus::DeadLettered);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hint_whose_claim_fails_is_not_lost() {
    let mut cluster = TestCluster::start().await;
    cluster.sweep_ms = 3_600_000;
    let worker = cluster.worker();
    worker.running.registered().await;
    // The first sweep ends before this run.
    let first = cluster.post(cluster.goal, "hello").await;
    cluster.wait_for_end(first.run).await;
    let posted = cluster.post_silently(cluster.goal, "hello again").await;
    // Longer than lock_timeout.
    let held = "begin; lock table houston.run_locks in access exclusive mode; select pg_sleep(6); commit";
    let mut locker = cluster.servers.psql(held).spawn().unwrap();
    let locked = "select count(*) from pg_locks where mode = 'AccessExclusiveLock' and granted
                     and relation = 'houston.run_locks'::regclass
                     and database = (select oid from pg_database where datname = current_database())";
    eventually("the table is locked", || async {
        (cluster.servers.sql(locked).unwrap() == "1").then_some(())
    })
    .await;
    cluster.send_hint(cluster.goal);
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    assert!(locker.wait().unwrap().success());
    worker.drain().await;
}
