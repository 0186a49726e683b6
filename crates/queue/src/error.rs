//! Errors: configuration, a query that gets no answer, and a worker that ends by itself.

use std::time::Duration;

/// Errors of the queue's functions.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL of Redis is invalid. It is not part of the message, because it may contain a password.
    #[error(
        "HOUSTON_REDIS_URL (a {scheme} URL) is invalid; allowed are redis://[user:password@]host[:port][/db], \
         rediss:// for the same over TLS, redis+unix:///path/to/socket[?db=n&user=u&pass=p], \
         redis+sentinel://[user:password@]sentinel[:port],…/master[/db] and redis+cluster://[user:password@]node[:port],…"
    )]
    BadUrl {
        /// The part of the URL before `://`; `?` if it has none.
        scheme: String,
        /// The parser's error.
        #[source]
        source: redis::RedisError,
    },
    /// Redis did not answer a query of [`crate::depths`] or [`crate::Redis::server`].
    #[error("redis does not answer")]
    Redis(#[from] Failure),
    /// The apalis worker ended without having been stopped. The process must exit, so that it is restarted.
    #[error("the worker `{name}` ended by itself")]
    WorkerEnded {
        /// Name of the worker.
        name: String,
        /// The error of apalis, if it returned one.
        #[source]
        source: Option<apalis::prelude::WorkerError>,
    },
    /// The apalis worker panicked outside any handler.
    #[error("the worker `{name}` panicked: {panic}")]
    WorkerPanicked {
        /// Name of the worker.
        name: String,
        /// Message of the panic.
        panic: String,
    },
}

/// Why one exchange with Redis failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An error of Redis or of the connection.
    #[error(transparent)]
    Redis(#[from] redis::RedisError),
    /// No answer in time: the server is stalled, or the connection was lost without being closed.
    #[error("no answer within {seconds} s")]
    Stalled {
        /// The time limit in seconds.
        seconds: f32,
    },
    /// The server closed the connection.
    #[error("connection closed")]
    Closed,
}

impl Error {
    /// Whether Redis answers, but refuses the user or the password of the URL.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Redis(failure) if failure.is_refused())
    }
}

impl Failure {
    /// Whether Redis refuses the user or the password, or wants one.
    fn is_refused(&self) -> bool {
        let Self::Redis(error) = self else { return false };
        let text = error.to_string();
        error.kind() == redis::ErrorKind::AuthenticationFailed
            || ["NOAUTH", "WRONGPASS", "NOPERM"].iter().any(|code| text.contains(code))
    }

    /// Whether an idle connection had been closed, so that a new connection may work.
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

/// Runs one exchange with Redis; [`Failure::Stalled`] if it takes longer than `limit`.
pub(crate) async fn within<T, E: Into<Failure>>(
    limit: Duration,
    exchange: impl Future<Output = Result<T, E>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(limit, exchange).await {
        Ok(result) => result.map_err(Into::into),
        Err(_) => Err(Failure::Stalled { seconds: limit.as_secs_f32() }),
    }
}

/// The message of a caught panic; `no message` if it is not a string.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}
