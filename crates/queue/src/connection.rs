//! Connections to Redis, with a time limit on every wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use houston_domain::clock::Clock;
use redis::AsyncConnectionConfig;
use redis::aio::{MultiplexedConnection, PubSub};
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Failure};

/// What keys and channels begin with unless the installation says otherwise.
pub const DEFAULT_PREFIX: &str = "houston";

/// How long connecting may take.
pub(crate) const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// The longest a short command may take.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(4);
/// How long a sending task outlives its stop at most.
const LAST_CALL: Duration = Duration::from_secs(1);

/// A Redis server (7 or newer, or Valkey) and the prefix of our keys in it. Opening one connects nothing.
#[derive(Clone)]
pub struct Redis {
    client: redis::Client,
    prefix: Arc<str>,
    clock: Arc<dyn Clock>,
    /// Whether the current outage was logged: all connections of the process share this.
    outage_logged: Arc<AtomicBool>,
}

impl Redis {
    /// Reads `url`; keys and channels will begin with `prefix` and a colon ([`DEFAULT_PREFIX`] is usual).
    ///
    /// # Errors
    /// [`Error::BadUrl`], which never shows the URL.
    pub fn open(url: &str, prefix: &str, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let client = redis::Client::open(url).map_err(|source| {
            let scheme = url.split_once("://").map_or("?", |(scheme, _)| scheme);
            // A password without a scheme must not be taken for one.
            let known = scheme.len() <= 12 && scheme.chars().all(|c| c.is_ascii_lowercase() || c == '+');
            Error::BadUrl { scheme: if known { scheme } else { "?" }.to_owned(), source }
        })?;
        if matches!(client.get_connection_info().addr(), redis::ConnectionAddr::TcpTls { .. }) {
            // rustls asks for the process's provider; a second installation is refused, which is fine.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        Ok(Self { client, prefix: prefix.into(), clock, outage_logged: Arc::default() })
    }

    /// Asks the server for its version, e.g. for a doctor's report.
    ///
    /// # Errors
    /// [`Error::Redis`] when it does not answer within seconds.
    pub async fn version(&self) -> Result<String, Error> {
        let mut connection = self.connect(Some(ANSWER_WITHIN)).await?;
        let info: String =
            redis::cmd("INFO").arg("server").query_async(&mut connection).await.map_err(Failure::from)?;
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        Ok(version.unwrap_or("unknown").to_owned())
    }

    /// Host and port, or the socket's path: for logs, without any password.
    #[must_use]
    pub fn address(&self) -> String {
        self.client.get_connection_info().addr().to_string()
    }

    pub(crate) fn key(&self, rest: &str) -> String {
        format!("{}:{rest}", self.prefix)
    }

    /// Notes whether an outage is on; `true` when that is news in this process.
    pub(crate) fn announce_outage(&self, away: bool) -> bool {
        self.outage_logged.swap(away, Relaxed) != away
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// A new connection, whose commands are answered within `answer` (`None`: the caller bounds them).
    pub(crate) async fn connect(&self, answer: Option<Duration>) -> Result<MultiplexedConnection, Failure> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_WITHIN))
            .set_response_timeout(answer);
        Ok(self.client.get_multiplexed_async_connection_with_config(&config).await?)
    }

    /// A new connection for pub/sub.
    pub(crate) async fn connect_pubsub(&self) -> Result<PubSub, Failure> {
        within(CONNECT_WITHIN, self.client.get_async_pubsub()).await
    }
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redis").field("address", &self.address()).field("prefix", &self.prefix).finish()
    }
}

/// One exchange with Redis, or [`Failure::Stalled`].
pub(crate) async fn within<T>(
    limit: Duration,
    exchange: impl Future<Output = redis::RedisResult<T>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(limit, exchange).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(Failure::Stalled { seconds: limit.as_secs_f32() }),
    }
}

/// Runs `task` until a second after `stop`, so that what was sent before is still written, in one attempt.
pub(crate) async fn until_stopped(stop: &CancellationToken, task: impl Future<Output = ()>) {
    let last_call = async {
        stop.cancelled().await;
        tokio::time::sleep(LAST_CALL).await;
    };
    tokio::select! {
        () = task => {}
        () = last_call => {}
    }
}

/// One connection for pipelines of short commands: opened on first use, dropped when it fails.
pub(crate) struct Wire {
    redis: Redis,
    connection: Option<MultiplexedConnection>,
}

impl Wire {
    pub(crate) fn new(redis: Redis) -> Self {
        Self { redis, connection: None }
    }

    /// Connects, unless connected already.
    pub(crate) async fn connect(&mut self) -> Result<(), Failure> {
        if self.connection.is_none() {
            self.connection = Some(self.redis.connect(Some(ANSWER_WITHIN)).await?);
        }
        Ok(())
    }

    /// Runs `commands` in one round trip. Once more on a new connection if the old one turns out to be dead,
    /// so that a restart of an idle Redis costs nothing: everything we pipeline may happen twice.
    pub(crate) async fn run(&mut self, commands: &redis::Pipeline) -> Result<(), Failure> {
        let stood = self.connection.is_some();
        match self.attempt(commands).await {
            Err(failure) if stood && failure.is_broken_connection() => self.attempt(commands).await,
            other => other,
        }
    }

    async fn attempt(&mut self, commands: &redis::Pipeline) -> Result<(), Failure> {
        self.connect().await?;
        // Taken out, so that a connection that failed or was abandoned half way is never used again.
        let Some(mut connection) = self.connection.take() else { return Err(Failure::Closed) };
        commands.exec_async(&mut connection).await?;
        self.connection = Some(connection);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use houston_domain::clock::SystemClock;

    use super::*;

    fn open(url: &str) -> Result<Redis, Error> {
        Redis::open(url, DEFAULT_PREFIX, Arc::new(SystemClock))
    }

    #[test]
    fn the_usual_urls_open() {
        for url in [
            "redis://127.0.0.1",
            "redis://user:secret@db.internal:6380/3",
            "rediss://db.internal",
            "redis+unix:///run/redis.sock",
            "redis+unix:///run/redis.sock?db=2&pass=secret",
        ] {
            assert!(open(url).is_ok(), "{url}");
        }
        let redis = open("redis://user:secret@db.internal:6380/3").unwrap();
        assert_eq!(redis.address(), "db.internal:6380");
        assert!(!format!("{redis:?}").contains("secret"));
    }

    #[test]
    fn a_bad_url_is_refused_by_its_name_and_without_its_password() {
        for url in ["http://:secret@host", "secret", "secret://", "redis://:secret@", "redis://u:secret@h/x"]
        {
            let error = open(url).unwrap_err();
            let shown = format!("{error} {}", std::error::Error::source(&error).unwrap());
            assert!(shown.contains("HOUSTON_REDIS_URL") && shown.contains("redis+unix://"), "{shown}");
            assert!(url == "secret://" || !shown.contains("secret"), "{shown}");
        }
    }
}
