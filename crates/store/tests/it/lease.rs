use std::time::{Duration, Instant};

use houston_domain::id::WorkerId;
use houston_store::Result;
use houston_store::lease::LeaseConnection;

use crate::fresh::Fresh;

/// Who looks dead, asked until Postgres answers: it has just been restarted.
async fn suspects(fresh: &Fresh, settled: Duration) -> Vec<WorkerId> {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let found: Result<Vec<_>> = fresh.store.suspects(settled).await;
        match found {
            Ok(found) => return found.into_iter().map(|suspect| suspect.worker).collect(),
            Err(error) => assert!(error.is_transient() && Instant::now() < end, "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_died_right_after_a_restart_is_found_once_the_living_are_back() {
    let mut fresh = Fresh::start_with_own_postgres().await;
    let worker: WorkerId = fresh.ids.next();
    let url = fresh.database.url().to_owned();
    let mut lease = LeaseConnection::open(&url, worker, Duration::from_secs(60)).await.unwrap();
    lease.register("doomed").await.unwrap();
    let hour = Duration::from_secs(3600);
    assert!(suspects(&fresh, hour).await.is_empty());

    tokio::task::block_in_place(|| fresh.database.server_mut().unwrap().restart_postgres()).unwrap();
    drop(lease);
    assert!(suspects(&fresh, hour).await.is_empty(), "the living have lost their locks, too");

    // The other one comes back and renews; this one does not.
    let mut living = LeaseConnection::open(&url, fresh.worker, Duration::from_secs(60)).await.unwrap();
    assert!(living.renew().await.unwrap());
    assert_eq!(suspects(&fresh, Duration::ZERO).await, [worker]);
}
