//! Files of a workspace that is a folder: its rows, over what is in the folder; and [`Folders`], which does in the folder what the
//! rows say.

use std::collections::BTreeMap;
use std::sync::Arc;

use houston_domain::id::{AgentableId, TenantId};
use houston_domain::workspace::{FileVersion, Present, WorkspacePath};
use houston_folder::{Error as FolderError, Folder, Found, Root, Walk};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{FileEntry, Workspace, WorkspaceFile, entry, length, version};
use crate::connections::Connections;
use crate::error::{Error, Result};
use crate::handle::RunStore;
use crate::statement::Statement as _;

/// Rows of one transaction: each has up to 1 MiB.
const ROWS: i64 = 16;
/// Agentables of one search.
const AGENTABLES: i64 = 100;
/// Ids of one question.
const IDS: usize = 1_000;

/// Does something with the folder of an agentable; `None`: it has none yet.
fn look<T>(
    root: &Root,
    (tenant, agentable): (Uuid, Uuid),
    what: impl FnOnce(&Folder) -> houston_folder::Result<T>,
) -> houston_folder::Result<Option<T>> {
    root.find(tenant, agentable)?.map(|folder| what(&folder)).transpose()
}

/// The path in a row, which a tool has checked.
pub(super) fn path_of(stored: &str) -> houston_folder::Result<WorkspacePath> {
    WorkspacePath::file(stored).map_err(|error| std::io::Error::other(error).into())
}

/// The agentable and the path that a moved file has been at.
fn moved_from(content: &str) -> Option<(Uuid, &str)> {
    let (agentable, path) = content.split_once('/')?;
    Some((agentable.parse().ok()?, path))
}

impl Workspace {
    pub(super) fn ids(&self) -> (Uuid, Uuid) {
        (self.tenant.0, self.agentable.0)
    }

    /// The file of a row ([`row_of`](Self::row_of)); without one, what is in the folder.
    pub(super) async fn read(
        &self,
        row: Option<(FileRow, String)>,
        path: &WorkspacePath,
    ) -> Result<Option<WorkspaceFile>> {
        let (row, content) = row.unzip();
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
        let Some(folders) = &self.folders else { return Ok(None) };
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
                created_at: row.map_or(found.modified.into(), |row| row.entry.created_at),
                updated_at: found.modified.into(),
            },
        }))
    }

    /// The row of a file, with its content.
    pub(super) async fn row_of(
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
        .map(|row| {
            let entry = entry!(path.to_string(), row);
            (FileRow { place: Place::of(&row.place), entry }, row.content)
        });
        Ok(row.fetch_optional(connection).await?)
    }

    /// The files of rows ([`rows`](Self::rows)).
    pub(super) async fn list_in(
        &self,
        folders: &Folders,
        rows: BTreeMap<String, FileRow>,
        after: &str,
        limit: i64,
    ) -> Result<Vec<FileEntry>> {
        let walk = self.walk(folders, Folder::walk_hashed).await?;
        let limit = usize::try_from(limit).unwrap_or(0);
        let files = merged(&rows, &walk).into_values().filter(|entry| entry.path.as_str() > after);
        Ok(files.take(limit).collect())
    }

    /// The contents of files, by path. Those that cannot be read are left out.
    pub(crate) async fn contents(
        &self,
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
        let Some(folders) = &self.folders else { return Ok(contents) };
        let tenant = self.tenant.0;
        let read_all = move |root: &Root| {
            let read = |(path, (agentable, at)): (String, (Uuid, String))| {
                let found = look(root, (tenant, agentable), |folder| folder.read(&path_of(&at)?));
                // What has become a link or no text meanwhile is left out like what has been deleted.
                Some((path, found.ok().flatten().flatten()?.text))
            };
            sources.into_iter().filter_map(read).collect::<Vec<_>>()
        };
        contents.extend(folders.root.run(read_all).await);
        Ok(contents)
    }

    pub(super) async fn present_in(
        &self,
        folders: &Folders,
        connection: &mut PgConnection,
        path: &WorkspacePath,
    ) -> Result<Present> {
        let rows = self.rows(connection).await?;
        let walk = self.walk(folders, Folder::walk).await?;
        let all = merged(&rows, &walk);
        let (file_above, is_folder) = around(path, &all);
        let removes = rows.values().any(|row| row.place == Place::Removed);
        // What cannot be named is in the way, too; what will be deleted is not.
        let may_be_blocked = !removes && !is_folder && file_above.is_none();
        let file = match rows.get(path.as_str()) {
            Some(row) if row.place == Place::Removed => None,
            Some(row) if row.place != Place::Folder => Some((row.entry.version, row.entry.bytes)),
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

    /// The rows. What is in the folder is read after them: what is written there meanwhile is in the rows.
    pub(super) async fn rows(&self, connection: &mut PgConnection) -> Result<BTreeMap<String, FileRow>> {
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
            let entry = entry!(row.path.clone(), row);
            (row.path, FileRow { place: Place::of(&row.place), entry })
        });
        Ok(rows.collect())
    }

    /// What is in the folder.
    pub(super) async fn walk(
        &self,
        folders: &Folders,
        walk: impl FnOnce(&Folder) -> houston_folder::Result<Walk> + Send + 'static,
    ) -> Result<Walk> {
        let ids = self.ids();
        Ok(folders.root.run(move |root| look(root, ids, walk)).await?.unwrap_or_default())
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
        .run(connection)
        .await
    }

    /// Deletes all files: at once if they are rows, else they are marked. Returns how many there were.
    pub(crate) async fn clear_folder(&self, connection: &mut PgConnection) -> Result<Option<u64>> {
        let Some(folders) = &self.folders else { return Ok(None) };
        let rows = self.rows(&mut *connection).await?;
        let walk = self.walk(folders, Folder::walk).await?;
        let files = merged(&rows, &walk);
        let paths: Vec<&str> = files.keys().map(String::as_str).collect();
        self.delete_all_in(connection, &paths).await?;
        Ok(Some(u64::try_from(paths.len()).unwrap_or(u64::MAX)))
    }
}

fn file(path: &WorkspacePath, content: String, row: &FileRow) -> WorkspaceFile {
    let FileEntry { version, untrusted, created_at, updated_at, .. } = row.entry;
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
pub(super) struct FileRow {
    place: Place,
    entry: FileEntry,
}

impl FileRow {
    /// Whether the folder has what Houston wrote there. What others wrote counts as written by strangers: Houston does not know
    /// what they had read.
    fn is_of(&self, version: Option<FileVersion>) -> bool {
        self.place == Place::Folder && version == Some(self.entry.version)
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
            untrusted: row.filter(|_| is_unchanged).is_none_or(|row| row.entry.untrusted),
            created_at: row.map_or(found.modified.into(), |row| row.entry.created_at),
            updated_at: row
                .filter(|_| is_unchanged)
                .map_or(found.modified.into(), |row| row.entry.updated_at),
        }
    };
    let mut files: BTreeMap<String, FileEntry> =
        walk.files.iter().map(|(path, found)| (path.clone(), entry(path, found))).collect();
    for (path, row) in rows {
        match row.place {
            Place::Row | Place::Moved => {
                files.insert(path.clone(), row.entry.clone());
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
            bytes += row.entry.bytes;
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

/// The folder of workspaces, and the database that says what is to be in it.
#[derive(Debug, Clone)]
pub(crate) struct Folders {
    pub(super) root: Arc<Root>,
    pool: Connections,
}

/// What a row asks for.
struct Task {
    path: String,
    place: Place,
    content: String,
}

impl Folders {
    pub(crate) fn new(root: Arc<Root>, pool: &Connections) -> Self {
        Self { root, pool: pool.clone() }
    }

    pub(crate) fn with_connections(&self, pool: &Connections) -> Self {
        Self::new(Arc::clone(&self.root), pool)
    }

    /// Does what the rows of an agentable say. What cannot be done now is done later: readers see the rows.
    pub(crate) async fn settle_soon(&self, tenant: TenantId, agentable: AgentableId) {
        if let Err(error) = self.settle(tenant, agentable).await {
            tracing::warn!(%error, %agentable, "files are not written to the folder yet");
        }
    }

    /// As [`Self::settle_soon`].
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::Folder`] for the first thing that could not be done; the others are done.
    pub(crate) async fn settle(&self, tenant: TenantId, agentable: AgentableId) -> Result<()> {
        while self.settle_some(tenant, agentable).await? {}
        Ok(())
    }

    /// Returns whether there may be more.
    async fn settle_some(&self, tenant: TenantId, agentable: AgentableId) -> Result<bool> {
        let mut tx = self.pool.begin().await?;
        // Deletions first: a file may take the place of a folder. Other processes wait for the rows.
        let rows = sqlx::query!(
            "-- store::workspace_file::settle::take
            select path, place, content from houston.workspace_files
             where tenant_id = $1 and agentable_id = $2 and place <> 'folder'
             order by place <> 'removed', path limit $3 for update",
            tenant.0,
            agentable.0,
            ROWS
        )
        .fetch_all(&mut *tx)
        .await?;
        if rows.is_empty() {
            return Ok(false);
        }
        let is_last = i64::try_from(rows.len()).unwrap_or(i64::MAX) < ROWS;
        let tasks: Vec<Task> = rows
            .into_iter()
            .map(|row| Task { path: row.path, place: Place::of(&row.place), content: row.content })
            .collect();
        let ids = (tenant.0, agentable.0);
        let (done, removed, failed) = self.root.run(move |root| carry_out_all(root, ids, tasks)).await?;
        sqlx::query!(
            "-- store::workspace_file::settle::written
            update houston.workspace_files set place = 'folder', content = ''
             where tenant_id = $1 and agentable_id = $2 and path = any ($3)",
            tenant.0,
            agentable.0,
            &done
        )
        .execute(&mut *tx)
        .await?;
        sqlx::query!(
            "-- store::workspace_file::settle::removed
            delete from houston.workspace_files where tenant_id = $1 and agentable_id = $2 and path = any ($3)",
            tenant.0,
            agentable.0,
            &removed
        )
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(!is_last),
        }
    }

    /// Removes the folders of agentables that are being deleted, once others have the files that were handed over to them.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::Folder`].
    pub(crate) async fn remove(&self, folders: Vec<(Uuid, Uuid)>) -> Result<usize> {
        let ids: Vec<String> = folders.iter().map(|(_, agentable)| agentable.to_string()).collect();
        let tenants: Vec<Uuid> = folders.iter().map(|(tenant, _)| *tenant).collect();
        let heirs = sqlx::query!(
            "-- store::workspace_file::settle::heirs
            select distinct tenant_id, agentable_id from houston.workspace_files
             where tenant_id = any ($1) and place = 'moved' and split_part(content, '/', 1) = any ($2)",
            &tenants,
            &ids
        )
        .fetch_all(&self.pool)
        .await?;
        for heir in heirs {
            self.settle(TenantId(heir.tenant_id), AgentableId(heir.agentable_id)).await?;
        }
        let remove = move |root: &Root| {
            let removed = folders.into_iter().map(|(tenant, agentable)| root.remove(tenant, agentable));
            removed.map(|removed| removed.map(usize::from)).sum::<Result<usize, FolderError>>()
        };
        Ok(self.root.run(remove).await?)
    }

    /// As [`Self::remove`] for agentables of one tenant or several, whose folders are looked for. What cannot be removed now is
    /// by [`RunStore::tidy_folders`].
    pub(crate) async fn remove_soon(&self, agentables: &[Uuid]) {
        let wanted: Vec<Uuid> = agentables.to_vec();
        let found = self.root.run(|root| root.agentables()).await;
        let removed = match found {
            Ok(found) => self.remove(found.into_iter().filter(|(_, id)| wanted.contains(id)).collect()).await,
            Err(error) => Err(error.into()),
        };
        if let Err(error) = removed {
            tracing::warn!(%error, "folders of deleted agentables are not removed yet");
        }
    }
}

/// Paths that were written, paths that were deleted, and the first error.
type Done = (Vec<String>, Vec<String>, Option<FolderError>);

fn carry_out_all(root: &Root, ids: (Uuid, Uuid), tasks: Vec<Task>) -> Result<Done, FolderError> {
    let folder = root.make(ids.0, ids.1)?;
    let (mut done, mut removed, mut failed) = (Vec::new(), Vec::new(), None);
    for task in tasks {
        match carry_out(root, ids.0, &folder, &task) {
            Ok(()) if task.place == Place::Removed => removed.push(task.path),
            Ok(()) => done.push(task.path),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    Ok((done, removed, failed))
}

/// Done again after a crash, it does the same.
fn carry_out(root: &Root, tenant: Uuid, folder: &Folder, task: &Task) -> Result<(), FolderError> {
    let path = path_of(&task.path)?;
    match task.place {
        Place::Folder => Ok(()),
        Place::Row => folder.lock()?.write(&path, &task.content),
        // What is no file is not Houston's to delete, and is not in the way of anything.
        Place::Removed => match folder.lock()?.delete(&path) {
            Err(FolderError::Obstacle(_)) => Ok(()),
            deleted => deleted,
        },
        Place::Moved => {
            let Some((agentable, from)) = moved_from(&task.content) else { return Ok(()) };
            let from = path_of(from)?;
            // The other folder may be gone: then so is the file.
            let Some(found) = look(root, (tenant, agentable), |other| other.read(&from))?.flatten() else {
                return Ok(());
            };
            folder.lock()?.write(&path, &found.text)?;
            look(root, (tenant, agentable), |other| other.lock()?.delete(&from)).map(|_| ())
        }
    }
}

impl RunStore {
    /// Does what is left to be done in the folder: what rows say, and removing the folders of agentables that no longer exist.
    /// Repeating it changes nothing. Returns the number of removed folders.
    ///
    /// # Errors
    /// [`Error::Folder`].
    pub async fn tidy_folders(&self) -> Result<usize> {
        let Some(folders) = &self.folders else { return Ok(0) };
        let waiting = sqlx::query!(
            "-- store::workspace_file::settle::waiting
            select distinct tenant_id, agentable_id from houston.workspace_files
             where place in ('new', 'moved', 'removed') limit $1",
            AGENTABLES
        )
        .fetch_all(&self.pool)
        .await?;
        for row in waiting {
            folders.settle_soon(TenantId(row.tenant_id), AgentableId(row.agentable_id)).await;
        }
        let found = folders.root.run(|root| root.finish_removing().and_then(|()| root.agentables())).await?;
        let mut removed = 0;
        for found in found.chunks(IDS) {
            let ids: Vec<Uuid> = found.iter().map(|(_, agentable)| *agentable).collect();
            let gone = self.gone(&ids).await?;
            let gone = found.iter().copied().filter(|(_, agentable)| gone.contains(agentable)).collect();
            removed += folders.remove(gone).await?;
        }
        Ok(removed)
    }

    /// Which of these agentables no cell has. None of them is new: a folder is made after the row.
    async fn gone(&self, ids: &[Uuid]) -> Result<Vec<Uuid>> {
        let mut gone = ids.to_vec();
        for pool in std::iter::once(&self.pool).chain(self.other_cells.iter()) {
            let there = sqlx::query_scalar!(
                "-- store::workspace_file::settle::there
                select id from houston.agentables where id = any ($1)",
                &gone
            )
            .fetch_all(pool)
            .await?;
            gone.retain(|id| !there.contains(id));
        }
        Ok(gone)
    }
}

impl crate::Store {
    /// Checks that the database belongs to the folder of this process: that its files are there, or that it has none in a
    /// folder if none is set. The first process with a folder decides. `is_ours`: whether the folder belongs to another cell
    /// of the same installation; a folder with files of an unknown database is refused, since folders without an agentable are
    /// deleted.
    ///
    /// # Errors
    /// [`Error::OtherFolder`] says what to do.
    pub async fn check_folder(&self, is_ours: bool) -> Result<()> {
        let found = sqlx::query!(
            r#"-- store::workspace_file::settle::check
            select exists (select from houston.workspace_files where place <> 'row') as "has_files!",
                   (select value from houston.settings where name = 'workspaces.folder') as number"#
        )
        .fetch_one(&self.pool)
        .await?;
        let Some(folders) = &self.folders else {
            if !found.has_files {
                return Ok(());
            }
            return Err(Error::OtherFolder(
                "files of workspaces are in a folder, but none is set: set `root` in workspaces.toml as before"
                    .to_owned(),
            ));
        };
        let (number, path) = (folders.root.number, folders.root.path.display());
        let is_other = found.number != Some(number);
        if is_other && found.has_files {
            return Err(Error::OtherFolder(format!(
                "the files of workspaces are in another folder than {path}: set `root` in workspaces.toml to the former one, \
                 or mount it there; all processes must use the same folder"
            )));
        }
        let is_used = is_other && !is_ours && !folders.root.run(|root| root.agentables()).await?.is_empty();
        if is_used {
            return Err(Error::OtherFolder(format!(
                "{path} has the workspaces of another installation: choose an empty folder for `root` in workspaces.toml"
            )));
        }
        sqlx::query!(
            "-- store::workspace_file::settle::number
            insert into houston.settings as s (name, value) values ('workspaces.folder', $1)
            on conflict (name) do update set value = excluded.value where s.value <> excluded.value",
            number
        )
        .run(&self.pool)
        .await
    }
}
