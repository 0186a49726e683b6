//! Checks of Postgres and Redis: the servers, their settings, Houston's tables, and the work in them.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use houston_domain::clock::{Clock as _, SystemClock};
use houston_domain::lane_work::KindWork;
use houston_queue::{DEFAULT_PREFIX, Redis, RedisServer};
use houston_store::pool::display_target;
use houston_store::server_settings::{Durability, LeftForOperators, OLDEST_VERSION, ServerSettings};
use houston_store::{Error, Result, Store};

use super::{Finding, ok, red, warn};
use crate::commands::{Context, Failure, doctor};
use crate::connect::{self, CellAddresses};
use crate::failure::innermost;

/// Connections of a process besides its pool: for its lease, for notifications, and for what must not wait for the pool.
const OTHER_CONNECTIONS: i64 = 15;

/// Work that waits longer than this is overdue.
const OVERDUE: TimeDelta = TimeDelta::seconds(60);

/// The time limit of Redis's answer.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn postgres(context: &Context, addresses: &CellAddresses) -> Vec<Finding> {
    let target = display_target(&addresses.database_url);
    if let Err(error) = connect::probe(&addresses.database_url).await {
        return vec![red("postgres", format!("{target} is unreachable: {error}"), reach(&error))];
    }
    let mut findings = vec![ok("postgres", format!("{target} answers"))];
    let store = match connect::open(&context.loaded.settings, &addresses.database_url) {
        Ok(store) => store,
        Err(Failure::Usage(error) | Failure::Other(error)) => {
            findings.push(red("schema", format!("{error:#}"), "correct DATABASE_URL"));
            return findings;
        }
    };
    if let Err(error) = store.find_primary().await {
        findings.push(red("schema", error.to_string(), "promote a standby, or correct DATABASE_URL"));
        return findings;
    }
    findings.extend(server(context, &store).await);
    findings.extend(timeouts(&store).await);
    findings.extend(moves(&store).await);
    match store.check_schema().await {
        Err(error) => findings.push(red("schema", error.to_string(), migrate(&error))),
        Ok(()) => {
            findings.push(ok("schema", "up to date"));
            findings.extend(tables(context, &store).await);
        }
    }
    store.close().await;
    findings
}

/// Time-outs that a pooler has kept from the connections.
async fn timeouts(store: &Store) -> Option<Finding> {
    let missing = store.missing_timeouts().await.ok().filter(|missing| !missing.is_empty())?;
    let todo = "set them for the login, as deploy/README.md says under Poolers and standbys";
    Some(red("timeouts", format!("connections have no {}", missing.join(", ")), todo))
}

/// Moves of users that were killed between their commits, and that no process has settled.
async fn moves(store: &Store) -> Option<Finding> {
    let left = store.unsettled_moves().await.ok().filter(|left| !left.is_empty())?;
    let todo = "the cell from which they come does not answer: bring it back, and any process finishes it; see deploy/README.md, \
                When a move is interrupted";
    Some(red("moves", format!("prepared and not finished: {}", left.join(", ")), todo))
}

/// What to do when Postgres cannot be reached.
fn reach(error: &str) -> &'static str {
    let says = |text: &str| error.contains(text);
    if says("password authentication failed") || says("no password supplied") {
        "correct the user and the password in DATABASE_URL"
    } else if says("database") && says("does not exist") {
        "create the database, or correct its name in DATABASE_URL"
    } else if says("unsupported startup parameter") {
        "DATABASE_URL names a pooler: name Postgres itself in its parameter `direct`, as deploy/README.md says"
    } else if says("too many clients") || says("remaining connection slots") {
        "raise max_connections, or lower orchestrator.worker.database_connections"
    } else {
        "start it, or correct DATABASE_URL"
    }
}

fn migrate(error: &Error) -> &'static str {
    match error {
        Error::SchemaOlder { .. } | Error::FunctionsDiffer { .. } => "run `houston migrate`",
        Error::SchemaNewer { .. } => {
            "start the newest binary everywhere: a newer one has migrated this database"
        }
        _ => "run `houston migrate` with the newest binary",
    }
}

/// The server's settings, its clock and its connections.
async fn server(context: &Context, store: &Store) -> Vec<Finding> {
    let mut findings = match store.server_settings().await {
        Ok(settings) => of_settings(&settings),
        Err(error) => vec![red("server", error.to_string(), "read the log of Postgres")],
    };
    let before = SystemClock.now();
    if let Ok(theirs) = store.runs().time().await {
        let after = SystemClock.now();
        // It was read between the two readings; only a time outside of them is a difference.
        let skew = (before - theirs).max(theirs - after).max(chrono::TimeDelta::zero());
        let most = i64::try_from(context.loaded.settings.health_monitor.servers.clock_skew_s);
        let detail = format!("differs from the database's by {} ms", skew.num_milliseconds());
        findings.push(if skew.num_seconds() < most.unwrap_or(i64::MAX) {
            ok("clock", detail)
        } else {
            let todo =
                "set the clocks of this machine and of Postgres's (NTP); times in lists are wrong until then";
            warn("clock", detail, todo)
        });
    }
    if let Ok(connections) = store.runs().connections().await {
        let pool = i64::from(context.loaded.settings.orchestrator.worker.database_connections);
        findings.push(of_connections(connections.taken, connections.most, pool + OTHER_CONNECTIONS));
    }
    findings
}

fn of_settings(settings: &ServerSettings) -> Vec<Finding> {
    let mut findings = Vec::new();
    let version = format!("version {}.{}", settings.version / 10_000, settings.version % 10_000);
    if settings.version < OLDEST_VERSION {
        let todo = format!("upgrade Postgres to {} or later", OLDEST_VERSION / 10_000);
        findings.push(red("server", version, todo));
    } else if settings.is_read_only {
        let todo = "name the primary in DATABASE_URL, or promote this standby";
        findings.push(red("server", format!("{version}, but nothing can be written: a standby?"), todo));
    } else {
        findings.push(ok("server", version));
    }
    if settings.isolation != "read committed" {
        findings.push(red(
            "isolation",
            format!("transactions are `{}` unless they say otherwise", settings.isolation),
            "set default_transaction_isolation to `read committed` for the login or the database (alter role … reset, alter \
             database … reset)",
        ));
    }
    findings.extend(match settings.durability {
        Durability::Full => None,
        Durability::LosesLastSecond => Some(warn(
            "durability",
            "synchronous_commit is off: a crash of the machine loses what was accepted in the last second",
            "switch it on in postgresql.conf",
        )),
        Durability::None => Some(warn(
            "durability",
            "fsync or full_page_writes is off: a crash of the machine may destroy the database",
            "switch both on in postgresql.conf, unless this is for tests",
        )),
    });
    findings
}

/// Whether there are connections for one more process with `each`.
fn of_connections(taken: i64, most: i64, each: i64) -> Finding {
    let detail = format!("{taken} of {most} connections are taken; each process takes up to {each}");
    let todo = format!(
        "raise max_connections to {each} for each `serve` and `work`, or lower orchestrator.worker.database_connections"
    );
    if most < each {
        red("connections", detail, todo)
    } else if taken * 10 >= most * 9 {
        warn("connections", detail, todo)
    } else {
        ok("connections", detail)
    }
}

/// What the tables say; the schema is the right one.
async fn tables(context: &Context, store: &Store) -> Vec<Finding> {
    const LOG: &str = "read the log of Postgres";
    let failed = |id| move |error: Error| red(id, error.to_string(), LOG);
    let security = store.row_security().await.map(|found| match found.todo() {
        None => ok("row_security", found.to_string()),
        Some(todo) => warn("row_security", found.to_string(), todo),
    });
    let keys = store.operator().list_api_keys().await;
    let keys = keys.map(|keys| match keys.iter().filter(|key| key.is_valid()).count() {
        0 => warn("api_keys", "there is no active key", "create one: houston key create"),
        count => ok("api_keys", format!("{count} active")),
    });
    let mut findings =
        vec![security.unwrap_or_else(failed("row_security")), keys.unwrap_or_else(failed("api_keys"))];
    match store.operator().left_for_operators().await {
        Err(error) => findings.push(failed("webhooks")(error)),
        Ok(left) => {
            findings.push(doctor::secrets(context, left.has_secrets));
            findings.push(webhooks(&left));
        }
    }
    findings.extend(
        [paused(store).await, waiting(store).await].map(|found| found.unwrap_or_else(failed("work"))),
    );
    findings
}

/// Lanes that are paused.
async fn paused(store: &Store) -> Result<Finding> {
    let lanes = store.api().paused_lanes().await?;
    Ok(match lanes.as_slice() {
        [] => ok("lanes", "none is paused"),
        lanes => {
            let todo: Vec<String> =
                lanes.iter().map(|lane| format!("houston queues resume {lane}")).collect();
            let detail = format!("paused: {}; what is posted there waits", lanes.join(", "));
            warn("lanes", detail, format!("let them go on: {}", todo.join("; ")))
        }
    })
}

/// Workers, and work that waits.
async fn waiting(store: &Store) -> Result<Finding> {
    let work = store.api().work().await?;
    let workers = store.api().list_workers().await?;
    let claiming = workers.iter().filter(|worker| worker.claims()).count();
    let queued: i64 = work.kinds.iter().map(|kind| kind.work.queued).sum();
    let oldest = work.kinds.iter().filter_map(|kind: &KindWork| kind.oldest).min();
    let age = oldest.map_or_else(TimeDelta::zero, |oldest| work.at - oldest);
    let detail = format!(
        "{claiming} workers claim; {queued} agents wait, the oldest for {} s",
        age.num_seconds().max(0)
    );
    Ok(match (queued > 0 && age > OVERDUE, claiming) {
        (true, 0) => red("work", detail, "start a worker: houston work"),
        (true, _) => warn(
            "work",
            detail,
            "start more workers, or find out what holds them: houston queues, houston workers, houston why <id>",
        ),
        (false, _) => ok("work", detail),
    })
}

/// Deliveries that were given up, and receivers that Houston gave up.
fn webhooks(left: &LeftForOperators) -> Finding {
    let LeftForOperators { dead_deliveries, webhooks_off, .. } = left;
    if *dead_deliveries == 0 && *webhooks_off == 0 {
        return ok("webhooks", "no delivery was given up");
    }
    warn(
        "webhooks",
        format!("{dead_deliveries} deliveries were given up; {webhooks_off} webhooks are switched off"),
        "mend the receiver (GET /v1/webhooks names it, and why it is off), switch it on with PATCH /v1/webhooks/{id}, and send \
         again what it missed: POST /v1/webhooks/{id}/replay",
    )
}

pub(super) async fn redis(url: &str) -> Finding {
    if url.is_empty() {
        let todo = "set HOUSTON_REDIS_URL for `serve` and `work`; `houston dev` starts its own";
        return warn("redis", "no address is set", todo);
    }
    let redis = match Redis::open(url, DEFAULT_PREFIX, Arc::new(SystemClock)) {
        Ok(redis) => redis,
        Err(error) => return red("redis", error.to_string(), "correct HOUSTON_REDIS_URL"),
    };
    let address = redis.address();
    let unreachable = |why: String| {
        let todo = "start it, or correct HOUSTON_REDIS_URL; without Redis runs begin up to a second later";
        red("redis", format!("{address} is unreachable: {why}"), todo)
    };
    match tokio::time::timeout(TIMEOUT, redis.server()).await {
        Ok(Ok(RedisServer { refuses: Some(why), version, .. })) => red(
            "redis",
            format!("{address} answers, version {version}, but refuses writes: {why}"),
            "make room in it (maxmemory), or name the master in HOUSTON_REDIS_URL; hints cannot be stored, so runs begin up to \
             a second later",
        ),
        Ok(Ok(server)) if server.evicts() => warn(
            "redis",
            format!(
                "{address} answers, version {}, but deletes keys when its memory is full (maxmemory-policy {})",
                server.version, server.policy
            ),
            "set maxmemory-policy noeviction, in redis.conf or where the server is rented: hints that are deleted are found \
             later by the sweep, so runs begin late",
        ),
        Ok(Ok(server)) => ok("redis", format!("{address} answers, version {}", server.version)),
        Ok(Err(error)) if error.is_refused() => red(
            "redis",
            format!("{address} refuses the user or the password"),
            "correct them in HOUSTON_REDIS_URL: redis://user:password@host:port",
        ),
        Ok(Err(error)) => unreachable(innermost(&error)),
        Err(_) => unreachable(format!("no answer within {} s", TIMEOUT.as_secs())),
    }
}
