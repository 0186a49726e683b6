//! Errors of the store, and which of them a caller may retry.

use houston_domain::id::RunId;

/// An error of a store function.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Postgres cannot be reached, refused a statement, or did not answer within its time-outs.
    #[error("postgres: {0}")]
    Database(#[from] sqlx::Error),
    /// Another worker has claimed the agentable since: the caller must stop and write nothing.
    #[error("the run's lock was taken over")]
    Fenced,
    /// A person has answered an approval that the step takes back: nothing was written, and the run must look again.
    #[error("the approval has been answered meanwhile")]
    Answered,
    /// Something else has changed the plan since its run read it: nothing was written, and the run must look again.
    #[error("the plan was changed meanwhile")]
    PlanChanged,
    /// The tenant has no such row, or it was erased.
    #[error("{what} not found")]
    NotFound {
        /// What was looked for: `goal`, `message`, …
        what: &'static str,
    },
    /// A unique value is already taken, such as an agent's name or a user's external id.
    #[error("{what} already exists")]
    Exists {
        /// What exists: `user`, `agent`, …
        what: &'static str,
        /// The id of the existing row as the API writes it; `None` when it was deleted in the meantime.
        existing: Option<String>,
    },
    /// The owner already has the maximum number of these rows.
    #[error("limit reached: at most {limit} {what}; delete one first")]
    Full {
        /// Rows and owner in the plural: `notes of an agentable`, …
        what: &'static str,
        /// The maximum.
        limit: i64,
    },
    /// The data exceeds the size that is read or written at once.
    #[error("the {what} is larger than the limit of {limit} bytes")]
    TooLarge {
        /// What is too large: `conversation`, …
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
    /// A position among the events of all agentables belongs to another database, or to this one before it was restored
    /// from a dump: its reader must begin again.
    #[error("the position is not of this database; begin at its present position")]
    UnknownPosition,
    /// Events of the stream after that position were deleted by age.
    #[error("the events of this agentable before position {from} were deleted by age")]
    EventsExpired {
        /// The position of the first event that is kept.
        from: i64,
    },
    /// Events of all agentables after that position were deleted by age.
    #[error("events after that position were deleted by age; begin at the present position")]
    EventsDeleted,
    /// The history has no entry at that position.
    #[error("the history has no entry at position {position}; the last one before it is at {last}")]
    NoSuchPosition {
        /// The position that was asked for.
        position: i64,
        /// The position of the last entry before it; 0 when there is none.
        last: i64,
    },
    /// The history would end between a tool call and its result.
    #[error(
        "position {position} lies between a tool call and its result; the last complete turn ends at {before}"
    )]
    InsideTurn {
        /// The position that was asked for.
        position: i64,
        /// The position at which the last complete turn ends; 0 when there is none.
        before: i64,
    },
    /// The request requires that no run is open, but one is.
    #[error("{run} is open")]
    RunInProgress {
        /// The open run.
        run: RunId,
    },
    /// The user has too many unread messages.
    #[error("this user has {pending} unread messages; the limit is {limit}")]
    TooManyPending {
        /// Unread messages of the user, over all their agentables.
        pending: u32,
        /// The limit, [`Fairness::max_pending`](crate::Fairness::max_pending).
        limit: u32,
    },
    /// The agentable is archived: only a message of its user starts a run.
    #[error("the agentable is archived")]
    Archived,
    /// The user belongs into another cell, to which the users of its shard were moved: nothing was written. Retry, there.
    #[error("users of this shard were moved to another cell; try again")]
    Moved,
    /// Concurrent changes of the same rows interrupted every attempt; nothing was changed. Retry.
    #[error("the {what} is being changed by other requests; try again")]
    Busy {
        /// `user`, or the kind of an agentable.
        what: String,
    },
    /// A file of a workspace that is in a folder cannot be read or changed there.
    #[error(transparent)]
    Folder(#[from] houston_folder::Error),
    /// The workspaces of the database are in another folder than the one that is set, or in one and none is set.
    #[error("{0}")]
    OtherFolder(String),
    /// The object store of attachments cannot be used.
    #[error(transparent)]
    Objects(#[from] houston_objects::Error),
    /// The bytes of an attachment are in an object store, and none is set.
    #[error("the file is in an object store, and `url` of attachments.toml is not set")]
    NoObjects,
    /// The requested time of a check-in is not allowed.
    #[error("{0}")]
    InvalidMoment(String),
    /// The database was migrated by a newer Houston.
    #[error(
        "the database schema is at {found}, newer than this binary supports ({supported}): install the newer \
         Houston, or point DATABASE_URL at another database"
    )]
    SchemaNewer {
        /// Version of the newest migration that was applied.
        found: i64,
        /// Version of the newest migration of this binary.
        supported: i64,
    },
    /// Migrations of this binary have not been applied.
    #[error("the database schema lacks {missing} migrations: run `houston migrate`")]
    SchemaOlder {
        /// How many.
        missing: usize,
    },
    /// Functions of the database are missing, or differ from those of this binary.
    #[error(
        "the database functions differ from this version of Houston: run `houston migrate` ({})",
        .names.join(", ")
    )]
    FunctionsDiffer {
        /// Their names.
        names: Vec<String>,
    },
    /// A migration failed.
    #[error("migration: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// A stored value cannot be decoded.
    #[error("{table}.{column} of {row} cannot be read: {source}")]
    Inconsistent {
        table: &'static str,
        column: &'static str,
        /// The id of the row.
        row: String,
        source: serde_json::Error,
    },
}

/// Injected faults look like a broken connection.
impl From<houston_faults::ConnectionBroken> for Error {
    fn from(_: houston_faults::ConnectionBroken) -> Self {
        Self::Database(sqlx::Error::Io(std::io::Error::from(std::io::ErrorKind::ConnectionReset)))
    }
}

/// What cannot be encoded for Postgres.
pub(crate) fn not_json(error: serde_json::Error) -> Error {
    Error::Database(sqlx::Error::Encode(error.into()))
}

/// The result of a store function.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Whether the same call may succeed a moment later: the connection broke, the server restarts, a lock was
    /// busy. The write may or may not have happened; repeat it with the same
    /// [`WriteId`](houston_domain::id::WriteId).
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
                // classes: connection failures, resources, operator intervention; codes: serialisation, deadlock,
                // busy locks
                ["08", "53", "57"].iter().any(|class| code.starts_with(class))
                    || ["40001", "40P01", "55P03", "25P03"].contains(&code.as_ref())
            }),
            Self::Busy { .. } | Self::Moved => true,
            _ => false,
        }
    }

    /// Maps the result of an insert that requires an existing `owner` with room for what is inserted.
    pub(crate) fn check_inserted(
        owner: &'static str,
        what: &'static str,
        limit: impl Into<i64>,
        owner_exists: bool,
        inserted: bool,
    ) -> Result<()> {
        match (owner_exists, inserted) {
            (_, true) => Ok(()),
            (true, false) => Err(Self::Full { what, limit: limit.into() }),
            (false, false) => Err(Self::NotFound { what: owner }),
        }
    }

    /// Whether Postgres ran out of a resource: disk space, memory or connections (SQLSTATE class 53).
    pub fn is_out_of_resources(&self) -> bool {
        self.sqlstate().is_some_and(|code| code.starts_with("53"))
    }

    /// The SQLSTATE code, when the server sent one.
    pub fn sqlstate(&self) -> Option<String> {
        match self {
            Self::Database(sqlx::Error::Database(error)) => error.code().map(std::borrow::Cow::into_owned),
            _ => None,
        }
    }

    /// The constraint that the statement violates, if any.
    pub(crate) fn constraint(&self) -> Option<&str> {
        match self {
            Self::Database(sqlx::Error::Database(error)) => error.constraint(),
            _ => None,
        }
    }
}
