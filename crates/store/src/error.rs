//! What can go wrong with Postgres, and who acts next.

use houston_domain::check_in::InvalidMoment;
use houston_domain::id::RunId;
use sqlx::postgres::PgDatabaseError;

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The driver or the server refused.
    #[error("postgres: {0}")]
    Database(#[from] sqlx::Error),
    /// The caller no longer holds the lock: it must stop and write nothing.
    #[error("the run's lock was taken over")]
    Fenced,
    /// No such row for this tenant.
    #[error("{what} not found")]
    NotFound {
        /// `goal`, `message`, …
        what: &'static str,
    },
    /// A row that must not be there twice.
    #[error("{what} exists already")]
    Exists {
        /// `user`, `agent`, …
        what: &'static str,
        /// The id of the row that is there, as the API shows it; `None` when it was deleted an instant later.
        existing: Option<String>,
    },
    /// There are as many as may be.
    #[error("there may be {limit} {what}, and there are: delete one first")]
    Full {
        /// `notes of an agentable`, …
        what: &'static str,
        /// How many there may be.
        limit: i64,
    },
    /// It is more than may be read, or made, in one piece.
    #[error("the {what} has more than {limit} bytes")]
    TooLarge {
        /// `conversation`, …
        what: &'static str,
        /// How many it may have.
        limit: usize,
    },
    /// The history has no entry at that position.
    #[error("the history has no entry at position {position}; the last one before it is at {last}")]
    NoSuchPosition {
        /// As given.
        position: i64,
        /// Where the last entry up to there is; 0 when there is none.
        last: i64,
    },
    /// A call of the entry at that position, or before it, is answered behind it.
    #[error("position {position} lies between a tool call and its result; the turn before ends at {before}")]
    InsideTurn {
        /// As given.
        position: i64,
        /// Where the last complete turn ends; 0 when there is none.
        before: i64,
    },
    /// The message was to be stored only if no run is open, and one is.
    #[error("{run} is open")]
    RunInProgress {
        /// Which one.
        run: RunId,
    },
    /// Too many messages of one user wait unread.
    #[error("{pending} messages of this user wait unread; {limit} may")]
    TooManyPending {
        /// How many wait, over all their agentables.
        pending: u32,
        /// How many may.
        limit: u32,
    },
    /// It is archived: only a person wakes it.
    #[error("it is archived")]
    Archived,
    /// Others change it again and again: nothing was done.
    #[error("the {what} is being changed by others")]
    Busy {
        /// `user`, or the kind of an agentable.
        what: String,
    },
    /// No check-in can be then.
    #[error(transparent)]
    InvalidMoment(#[from] InvalidMoment),
    /// The database was migrated by a newer Houston.
    #[error(
        "the database schema is at {found}, newer than this binary knows ({known}): install the newer \
         Houston, or point DATABASE_URL at another database"
    )]
    SchemaNewer {
        /// The newest migration applied.
        found: i64,
        /// The newest this binary has.
        known: i64,
    },
    /// The database lacks migrations.
    #[error("the database schema lacks {missing} migrations: run `houston migrate`")]
    SchemaOlder {
        /// How many.
        missing: usize,
    },
    /// A migration failed.
    #[error("migration: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// A row holds what the code does not expect.
    #[error("{table}.{column} of {row} cannot be read: {source}")]
    Inconsistent {
        /// Which table.
        table: &'static str,
        /// Which column.
        column: &'static str,
        /// Which row.
        row: String,
        /// Why.
        source: serde_json::Error,
    },
}

/// As if the connection to Postgres had broken there.
impl From<houston_faults::Broken> for Error {
    fn from(_: houston_faults::Broken) -> Self {
        Self::Database(sqlx::Error::Io(std::io::Error::from(std::io::ErrorKind::ConnectionReset)))
    }
}

/// The result of a store function.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Whether the same call may succeed in a moment: the connection broke, the server restarts, a lock was
    /// busy. The write may or may not have happened; its write id tells.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Database(
                sqlx::Error::Io(_)
                | sqlx::Error::Tls(_)
                | sqlx::Error::Protocol(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::WorkerCrashed,
            ) => true,
            Self::Database(sqlx::Error::Database(error)) => error.code().is_some_and(|code| {
                // connection failures, resources, operator intervention, serialisation, busy locks
                ["08", "53", "57"].iter().any(|class| code.starts_with(class))
                    || ["40001", "40P01", "55P03", "25P03"].contains(&code.as_ref())
            }),
            Self::Busy { .. } => true,
            _ => false,
        }
    }

    /// What came of a row that is made only if its `owner` is there and has room for one more.
    pub(crate) fn unless_made(
        owner: &'static str,
        what: &'static str,
        limit: i64,
        found: bool,
        made: bool,
    ) -> Result<()> {
        match (found, made) {
            (_, true) => Ok(()),
            (true, false) => Err(Self::Full { what, limit }),
            (false, false) => Err(Self::NotFound { what: owner }),
        }
    }

    /// Whether Postgres lacks something it needs to go on: room on its disk, memory, connections.
    #[must_use]
    pub fn is_out_of_resources(&self) -> bool {
        self.sqlstate().is_some_and(|code| code.starts_with("53"))
    }

    /// The SQLSTATE, when the server sent one.
    #[must_use]
    pub fn sqlstate(&self) -> Option<String> {
        match self {
            Self::Database(sqlx::Error::Database(error)) => error.code().map(std::borrow::Cow::into_owned),
            _ => None,
        }
    }

    /// What the server said in detail, if anything.
    pub(crate) fn detail(&self) -> Option<&str> {
        match self {
            Self::Database(sqlx::Error::Database(error)) => {
                error.try_downcast_ref::<PgDatabaseError>().and_then(PgDatabaseError::detail)
            }
            _ => None,
        }
    }
}
