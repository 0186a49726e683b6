//! What there is in a folder.

use std::collections::BTreeMap;

use cap_fs_ext::DirExt as _;
use cap_std::fs::Dir;
use chrono::{DateTime, Utc};
use houston_domain::ensure;
use houston_domain::workspace::{FileVersion, WorkspacePath};

use crate::error::{Error, Result};
use crate::read::modified;
use crate::root::Folder;

/// Files and folders that are looked at.
pub const MAX_SEEN: usize = 50_000;
/// Levels of folders that are looked at: twice as many as paths may have.
pub const MAX_LEVELS: usize = 32;
/// Bytes of files that one call hashes: four times as many as a workspace may have by default.
pub const MAX_HASHED: u64 = 64 << 20;

/// What there is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walk {
    /// The files that tools can name, by path.
    pub files: BTreeMap<String, Found>,
    /// All files, also those that tools cannot name.
    pub count: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Links, pipes, sockets, devices, and folders that cannot be listed.
    pub others: u64,
    /// Files and folders that were looked at.
    seen: usize,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its length in bytes.
    pub bytes: u64,
    /// When it was last changed.
    pub modified: DateTime<Utc>,
    /// Its version; `None`: it was not hashed.
    pub version: Option<FileVersion>,
}

impl Folder {
    /// What there is, without what is in the files.
    ///
    /// # Errors
    /// [`Error::TooMany`], [`Error::Io`].
    pub fn walk(&self) -> Result<Walk> {
        let mut walk = Walk::default();
        walk.add(&self.files, "", 1)?;
        Ok(walk)
    }

    /// What there is, with the versions of files, as long as they have at most [`MAX_HASHED`] bytes together.
    pub fn walk_hashed(&self) -> Result<Walk> {
        let mut walk = self.walk()?;
        let mut left = MAX_HASHED;
        for (path, found) in &mut walk.files {
            let Some(rest) = left.checked_sub(found.bytes) else { continue };
            let Ok(path) = WorkspacePath::file(path) else { continue };
            left = rest;
            // What cannot be read has no version.
            found.version = self.version(&path).ok().flatten().map(|(version, _)| version);
        }
        Ok(walk)
    }
}

impl Walk {
    /// Adds what is in `dir`, whose path is `prefix` with a `/` at its end.
    fn add(&mut self, dir: &Dir, prefix: &str, level: usize) -> Result<()> {
        ensure!(level <= MAX_LEVELS, Error::TooMany);
        for entry in dir.entries()? {
            let entry = entry?;
            self.seen += 1;
            ensure!(self.seen <= MAX_SEEN, Error::TooMany);
            // Removed meanwhile.
            let Ok(about) = entry.metadata() else { continue };
            let name = entry.file_name();
            // No path contains U+0000: what is in a folder whose name is no text has no path, and counts all the same.
            let path = format!("{prefix}{}", name.to_str().unwrap_or("\0"));
            if about.is_dir() {
                match dir.open_dir_nofollow(&name) {
                    Ok(inner) => self.add(&inner, &format!("{path}/"), level + 1)?,
                    // It has become something else, or must not be listed.
                    Err(_) => self.others += 1,
                }
            } else if about.is_file() {
                self.count += 1;
                self.bytes = self.bytes.saturating_add(about.len());
                if WorkspacePath::file(&path).is_ok_and(|normal| normal.as_str() == path) {
                    let found = Found { bytes: about.len(), modified: modified(&about), version: None };
                    self.files.insert(path, found);
                }
            } else {
                self.others += 1;
            }
        }
        Ok(())
    }
}

/// Whether nothing is in a folder but folders with nothing in them.
pub(crate) fn is_hollow(dir: &Dir, level: usize) -> Result<bool> {
    for entry in dir.entries()? {
        let entry = entry?;
        let is_folder = level < MAX_LEVELS && entry.metadata()?.is_dir();
        if !is_folder || !is_hollow(&dir.open_dir_nofollow(entry.file_name())?, level + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}
