//! `jobs/server.toml`.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use houston_domain::statistics::Bounds;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// How the server listens and streams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where to listen, `host:port`.
    pub address: String,
    /// Bytes of one request's body at most.
    pub max_body_bytes: usize,
    /// Seconds of silence after which a stream sends a heartbeat.
    pub heartbeat_s: u64,
    /// What a stream's client is told to wait before it comes back, in ms.
    pub retry_ms: u32,
    /// Seconds an API key is trusted without asking Postgres again.
    pub key_cache_s: u64,
    /// How often Postgres is asked whether a stream missed something, in ms.
    pub poll_ms: u64,
    /// Seconds within which a request is answered once its body has arrived; also how long a stream waits for one read
    /// from Postgres before it tries again.
    pub request_timeout_s: u64,
    /// Event streams that are open at once in this process.
    pub max_streams: usize,
    /// The same of one tenant.
    pub max_streams_per_tenant: usize,
    /// Who has not shown a key yet.
    pub clients: ClientsConfig,
    /// Messages on a page of a thread when the query says nothing, 100 at most.
    pub thread_messages: u8,
    /// Conversations as a whole.
    pub conversation: ConversationConfig,
}

/// What may come from one address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientsConfig {
    /// Connections that are open at once in this process.
    pub max_connections: usize,
    /// The same from one address; of IPv6, from one network of 64 bits.
    pub max_connections_per_address: usize,
    /// Wrong keys that are looked up for one address in a minute.
    pub wrong_keys_per_minute: u32,
    /// Addresses and networks of proxies: each speaks for many clients, and the bounds of one address are not for them.
    pub proxies: Vec<IpNet>,
}

impl Default for ClientsConfig {
    fn default() -> Self {
        Self {
            max_connections: 20_000,
            max_connections_per_address: 1_000,
            wrong_keys_per_minute: 60,
            proxies: vec![
                IpNet::new_assert(Ipv4Addr::new(127, 0, 0, 0).into(), 8),
                IpNet::new_assert(Ipv6Addr::LOCALHOST.into(), 128),
            ],
        }
    }
}

/// How much of a conversation is read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConversationConfig {
    /// Bytes of one that is exported, imported or forked.
    pub max_bytes: usize,
    /// Bytes of those that are in memory at once in this process; one tenant may hold half of them.
    pub max_bytes_at_once: usize,
    /// Seconds within which an export, import or fork is answered.
    pub timeout_s: u64,
    /// Runs, the latest, that its statistics look at.
    pub stats_runs: u32,
    /// Messages, the latest, that they look at.
    pub stats_messages: u32,
}

impl ConversationConfig {
    /// What statistics look at.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        Bounds { runs: i64::from(self.stats_runs), messages: i64::from(self.stats_messages) }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            address: "127.0.0.1:8080".to_owned(),
            max_body_bytes: 1024 * 1024,
            heartbeat_s: 8,
            retry_ms: 2_000,
            key_cache_s: 5,
            poll_ms: 1_000,
            request_timeout_s: 10,
            max_streams: 10_000,
            max_streams_per_tenant: 5_000,
            clients: ClientsConfig::default(),
            thread_messages: 50,
            conversation: ConversationConfig {
                max_bytes: 32 * 1024 * 1024,
                max_bytes_at_once: 64 * 1024 * 1024,
                timeout_s: 60,
                stats_runs: 1_000,
                stats_messages: 10_000,
            },
        }
    }
}

impl Config {
    pub(crate) fn heartbeat(&self) -> Duration {
        Duration::from_secs(self.heartbeat_s.max(1))
    }

    pub(crate) fn key_cache(&self) -> Duration {
        Duration::from_secs(self.key_cache_s)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_secs(self.request_timeout_s.max(1))
    }

    pub(crate) fn document_timeout(&self) -> Duration {
        Duration::from_secs(self.conversation.timeout_s.max(1))
    }

    pub(crate) fn poll(&self) -> Duration {
        Duration::from_millis(self.poll_ms.max(10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_file_is_the_default() {
        let shipped: Config = toml::from_str(include_str!("../../../jobs/server.toml")).unwrap();
        assert_eq!(shipped, Config::default());
    }
}
