//! [`ConfigError`]: what is wrong with the settings.

use std::path::PathBuf;

/// An invalid setting: its key, its origin, and what is allowed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// A key or value of `jobs/*.toml` or of the environment.
    #[error("{key} ({origin}): {reason}")]
    Setting {
        /// The key, e.g. `orchestrator.limits.max_iterations`.
        key: String,
        /// The file or variable it comes from.
        origin: String,
        /// What is wrong, and what is allowed.
        reason: String,
    },
    /// An agent type's file.
    #[error("{}: line {line}, column {column}: {reason}", .path.display())]
    AgentType {
        /// The path of the file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
        /// What is wrong, and what is allowed.
        reason: String,
    },
    /// A file or folder that looks like a setting, but is never read.
    #[error("{}: not a file of settings; allowed are: {allowed}{like}", .path.display())]
    UnknownFile {
        /// Its path.
        path: PathBuf,
        /// The names that are read.
        allowed: String,
        /// `; did you mean …?` with the most similar name, or empty.
        like: String,
    },
    /// An endpoint that is to be a tool.
    #[error("{0}")]
    Endpoint(houston_web::json_api::Problem),
    /// A template of plans.
    #[error("{}: {reason}", .path.display())]
    Template {
        /// The path of its file.
        path: PathBuf,
        /// What is wrong, each with a JSON pointer into the file.
        reason: String,
    },
    /// A skill of the installation that cannot be read.
    #[error("{}: {reason}", .path.display())]
    Skill {
        /// The folder with skills.
        path: PathBuf,
        /// What is wrong, and what is allowed.
        reason: String,
    },
    /// A folder that cannot be read.
    #[error(
        "{}: {source}; --jobs (HOUSTON_JOBS) takes a folder with files like orchestrator.toml", .path.display()
    )]
    Folder {
        /// Its path.
        path: PathBuf,
        /// The error of the file system.
        source: std::io::Error,
    },
}
