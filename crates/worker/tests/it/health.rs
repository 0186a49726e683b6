//! Ticks, and what is kept of them.

use std::time::Duration;

use futures_util::future::join_all;
use houston_domain::health::HealthStatus;
use houston_store::health::tick::Tick;

use crate::rig::{Rig, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_tick_belongs_to_one_of_all_who_ask_and_nothing_piles_up() {
    let rig = Rig::start().await;
    let hour = Duration::from_secs(3600);
    let asked = join_all((0..16).map(|_| rig.store.claim_tick("x", hour, Tick::Latest))).await;
    assert_eq!(asked.into_iter().filter(|claimed| *claimed.as_ref().unwrap()).count(), 1);
    // A process that starts later finds that this tick was not missed.
    assert!(!rig.store.claim_tick("x", hour, Tick::Latest).await.unwrap());
    assert!(rig.store.claim_tick("y", hour, Tick::Latest).await.unwrap(), "another job has its own");
    // An hour later, all timers ring within minutes of each other.
    rig.servers.sql("update houston.cron_ticks set tick = tick - interval '1 hour'").unwrap();
    let asked = join_all((0..16).map(|_| rig.store.claim_tick("x", hour, Tick::Latest))).await;
    assert_eq!(asked.into_iter().filter(|claimed| *claimed.as_ref().unwrap()).count(), 1);
    // A timer that rings a little early means the tick to come, and has it.
    let nearest = rig.store.claim_tick("x", Duration::from_secs(1), Tick::Nearest).await.unwrap();
    assert!(nearest || !rig.store.claim_tick("x", hour, Tick::Latest).await.unwrap());
    assert_eq!(rig.servers.sql("select count(*) from houston.cron_ticks").unwrap(), "2", "a row a job");
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_tick_by_themselves_and_never_twice_for_one_time() {
    let rig = Rig::start().await;
    let log = "create table public.ticks (tick timestamptz);
               create function public.note() returns trigger language plpgsql as
                   'begin insert into public.ticks values (new.tick); return new; end';
               create trigger note after insert or update on houston.cron_ticks
                   for each row execute function public.note()";
    rig.servers.sql(log).unwrap();
    let (one, other) = (rig.ticking_worker(1), rig.ticking_worker(1));
    let ticks = || rig.servers.sql("select count(*), count(distinct tick) from public.ticks").unwrap();
    let seen = eventually("some ticks", || async {
        let (all, distinct) = ticks().split_once('|').map(|(a, d)| (a.to_owned(), d.to_owned())).unwrap();
        (all.parse::<u32>().unwrap() >= 4).then_some((all, distinct))
    });
    let (all, distinct) = seen.await;
    assert_eq!(all, distinct, "a time is ticked once, whoever does it");
    let health = rig.store.health().await.unwrap();
    assert_eq!(health.checks.len(), 18);
    let workers = health.checks.iter().find(|check| check.id == "workers").unwrap();
    assert_eq!(workers.status, HealthStatus::Ok, "{workers:?}");
    one.drain().await;
    other.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn since_stays_while_the_status_does_and_old_results_are_red() {
    let rig = Rig::start().await;
    let monitor = rig.monitor();
    assert!(rig.store.health().await.unwrap().checks.is_empty());
    monitor.look().await.unwrap();
    rig.servers
        .sql("update houston.health_checks set since = '2026-01-01', status = case id when 'clock' then 'red' else status end")
        .unwrap();
    let checks = monitor.look().await.unwrap();
    for check in &checks {
        let kept = check.since.to_rfc3339().starts_with("2026-01-01");
        assert_eq!(kept, check.id != "clock", "{check:?}");
    }
    let health = rig.store.health().await.unwrap();
    assert_eq!(health.checks.len(), checks.len());
    rig.servers.sql("update houston.health_checks set stale_at = now() - interval '1 second'").unwrap();
    let old = rig.store.health().await.unwrap();
    assert!(old.checks.iter().all(|check| check.status == HealthStatus::Red));
    assert!(old.checks[0].detail.contains("not checked since"), "{:?}", old.checks[0]);
    // What no release checks any more goes away by itself.
    rig.servers
        .sql("insert into houston.health_checks values ('gone', 'ok', '', now(), now(), now() - interval '2 days')")
        .unwrap();
    monitor.look().await.unwrap();
    assert!(rig.store.health().await.unwrap().checks.iter().all(|check| check.status != HealthStatus::Red));
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_away_is_a_warning_and_a_schema_that_is_older_is_red() {
    let rig = Rig::start().await;
    rig.servers.kill_redis().unwrap();
    let checks = rig.monitor().look().await.unwrap();
    let redis = checks.iter().find(|check| check.id == "redis").unwrap();
    assert_eq!(redis.status, HealthStatus::Warn, "{redis:?}");
    assert!(redis.detail.contains("cannot be reached"), "{redis:?}");
    rig.servers
        .sql("delete from houston.migrations where version = (select max(version) from houston.migrations)")
        .unwrap();
    let checks = rig.monitor().look().await.unwrap();
    let schema = checks.iter().find(|check| check.id == "schema").unwrap();
    assert_eq!(schema.status, HealthStatus::Red);
    assert!(schema.detail.contains("houston migrate"), "{schema:?}");
}
