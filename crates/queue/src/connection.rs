//! Connections to Redis, with a time limit on every wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use houston_domain::agentable::Lane;
use houston_domain::clock::Clock;
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Client};
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Failure, within};
use crate::servers::{CONNECT_TIMEOUT, Servers};

/// The default prefix of keys and channels.
pub const DEFAULT_PREFIX: &str = "houston";

/// Time limit for a command that does not block.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(4);
/// How long a sending task may continue after its stop.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

/// A Redis server (7 or newer, or Valkey), the servers behind sentinels or those of a cluster, and the prefix of Houston's
/// keys there. Opening one does not connect.
#[derive(Clone)]
pub struct Redis {
    servers: Arc<Servers>,
    prefix: Arc<str>,
    clock: Arc<dyn Clock>,
    /// Whether the current outage was logged. Shared by all connections of the process.
    outage_logged: Arc<AtomicBool>,
    /// How often another server was found to take the writes. Connections from before are given up.
    moves: Arc<AtomicU64>,
}

impl Redis {
    /// Parses `url`. Keys and channels begin with `prefix` (usually [`DEFAULT_PREFIX`]) and a colon. In a cluster the
    /// prefix is in braces: keys with the same text in braces are in one slot, as a pop from all lanes requires.
    ///
    /// # Errors
    /// [`Error::BadUrl`] when it cannot be parsed. The error never contains the URL, which may have a password.
    pub fn open(url: &str, prefix: &str, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let is_cluster = Servers::is_cluster(url);
        let prefix: Arc<str> = if is_cluster { format!("{{{prefix}}}").into() } else { prefix.into() };
        let servers = Servers::parse(url, || format!("{prefix}:")).map_err(|source| {
            let scheme = url.split_once("://").map_or("?", |(scheme, _)| scheme);
            // If the URL is only a password, it must not be reported as the scheme.
            let is_scheme = scheme.len() <= 15 && scheme.chars().all(|c| c.is_ascii_lowercase() || c == '+');
            Error::BadUrl { scheme: if is_scheme { scheme } else { "?" }.to_owned(), source }
        })?;
        if servers.has_tls() {
            // rustls needs a process-wide provider. Installing it a second time fails, which is fine.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let servers = Arc::new(servers);
        Ok(Self { servers, prefix, clock, outage_logged: Arc::default(), moves: Arc::default() })
    }

    /// The server's version, and what it does when its memory is full.
    ///
    /// # Errors
    /// [`Error::Redis`] when the server does not answer within seconds, or refuses the password.
    pub async fn server(&self) -> Result<RedisServer, Error> {
        let mut connection = self.connect(Some(RESPONSE_TIMEOUT)).await?;
        let info: String = redis::cmd("INFO")
            .arg("server")
            .arg("memory")
            .query_async(&mut connection)
            .await
            .map_err(Failure::from)?;
        let written: Result<(), _> = self.write_and_delete().query_async(&mut connection).await;
        Ok(RedisServer { refuses: written.err().map(|error| error.to_string()), ..RedisServer::of(&info) })
    }

    /// Shows whether Redis takes writes, and leaves nothing.
    pub(crate) fn write_and_delete(&self) -> redis::Pipeline {
        let (mut commands, key) = (redis::pipe(), self.key("takes-writes"));
        commands.cmd("SET").arg(&key).arg(1).arg("EX").arg(60).ignore().cmd("DEL").arg(&key).ignore();
        commands
    }

    /// Host and port, also of several servers, or the path of the socket; without password, for logs.
    pub fn address(&self) -> String {
        self.servers.address()
    }

    pub(crate) fn key(&self, rest: &str) -> String {
        format!("{}:{rest}", self.prefix)
    }

    /// The key of a lane: a sorted set.
    pub(crate) fn lane(&self, lane: Lane) -> String {
        self.key(&format!("hints:{}", lane.as_str()))
    }

    /// Records whether Redis is unavailable; `true` if that changed in this process.
    pub(crate) fn record_outage(&self, away: bool) -> bool {
        self.outage_logged.swap(away, Relaxed) != away
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Opens a connection with a response time limit of `answer`; with `None` the caller limits each command.
    pub(crate) async fn connect(&self, answer: Option<Duration>) -> Result<MultiplexedConnection, Failure> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(answer);
        Ok(self.servers.connect(&config).await?.1)
    }

    /// Opens a connection for pub/sub. Returns it with its server, for [`Self::check`].
    pub(crate) async fn connect_pubsub(&self) -> Result<(Client, PubSub), Failure> {
        let client = self.servers.client().await?;
        let connection = within(CONNECT_TIMEOUT, client.get_async_pubsub()).await?;
        Ok((client, connection))
    }

    /// Fails when another server than that of `client` takes the writes by now; then all connections of the process are
    /// given up. A former master may accept what is published, and no one hears it.
    pub(crate) async fn check(&self, client: &Client) -> Result<(), Failure> {
        let checked = self.servers.check(client).await;
        if checked.is_err() {
            self.moves.fetch_add(1, Relaxed);
        }
        checked
    }

    /// Changes when connections from before are to be given up.
    pub(crate) fn moves(&self) -> u64 {
        self.moves.load(Relaxed)
    }
}

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisServer {
    /// The version, e.g. `7.2.4`.
    pub version: String,
    /// The `maxmemory-policy`: `noeviction` refuses writes when the memory is full, all others delete keys.
    pub policy: String,
    /// The `maxmemory` in bytes; 0 is unlimited.
    pub max_bytes: u64,
    /// Why it refuses writes, if it does: it is full, read-only, or cannot store its data.
    pub refuses: Option<String>,
}

impl RedisServer {
    /// Reads the text that `INFO` answers.
    fn of(info: &str) -> Self {
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let text = |name: &str| field(name).map_or("unknown", str::trim).to_owned();
        Self {
            version: text("redis_version"),
            policy: text("maxmemory_policy"),
            max_bytes: field("maxmemory").and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0),
            refuses: None,
        }
    }

    /// Whether it deletes keys when its memory is full.
    pub fn evicts(&self) -> bool {
        !matches!(self.policy.as_str(), "noeviction" | "unknown")
    }
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redis").field("address", &self.address()).field("prefix", &self.prefix).finish()
    }
}

/// Runs `task` until at most a second after `stop`, so that what was queued before is still written, in one attempt.
pub(crate) async fn run_until_stopped(stop: &CancellationToken, task: impl Future<Output = ()>) {
    let grace = async {
        stop.cancelled().await;
        tokio::time::sleep(SHUTDOWN_GRACE).await;
    };
    tokio::select! {
        () = task => {}
        () = grace => {}
    }
}

/// A connection for pipelines of non-blocking commands: opened on first use, dropped when it fails.
pub(crate) struct PipelineConnection {
    redis: Redis,
    connection: Option<MultiplexedConnection>,
    /// [`Redis::moves`] when it was opened.
    moves: u64,
}

impl PipelineConnection {
    pub(crate) fn new(redis: Redis) -> Self {
        Self { redis, connection: None, moves: 0 }
    }

    /// Connects if not connected.
    pub(crate) async fn connect(&mut self) -> Result<(), Failure> {
        let moves = self.redis.moves();
        if self.connection.is_none() || self.moves != moves {
            (self.connection, self.moves) = (None, moves);
            self.connection = Some(self.redis.connect(Some(RESPONSE_TIMEOUT)).await?);
        }
        Ok(())
    }

    /// Runs `commands` in one round trip. If an existing connection is broken, runs them again on a new one, so that a
    /// restart of Redis while idle loses nothing. All pipelined commands may safely run twice.
    pub(crate) async fn run(&mut self, commands: &redis::Pipeline) -> Result<(), Failure> {
        let was_connected = self.connection.is_some();
        match self.attempt(commands).await {
            Err(failure) if was_connected && failure.is_broken_connection() => self.attempt(commands).await,
            other => other,
        }
    }

    async fn attempt(&mut self, commands: &redis::Pipeline) -> Result<(), Failure> {
        self.connect().await?;
        // Taken out, so that a connection that failed or whose future was dropped is never used again.
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
    fn server_is_read_from_its_info() {
        let info = "# Server\r\nredis_version:7.2.4\r\n# Memory\r\nmaxmemory:1024\r\nmaxmemory_human:1K\r\n\
                    maxmemory_policy:allkeys-lru\r\n";
        let server = RedisServer::of(info);
        assert_eq!((server.version.as_str(), server.max_bytes), ("7.2.4", 1024));
        assert!(server.evicts());
        assert!(!RedisServer::of("").evicts(), "a server that does not say it");
    }

    #[test]
    fn supported_urls_are_accepted() {
        for url in [
            "redis://127.0.0.1",
            "redis://user:secret@db.internal:6380/3",
            "rediss://db.internal",
            "redis+unix:///run/redis.sock",
            "redis+unix:///run/redis.sock?db=2&pass=secret",
            "redis+sentinel://a,b:26380/main",
            "rediss+sentinel://user:secret@a,b,c/main/2",
            "redis+cluster://a:7000,b:7001",
            "rediss+cluster://:secret@a",
        ] {
            assert!(open(url).is_ok(), "{url}");
        }
        let redis = open("redis://user:secret@db.internal:6380/3").unwrap();
        assert_eq!(redis.address(), "db.internal:6380");
        assert!(!format!("{redis:?}").contains("secret"));
    }

    #[test]
    fn keys_of_a_cluster_are_in_one_slot() {
        assert_eq!(
            open("redis+cluster://a,b").unwrap().key("hints:background"),
            "{houston}:hints:background"
        );
        assert_eq!(open("redis+sentinel://a,b/main").unwrap().key("control"), "houston:control");
    }

    #[test]
    fn bad_url_error_names_the_setting_not_the_password() {
        for url in [
            "http://:secret@host",
            "secret",
            "secret://",
            "redis://:secret@",
            "redis://u:secret@h/x",
            "redis+sentinel://:secret@a,b",
            "redis+cluster://:secret@a/3",
        ] {
            let error = open(url).unwrap_err();
            let text = format!("{error} {}", std::error::Error::source(&error).unwrap());
            assert!(text.contains("HOUSTON_REDIS_URL") && text.contains("redis+unix://"), "{text}");
            assert!(url == "secret://" || !text.contains("secret"), "{text}");
        }
    }
}
