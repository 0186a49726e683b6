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

/// What the environment says, and embedded servers for the rest, which are made when there are none.
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
    let servers = start(&config, &mut |line| tell(line))?;
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
    Ok(started.with_context(|| format!("the embedded servers in {folder} could not be started"))?)
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

/// The database of a command: that of DATABASE_URL, else the one that a `houston dev` runs, or left, in `folder`. Makes
/// none and installs nothing.
///
/// # Errors
/// When there is neither: what to do.
pub(crate) fn database(folder: &Path) -> Result<Addresses, Failure> {
    existing(folder, false)
}

/// The same, and the Redis beside it where no HOUSTON_REDIS_URL is set and one runs.
///
/// # Errors
/// As [`database`].
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
    // Whose servers these are is no news to whoever works beside them; that some are started is.
    let servers = start(&config, &mut |line| {
        if !line.starts_with("using ") {
            tell(line);
        }
    })?;
    let url = |own: Option<&str>| own.unwrap_or_default().to_owned();
    Ok(Addresses {
        database_url: url(servers.database_url()),
        redis_url: url(servers.redis_url()),
        embedded: Some(servers),
    })
}

/// Migrates an embedded database, and checks the schema of any other; then gives it the numbers of `jobs/` that its
/// functions need.
///
/// # Errors
/// When the schema is older or newer than this binary: what to do.
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
