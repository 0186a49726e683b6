//! [`TenantLimits`]: `[tenants]` of `jobs/mcp.toml`.

use houston_web::ListedHost;
use serde::{Deserialize, Serialize};

use super::SettingsError;

/// What the servers of tenants and users may take, which they bring over the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantLimits {
    /// Connections of one tenant in one process.
    pub connections: usize,
    /// Connections of all tenants in one process.
    pub connections_of_all: usize,
    /// The most bytes of one message of such a server.
    pub answer_bytes: usize,
    /// Addresses in networks of the operator's own that these servers may have, too.
    pub hosts: Vec<String>,
    /// Where browsers reach this installation: a login at a server with OAuth comes back there.
    #[serde(default)]
    pub public_url: Option<String>,
}

impl Default for TenantLimits {
    /// As in `jobs/mcp.toml`.
    fn default() -> Self {
        Self {
            connections: 32,
            connections_of_all: 1024,
            answer_bytes: 2 << 20,
            hosts: Vec::new(),
            public_url: None,
        }
    }
}

impl TenantLimits {
    /// # Errors
    /// [`SettingsError`] for the first setting that is wrong.
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        let refuse = |key: &str, reason: String| Err(SettingsError { key: format!("tenants.{key}"), reason });
        for (key, value) in
            [("connections", self.connections), ("connections_of_all", self.connections_of_all)]
        {
            if !(1..=65_536).contains(&value) {
                return refuse(key, format!("is {value}; allowed are 1 to 65536"));
            }
        }
        if !(1..=16 << 20).contains(&self.answer_bytes) {
            let why = format!("is {}; allowed are 1 to 16777216", self.answer_bytes);
            return refuse("answer_bytes", why);
        }
        let is_address = |url: &String| url.starts_with("https://") || url.starts_with("http://");
        if let Some(url) = self.public_url.iter().find(|url| !is_address(url)) {
            return refuse("public_url", format!("`{url}` is no address like https://houston.example.com"));
        }
        match self.hosts.iter().find_map(|url| Some((url, ListedHost::of(url).err()?))) {
            Some((url, refusal)) => refuse("hosts", format!("`{url}`: {refusal}")),
            None => Ok(()),
        }
    }
}
