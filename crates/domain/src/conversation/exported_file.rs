//! Files of a workspace in a document.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// A file of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedFile {
    /// The path below the workspace.
    pub path: String,
    /// The text.
    pub content: String,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}
