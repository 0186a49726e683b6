//! Checks of Postgres: the server, its settings, and Houston's tables.

use houston_domain::clock::{Clock as _, SystemClock};
use houston_store::pool::display_target;
use houston_store::server_settings::{Durability, OLDEST_VERSION, ServerSettings};
use houston_store::{Error, Store};

use super::finding::{Finding, ok, red, warn};
use super::{machine, work};
use crate::commands::{Context, Failure};
use crate::connect::{self, CellAddresses};

/// Connections of a process besides its pool: for its lease, for notifications, and for what must not wait for the pool.
const OTHER_CONNECTIONS: i64 = 9;

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
            warn(
                "clock",
                detail,
                "set the clocks of this machine and of Postgres's (NTP); times in lists are wrong until then",
            )
        });
    }
    if let Ok(connections) = store.runs().connections().await {
        let pool = context.loaded.settings.orchestrator.worker.database_connections;
        findings.push(of_connections(
            connections.taken,
            connections.most,
            i64::from(pool) + OTHER_CONNECTIONS,
        ));
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
    let mut findings = vec![match store.row_security().await {
        Err(error) => red("row_security", error.to_string(), LOG),
        Ok(found) => match found.todo() {
            None => ok("row_security", found.to_string()),
            Some(todo) => warn("row_security", found.to_string(), todo),
        },
    }];
    findings.push(match store.operator().list_api_keys().await {
        Err(error) => red("api_keys", error.to_string(), LOG),
        Ok(keys) => match keys.iter().filter(|key| key.is_valid()).count() {
            0 => warn("api_keys", "there is no active key", "create one: houston key create"),
            count => ok("api_keys", format!("{count} active")),
        },
    });
    match store.operator().left_for_operators().await {
        Err(error) => findings.push(red("webhooks", error.to_string(), LOG)),
        Ok(left) => {
            findings.push(machine::secrets(context, left.has_secrets));
            findings.push(work::webhooks(&left));
        }
    }
    findings.extend(work::checks(store).await);
    findings
}
