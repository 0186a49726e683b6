//! The key under which providers cache the prompts of an agentable.

use sha2::{Digest, Sha256};

use crate::id::AgentableId;

/// The prompt cache key that providers get with each request of an agentable: 32 hex digits, the same for all its
/// requests, and meaningless outside Houston.
#[must_use]
pub fn cache_key(agentable: AgentableId) -> String {
    let mut hash = Sha256::new();
    hash.update(b"houston.cache");
    hash.update(agentable.0.as_bytes());
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
