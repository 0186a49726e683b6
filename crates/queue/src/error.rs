//! What can fail before anything runs, and the one thing that may end a worker.

/// Why the queue cannot start, or why its worker ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL cannot be used. It is not part of the message, since it may contain a password.
    #[error(
        "HOUSTON_REDIS_URL (a {scheme} URL) cannot be used; allowed are redis://[user:password@]host[:port][/db], \
         rediss:// for the same over TLS, and redis+unix:///path/to/socket[?db=n&user=u&pass=p]"
    )]
    BadUrl {
        /// The part before `://`; `?` when there is none.
        scheme: String,
        /// What is wrong with it.
        #[source]
        source: redis::RedisError,
    },
    /// Redis did not answer a request that a caller waits for.
    #[error("redis does not answer")]
    Redis(#[from] Failure),
    /// The apalis worker ended without having been stopped. The process must exit so that another one starts.
    #[error("the worker `{name}` ended by itself")]
    WorkerEnded {
        /// Its name.
        name: String,
        /// What apalis says, if it says anything.
        #[source]
        source: Option<apalis::prelude::WorkerError>,
    },
    /// The apalis worker panicked outside any handler.
    #[error("the worker `{name}` panicked: {panic}")]
    WorkerPanicked {
        /// Its name.
        name: String,
        /// The panic's message.
        panic: String,
    },
}

/// Why one exchange with Redis failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Redis, or the way to it.
    #[error(transparent)]
    Redis(#[from] redis::RedisError),
    /// No answer in time: a stalled server, or a connection that died without a word.
    #[error("no answer within {seconds} s")]
    Stalled {
        /// How long we waited.
        seconds: f32,
    },
    /// The server closed the connection.
    #[error("connection closed")]
    Closed,
}

impl Failure {
    /// Whether the connection had died while it lay idle, so that the same again on a new one may well work.
    pub(crate) fn is_broken_connection(&self) -> bool {
        match self {
            Self::Redis(error) => {
                !error.is_timeout() && (error.is_connection_dropped() || error.is_io_error())
            }
            Self::Stalled { .. } => false,
            Self::Closed => true,
        }
    }
}

/// The message of a caught panic.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}
