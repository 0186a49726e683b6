//! Files of a workspace that is a folder: its rows, over what is in the folder.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use houston_domain::workspace::{FileVersion, Present, WorkspacePath};
use houston_folder::{Folder, Found, Root, Walk};
use sqlx::PgConnection;
use uuid::Uuid;

use super::settle::Folders;
use super::{FileEntry, Workspace, WorkspaceFile, length, version};
use crate::error::Result;

/// Does something with the folder of an agentable; `None`: it has none yet.
pub(super) fn look<T>(
    root: &Root,
    (tenant, agentable): (Uuid, Uuid),
    what: impl FnOnce(&Folder) -> houston_folder::Result<T>,
) -> houston_folder::Result<Option<T>> {
    root.find(tenant, agentable)?.map(|folder| what(&folder)).transpose()
}

/// The path in a row, which a tool has checked.
pub(super) fn path_of(stored: &str) -> houston_folder::Result<WorkspacePath> {
    WorkspacePath::file(stored).map_err(|error| std::io::Error::other(error.to_string()).into())
}

/// The agentable and the path that a moved file has been at.
pub(super) fn moved_from(content: &str) -> Option<(Uuid, &str)> {
    let (agentable, path) = content.split_once('/')?;
    Some((agentable.parse().ok()?, path))
}

impl Workspace {
    pub(super) fn ids(&self) -> (Uuid, Uuid) {
        (self.tenant.0, self.agentable.0)
    }

    pub(super) async fn find_in(
        &self,
        folders: &Folders,
        connection: &mut PgConnection,
        path: &WorkspacePath,
    ) -> Result<Option<WorkspaceFile>> {
        let (row, content) = self.row_of(connection, path).await?.unzip();
        let content = content.unwrap_or_default();
        let (agentable, at) = match row.as_ref().map(|row| row.place) {
            Some(Place::Removed) => return Ok(None),
            Some(Place::Row) => return Ok(row.map(|row| file(path, content, &row))),
            Some(Place::Moved) => {
                let Some((agentable, from)) = moved_from(&content) else { return Ok(None) };
                (agentable, path_of(from)?)
            }
            Some(Place::Folder) | None => (self.agentable.0, path.clone()),
        };
        let ids = (self.tenant.0, agentable);
        let read = move |root: &Root| look(root, ids, |folder| folder.read(&at));
        let Some(found) = folders.root.run(read).await?.flatten() else { return Ok(None) };
        let version = FileVersion::of(&found.text);
        Ok(Some(match row {
            Some(row) if row.place == Place::Moved || row.is_of(Some(version)) => {
                file(path, found.text, &row)
            }
            row => WorkspaceFile {
                path: path.to_string(),
                content: found.text,
                version,
                untrusted: true,
                created_at: row.map_or(found.modified, |row| row.created_at),
                updated_at: found.modified,
            },
        }))
    }

    /// The row of a file, with its content.
    async fn row_of(
        &self,
        connection: &mut PgConnection,
        path: &WorkspacePath,
    ) -> Result<Option<(FileRow, String)>> {
        let row = sqlx::query!(
            "-- store::workspace_file::folder::find
            select place, content, bytes, sha256, untrusted, created_at, updated_at from houston.workspace_files
             where tenant_id = $1 and agentable_id = $2 and path = $3",
            self.tenant.0,
            self.agentable.0,
            path.as_str()
        )
        .fetch_optional(connection)
        .await?;
        Ok(row.map(|row| {
            let (place, version) = (Place::of(&row.place), version(&row.sha256));
            let (untrusted, bytes) = (row.untrusted, length(row.bytes));
            let (created_at, updated_at) = (row.created_at, row.updated_at);
            (FileRow { place, bytes, version, untrusted, created_at, updated_at }, row.content)
        }))
    }

    pub(super) async fn list_in(
        &self,
        folders: &Folders,
        connection: &mut PgConnection,
        after: &str,
        limit: i64,
    ) -> Result<Vec<FileEntry>> {
        let (rows, walk) = self.rows_and_walk(folders, connection, Folder::walk_hashed).await?;
        let limit = usize::try_from(limit).unwrap_or(0);
        let files = merged(&rows, &walk).into_values().filter(|entry| entry.path.as_str() > after);
        Ok(files.take(limit).collect())
    }

    pub(super) async fn contents_in(
        &self,
        folders: &Folders,
        connection: &mut PgConnection,
        paths: &[&str],
    ) -> Result<BTreeMap<String, String>> {
        let rows = sqlx::query!(
            "-- store::workspace_file::folder::contents
            select path, place, content from houston.workspace_files
             where tenant_id = $1 and agentable_id = $2 and path = any ($3) and place <> 'folder'",
            self.tenant.0,
            self.agentable.0,
            paths as &[&str]
        )
        .fetch_all(connection)
        .await?;
        let mut contents = BTreeMap::new();
        // Where each text is that is in a folder.
        let mut sources: BTreeMap<String, (Uuid, String)> =
            paths.iter().map(|path| ((*path).to_owned(), (self.agentable.0, (*path).to_owned()))).collect();
        for row in rows {
            sources.remove(&row.path);
            match (Place::of(&row.place), moved_from(&row.content)) {
                (Place::Row, _) => {
                    contents.insert(row.path, row.content);
                }
                (Place::Moved, Some((agentable, path))) => {
                    sources.insert(row.path, (agentable, path.to_owned()));
                }
                _ => {}
            }
        }
        let tenant = self.tenant.0;
        let read = move |root: &Root| {
            let read = |(path, (agentable, at)): (String, (Uuid, String))| {
                let read = look(root, (tenant, agentable), |folder| folder.read(&path_of(&at)?));
                // What has become a link or no text meanwhile is left out like what has been deleted.
                Some((path, read.ok().flatten().flatten()?.text))
            };
            sources.into_iter().filter_map(read).collect::<Vec<_>>()
        };
        contents.extend(folders.root.run(read).await);
        Ok(contents)
    }

    pub(super) async fn present_in(
        &self,
        folders: &Folders,
        connection: &mut PgConnection,
        path: &WorkspacePath,
    ) -> Result<Present> {
        let (rows, walk) = self.rows_and_walk(folders, connection, Folder::walk).await?;
        let all = merged(&rows, &walk);
        let (file_above, is_folder) = around(path, &all);
        let removes = rows.values().any(|row| row.place == Place::Removed);
        // What cannot be named is in the way, too; what will be deleted is not.
        let may_be_blocked = !removes && !is_folder && file_above.is_none();
        let file = match rows.get(path.as_str()) {
            Some(row) if row.place == Place::Removed => None,
            Some(row) if row.place != Place::Folder => Some((row.version, row.bytes)),
            _ => {
                let (ids, path) = (self.ids(), path.clone());
                let version = move |root: &Root| {
                    look(root, ids, |folder| {
                        let version = folder.version(&path)?;
                        if version.is_none() && may_be_blocked {
                            folder.check_free(&path)?;
                        }
                        Ok(version)
                    })
                };
                folders.root.run(version).await?.flatten()
            }
        };
        let (files, bytes) = sums(&rows, &walk);
        Ok(Present { file, file_above, is_folder, files, bytes })
    }

    /// The rows, and after them what is in the folder: what is written there meanwhile is in the rows.
    async fn rows_and_walk(
        &self,
        folders: &Folders,
        connection: &mut PgConnection,
        walk: impl FnOnce(&Folder) -> houston_folder::Result<Walk> + Send + 'static,
    ) -> Result<(BTreeMap<String, FileRow>, Walk)> {
        let rows = sqlx::query!(
            "-- store::workspace_file::folder::rows
            select path, place, bytes, sha256, untrusted, created_at, updated_at from houston.workspace_files
             where tenant_id = $1 and agentable_id = $2",
            self.tenant.0,
            self.agentable.0
        )
        .fetch_all(connection)
        .await?;
        let rows = rows.into_iter().map(|row| {
            let (place, version) = (Place::of(&row.place), version(&row.sha256));
            let (untrusted, bytes) = (row.untrusted, length(row.bytes));
            let (created_at, updated_at) = (row.created_at, row.updated_at);
            (row.path, FileRow { place, bytes, version, untrusted, created_at, updated_at })
        });
        let rows = rows.collect();
        let ids = self.ids();
        let walk = folders.root.run(move |root| look(root, ids, walk)).await?;
        Ok((rows, walk.unwrap_or_default()))
    }

    /// Marks files as to be deleted from the folder.
    pub(super) async fn delete_all_in(&self, connection: &mut PgConnection, paths: &[&str]) -> Result<()> {
        sqlx::query!(
            "-- store::workspace_file::folder::delete_all
            insert into houston.workspace_files as f (agentable_id, path, tenant_id, content, sha256, bytes, created_at,
                                                      updated_at, place)
            select $2, p.path, $1, '', '', 0, clock_timestamp(), clock_timestamp(), 'removed'
              from unnest($3::text[]) as p (path)
            on conflict (agentable_id, path) do update
               set content = '', sha256 = '', bytes = 0, updated_at = excluded.updated_at, place = 'removed'
             where f.tenant_id = $1",
            self.tenant.0,
            self.agentable.0,
            paths as &[&str]
        )
        .execute(connection)
        .await?;
        Ok(())
    }

    /// Deletes all files: at once if they are rows, else they are marked. Returns how many there were.
    pub(crate) async fn clear_folder(&self, connection: &mut PgConnection) -> Result<Option<u64>> {
        let Some(folders) = &self.folders else { return Ok(None) };
        let (rows, walk) = self.rows_and_walk(folders, &mut *connection, Folder::walk).await?;
        let files = merged(&rows, &walk);
        let paths: Vec<&str> = files.keys().map(String::as_str).collect();
        self.delete_all_in(connection, &paths).await?;
        Ok(Some(u64::try_from(paths.len()).unwrap_or(u64::MAX)))
    }
}

fn file(path: &WorkspacePath, content: String, row: &FileRow) -> WorkspaceFile {
    let FileRow { version, untrusted, created_at, updated_at, .. } = *row;
    WorkspaceFile { path: path.to_string(), content, version, untrusted, created_at, updated_at }
}

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
struct FileRow {
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
fn merged(rows: &BTreeMap<String, FileRow>, walk: &Walk) -> BTreeMap<String, FileEntry> {
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
fn sums(rows: &BTreeMap<String, FileRow>, walk: &Walk) -> (u64, u64) {
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
fn around(path: &WorkspacePath, files: &BTreeMap<String, FileEntry>) -> (Option<String>, bool) {
    let above = path.folders().filter(|folder| files.contains_key(*folder)).last().map(str::to_owned);
    let folder = format!("{path}/");
    let inside = files.range(folder.clone()..).next().is_some_and(|(inner, _)| inner.starts_with(&folder));
    (above, inside)
}
