//! Workers whose lease is in danger, or seems to be.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use houston_domain::event::Event;
use houston_domain::model::ModelError;
use houston_domain::run::RunStatus;
use houston_llm::model::{Description, EventStream, Request};
use houston_llm::{Model, Simulated};

use crate::rig::{Rig, assert_status, eventually};

/// A model whose calls break the run down that makes them.
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
async fn a_message_whose_model_call_breaks_its_run_down_is_given_up_after_three() {
    let rig = Rig::start().await;
    let poison = Arc::new(Poison { simulated: Simulated::new(), calls: AtomicUsize::new(0) });
    let worker = rig.worker_with(Arc::clone(&poison) as Arc<dyn Model>, vec![]);
    let posted = rig.post(rig.goal, "hello").await;
    assert_status(&rig.ended(posted.run).await, RunStatus::DeadLettered);
    assert_eq!(poison.calls.load(Ordering::SeqCst), 3);
    rig.history(rig.goal).await;
    worker.drain().await;
}

/// Waits until the model writes for the run of the rig's goal.
async fn writing(rig: &Rig, attempt: i32) {
    let begun = format!(
        "select count(*) from houston.events e where agentable_id = '{}' and e.data ->> 'type' = 'attempt_started'
            and (e.data ->> 'attempt')::int >= {attempt}",
        rig.goal.0
    );
    eventually("the run is driven", || async { (rig.servers.sql(&begun).unwrap() == "1").then_some(()) })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_loses_the_connection_of_its_lease_keeps_its_runs() {
    let rig = Rig::start().await;
    let (worker, other) = (rig.worker(), rig.worker());
    let posted = rig.post(rig.goal, "/sim chunks=100 delay_ms=60").await;
    writing(&rig, 1).await;
    let beats = "select string_agg(id::text, ' ' order by id) from houston.workers";
    let before = rig.servers.sql(beats).unwrap();
    for _ in 0..3 {
        let cut = "select pg_terminate_backend(pid) from pg_stat_activity
              where application_name = 'houston lease' and datname = current_database()";
        rig.servers.sql(cut).unwrap();
        let locks = "select count(*) from pg_locks where locktype = 'advisory' and objsubid = 1 and granted
                        and database = (select oid from pg_database where datname = current_database())";
        let back = || async { (rig.servers.sql(locks).unwrap() == "2").then_some(()) };
        eventually("the workers have their locks back", back).await;
    }
    let run = rig.ended(posted.run).await;
    assert_status(&run, RunStatus::MessageSent);
    assert_eq!(run.attempt, 1, "nobody took it over");
    assert_eq!(rig.servers.sql(beats).unwrap(), before, "nobody was reaped");
    worker.drain().await;
    other.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_taken_for_dead_takes_back_what_its_runs_were_accused_of() {
    let rig = Rig::start().await;
    let worker = rig.worker();
    let posted = rig.post(rig.goal, "/sim chunks=100 delay_ms=100").await;
    writing(&rig, 1).await;
    let other = rig.worker();
    eventually("both live", || async {
        (rig.servers.sql("select count(*) from houston.workers").unwrap() == "2").then_some(())
    })
    .await;
    rig.servers
        .sql(&format!(
            "delete from houston.workers where id = (select holder from houston.run_locks where agentable_id = '{}')",
            rig.goal.0
        ))
        .unwrap();
    writing(&rig, 2).await;
    let accused = format!(
        "select cardinality(died_with) from houston.run_locks where agentable_id = '{}' and holder is not null
            and run_open",
        rig.goal.0
    );
    eventually("it is acquitted", || async { (rig.servers.sql(&accused).unwrap() == "0").then_some(()) })
        .await;
    assert!(!rig.store.run(rig.tenant, posted.run).await.unwrap().status.is_terminal(), "no step forgave it");
    assert_status(&rig.ended(posted.run).await, RunStatus::MessageSent);
    let attempts = rig.events(rig.goal).await;
    let takeovers =
        attempts.iter().filter(|event| matches!(event.event, Event::AttemptStarted { takeover: true, .. }));
    assert_eq!(takeovers.count(), 1);
    worker.drain().await;
    other.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hint_whose_claim_fails_is_not_lost() {
    let mut rig = Rig::start().await;
    rig.sweep_ms = 3_600_000;
    let worker = rig.worker();
    worker.running.registered().await;
    // The first sweep is over when this run is.
    let first = rig.post(rig.goal, "hello").await;
    rig.ended(first.run).await;
    let posted = rig.post_silently(rig.goal, "hello again").await;
    // Longer than a statement waits for a lock.
    let held = "begin; lock table houston.run_locks in access exclusive mode; select pg_sleep(3); commit";
    let mut locker = rig.servers.psql(held).spawn().unwrap();
    let locked = "select count(*) from pg_locks where mode = 'AccessExclusiveLock' and granted
                     and relation = 'houston.run_locks'::regclass
                     and database = (select oid from pg_database where datname = current_database())";
    eventually("the table is locked", || async { (rig.servers.sql(locked).unwrap() == "1").then_some(()) })
        .await;
    rig.ring(rig.goal);
    assert_status(&rig.ended(posted.run).await, RunStatus::MessageSent);
    assert!(locker.wait().unwrap().success());
    worker.drain().await;
}
