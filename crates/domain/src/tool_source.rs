//! Tool sources: where the tools of a tenant's own come from.

use serde::Deserialize;
use uuid::Uuid;

use crate::names::is_plain_name;

/// Maximum number of sources of a tenant.
pub const MAX_SOURCES: i64 = 50;
/// Maximum length of a name, in bytes.
pub const MAX_NAME_BYTES: usize = 40;
/// Maximum length of a document, in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 256 * 1024;
/// Maximum number of secrets of a source.
pub const MAX_SECRETS: usize = 20;
/// Maximum length of a secret, and of its name, in bytes.
pub const MAX_SECRET_BYTES: usize = 8 * 1024;

names! {
    /// What a source is.
    #[derive(Hash)]
    pub enum SourceType {
        /// A document of HTTP endpoints.
        Endpoints = "endpoints",
        /// An MCP server.
        McpServer = "mcp_server",
    }
}

/// What a run reads of a source with its context.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
pub struct SourceSummary {
    /// What it is.
    #[serde(rename = "type")]
    pub source: SourceType,
    /// Unique among the sources of its type.
    pub name: String,
    /// The kinds whose agents are offered all of its tools.
    pub kinds: Vec<String>,
    /// Changes with the document and its secrets.
    pub hash: String,
    /// The user whose it is; `None`: the tenant's.
    pub user: Option<Uuid>,
}

/// What a source's secrets are sealed for.
pub fn purpose(source: SourceType, name: &str) -> String {
    format!("{source}/{name}")
}

/// What is wrong with the name of a source; `None`: nothing.
pub fn name_problem(name: &str) -> Option<String> {
    (!is_plain_name(name, b"_-", MAX_NAME_BYTES)).then(|| {
        format!(
            "a name has 1 to {MAX_NAME_BYTES} of the characters a-z, 0-9, _ and -, and begins with a letter"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_be_part_of_a_path() {
        for name in ["crm", "a", "crm-2_eu", &"x".repeat(MAX_NAME_BYTES)] {
            assert_eq!(name_problem(name), None, "{name}");
        }
        for name in ["", "CRM", "2crm", "a b", "a/b", "ä", &"x".repeat(MAX_NAME_BYTES + 1)] {
            assert!(name_problem(name).is_some(), "{name}");
        }
    }
}
