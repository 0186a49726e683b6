//! The connection pool and the settings every session runs under.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions, Connection};

use crate::error::Result;
use crate::fairness::Fairness;
use crate::session::Archiving;

/// How to reach Postgres.
#[derive(Clone, PartialEq, Eq)]
pub struct Config {
    /// `postgres://…`.
    pub url: String,
    /// Connections at most.
    pub max_connections: u32,
    /// How long a caller waits for a free one.
    pub acquire_timeout: Duration,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").field("max_connections", &self.max_connections).finish_non_exhaustive()
    }
}

/// The handle to Postgres; cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) pool: PgPool,
    pub(crate) fairness: Fairness,
    pub(crate) archiving: Arc<Archiving>,
}

/// Connect options with the time-outs that are part of the fence: a worker paused inside a transaction must
/// not block the takeover for as long as it sleeps.
pub(crate) fn connect_options(url: &str, name: &str) -> Result<PgConnectOptions> {
    Ok(PgConnectOptions::from_str(url)?.application_name(name).options([
        ("statement_timeout", "5s"),
        ("lock_timeout", "2s"),
        ("idle_in_transaction_session_timeout", "5s"),
        ("timezone", "UTC"),
    ]))
}

impl Store {
    /// A pool that connects when it is first used.
    ///
    /// # Errors
    /// When the URL cannot be parsed.
    pub fn open(config: &Config) -> Result<Self> {
        let pool = PgPoolOptions::new()
            .max_connections(config.max_connections)
            .acquire_timeout(config.acquire_timeout)
            // A dead connection shows itself at its next use, and that use is retried: no ping per query.
            .test_before_acquire(false)
            .connect_lazy_with(connect_options(&config.url, "houston")?);
        Ok(Self::over(pool))
    }

    /// The same under other shares than those Houston comes with.
    #[must_use]
    pub fn with_fairness(self, fairness: Fairness) -> Self {
        Self { fairness, ..self }
    }

    /// The same with sessions that are closed; without it none is.
    #[must_use]
    pub fn with_archiving(self, archiving: Archiving) -> Self {
        Self { archiving: Arc::new(archiving), ..self }
    }

    /// When sessions are closed, and of which kinds.
    #[must_use]
    pub fn archiving(&self) -> &Archiving {
        &self.archiving
    }

    /// The shares users have.
    #[must_use]
    pub fn fairness(&self) -> Fairness {
        self.fairness
    }

    /// The store over a pool that exists, for tests.
    #[must_use]
    pub fn over(pool: PgPool) -> Self {
        Self { pool, fairness: Fairness::default(), archiving: Arc::default() }
    }

    /// Whether Postgres answers.
    ///
    /// # Errors
    /// When it does not.
    pub async fn ping(&self) -> Result<()> {
        sqlx::query!("-- store::pool::ping\nselect 1 as one").fetch_one(&self.pool).await?;
        Ok(())
    }

    /// Whether Postgres has room to write: it writes some 2 MB to a temporary file, where its data is, and deletes them.
    /// Nothing is committed, so that a full disk is not filled further, and no row of a table could hide in room that is
    /// left on its pages.
    ///
    /// # Errors
    /// With the SQLSTATE 53100 when the disk is full, 53400 when Postgres is set to write no such files; or why it
    /// cannot be asked.
    pub async fn check_room(&self) -> Result<()> {
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

    /// Closes every connection.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// Connects once, without a pool: a pool that cannot connect tries on in silence, and says only that it had no
/// connection to give.
///
/// # Errors
/// Why it cannot be connected to.
pub async fn probe(url: &str) -> Result<()> {
    connect_options(url, "houston")?.connect().await?.close().await?;
    Ok(())
}

/// Host, port and database of a URL, without user and password, for messages.
#[must_use]
pub fn shown_target(url: &str) -> String {
    PgConnectOptions::from_str(url).map_or_else(
        |_| "an address that cannot be parsed".to_owned(),
        |options| {
            let place = options.get_socket().map_or_else(
                || format!("{}:{}", options.get_host(), options.get_port()),
                |p| p.display().to_string(),
            );
            format!("{place}/{}", options.get_database().unwrap_or("postgres"))
        },
    )
}
