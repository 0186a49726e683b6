//! Ticks of the health monitor, and its stored results.

use std::time::Duration;

use futures_util::future::join_all;
use houston_domain::health::HealthStatus;
use houston_store::health::Tick;
use houston_store::health::check::After;

use crate::cluster::{TestCluster, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn one_caller_claims_a_tick_and_missed_ticks_do_not_add_up() {
    let cluster = TestCluster::start().await;
    let hour = Duration::from_secs(3600);
    let asked = join_all((0..16).map(|_| cluster.runs().claim_tick("x", hour, Tick::Latest))).await;
    assert_eq!(asked.into_iter().filter(|claimed| *claimed.as_ref().unwrap()).count(), 1);
    // A process that starts later finds this tick claimed.
    assert!(!cluster.runs().claim_tick("x", hour, Tick::Latest).await.unwrap());
    assert!(cluster.runs().claim_tick("y", hour, Tick::Latest).await.unwrap(), "another job has its own");
    // An hour later, all timers fire within minutes of each other.
    cluster.servers.sql("update houston.cron_ticks set tick = tick - interval '1 hour'").unwrap();
    let asked = join_all((0..16).map(|_| cluster.runs().claim_tick("x", hour, Tick::Latest))).await;
    assert_eq!(asked.into_iter().filter(|claimed| *claimed.as_ref().unwrap()).count(), 1);
    // A timer that fires slightly early claims the coming tick.
    let nearest = cluster.runs().claim_tick("x", Duration::from_secs(1), Tick::Nearest).await.unwrap();
    assert!(nearest || !cluster.runs().claim_tick("x", hour, Tick::Latest).await.unwrap());
    assert_eq!(cluster.servers.sql("select count(*) from houston.cron_ticks").unwrap(), "2", "a row a job");
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_tick_by_themselves_once_per_period() {
    let cluster = TestCluster::start().await;
    let log = "create table public.ticks (tick timestamptz);
               create function public.note() returns trigger language plpgsql as
                   'begin insert into public.ticks values (new.tick); return new; end';
               create trigger note after insert or update on houston.cron_ticks
                   for each row when (new.job = 'health_monitor') execute function public.note()";
    cluster.servers.sql(log).unwrap();
    let (one, other) = (cluster.ticking_worker(1), cluster.ticking_worker(1));
    let ticks = || cluster.servers.sql("select count(*), count(distinct tick) from public.ticks").unwrap();
    let seen = eventually("some ticks", || async {
        let (all, distinct) = ticks().split_once('|').map(|(a, d)| (a.to_owned(), d.to_owned())).unwrap();
        (all.parse::<u32>().unwrap() >= 4).then_some((all, distinct))
    });
    let (all, distinct) = seen.await;
    assert_eq!(all, distinct, "a time is ticked once, whoever does it");
    let health = cluster.store.api().health().await.unwrap();
    assert_eq!(health.checks.len(), cluster.monitor().run_checks().await.unwrap().len(), "{health:?}");
    let workers = health.checks.iter().find(|check| check.id == "workers").unwrap();
    assert_eq!(workers.status, HealthStatus::Ok, "{workers:?}");
    one.drain().await;
    other.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn since_changes_with_the_status_and_old_results_are_red() {
    let cluster = TestCluster::start().await;
    let monitor = cluster.monitor();
    assert!(cluster.store.api().health().await.unwrap().checks.is_empty());
    monitor.run_checks().await.unwrap();
    cluster.servers
        .sql("update houston.health_checks set since = '2026-01-01', status = case id when 'clock' then 'red' else status end")
        .unwrap();
    let checks = monitor.run_checks().await.unwrap();
    for check in &checks {
        let kept = check.since.to_rfc3339().starts_with("2026-01-01");
        assert_eq!(kept, check.id != "clock", "{check:?}");
    }
    // Each check was noted once, and the only one that changed a second time.
    let noted = cluster.store.api().health_changes(None, None, 100).await.unwrap();
    assert_eq!(noted.len(), checks.len() + 1, "{noted:?}");
    assert_eq!(noted[0].check, "clock");
    // Another cell may have a change of the same check at the same time: then this one is still to be listed.
    for (is_inclusive, left) in [(false, 1), (true, 2)] {
        let newest = After { at: noted[0].at.0, check: noted[0].check.clone(), is_inclusive };
        let of_clock = cluster.store.api().health_changes(Some("clock"), Some(&newest), 100).await.unwrap();
        assert_eq!(of_clock.len(), left, "{of_clock:?}");
    }
    let health = cluster.store.api().health().await.unwrap();
    assert_eq!(health.checks.len(), checks.len());
    assert!(health.is_monitored, "{health:?}");
    cluster.servers.sql("update houston.health_checks set stale_at = now() - interval '1 second'").unwrap();
    let old = cluster.store.api().health().await.unwrap();
    assert!(old.checks.iter().all(|check| check.status == HealthStatus::Red));
    assert!(old.checks[0].detail.contains("not checked since"), "{:?}", old.checks[0]);
    assert!(!old.is_monitored, "{old:?}");
    // Results of checks that no longer exist are left out, and deleted later.
    cluster.servers
        .sql("insert into houston.health_checks values ('gone', 'ok', '', now(), now(), now() - interval '2 days'),
              ('renamed', 'red', '', now(), now(), now() - interval '1 hour')")
        .unwrap();
    monitor.run_checks().await.unwrap();
    assert!(
        cluster
            .store
            .api()
            .health()
            .await
            .unwrap()
            .checks
            .iter()
            .all(|check| check.status != HealthStatus::Red)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_redis_is_a_warning_and_an_older_schema_is_red() {
    let cluster = TestCluster::start().await;
    cluster.servers.kill_redis().unwrap();
    let checks = cluster.monitor().run_checks().await.unwrap();
    let redis = checks.iter().find(|check| check.id == "redis").unwrap();
    assert_eq!(redis.status, HealthStatus::Warn, "{redis:?}");
    assert!(redis.detail.contains("cannot be reached"), "{redis:?}");
    cluster
        .servers
        .sql("delete from houston.migrations where version = (select max(version) from houston.migrations)")
        .unwrap();
    let checks = cluster.monitor().run_checks().await.unwrap();
    let schema = checks.iter().find(|check| check.id == "schema").unwrap();
    assert_eq!(schema.status, HealthStatus::Red);
    assert!(schema.detail.contains("houston migrate"), "{schema:?}");
}
