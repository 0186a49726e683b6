//! [`Store`]: opens the database, and makes the handles.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use sqlx::Connection;
use sqlx::postgres::PgConnectOptions;

use houston_domain::id::TenantId;
use houston_domain::session::SessionArchive;
use houston_domain::task::TaskLimits;
use houston_folder::Root;

use crate::connections::{Connections, Pools, Purpose, Sizes, Use};
use crate::error::Result;
use crate::handle::{ApiStore, Batchers, OperatorStore, RunStore, Settings, Shared, TenantStore, derefs};
use crate::primary::{self, Addresses, addresses};
use crate::row_security::{self, Known, RowSecurity};
use crate::statement::Statement as _;
use crate::workspace_file::folder::Folders;

/// Most connections beside those of batches that keep session state: one listens, and migrations take another.
const MAX_SESSIONS: u32 = 4;
/// How long a connection may be idle until it is closed; and one of those with session state, of which the next use may be
/// far.
const IDLE: Duration = Duration::from_secs(600);
const IDLE_SESSION: Duration = Duration::from_secs(5);

/// How to reach Postgres.
#[derive(Clone, PartialEq, Eq)]
pub struct Config {
    /// Connection URL, as in `postgres://houston:secret@localhost:5432/houston`. It may name several hosts, of which one is
    /// the primary: `postgres://houston@a:5432,b:5432/houston`; and, with a pooler that keeps no session state, the address
    /// without it: `postgres://houston@pooler:6432/houston?direct=a:5432,b:5432`.
    pub url: String,
    /// Maximum number of connections for each purpose.
    pub connections: Sizes,
    /// How long a caller waits for a free connection before [`sqlx::Error::PoolTimedOut`].
    pub acquire_timeout: Duration,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").field("connections", &self.connections).finish_non_exhaustive()
    }
}

/// The pools of connections to Postgres, their settings and the schema; cheap to clone. Rows are read and written by the
/// handles it makes. What it does itself uses the connections of requests.
///
/// ```no_run
/// # async fn example() -> houston_store::Result<()> {
/// use std::time::Duration;
///
/// use houston_store::{Config, Fairness, Sizes, Store};
///
/// let config = Config {
///     url: "postgres://houston:secret@localhost:5432/houston".to_owned(),
///     connections: Sizes::divide(10, 35, 20),
///     acquire_timeout: Duration::from_secs(5),
/// };
/// let fairness = Fairness { max_running: 5, ..Fairness::default() };
/// let store = Store::open(&config)?.with(|settings| settings.fairness = fairness);
/// store.migrate().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) requests: Arc<Shared>,
    pub(crate) runs: RunStore,
    pub(crate) background: RunStore,
}

derefs!(Store => requests: Shared);

impl Store {
    /// Creates pools that connect at their first use.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when the URL cannot be parsed.
    pub fn open(config: &Config) -> Result<Self> {
        let addresses = addresses(&config.url, "houston")?;
        let connections = |hosts: &[PgConnectOptions], size: u32, idle: Duration| {
            let newest = (hosts.len() > 1).then(|| addresses.newest.clone());
            Connections::new(hosts, size, (config.acquire_timeout, idle), newest)
        };
        let of = |purpose| connections(&addresses.pool, config.connections.of(purpose), IDLE);
        let pools = Pools(Purpose::ALL.map(of));
        let sessions = connections(&addresses.sessions, MAX_SESSIONS, IDLE_SESSION).pool().clone();
        let settings = Settings::default();
        Ok(Self::of(&Shared {
            batchers: Batchers::new(&sessions, &settings),
            pool: pools.of(Purpose::Requests).clone(),
            pools: Arc::new(pools),
            sessions,
            addresses: Arc::new(addresses),
            row_security: Known::default(),
            other_cells: Arc::default(),
            settings: Arc::new(settings),
            folders: None,
            process: None,
            marked_triggers: Arc::default(),
            direct_worker: Arc::default(),
        }))
    }

    /// The same store with other settings, and batches of its own.
    #[must_use]
    pub fn with(self, change: impl FnOnce(&mut Settings)) -> Self {
        self.changed(|shared| {
            change(Arc::make_mut(&mut shared.settings));
            shared.batchers = Batchers::new(&shared.sessions, &shared.settings);
        })
    }

    /// Names the other cells whose runs the workers of this one drive in the same process.
    #[must_use]
    pub fn with_other_cells<'s>(self, others: impl IntoIterator<Item = &'s Self>) -> Self {
        let others = others.into_iter().map(|store| store.runs.pool.clone()).collect();
        self.changed(|shared| shared.other_cells = others)
    }

    /// The same store with files of workspaces in this folder; without one they are rows.
    #[must_use]
    pub fn with_folder(self, root: Arc<Root>) -> Self {
        self.changed(|shared| shared.folders = Some(Folders::new(root, &shared.pool)))
    }

    fn changed(self, change: impl FnOnce(&mut Shared)) -> Self {
        let mut shared = Arc::unwrap_or_clone(self.requests);
        change(&mut shared);
        Self::of(&shared)
    }

    fn of(shared: &Shared) -> Self {
        let of = |purpose| shared.with_connections_of(purpose);
        Self {
            requests: of(Purpose::Requests),
            runs: RunStore { shared: of(Purpose::Runs) },
            background: RunStore { shared: of(Purpose::Background) },
        }
    }

    /// How the connections of a purpose are used.
    pub fn connections(&self, purpose: Purpose) -> Use {
        self.pools.of(purpose).in_use()
    }

    /// Closes all connections.
    pub async fn close(&self) {
        self.batchers.close().await;
        self.sessions.close().await;
        for connections in &self.pools.0 {
            connections.close().await;
        }
    }
}

impl Store {
    /// The handle for the engine and the worker.
    pub fn runs(&self) -> &RunStore {
        &self.runs
    }

    /// The handle for what nobody waits for: the same with connections of its own.
    pub fn background(&self) -> &RunStore {
        &self.background
    }

    /// The handle for requests of a tenant.
    pub fn tenant(&self, tenant: TenantId) -> TenantStore<'_> {
        self.requests.tenant(tenant)
    }

    /// The handle for the API.
    pub fn api(&self) -> ApiStore {
        ApiStore { shared: Arc::clone(&self.requests) }
    }

    /// The handle for commands of the operator.
    pub fn operator(&self) -> OperatorStore<'_> {
        OperatorStore { shared: &self.requests }
    }
}

impl Store {
    /// Finds the primary, if the URL has several hosts: until then the first is used.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when none of the hosts is a primary, or only a former one.
    pub async fn find_primary(&self) -> Result<()> {
        self.addresses.find_primary(&self.pools, &self.sessions).await
    }

    /// The time-outs that a connection of the pool lacks. The protocol relies on them, and a pooler passes none on: the
    /// login must have them.
    pub async fn missing_timeouts(&self) -> Result<Vec<String>> {
        // Not `query!`: it would be one of few reasons to describe system catalogues in `.sqlx`.
        let missing = sqlx::query_scalar(
            "-- store::pool::missing_timeouts
            select name from pg_settings
             where name in ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout') and setting = '0'
             order by name",
        );
        Ok(missing.fetch_all(&self.pool).await?)
    }

    /// Points new connections to the primary whenever it changes; returns at once if the URL has one host.
    pub async fn follow_primary(&self) {
        self.addresses.follow_primary(&self.pools, &self.sessions).await;
    }

    /// Whether requests of tenants are under [row-level security](crate::row_security).
    pub async fn row_security(&self) -> Result<RowSecurity> {
        Ok(row_security::read(&self.pool).await?)
    }

    /// Writes the settings that database functions need to the database, if they differ. Each process does so when it starts;
    /// all processes should have the same settings, since the last one that started decides.
    pub async fn write_settings(&self, tasks: &TaskLimits, sessions: &SessionArchive) -> Result<()> {
        let files = self.knowledge_limits.files;
        let settings = [
            ("fairness.max_running", self.fairness.running()),
            ("fairness.max_pending", self.fairness.pending()),
            ("tasks.max_depth", tasks.max_depth),
            ("tasks.max_open", tasks.max_open),
            ("tasks.note_chars", tasks.note_chars),
            ("tasks.report_chars", tasks.report_chars),
            ("tasks.report_notes", tasks.report_notes),
            ("session.extract_entries", sessions.extract_entries),
            ("session.extract_texts", sessions.extract_texts),
            ("session.extract_chars", sessions.extract_chars),
            ("files.max_files", i32::try_from(files.max_files).unwrap_or(i32::MAX)),
            ("files.max_bytes", i32::try_from(files.max_bytes).unwrap_or(i32::MAX)),
        ];
        let (names, values): (Vec<&str>, Vec<i32>) = settings.into_iter().unzip();
        sqlx::query!(
            "-- store::pool::write_settings
            insert into houston.settings as s (name, value) select * from unnest($1::text[], $2::integer[])
            on conflict (name) do update set value = excluded.value where s.value <> excluded.value",
            &names as &[&str],
            &values
        )
        .run(&self.pool)
        .await
    }
}

impl ApiStore {
    /// [`probe`] of the addresses of this pool.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) with the reason why the connection failed.
    pub async fn check_connection(&self) -> Result<()> {
        connect_once(&self.addresses).await
    }

    /// Checks that Postgres has room to write, by writing about 2 MB to a temporary file in its data directory.
    /// Nothing is committed: a full disk is not filled further. A temporary file is used because a table row could
    /// still fit on a page that is already allocated.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database), with SQLSTATE 53100 when the disk is full, 53400 when Postgres
    /// is configured to write no temporary files, or another cause when Postgres cannot be reached.
    pub async fn check_disk_space(&self) -> Result<()> {
        let mut tx = self.pool.begin().await?;
        sqlx::query!("-- store::pool::small_memory\nselect set_config('work_mem', '64kB', true)")
            .fetch_one(&mut *tx)
            .await?;
        sqlx::query!("-- store::pool::room\nselect count(*) from generate_series(1, 100000)")
            .fetch_one(&mut *tx)
            .await?;
        tx.rollback().await?;
        Ok(())
    }
}

/// Connects once, without the pool: the pool retries silently and would only report that it timed out.
///
/// # Errors
/// [`Error::Database`](crate::Error::Database) with the reason why the connection failed.
pub async fn probe(url: &str) -> Result<()> {
    connect_once(&addresses(url, "houston")?).await
}

async fn connect_once(addresses: &Addresses) -> Result<()> {
    for hosts in [&addresses.pool, &addresses.sessions] {
        primary::connect(hosts, &addresses.newest).await?.1.close().await?;
        if !addresses.has_pooler {
            break;
        }
    }
    Ok(())
}

/// Host, port and database of a connection URL for messages, without user and password: `localhost:5432/houston`.
pub fn display_target(url: &str) -> String {
    let address = |options: &PgConnectOptions| {
        let socket = options.get_socket().map(|path| path.display().to_string());
        socket.unwrap_or_else(|| format!("{}:{}", options.get_host(), options.get_port()))
    };
    addresses(url, "houston").map_or_else(
        |_| "an invalid URL".to_owned(),
        |Addresses { pool, .. }| {
            let database = pool.first().and_then(PgConnectOptions::get_database).unwrap_or("postgres");
            format!("{}/{database}", pool.iter().map(address).collect::<Vec<_>>().join(","))
        },
    )
}
