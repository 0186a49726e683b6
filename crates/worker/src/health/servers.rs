//! Checks of the servers, of clocks and of the workers and their leases.

use houston_queue::depths;
use houston_store::Error;
use serde::{Deserialize, Serialize};

use super::config::seconds;
use super::{Checked, Finding, Monitor, Span};

/// `[leases]`: how long an expired lease may stay unreaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseAges {
    /// Seconds until the check is red.
    pub red_s: u64,
}

/// `[servers]`: connections of Postgres, and clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// Percent of connections in use from which the check warns.
    pub connections_warn_percent: i64,
    /// The same from which the check is red.
    pub connections_red_percent: i64,
    /// Seconds by which this machine's clock may differ from the database's.
    pub clock_skew_s: u64,
}

/// Check: the schema fits this binary.
pub(super) async fn schema(monitor: &Monitor) -> Checked {
    match monitor.store.check_schema().await {
        Ok(()) => Ok(Finding::ok("the version this binary expects")),
        // An upgrade is under way: running processes continue, but this binary would not start any more.
        Err(error @ Error::SchemaNewer { .. }) => Ok(Finding::warn(error.to_string())),
        Err(error @ (Error::SchemaOlder { .. } | Error::FunctionsDiffer { .. })) => {
            Ok(Finding::red(error.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// Check: this machine's clock and the database's agree.
pub(super) async fn clock(monitor: &Monitor) -> Checked {
    let before = monitor.clock.now();
    let theirs = monitor.store.time().await?;
    let after = monitor.clock.now();
    // The database's clock was read between the two readings; only a time outside of them is a difference.
    let skew = if theirs < before {
        before - theirs
    } else if theirs > after {
        theirs - after
    } else {
        chrono::TimeDelta::zero()
    };
    let most = seconds(monitor.config.servers.clock_skew_s);
    let summary = format!("differs from the database's by {} ms", skew.num_milliseconds());
    Ok(if skew.to_std().is_ok_and(|skew| skew <= most) {
        Finding::ok(summary)
    } else {
        Finding::warn(format!("{summary}: set this machine's clock (NTP); leases do not depend on it"))
    })
}

/// Check: Postgres has free connections.
pub(super) async fn connections(monitor: &Monitor) -> Checked {
    let found = monitor.store.connections().await?;
    let config = monitor.config.servers;
    let percent = found.taken * 100 / found.most.max(1);
    let summary = format!("{} of {} are in use", found.taken, found.most);
    let advice = "raise max_connections, or lower orchestrator.worker.database_connections";
    Ok(if percent >= config.connections_red_percent {
        Finding::red(format!("{summary}: {advice}"))
    } else if percent >= config.connections_warn_percent {
        Finding::warn(format!("{summary}: {advice}"))
    } else {
        Finding::ok(summary)
    })
}

/// Check: Redis is reachable. Without it Houston works, but slower.
pub(super) async fn redis(monitor: &Monitor) -> Checked {
    let Some(redis) = &monitor.redis else {
        return Ok(Finding::ok("not checked: HOUSTON_REDIS_URL is not set here"));
    };
    let found =
        async { Ok::<_, houston_queue::Error>((depths(redis).await?, redis.server().await?.refuses)) };
    Ok(match found.await {
        Ok((_, Some(why))) => Finding::warn(format!(
            "{} refuses writes: {why}; workers poll Postgres every second instead",
            redis.address()
        )),
        Ok((lanes, None)) => {
            let lanes: Vec<String> =
                lanes.iter().map(|(lane, count)| format!("{} {}", count, lane.as_str())).collect();
            Finding::ok(format!("waiting hints: {}", lanes.join(", ")))
        }
        Err(error) => Finding::warn(format!(
            "{} cannot be reached: {error}; workers poll Postgres every second instead",
            redis.address()
        )),
    })
}

/// Check: there are living workers.
pub(super) async fn workers(monitor: &Monitor) -> Checked {
    let found = monitor.store.workers(seconds(monitor.config.leases.red_s)).await?;
    Ok(match (found.alive, found.work_is_due) {
        (0, true) => Finding::red("work is due and no worker is alive: start one with `houston work`"),
        (0, false) => Finding::warn("no worker is alive; no work is waiting"),
        (alive, _) if found.silent == alive => Finding::warn(format!(
            "{alive} alive by their leases, and none has renewed its lease in time: they may be dead; what they hold is \
             taken over when the leases are over"
        )),
        (alive, _) => Finding::ok(format!("{alive} alive")),
    })
}

/// Check and repair: leases of dead workers are reaped and their locks released.
pub(super) async fn dead_leases(monitor: &Monitor) -> Checked {
    let limit_s = monitor.config.leases.red_s;
    let overdue = monitor.store.workers(seconds(limit_s)).await?.overdue;
    let reaped = monitor.store.reap(&[]).await?.len();
    let released = monitor.sweep(|batch| monitor.store.release_dead(batch)).await?;
    monitor.send_hints(&released);
    let summary =
        format!("{reaped} expired leases and {} locks of dead workers were released", released.len());
    Ok(if overdue > 0 {
        Finding::red(format!(
            "{summary}; {overdue} of the leases had been expired for more than {}: no worker reaps",
            Span(limit_s)
        ))
    } else if reaped + released.len() > 0 {
        Finding::warn(summary)
    } else {
        Finding::ok("every lock is held by a living worker")
    })
}
