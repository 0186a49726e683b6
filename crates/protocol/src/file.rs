//! Files of the workspace of an agentable.

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// A file without its text.
///
/// ```json
/// {"path": "notes/plan.md", "bytes": 120, "sha256": "2cf24dba…", "created_at": "2026-11-22T09:00:02.000Z",
///  "updated_at": "2026-11-22T09:00:02.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileResponse {
    /// The path below the workspace.
    pub path: String,
    /// Length of its text in bytes.
    pub bytes: u64,
    /// SHA-256 of its text, as 64 hexadecimal digits.
    pub sha256: String,
    pub created_at: Time,
    pub updated_at: Time,
}

/// A file with its text.
///
/// ```json
/// {"path": "notes/plan.md", "content": "1. Book a hotel", "sha256": "2cf24dba…",
///  "created_at": "2026-11-22T09:00:02.000Z", "updated_at": "2026-11-22T09:00:02.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileContentResponse {
    /// The path below the workspace.
    pub path: String,
    /// Its text, at most 1 MiB.
    pub content: String,
    /// SHA-256 of its text, as 64 hexadecimal digits.
    pub sha256: String,
    pub created_at: Time,
    pub updated_at: Time,
}
