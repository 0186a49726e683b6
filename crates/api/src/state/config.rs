//! The settings in `jobs/server.toml`.

use std::net::SocketAddr;
use std::time::Duration;

use houston_domain::image::MAX_IMAGE_BYTES;
use houston_domain::setting::{WrongSetting, positive};
use houston_domain::statistics::Bounds;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::state::cors::CorsConfig;

/// The settings of the HTTP server, `jobs/server.toml`:
///
/// ```toml
/// address = "127.0.0.1:8080"
/// max_body_bytes = 1048576
/// request_timeout_s = 10
/// # …
/// [clients]
/// max_connections = 20000
/// # …
/// [conversation]
/// max_bytes = 33554432
/// # …
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Listening address, `host:port`.
    pub address: String,
    /// Where clients reach this installation, `https://houston.example.com`: agent cards name it. Without it they name the host that
    /// the request does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_url: Option<String>,
    /// Maximum size of a request body, in bytes.
    #[serde(deserialize_with = "positive")]
    pub max_body_bytes: usize,
    /// Milliseconds of silence after which a stream sends a heartbeat.
    pub heartbeat_ms: u64,
    /// Reconnection time sent to stream clients (`retry:`), in ms.
    pub retry_ms: u32,
    /// Seconds for which a looked-up API key is cached.
    pub key_cache_s: u64,
    /// Interval, in ms, at which Postgres is asked whether streams missed events.
    pub poll_ms: u64,
    /// Seconds within which a request is answered once its body has arrived; also how long a stream waits for one read
    /// from Postgres before it tries again.
    pub request_timeout_s: u64,
    /// Seconds for which a request waits that is answered when a run has ended (`/compat/openai`).
    pub wait_s: u64,
    /// Maximum number of open event streams in this process.
    pub max_streams: usize,
    /// Maximum number of open event streams of one tenant in this process.
    pub max_streams_per_tenant: usize,
    /// Limits on clients before authentication.
    pub clients: ClientsConfig,
    /// Pages of which origins may call the API.
    pub cors: CorsConfig,
    /// Default page size of a thread, at most 100 messages.
    pub thread_messages: u8,
    /// Limits of export, import, fork and statistics.
    pub conversation: ConversationConfig,
    /// Limits of images.
    pub images: ImagesConfig,
    /// Limits of files that are posted for messages.
    pub attachments: AttachmentsConfig,
}

/// Limits of files that are posted for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttachmentsConfig {
    /// Maximum number of files of one message; 0: none are accepted.
    pub max_per_message: usize,
    /// Maximum bytes of all files of a user.
    pub max_bytes_of_user: i64,
    /// Bytes of files that are being posted, in memory at once; a tenant may have half.
    pub max_bytes_at_once: usize,
    /// Seconds within which a file must arrive.
    pub upload_timeout_s: u64,
}

/// Limits of images that are posted with messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImagesConfig {
    /// Maximum number of images of one message; 0: none are accepted.
    pub max_per_message: usize,
    /// Maximum bytes of all images of a user.
    pub max_bytes_of_user: i64,
    /// Seconds within which an image must arrive whose URL was posted.
    pub fetch_timeout_s: u64,
}

impl ImagesConfig {
    /// Bytes of the body of a message with images, besides those of one without: they are in Base64.
    pub(crate) fn max_body_bytes(&self) -> usize {
        (MAX_IMAGE_BYTES / 3 * 4 + 1024).saturating_mul(self.max_per_message)
    }
}

/// Limits on clients before authentication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientsConfig {
    /// Maximum number of open connections of this process.
    pub max_connections: usize,
    /// Maximum number of open connections of one address; for IPv6, of one /64 network.
    pub max_connections_per_address: usize,
    /// How many wrong keys of one address are looked up per minute.
    pub wrong_keys_per_minute: u32,
    /// Addresses and networks of proxies. The limits per address do not apply to them, because each serves many
    /// clients.
    pub proxies: Vec<IpNet>,
    /// Whether these proxies write the client's address into `X-Forwarded-For`: then wrong keys are counted for it.
    pub forwarded: bool,
}

/// Limits of export, import, fork and statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConversationConfig {
    /// Maximum size of an exported, imported or forked conversation, in bytes.
    #[serde(deserialize_with = "positive")]
    pub max_bytes: usize,
    /// Maximum bytes of such conversations in memory at once in this process; one tenant may hold half of them.
    pub max_bytes_at_once: usize,
    /// Seconds within which an export, import or fork is answered.
    pub timeout_s: u64,
    /// Number of latest runs that statistics cover.
    #[serde(deserialize_with = "positive")]
    pub stats_runs: u32,
    /// Number of latest messages that statistics cover.
    #[serde(deserialize_with = "positive")]
    pub stats_messages: u32,
}

impl Config {
    /// Checks the address.
    ///
    /// # Errors
    /// [`WrongSetting`] when it is none.
    pub fn check(&self) -> Result<(), WrongSetting> {
        match self.address.parse::<SocketAddr>() {
            Ok(_) => Ok(()),
            Err(_) => {
                let reason = "must be an address and a port, such as 127.0.0.1:8080";
                Err(WrongSetting::new("/address", reason))
            }
        }
    }
}

impl ConversationConfig {
    /// The bounds of statistics, for the store.
    pub fn bounds(&self) -> Bounds {
        Bounds { runs: i64::from(self.stats_runs), messages: i64::from(self.stats_messages) }
    }
}

impl Config {
    pub(crate) fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms.max(10))
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_secs(self.request_timeout_s.max(1))
    }

    pub(crate) fn wait(&self) -> Duration {
        Duration::from_secs(self.wait_s.max(1))
    }

    pub(crate) fn poll(&self) -> Duration {
        Duration::from_millis(self.poll_ms.max(10))
    }
}
