//! Errors of folders.

use std::path::PathBuf;

use houston_domain::workspace::MAX_FILE_BYTES;

/// The result of what is done in a folder.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something in a folder was not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What is at the path is not read or changed.
    #[error(transparent)]
    Obstacle(#[from] Obstacle),
    /// The folder has more than is looked at.
    #[error(
        "the workspace has more than {max} files and folders, or folders in more than {levels} levels: delete some of what \
         commands have made",
        max = crate::MAX_SEEN,
        levels = crate::MAX_LEVELS
    )]
    TooMany,
    /// Another process changes the files.
    #[error("the files of the workspace are being changed by another process: try again")]
    Busy,
    /// The machine refuses.
    #[error("the folder of the workspace cannot be read or changed: {0}")]
    Io(#[from] std::io::Error),
}

/// Why what is at a path is neither read nor changed. Models read the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// It is a link, or below one.
    #[error("{path} is a link; links are not followed: give the path of the file itself")]
    Link { path: String },
    /// It is a pipe, a socket or a device.
    #[error("{path} is a pipe, a socket or a device, not a file")]
    Special { path: String },
    /// It has other names, which may be outside.
    #[error(
        "{path} is a file with several names (hard links), which may be outside of the workspace: copy it instead"
    )]
    HardLink { path: String },
    /// It is too long.
    #[error("{path} has {bytes} bytes; files of at most {MAX_FILE_BYTES} bytes can be read")]
    TooLong { path: String, bytes: u64 },
    /// It is no text.
    #[error("{path} is no text: it has {bytes} bytes that are not UTF-8")]
    NotText { path: String, bytes: u64 },
    /// Its permissions do not allow it.
    #[error("{path} cannot be read or changed: its permissions do not allow it")]
    Denied { path: String },
    /// A file is to be written, but there is a folder.
    #[error("{path} is a folder with something in it")]
    IsFolder { path: String },
    /// A file is to be written, but there is a file in the place of one of its folders.
    #[error("{path} is a file, so it can contain nothing")]
    BelowFile { path: String },
}

/// Why a folder cannot have workspaces.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// Its path is relative.
    #[error("`{0}` is relative: give an absolute path, such as /var/lib/houston/workspaces")]
    Relative(PathBuf),
    /// It does not exist, or is no folder.
    #[error(
        "`{0}` is no folder that this process can open: {1}; make it, and give it to the user of this process"
    )]
    Missing(PathBuf, #[source] std::io::Error),
    /// It belongs to the system.
    #[error(
        "`{0}` is in a folder of the system: choose one of Houston's own, such as /var/lib/houston/workspaces"
    )]
    OfSystem(PathBuf),
    /// Others may write there.
    #[error("other users may write to `{0}`: chmod go-w it")]
    OpenToOthers(PathBuf),
    /// Nothing can be written.
    #[error("nothing can be written to `{0}`: {1}")]
    ReadOnly(PathBuf, #[source] std::io::Error),
    /// It has files of others.
    #[error("`{0}` has files that are not Houston's: choose an empty folder")]
    NotEmpty(PathBuf),
    /// The number of the folder cannot be read.
    #[error("`{0}`/houston-workspaces is damaged: it must have one number")]
    Damaged(PathBuf),
}
