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
mod edit;
mod file_pattern;
mod handover;
mod listing;
mod page;
mod path;
mod search;
mod version;

use serde::{Deserialize, Serialize};

pub use self::change::{ChangeRefusal, Present, check_delete, check_write};
pub use self::diff::{MAX_DIFF_BYTES, unified_diff};
pub use self::edit::{EditRefusal, edited};
pub use self::file_pattern::{FilePattern, MAX_FILE_PATTERN_CHARS};
pub use self::handover::{HandedOver, handed_over};
pub use self::listing::{Listed, listing};
pub use self::page::{LinesPage, PageStart, lines_page};
pub use self::path::{MAX_DEPTH, MAX_NAME_BYTES, MAX_PATH_BYTES, PathError, WorkspacePath};
pub use self::search::{
    FileMatches, LineMatch, MAX_LINE_BYTES, MAX_SEARCH_WORK, MAX_TEXT_PATTERN_CHARS, TextPattern, TextSearch,
};
pub use self::version::{Expected, FileVersion, InvalidVersion};

/// Maximum length of a file, in bytes: what a database row and a model can still handle.
pub const MAX_FILE_BYTES: usize = 1024 * 1024;

/// `[files]` of `jobs/knowledge.toml`: how much the workspace of one agentable may hold.
///
/// ```toml
/// [files]
/// max_files = 1_000
/// max_bytes = 16_777_216
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileLimits {
    /// Files of one workspace.
    pub max_files: u32,
    /// Bytes of all its files together.
    pub max_bytes: u64,
}

impl Default for FileLimits {
    fn default() -> Self {
        Self { max_files: 1_000, max_bytes: 16 * 1024 * 1024 }
    }
}
