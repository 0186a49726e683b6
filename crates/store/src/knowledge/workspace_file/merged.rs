//! What a workspace has: what its rows say, over what is in its folder.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use houston_domain::workspace::{FileVersion, WorkspacePath};
use houston_folder::{Found, Walk};

use super::FileEntry;

/// Where the text of a row is; see the migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In the row.
    Row,
    /// In the folder of another agentable.
    Moved,
    /// Nowhere: the file is deleted.
    Removed,
    /// In the folder.
    Folder,
}

impl Place {
    pub(super) fn of(stored: &str) -> Self {
        match stored {
            "folder" => Self::Folder,
            "moved" => Self::Moved,
            "removed" => Self::Removed,
            _ => Self::Row,
        }
    }
}

/// A row without its content.
#[derive(Debug, Clone)]
pub(super) struct FileRow {
    pub(super) place: Place,
    pub(super) bytes: u64,
    pub(super) version: FileVersion,
    pub(super) untrusted: bool,
    pub(super) created_at: DateTime<Utc>,
    pub(super) updated_at: DateTime<Utc>,
}

impl FileRow {
    fn entry(&self, path: String) -> FileEntry {
        let Self { bytes, version, untrusted, created_at, updated_at, .. } = *self;
        FileEntry { path, bytes, version, untrusted, created_at, updated_at }
    }

    /// Whether the folder has what Houston wrote there. What others wrote counts as written by strangers: Houston does not know
    /// what they had read.
    pub(super) fn is_of(&self, version: Option<FileVersion>) -> bool {
        self.place == Place::Folder && version == Some(self.version)
    }
}

/// The files, by path.
pub(super) fn merged(rows: &BTreeMap<String, FileRow>, walk: &Walk) -> BTreeMap<String, FileEntry> {
    let entry = |path: &String, found: &Found| {
        let row = rows.get(path).filter(|row| row.place == Place::Folder);
        let is_unchanged = row.is_some_and(|row| row.is_of(found.version));
        FileEntry {
            path: path.clone(),
            bytes: found.bytes,
            version: found.version.unwrap_or(FileVersion([0; 32])),
            untrusted: row.filter(|_| is_unchanged).is_none_or(|row| row.untrusted),
            created_at: row.map_or(found.modified, |row| row.created_at),
            updated_at: row.filter(|_| is_unchanged).map_or(found.modified, |row| row.updated_at),
        }
    };
    let mut files: BTreeMap<String, FileEntry> =
        walk.files.iter().map(|(path, found)| (path.clone(), entry(path, found))).collect();
    for (path, row) in rows {
        match row.place {
            Place::Row | Place::Moved => {
                files.insert(path.clone(), row.entry(path.clone()));
            }
            Place::Removed => {
                files.remove(path);
            }
            // What is not in the folder any more was deleted by others.
            Place::Folder => {}
        }
    }
    files
}

/// How many files there are and how many bytes they have, with those that tools cannot name.
pub(super) fn sums(rows: &BTreeMap<String, FileRow>, walk: &Walk) -> (u64, u64) {
    let (mut count, mut bytes) = (walk.count, walk.bytes);
    for (path, row) in rows.iter().filter(|(_, row)| row.place != Place::Folder) {
        if let Some(found) = walk.files.get(path) {
            count -= 1;
            bytes -= found.bytes;
        }
        if row.place != Place::Removed {
            count += 1;
            bytes += row.bytes;
        }
    }
    (count, bytes)
}

/// The file whose path is a folder of `path`, and whether files have `path` as a folder.
pub(super) fn around(path: &WorkspacePath, files: &BTreeMap<String, FileEntry>) -> (Option<String>, bool) {
    let above = path.folders().filter(|folder| files.contains_key(*folder)).last().map(str::to_owned);
    let folder = format!("{path}/");
    let inside = files.range(folder.clone()..).next().is_some_and(|(inner, _)| inner.starts_with(&folder));
    (above, inside)
}
