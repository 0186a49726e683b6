//! Finds Postgres and Redis: by environment variables, or embedded.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use houston_embedded::{Config as EmbeddedConfig, Installer, Servers};
use houston_store::{Config as StoreConfig, Store};
use serde::{Deserialize, Serialize};

use crate::commands::Failure;
use crate::config::Settings;
use crate::models::environment;
use crate::output::print_stderr;

/// The time limit of one attempt to reach Postgres.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// `[startup]`: how long to wait for Postgres at the start.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Startup {
    /// After this many seconds the process gives up.
    pub(crate) wait_s: u64,
    /// Seconds between two attempts; each failed one prints a line.
    pub(crate) retry_s: u64,
}

/// Addresses of the servers. Embedded servers live as long as this value.
pub(crate) struct Addresses {
    pub(crate) database_url: String,
    pub(crate) redis_url: String,
    pub(crate) embedded: Option<Servers>,
}

/// The servers that the environment names; with `embed`, embedded servers in place of missing ones.
///
/// # Errors
/// [`Failure::Usage`] when a variable is not set and `embed` is false, [`Failure::Other`] when a server cannot be
/// started.
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
            "{missing} is not set: set it to the address of the server to use; with --embedded Houston starts a server \
             of its own, with its data in {}",
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
    let servers = start(&config, &mut |line| print_stderr(line))?;
    let url =
        |set: Option<String>, own: Option<&str>| set.or_else(|| own.map(str::to_owned)).unwrap_or_default();
    Ok(Addresses {
        database_url: url(database_url, servers.database_url()),
        redis_url: url(redis_url, servers.redis_url()),
        embedded: Some(servers),
    })
}

fn start(config: &EmbeddedConfig, progress: &mut dyn FnMut(&str)) -> Result<Servers, Failure> {
    let started = Servers::start(config, progress);
    let folder = config.folder.display();
    Ok(started.with_context(|| format!("cannot start the embedded servers in {folder}"))?)
}

/// Connects to Postgres. Waits for it as `[startup]` says: 60 s, with an attempt and a line every 5 s.
///
/// # Errors
/// [`Failure::Other`] when Postgres does not answer in time: its address and the cause.
pub(crate) async fn store(settings: &Settings, database_url: &str) -> Result<Store, Failure> {
    let store = open(settings, database_url)?;
    let target = houston_store::pool::display_target(database_url);
    let (wait_s, pause) = {
        let startup = settings.orchestrator.startup;
        (startup.wait_s, Duration::from_secs(startup.retry_s))
    };
    let started = tokio::time::Instant::now();
    loop {
        let Err(error) = probe(database_url).await else { return Ok(store) };
        if started.elapsed() >= Duration::from_secs(wait_s) {
            return Err(Failure::Other(anyhow!(
                "postgres at {target} did not answer for {wait_s} s: {error}"
            )));
        }
        print_stderr(&format!("waiting for postgres at {target}: {error}"));
        tokio::time::sleep(pause).await;
    }
}

/// Connects to Postgres once.
///
/// # Errors
/// The cause, as text for a person.
pub(crate) async fn probe(database_url: &str) -> Result<(), String> {
    match tokio::time::timeout(PROBE_TIMEOUT, houston_store::pool::probe(database_url)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", PROBE_TIMEOUT.as_secs())),
    }
}

/// A pool that connects with its first query.
///
/// # Errors
/// [`Failure::Usage`] when the URL cannot be parsed.
pub(crate) fn open(settings: &Settings, database_url: &str) -> Result<Store, Failure> {
    let config = StoreConfig {
        url: database_url.to_owned(),
        max_connections: settings.orchestrator.worker.database_connections,
        // A request that gets no connection within this time is answered 503, and the client repeats it.
        acquire_timeout: Duration::from_secs(2),
    };
    Ok(Store::open(&config)
        .map_err(|error| Failure::Usage(anyhow!("DATABASE_URL cannot be parsed: {error}")))?
        .with_fairness(settings.orchestrator.fairness)
        .with_knowledge_limits(settings.knowledge)
        .with_team_limits(settings.teams.limits))
}

/// The database of a command: that of DATABASE_URL, else the database of `houston dev` in `folder`, which is started if
/// it does not run. Creates and installs nothing.
///
/// # Errors
/// [`Failure::Usage`] when there is neither.
pub(crate) fn database(folder: &Path) -> Result<Addresses, Failure> {
    existing(folder, false)
}

/// Like [`database`], with Redis: that of HOUSTON_REDIS_URL, else the embedded one.
///
/// # Errors
/// As for [`database`].
pub(crate) fn database_and_redis(settings: &Settings, folder: &Path) -> Result<Addresses, Failure> {
    let configured = settings.redis_url.clone().filter(|url| !url.is_empty());
    let mut addresses = existing(folder, configured.is_none())?;
    addresses.redis_url = configured.unwrap_or(addresses.redis_url);
    Ok(addresses)
}

fn existing(folder: &Path, redis: bool) -> Result<Addresses, Failure> {
    if let Some(database_url) = environment("DATABASE_URL") {
        return Ok(Addresses { database_url, redis_url: String::new(), embedded: None });
    }
    if !Servers::exist_in(folder) {
        return Err(Failure::Usage(anyhow!(
            "there is no database to look into: DATABASE_URL is not set, and no `houston dev` has its data in {} (it may \
             be in another folder: --folder). Start `houston dev`, or set DATABASE_URL",
            folder.display()
        )));
    }
    let config = EmbeddedConfig { redis, path: std::env::var_os("PATH"), ..EmbeddedConfig::new(folder) };
    // Servers of a running `dev` are not worth a line; servers started for this command are.
    let servers = start(&config, &mut |line| {
        if !line.starts_with("using ") {
            print_stderr(line);
        }
    })?;
    let url = |own: Option<&str>| own.unwrap_or_default().to_owned();
    Ok(Addresses {
        database_url: url(servers.database_url()),
        redis_url: url(servers.redis_url()),
        embedded: Some(servers),
    })
}

/// Migrates an embedded database, or checks the schema of any other. Then stores the settings that SQL functions read.
///
/// # Errors
/// When the schema is older or newer than this binary, or Postgres fails.
pub(crate) async fn prepare_schema(
    store: &Store,
    settings: &Settings,
    embedded: bool,
) -> Result<(), Failure> {
    if embedded {
        store.migrate().await?;
    } else {
        store.check_schema().await?;
    }
    let orchestrator = &settings.orchestrator;
    store.write_settings(orchestrator.fairness, &orchestrator.tasks, &settings.session_archive).await?;
    Ok(())
}

/// Binds a TCP address, e.g. `127.0.0.1:8080`.
///
/// # Errors
/// When the address cannot be parsed or is in use.
pub(crate) async fn listen(address: &str) -> Result<tokio::net::TcpListener, Failure> {
    tokio::net::TcpListener::bind(address).await.map_err(|error| {
        Failure::Other(anyhow!(
            "cannot listen on {address}: {error}; choose another with --address 127.0.0.1:8081"
        ))
    })
}
