//! The connection pools and the settings of their database sessions.

use std::sync::Arc;
use std::time::Duration;

use sqlx::Connection;
use sqlx::postgres::{PgConnectOptions, PgPool};

use houston_domain::custom_table::TablePresets;
use houston_domain::knowledge::KnowledgeLimits;
use houston_domain::rate::RateLimits;
use houston_domain::team::TeamLimits;
use houston_folder::Root;
use houston_objects::Objects;

use crate::batcher::Batcher;
use crate::claim::batch::Claims;
use crate::connections::{Connections, Purpose, Sizes, Use};
use crate::creation::batch::Creations;
use crate::error::Result;
use crate::event::batch::StreamReads;
use crate::fairness::Fairness;
use crate::handle::{ApiStore, RunStore, Shared};
use crate::message::batch::Posts;
use crate::primary::{self, Addresses, addresses};
use crate::rate::{Asks, TokenCounts};
use crate::reach::Reach;
use crate::run_context::batch::Contexts;
use crate::session::Archiving;
use crate::step::batch::Steps;
use crate::workspace_file::settle::Folders;

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
/// let store = Store::open(&config)?.with_fairness(Fairness { max_running: 5, ..Fairness::default() });
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

/// The connections of each purpose.
#[derive(Debug)]
pub(crate) struct Pools {
    requests: Connections,
    runs: Connections,
    background: Connections,
}

impl Pools {
    pub(crate) fn of(&self, purpose: Purpose) -> &Connections {
        match purpose {
            Purpose::Requests => &self.requests,
            Purpose::Runs => &self.runs,
            Purpose::Background => &self.background,
        }
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Connections> {
        Purpose::ALL.into_iter().map(|purpose| self.of(purpose))
    }
}

/// What is written and read in batches.
#[derive(Debug)]
pub(crate) struct Batchers {
    pub(crate) creations: Batcher<Creations>,
    pub(crate) posts: Batcher<Posts>,
    pub(crate) claims: Batcher<Claims>,
    pub(crate) steps: Batcher<Steps>,
    pub(crate) contexts: Batcher<Contexts>,
    pub(crate) streams: Batcher<StreamReads>,
    pub(crate) asks: Batcher<Asks>,
    pub(crate) tokens: Batcher<TokenCounts>,
}

impl Batchers {
    /// `sessions`: the pool whose connections keep their settings.
    fn new(
        sessions: &PgPool,
        fairness: Fairness,
        archiving: &Arc<Archiving>,
        reach: &Arc<Reach>,
        rates: RateLimits,
    ) -> Arc<Self> {
        let (max_running, max_pending) = (fairness.running(), fairness.pending());
        let claims = Claims {
            fairness,
            archiving: Arc::clone(archiving),
            reach: Arc::clone(reach),
            tokens: rates.tokens,
        };
        let contexts = Contexts { archive: archiving.settings, reach: Arc::clone(reach) };
        Arc::new(Self {
            creations: Batcher::new(Creations { max_pending }, sessions),
            posts: Batcher::new(Posts { max_running, max_pending }, sessions),
            claims: Batcher::new(claims, sessions),
            steps: Batcher::new(Steps { max_running }, sessions),
            contexts: Batcher::new(contexts, sessions),
            streams: Batcher::new(StreamReads, sessions),
            asks: Batcher::new(Asks(rates), sessions),
            tokens: Batcher::new(TokenCounts(rates.tokens), sessions),
        })
    }

    async fn close(&self) {
        let Self { creations, posts, claims, steps, contexts, streams, asks, tokens } = self;
        tokio::join!(
            creations.close(),
            posts.close(),
            claims.close(),
            steps.close(),
            contexts.close(),
            streams.close(),
            asks.close(),
            tokens.close(),
        );
    }
}

impl Shared {
    /// Batchers with the present limits.
    fn new_batchers(&self) -> Arc<Batchers> {
        Batchers::new(&self.sessions, self.fairness, &self.archiving, &self.reach, self.rates)
    }
}

/// The options of a pool's connections, to open one of its own.
pub(crate) fn connect_options_of(pool: &PgPool) -> PgConnectOptions {
    PgConnectOptions::clone(&pool.connect_options())
}

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
        let pools = Pools {
            requests: of(Purpose::Requests),
            runs: of(Purpose::Runs),
            background: of(Purpose::Background),
        };
        let sessions = connections(&addresses.sessions, MAX_SESSIONS, IDLE_SESSION);
        Ok(Self::with_pools(pools, sessions.pool().clone(), addresses))
    }

    /// Replaces the default [`Fairness`] limits.
    #[must_use]
    pub fn with_fairness(self, fairness: Fairness) -> Self {
        self.changed(|shared| {
            shared.fairness = fairness;
            shared.batchers = shared.new_batchers();
        })
    }

    /// Sets which sessions are closed, and when. By default none is.
    #[must_use]
    pub fn with_archiving(self, archiving: Archiving) -> Self {
        let archiving = Arc::new(archiving);
        self.changed(|shared| {
            shared.archiving = archiving;
            shared.batchers = shared.new_batchers();
        })
    }

    /// Sets which kinds reach which. By default none reaches another.
    #[must_use]
    pub fn with_reach(self, reach: Reach) -> Self {
        let reach = Arc::new(reach);
        self.changed(|shared| {
            shared.reach = reach;
            shared.batchers = shared.new_batchers();
        })
    }

    /// Sets the rate limits. By default there are none.
    #[must_use]
    pub fn with_rates(self, rates: RateLimits) -> Self {
        self.changed(|shared| {
            shared.rates = rates;
            shared.batchers = shared.new_batchers();
        })
    }

    /// Names the other cells whose runs the workers of this one drive in the same process.
    #[must_use]
    pub fn with_other_cells<'s>(self, others: impl IntoIterator<Item = &'s Self>) -> Self {
        let others = others.into_iter().map(|store| store.runs.pool.clone()).collect();
        self.changed(|shared| shared.other_cells = others)
    }

    /// The same store without batches: each post, claim and step is a statement of its own. For tests that compare
    /// both.
    #[must_use]
    pub fn without_batches(self) -> Self {
        self.changed(|shared| shared.is_unbatched = true)
    }

    /// The same store with other limits on what agents may store.
    #[must_use]
    pub fn with_knowledge_limits(self, knowledge_limits: KnowledgeLimits) -> Self {
        self.changed(|shared| shared.knowledge_limits = knowledge_limits)
    }

    /// The same store with other limits on agents and teams.
    #[must_use]
    pub fn with_team_limits(self, team_limits: TeamLimits) -> Self {
        self.changed(|shared| shared.team_limits = team_limits)
    }

    /// The same store with these tables that are created by name; without them there is none.
    #[must_use]
    pub fn with_table_presets(self, presets: TablePresets) -> Self {
        self.changed(|shared| shared.table_presets = Arc::new(presets))
    }

    /// The same store with files of workspaces in this folder; without one they are rows.
    #[must_use]
    pub fn with_folder(self, root: Arc<Root>) -> Self {
        self.changed(|shared| shared.folders = Some(Folders::new(root, &shared.pool)))
    }

    /// The same store with the bytes of attachments in this object store; without one they are rows.
    #[must_use]
    pub fn with_objects(self, objects: Objects) -> Self {
        self.changed(|shared| shared.objects = Some(objects))
    }

    /// The limits per user.
    #[must_use]
    pub fn fairness(&self) -> Fairness {
        self.requests.fairness
    }

    fn changed(self, change: impl FnOnce(&mut Shared)) -> Self {
        let mut shared = Arc::unwrap_or_clone(self.requests);
        change(&mut shared);
        Self::of(&shared)
    }

    fn with_pools(pools: Pools, sessions: PgPool, addresses: Addresses) -> Self {
        let fairness = Fairness::default();
        let (archiving, reach): (Arc<Archiving>, Arc<Reach>) = Default::default();
        Self::of(&Shared {
            batchers: Batchers::new(&sessions, fairness, &archiving, &reach, RateLimits::default()),
            pool: pools.requests.clone(),
            pools: Arc::new(pools),
            sessions,
            addresses: Arc::new(addresses),
            row_security: Arc::default(),
            other_cells: Arc::default(),
            fairness,
            archiving,
            reach,
            rates: RateLimits::default(),
            knowledge_limits: KnowledgeLimits::default(),
            table_presets: Arc::default(),
            team_limits: TeamLimits::default(),
            folders: None,
            objects: None,
            is_unbatched: false,
            process: None,
            marked_triggers: Arc::default(),
            direct_worker: Arc::default(),
        })
    }

    fn of(shared: &Shared) -> Self {
        let of = |purpose| shared.with_connections_of(purpose);
        Self {
            requests: of(Purpose::Requests),
            runs: RunStore { shared: of(Purpose::Runs) },
            background: RunStore { shared: of(Purpose::Background) },
        }
    }

    /// Checks that Postgres answers.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached.
    pub async fn ping(&self) -> Result<()> {
        sqlx::query!("-- store::pool::ping\nselect 1 as one").fetch_one(&self.pool).await?;
        Ok(())
    }

    /// How the connections of a purpose are used.
    #[must_use]
    pub fn connections(&self, purpose: Purpose) -> Use {
        self.pools.of(purpose).in_use()
    }

    /// Closes all connections.
    pub async fn close(&self) {
        self.batchers.close().await;
        self.sessions.close().await;
        for connections in self.pools.iter() {
            connections.close().await;
        }
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
#[must_use]
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
