//! Reading files: each name below the handle of its folder, and no link.

use std::io::{ErrorKind, Read as _};

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::fs::{Dir, File, Metadata, MetadataExt as _, OpenOptions};
use chrono::{DateTime, Utc};
use houston_domain::ensure;
use houston_domain::workspace::{FileVersion, MAX_FILE_BYTES, WorkspacePath};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Obstacle, Result};
use crate::root::Folder;

/// The text of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Its text.
    pub text: String,
    /// When it was last changed.
    pub modified: DateTime<Utc>,
}

impl Folder {
    /// The text of a file; `None`: there is no file with this path.
    ///
    /// # Errors
    /// [`Error::Obstacle`] for what is there but no text that can be read, [`Error::Io`].
    pub fn read(&self, path: &WorkspacePath) -> Result<Option<Content>> {
        let Some((file, about)) = self.open(path)? else { return Ok(None) };
        let too_long = |bytes| Obstacle::TooLong { path: path.to_string(), bytes };
        let most = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX);
        ensure!(about.len() <= most, too_long(about.len()).into());
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes)?;
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        ensure!(length <= most, too_long(length).into());
        let not_text = || Obstacle::NotText { path: path.to_string(), bytes: length };
        let text = String::from_utf8(bytes).map_err(|_| not_text())?;
        // A row cannot hold it, and no tool writes it.
        ensure!(!text.contains('\0'), not_text().into());
        Ok(Some(Content { text, modified: modified(&about) }))
    }

    /// The version and the length of a file, which need not be a text; `None`: there is no file with this path.
    ///
    /// # Errors
    /// [`Error::Obstacle`] for what is no file, [`Error::Io`].
    pub fn version(&self, path: &WorkspacePath) -> Result<Option<(FileVersion, u64)>> {
        let Some((file, _)) = self.open(path)? else { return Ok(None) };
        Ok(Some(hashed(file)?))
    }

    /// Opens a file to read it.
    fn open(&self, path: &WorkspacePath) -> Result<Option<(File, Metadata)>> {
        let mut dir = self.files.try_clone()?;
        for folder in path.folders() {
            match enter(&dir, folder)? {
                Entered::Folder(inner) => dir = inner,
                Entered::Missing | Entered::File => return Ok(None),
            }
        }
        open_file(&dir, path.as_str())
    }
}

/// What is at the last name of a path.
pub(crate) enum Entered {
    Missing,
    File,
    Folder(Dir),
}

/// The last name of a path.
pub(crate) fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Opens the folder with the last name of `path` in `dir`. Others may change what it is between the two calls: then it is
/// refused.
pub(crate) fn enter(dir: &Dir, path: &str) -> Result<Entered> {
    let about = match dir.symlink_metadata(name(path)) {
        Ok(about) => about,
        Err(error) => return missing(error, path).map(|()| Entered::Missing),
    };
    if about.is_file() {
        return Ok(Entered::File);
    }
    check_kind(&about, path)?;
    match dir.open_dir_nofollow(name(path)) {
        Ok(inner) => Ok(Entered::Folder(inner)),
        Err(error) => changed(error, path).map(|()| Entered::Missing),
    }
}

/// Opens the file with the last name of `path` in `dir`.
pub(crate) fn open_file(dir: &Dir, path: &str) -> Result<Option<(File, Metadata)>> {
    let about = match dir.symlink_metadata(name(path)) {
        Ok(about) if about.is_dir() => return Ok(None),
        Ok(about) => about,
        Err(error) => return missing(error, path).map(|()| None),
    };
    check_kind(&about, path)?;
    let mut options = OpenOptions::new();
    // What has become a pipe since does not block, and what has become a link is not followed.
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    let file = match dir.open_with(name(path), &options) {
        Ok(file) => file,
        Err(error) => return changed(error, path).map(|()| None),
    };
    let about = file.metadata()?;
    check_kind(&about, path)?;
    if about.is_dir() {
        return Ok(None);
    }
    ensure!(about.nlink() <= 1, Obstacle::HardLink { path: path.to_owned() }.into());
    Ok(Some((file, about)))
}

/// Refuses what is neither a file nor a folder.
pub(crate) fn check_kind(about: &Metadata, path: &str) -> Result<()> {
    let path = || path.to_owned();
    ensure!(!about.is_symlink(), Obstacle::Link { path: path() }.into());
    if about.is_file() || about.is_dir() { Ok(()) } else { Err(Obstacle::Special { path: path() }.into()) }
}

/// The error of asking what there is: nothing for nothing.
fn missing(error: std::io::Error, path: &str) -> Result<()> {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(()),
        ErrorKind::PermissionDenied => Err(Obstacle::Denied { path: path.to_owned() }.into()),
        _ => Err(error.into()),
    }
}

/// The error of opening what was a file or a folder a moment ago.
fn changed(error: std::io::Error, path: &str) -> Result<()> {
    let is_link =
        error.kind() == ErrorKind::NotADirectory || Errno::from_io_error(&error) == Some(Errno::LOOP);
    if is_link { Err(Obstacle::Link { path: path.to_owned() }.into()) } else { missing(error, path) }
}

/// When a file was last changed.
pub(crate) fn modified(about: &Metadata) -> DateTime<Utc> {
    about.modified().map_or(DateTime::UNIX_EPOCH, |at| at.into_std().into())
}

/// The version of a file and its length.
pub(crate) fn hashed(mut file: File) -> Result<(FileVersion, u64)> {
    let (mut hash, mut length, mut part) = (Sha256::new(), 0, vec![0; 64 << 10]);
    loop {
        let count = file.read(&mut part).map_err(Error::Io)?;
        if count == 0 {
            return Ok((FileVersion(hash.finalize().into()), length));
        }
        hash.update(&part[..count]);
        length += u64::try_from(count).unwrap_or(u64::MAX);
    }
}
