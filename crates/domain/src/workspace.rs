//! Workspaces: the files of one agentable. They are rows, so that the run of an agentable finds them on any worker, or files of
//! a folder, where the operator has set one.
//!
//! # Bounds
//! How long a path and a file may be is a constant here. How much one workspace may hold is [`FileLimits`], from
//! `[files]` of `jobs/knowledge.toml`.
//!
//! # Invariants
//! - A [`WorkspacePath`] has one spelling per file, and guards judge that same spelling.
//! - A path is a file or a folder, never both; a folder exists as long as a file is in it.
//! - Files of a task pass to the agentable that created it, as far as there is room ([`handed_over`]); what is left is deleted
//!   with the task. A task that no agentable created keeps its files until it is deleted: they can be read over HTTP.
//!
//! # Deliberately absent
//! Links, permissions, empty folders, and anything that opens a path of the machine.

mod change;
mod diff;
mod handover;
mod path;
mod read;
mod search;

use serde::Serialize;

use crate::time::Time;

pub use self::change::{ChangeRefusal, Expected, FileVersion, Present, check_delete, check_write, edited};
pub use self::diff::{MAX_DIFF_BYTES, unified_diff};
pub use self::handover::{HandedOver, handed_over};
pub use self::path::{
    FilePattern, MAX_DEPTH, MAX_FILE_PATTERN_CHARS, MAX_NAME_BYTES, MAX_PATH_BYTES, WorkspacePath,
};
pub use self::read::{LinesPage, Listed, PageStart, lines_page, listing};
pub use self::search::{
    FileMatches, LineMatch, MAX_LINE_BYTES, MAX_SEARCH_WORK, MAX_TEXT_PATTERN_CHARS, TextPattern, TextSearch,
};

/// Maximum length of a file, in bytes: what a database row and a model can still handle.
pub const MAX_FILE_BYTES: usize = 1024 * 1024;

settings! {
    /// `[files]` of `jobs/knowledge.toml`: how much the workspace of one agentable may hold.
    ///
    /// ```toml
    /// [files]
    /// max_files = 1_000
    /// max_bytes = 16_777_216
    /// ```
    pub struct FileLimits {
        /// Files of one workspace.
        pub max_files: u32 = 1_000;
        /// Bytes of all its files together.
        pub max_bytes: u64 = 16 * 1024 * 1024;
    }
}

/// A file without its text.
///
/// ```json
/// {"path": "notes/plan.md", "bytes": 120, "sha256": "2cf24dba…", "created_at": "2026-11-22T09:00:02.000Z",
///  "updated_at": "2026-11-22T09:00:02.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = FileResponse))]
pub struct FileEntry {
    /// The path below the workspace.
    pub path: String,
    /// Length of its text in bytes.
    pub bytes: u64,
    /// SHA-256 of its text, as 64 hexadecimal digits.
    #[serde(rename = "sha256")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub version: FileVersion,
    /// Whether a session wrote it that had read what strangers wrote.
    #[serde(skip)]
    pub untrusted: bool,
    pub created_at: Time,
    pub updated_at: Time,
}

/// A file with its text.
///
/// ```json
/// {"path": "notes/plan.md", "content": "1. Book a hotel", "sha256": "2cf24dba…",
///  "created_at": "2026-11-22T09:00:02.000Z", "updated_at": "2026-11-22T09:00:02.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = FileContentResponse))]
pub struct WorkspaceFile {
    /// The path below the workspace.
    pub path: String,
    /// Its text, at most 1 MiB.
    pub content: String,
    /// SHA-256 of its text, as 64 hexadecimal digits.
    #[serde(rename = "sha256")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub version: FileVersion,
    /// As in [`FileEntry`].
    #[serde(skip)]
    pub untrusted: bool,
    pub created_at: Time,
    pub updated_at: Time,
}
