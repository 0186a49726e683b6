use std::time::{Duration, Instant};

use houston_domain::id::WorkerId;
use houston_store::lease::{LeaseConnection, WorkerDescription};
use houston_store::{Config, Result, Store};

use crate::test_store::{LEASE, TestStore};

/// The suspected workers; repeats the query until Postgres, just restarted, answers.
async fn suspected_workers(test: &TestStore, settled: Duration) -> Vec<WorkerId> {
    suspected_workers_of(&test.store, settled).await
}

async fn suspected_workers_of(store: &Store, settled: Duration) -> Vec<WorkerId> {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let found: Result<Vec<_>> = store.runs().suspected_workers(settled).await;
        match found {
            Ok(found) => {
                let blamed = found.into_iter().filter(|suspect| !suspect.is_excused);
                return blamed.map(|suspect| suspect.worker).collect();
            }
            Err(error) => assert!(error.is_transient() && Instant::now() < end, "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_that_died_after_a_restart_is_found_once_settled() {
    let mut test = TestStore::start_with_own_postgres().await;
    let worker: WorkerId = test.ids.next();
    let url = test.database.url().to_owned();
    let mut lease = LeaseConnection::open(&url, worker, LEASE).await.unwrap();
    lease
        .register(WorkerDescription { name: "doomed".into(), ..WorkerDescription::default() })
        .await
        .unwrap();
    let hour = Duration::from_secs(3600);
    assert!(suspected_workers(&test, hour).await.is_empty());

    tokio::task::block_in_place(|| test.database.server_mut().unwrap().restart_postgres()).unwrap();
    drop(lease);
    assert!(suspected_workers(&test, hour).await.is_empty(), "living workers have lost their locks, too");

    // The other worker reconnects and renews its lease; this one does not.
    let mut living = LeaseConnection::open(&url, test.worker, LEASE).await.unwrap();
    assert!(living.renew().await.unwrap());
    assert_eq!(suspected_workers(&test, Duration::ZERO).await, [worker]);
}

#[tokio::test(flavor = "multi_thread")]
async fn promoted_standby_suspects_no_living_worker() {
    let test = TestStore::start_with_own_postgres().await;
    let worker: WorkerId = test.ids.next();
    let mut doomed = LeaseConnection::open(test.database.url(), worker, LEASE).await.unwrap();
    doomed
        .register(WorkerDescription { name: "doomed".into(), ..WorkerDescription::default() })
        .await
        .unwrap();
    let primary = test.database.server().unwrap();
    let standby = tokio::task::block_in_place(|| primary.start_standby()).unwrap();
    assert!(doomed.renew().await.unwrap(), "a commit that the standby has");
    tokio::task::block_in_place(|| {
        primary.kill_postgres().unwrap();
        standby.promote().unwrap();
    });
    let config = Config {
        url: standby.database_url().to_owned(),
        connections: houston_store::Sizes::ones(),
        acquire_timeout: Duration::from_secs(5),
    };
    let promoted = Store::open(&config).unwrap();
    let hour = Duration::from_secs(3600);
    assert!(suspected_workers_of(&promoted, hour).await.is_empty(), "no worker has renewed its lease there");

    // The other worker connects to the new primary and dies there.
    let mut living = LeaseConnection::open(standby.database_url(), test.worker, LEASE).await.unwrap();
    assert!(living.renew().await.unwrap());
    assert!(suspected_workers_of(&promoted, hour).await.is_empty());
    drop(living);
    let end = Instant::now() + Duration::from_secs(60);
    while suspected_workers_of(&promoted, hour).await != [test.worker] {
        assert!(Instant::now() < end, "its lock is free");
    }
    promoted.close().await;
}
