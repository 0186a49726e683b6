//! Finding Postgres and Redis: by their variables, or embedded.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use houston_embedded::{Config as EmbeddedConfig, Installer, Servers};
use houston_store::{Config as StoreConfig, Store};
use serde::{Deserialize, Serialize};

use crate::commands::Failure;
use crate::config::Settings;
use crate::models::environment;
use crate::output::tell;

/// How long Postgres may take to answer one try at the start.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// Waiting for Postgres at the start, in seconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Startup {
    /// How long, before the process gives up.
    pub(crate) wait_s: u64,
    /// How often it says so and tries again.
    pub(crate) retry_s: u64,
}

/// Where the servers are. Embedded ones live as long as this.
pub(crate) struct Addresses {
    pub(crate) database_url: String,
    pub(crate) redis_url: String,
    pub(crate) embedded: Option<Servers>,
}

/// What the environment says, and embedded servers for the rest.
///
/// # Errors
/// When something is not set and may not be embedded, or cannot be started.
pub(crate) fn find(settings: &Settings, folder: &Path, embed: bool) -> Result<Addresses, Failure> {
    let database_url = environment("DATABASE_URL");
    let redis_url = settings.redis_url.clone().filter(|url| !url.is_empty());
    if let (Some(database_url), Some(redis_url)) = (&database_url, &redis_url) {
        return Ok(Addresses {
            database_url: database_url.clone(),
            redis_url: redis_url.clone(),
            embedded: None,
        });
    }
    if !embed {
        let missing = if database_url.is_none() { "DATABASE_URL" } else { "HOUSTON_REDIS_URL" };
        return Err(Failure::Usage(anyhow!(
            "{missing} is not set: set it, or pass --embedded to let Houston run its own server in {}",
            folder.display()
        )));
    }
    let config = EmbeddedConfig {
        postgres: database_url.is_none(),
        redis: redis_url.is_none(),
        path: std::env::var_os("PATH"),
        installers: Installer::ALL.to_vec(),
        ..EmbeddedConfig::new(folder)
    };
    let servers = Servers::start(&config, &mut |line| tell(line))
        .with_context(|| format!("the embedded servers in {} could not be started", folder.display()))?;
    let url =
        |set: Option<String>, own: Option<&str>| set.or_else(|| own.map(str::to_owned)).unwrap_or_default();
    Ok(Addresses {
        database_url: url(database_url, servers.database_url()),
        redis_url: url(redis_url, servers.redis_url()),
        embedded: Some(servers),
    })
}

/// A pool whose database answers: waits up to a minute for one that starts, with a line each 5 s (`[startup]`).
///
/// # Errors
/// When it does not answer by then: where it was looked for, and why not.
pub(crate) async fn store(settings: &Settings, database_url: &str) -> Result<Store, Failure> {
    let store = open(settings, database_url)?;
    let target = houston_store::pool::shown_target(database_url);
    let (wait_s, pause) = {
        let startup = settings.orchestrator.startup;
        (startup.wait_s, Duration::from_secs(startup.retry_s))
    };
    let started = tokio::time::Instant::now();
    loop {
        let Err(error) = answers(database_url).await else { return Ok(store) };
        if started.elapsed() >= Duration::from_secs(wait_s) {
            return Err(Failure::Other(anyhow!(
                "postgres at {target} did not answer for {wait_s} s: {error}"
            )));
        }
        tell(&format!("waiting for postgres at {target}: {error}"));
        tokio::time::sleep(pause).await;
    }
}

/// Whether the database answers; if not, why.
///
/// # Errors
/// The cause, for a person.
pub(crate) async fn answers(database_url: &str) -> Result<(), String> {
    match tokio::time::timeout(ANSWERS_WITHIN, houston_store::pool::probe(database_url)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", ANSWERS_WITHIN.as_secs())),
    }
}

/// A pool that has not connected yet.
///
/// # Errors
/// When the URL cannot be read.
pub(crate) fn open(settings: &Settings, database_url: &str) -> Result<Store, Failure> {
    let config = StoreConfig {
        url: database_url.to_owned(),
        max_connections: settings.orchestrator.worker.database_connections,
        // A request that finds every connection busy for so long is answered 503 and comes again.
        acquire_timeout: Duration::from_secs(2),
    };
    Ok(Store::open(&config)
        .map_err(|error| Failure::Usage(anyhow!("DATABASE_URL cannot be read: {error}")))?
        .with_fairness(settings.orchestrator.fairness))
}

/// Postgres alone, for commands that need no Redis.
///
/// # Errors
/// As [`find`].
pub(crate) fn database(settings: &Settings, folder: &Path, embed: bool) -> Result<Addresses, Failure> {
    if let Some(database_url) = environment("DATABASE_URL") {
        return Ok(Addresses { database_url, redis_url: String::new(), embedded: None });
    }
    find(settings, folder, embed)
}

/// Of an embedded database, brings the schema up; of any other, only looks at it.
///
/// # Errors
/// When it is older or newer than this binary: what to do.
pub(crate) async fn prepare_schema(store: &Store, embedded: bool) -> Result<(), Failure> {
    if embedded { Ok(store.migrate().await?) } else { Ok(store.check_schema().await?) }
}

/// Binds the address.
///
/// # Errors
/// When it is taken or no address: which one, and what to do.
pub(crate) async fn listen(address: &str) -> Result<tokio::net::TcpListener, Failure> {
    tokio::net::TcpListener::bind(address).await.map_err(|error| {
        Failure::Other(anyhow!(
            "cannot listen on {address}: {error}; choose another with --address 127.0.0.1:8081"
        ))
    })
}
