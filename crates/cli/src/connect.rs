//! Finds Postgres and Redis: by environment variables, or embedded; and keeps embedded servers running.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use houston_domain::cell::{CellName, Cells};
use houston_domain::ensure;
use houston_domain::id::Shard;
use houston_embedded::{Config as EmbeddedConfig, Installer, Servers};
use houston_store::moves::Moves;
use houston_store::{Config as StoreConfig, Store};

use crate::config::{CellConfig, Settings, Startup};
use crate::failure::{Failure, Result};
use crate::output::print_stderr;

/// The time limit of one attempt to reach Postgres.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Addresses of the servers of one cell.
#[derive(Debug, Clone, Default)]
pub(crate) struct CellAddresses {
    pub(crate) database_url: String,
    /// Empty for a command that needs no Redis.
    pub(crate) redis_url: String,
}

/// Addresses of the servers. Embedded servers live as long as this value.
pub(crate) struct Addresses {
    pub(crate) cells: Cells<CellAddresses>,
    pub(crate) embedded: Vec<Servers>,
}

impl Addresses {
    /// Whether a database is embedded.
    pub(crate) fn has_own_database(&self) -> bool {
        self.embedded.iter().any(|servers| servers.database_url().is_some())
    }

    /// Keeps the embedded servers running from now on, if there are any; `report` gets a line for each that died.
    pub(crate) fn supervise(&mut self, report: impl Fn(&str) + Send + 'static) -> Option<ServerSupervisor> {
        let embedded = std::mem::take(&mut self.embedded);
        (!embedded.is_empty()).then(|| ServerSupervisor::start(embedded, report))
    }
}

/// The servers that the settings and the environment name; with `embed`, embedded servers in place of missing ones.
///
/// # Errors
/// [`Failure::Usage`] when an address is missing and `embed` is false, [`Failure::Other`] when a server cannot be
/// started.
pub(crate) fn find(settings: &Settings, folder: &Path, embed: bool) -> Result<Addresses> {
    find_with(settings, folder, embed, &mut |line| print_stderr(line))
}

/// As [`find`]; `progress` gets a line for each server that is installed or started.
///
/// # Errors
/// As for [`find`].
pub(crate) fn find_with(
    settings: &Settings,
    folder: &Path,
    embed: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Addresses> {
    of_each_cell(settings, |cell| {
        let CellConfig { database_url, redis_url, .. } = cell.clone();
        let folder = folder_of(folder, &cell.name());
        if database_url.is_some() && redis_url.is_some() {
            return Ok((with_own(database_url, redis_url, None), None));
        }
        ensure!(embed, Failure::Usage(missing(settings, cell, &folder)));
        let config = EmbeddedConfig {
            postgres: database_url.is_none(),
            redis: redis_url.is_none(),
            path: std::env::var_os("PATH"),
            installers: Installer::ALL.to_vec(),
            ..EmbeddedConfig::new(&folder)
        };
        let servers = start(&config, progress)?;
        Ok((with_own(database_url, redis_url, Some(&servers)), Some(servers)))
    })
}

/// The addresses that are set, and those of embedded servers in the place of missing ones.
fn with_own(
    database_url: Option<String>,
    redis_url: Option<String>,
    servers: Option<&Servers>,
) -> CellAddresses {
    let own = |url: fn(&Servers) -> Option<&str>| servers.and_then(url).map(str::to_owned);
    CellAddresses {
        database_url: database_url.or_else(|| own(Servers::database_url)).unwrap_or_default(),
        redis_url: redis_url.or_else(|| own(Servers::redis_url)).unwrap_or_default(),
    }
}

/// Finds the addresses of each cell, and keeps the servers that were started for them.
fn of_each_cell(
    settings: &Settings,
    mut find: impl FnMut(&CellConfig) -> Result<(CellAddresses, Option<Servers>)>,
) -> Result<Addresses> {
    let mut embedded = Vec::new();
    let cells = settings.cells().try_map(|cell| {
        let (addresses, servers) = find(cell)?;
        embedded.extend(servers);
        Ok::<_, Failure>(addresses)
    })?;
    Ok(Addresses { cells, embedded })
}

/// The folder of a cell's embedded servers: that of the installation for the cell with the first shard.
fn folder_of(folder: &Path, cell: &CellName) -> PathBuf {
    match cell.shards().map(|shards| shards.first) {
        Some(Shard(0)) => folder.to_owned(),
        Some(first) => folder.join(format!("cell-{first}")),
        None => folder.join(format!("cell-{cell}")),
    }
}

/// Which address a process needs that starts no servers itself.
fn missing(settings: &Settings, cell: &CellConfig, folder: &Path) -> anyhow::Error {
    let (database, redis) = ("DATABASE_URL", "HOUSTON_REDIS_URL");
    let name = match (settings.has_cells(), cell.database_url.is_none()) {
        (false, true) => database.to_owned(),
        (false, false) => redis.to_owned(),
        (true, true) => format!("database_url of the cell {} (cells.toml)", cell.name()),
        (true, false) => format!("redis_url of the cell {} (cells.toml)", cell.name()),
    };
    anyhow!(
        "{name} is not set: set it to the address of the server to use; with --embedded Houston starts a server \
         of its own, with its data in {}",
        folder.display()
    )
}

fn start(config: &EmbeddedConfig, progress: &mut dyn FnMut(&str)) -> Result<Servers> {
    let started = Servers::start(config, progress);
    let folder = config.folder.display();
    Ok(started.with_context(|| format!("cannot start the embedded servers in {folder}"))?)
}

/// Connects to the Postgres of each cell. Waits for it as `[startup]` says: 60 s, with an attempt and a line every 5 s.
///
/// # Errors
/// [`Failure::Other`] when one does not answer in time: its address and the cause.
pub(crate) async fn stores(settings: &Settings, addresses: &Addresses) -> Result<Cells<Store>> {
    let stores = open_all(settings, addresses)?;
    for addresses in addresses.cells.iter() {
        wait_for(settings, &addresses.database_url).await?;
    }
    find_primaries(&stores).await?;
    follow_moves(&stores).await;
    Ok(stores)
}

/// Finds out where users were moved. A cell that does not answer, or has no tables yet, is left out.
pub(crate) async fn follow_moves(stores: &Cells<Store>) {
    if stores.count() > 1 {
        let followed = Moves::new(&stores.map(Store::api)).follow_once().await;
        let _ = followed.inspect_err(|error| tracing::debug!(%error, "a cell was not asked for moves"));
    }
}

/// Points the pools to the primaries, where a URL has several hosts.
///
/// # Errors
/// [`Failure::Other`] when there is none.
async fn find_primaries(stores: &Cells<Store>) -> Result<()> {
    for store in stores.iter() {
        store.find_primary().await.context("none of the hosts of a database URL is the primary")?;
    }
    Ok(())
}

/// A pool for each cell that connects with its first query, with the folder of workspaces and the object store of attachments
/// if there is one.
///
/// # Errors
/// [`Failure::Usage`] when a URL cannot be parsed, or the folder of workspaces or the object store cannot be used.
pub(crate) fn open_all(settings: &Settings, addresses: &Addresses) -> Result<Cells<Store>> {
    let root = settings.workspaces.open();
    let root = root.map_err(|error| Failure::Usage(anyhow!("the `root` of workspaces.toml: {error}")))?;
    let objects = settings.attachments.open();
    let objects =
        objects.map_err(|error| Failure::Usage(anyhow!("the `url` of attachments.toml: {error}")))?;
    addresses.cells.try_map(|cell| {
        let store = open(settings, &cell.database_url)?;
        let store = store.with(|own| own.objects = objects.clone());
        Ok(match &root {
            Some(root) => store.with_folder(Arc::clone(root)),
            None => store,
        })
    })
}

async fn wait_for(settings: &Settings, database_url: &str) -> Result<()> {
    let target = houston_store::pool::display_target(database_url);
    let Startup { wait_s, retry_s } = settings.orchestrator.startup;
    let started = tokio::time::Instant::now();
    loop {
        let Err(error) = probe(database_url).await else { return Ok(()) };
        if started.elapsed() >= Duration::from_secs(wait_s) {
            return Err(anyhow!("postgres at {target} did not answer for {wait_s} s: {error}").into());
        }
        print_stderr(&format!("waiting for postgres at {target}: {error}"));
        tokio::time::sleep(Duration::from_secs(retry_s)).await;
    }
}

/// Opens the databases of all cells, at their primaries.
///
/// # Errors
/// [`Failure::Usage`] when the Postgres of a cell cannot be reached, else what keeps one of them from being used.
pub(crate) async fn reach_all(settings: &Settings, addresses: &Addresses) -> Result<Cells<Store>> {
    let stores = open_all(settings, addresses)?;
    // A person wants to know at once that one is unreachable.
    for CellAddresses { database_url, .. } in addresses.cells.iter() {
        probe(database_url).await.map_err(|error| {
            let target = houston_store::pool::display_target(database_url);
            Failure::Usage(anyhow!("postgres at {target} is unreachable: {error}"))
        })?;
    }
    find_primaries(&stores).await?;
    Ok(stores)
}

/// Checks the schema of each cell.
///
/// # Errors
/// [`Failure::Other`] when one is older or newer than this binary.
pub(crate) async fn check_schemas(stores: &Cells<Store>) -> Result<()> {
    for store in stores.iter() {
        store.check_schema().await?;
    }
    Ok(())
}

/// Closes the databases.
pub(crate) async fn close(stores: &Cells<Store>) {
    for store in stores.iter() {
        store.close().await;
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
pub(crate) fn open(settings: &Settings, database_url: &str) -> Result<Store> {
    let config = StoreConfig {
        url: database_url.to_owned(),
        connections: settings.orchestrator.worker.connections(),
        // A request that gets no connection within this time is answered 503, and the client repeats it.
        acquire_timeout: Duration::from_secs(2),
    };
    Ok(Store::open(&config)
        .map_err(|error| {
            let name = if settings.has_cells() { "a database_url of cells.toml" } else { "DATABASE_URL" };
            Failure::Usage(anyhow!("{name} cannot be parsed: {error}"))
        })?
        .with(|own| {
            own.fairness = settings.orchestrator.fairness;
            own.knowledge_limits = settings.knowledge;
            own.table_presets = Arc::new(settings.tables.clone());
            own.team_limits = settings.teams.limits;
            own.rates = settings.rates;
        }))
}

/// The databases of a command: those of the settings and of DATABASE_URL, else the database of `houston dev` in
/// `folder`, which is started if it does not run. Creates and installs nothing. `redis`: with Redis, that of the settings and
/// of HOUSTON_REDIS_URL, else the embedded one.
///
/// # Errors
/// [`Failure::Usage`] when there is none.
pub(crate) fn existing(settings: &Settings, folder: &Path, redis: bool) -> Result<Addresses> {
    of_each_cell(settings, |cell| {
        let redis_url = cell.redis_url.clone().filter(|url| redis && !url.is_empty());
        if cell.database_url.is_some() {
            return Ok((with_own(cell.database_url.clone(), redis_url, None), None));
        }
        let folder = folder_of(folder, &cell.name());
        if !Servers::exist_in(&folder) {
            return Err(Failure::Usage(anyhow!(
                "there is no database to look into: DATABASE_URL is not set, and no `houston dev` has its data in {} (it \
                 may be in another folder: --folder). Start `houston dev`, or set DATABASE_URL",
                folder.display()
            )));
        }
        let redis = redis && redis_url.is_none();
        let config = EmbeddedConfig { redis, path: std::env::var_os("PATH"), ..EmbeddedConfig::new(&folder) };
        // Servers of a running `dev` are not worth a line; servers started for this command are.
        let servers = start(&config, &mut |line| {
            if !line.starts_with("using ") {
                print_stderr(line);
            }
        })?;
        Ok((with_own(None, redis_url, Some(&servers)), Some(servers)))
    })
}

/// Migrates embedded databases, or checks the schema of any others. Then stores the settings that SQL functions read.
///
/// # Errors
/// When a schema is older or newer than this binary, files are in another folder, or Postgres fails.
pub(crate) async fn prepare_schema(stores: &Cells<Store>, settings: &Settings, embedded: bool) -> Result<()> {
    let orchestrator = &settings.orchestrator;
    // The first cell is the home, whose database has the number of the folder.
    let mut is_ours = false;
    for store in stores.iter() {
        if embedded {
            store.migrate().await?;
        } else {
            store.check_schema().await?;
        }
        store.write_settings(&orchestrator.tasks, &settings.session_archive).await?;
        store.check_folder(is_ours).await?;
        is_ours = true;
    }
    Ok(())
}

/// Binds a TCP address, e.g. `127.0.0.1:8080`.
///
/// # Errors
/// When the address cannot be parsed or is in use.
pub(crate) async fn listen(address: &str) -> Result<tokio::net::TcpListener> {
    tokio::net::TcpListener::bind(address).await.map_err(|error| {
        Failure::Other(anyhow!(
            "cannot listen on {address}: {error}; choose another with --address 127.0.0.1:8081"
        ))
    })
}

/// Checks the embedded servers every second and restarts those that died.
pub(crate) struct ServerSupervisor {
    stop: std::sync::mpsc::Sender<()>,
    watching: std::thread::JoinHandle<Vec<Servers>>,
}

impl ServerSupervisor {
    /// Starts to check them. `report` gets a line for each server that died.
    pub(crate) fn start(mut servers: Vec<Servers>, report: impl Fn(&str) + Send + 'static) -> Self {
        let (stop, stopped) = std::sync::mpsc::channel();
        let watching = std::thread::spawn(move || {
            while stopped.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                for servers in &mut servers {
                    match servers.revive() {
                        Ok(revived) => revived
                            .iter()
                            .for_each(|server| report(&format!("{server} died and was restarted"))),
                        Err(error) => {
                            report(&format!("an embedded server died and cannot be restarted: {error}"))
                        }
                    }
                }
            }
            servers
        });
        Self { stop, watching }
    }

    /// Stops the servers, unless another process owns them. Blocks.
    ///
    /// # Errors
    /// When one does not stop.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        drop(self.stop);
        let servers =
            self.watching.join().map_err(|_| anyhow!("the supervisor of the embedded servers panicked"))?;
        for servers in servers {
            servers.stop().context("the embedded servers did not stop cleanly")?;
        }
        Ok(())
    }
}
