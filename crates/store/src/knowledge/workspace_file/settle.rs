//! [`Folders`]: does in the folder of an agentable what its rows say.

use std::sync::Arc;

use houston_domain::id::{AgentableId, TenantId};
use houston_folder::{Error as FolderError, Folder, Root};
use uuid::Uuid;

use super::folder::{Place, look, moved_from, path_of};
use crate::connections::Connections;
use crate::error::{Error, Result};
use crate::handle::RunStore;

/// Rows of one transaction: each has up to 1 MiB.
const ROWS: i64 = 16;
/// Agentables of one search.
const AGENTABLES: i64 = 100;
/// Ids of one question.
const IDS: usize = 1_000;

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
}

impl Folders {
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
    /// [`Error::Database`] when Postgres cannot be reached or refuses a statement, [`Error::Folder`].
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
    /// [`Error::OtherFolder`] says what to do, [`Error::Database`] when Postgres cannot be reached or refuses a statement.
    pub async fn check_folder(&self, is_ours: bool) -> Result<()> {
        let found = sqlx::query!(
            r#"-- store::workspace_file::settle::check
            select exists (select from houston.workspace_files where place <> 'row') as "has_files!",
                   (select value from houston.settings where name = 'workspaces.folder') as number"#
        )
        .fetch_one(&self.pool)
        .await?;
        let Some(folders) = &self.folders else {
            return match found.has_files {
                false => Ok(()),
                true => Err(Error::OtherFolder(
                    "files of workspaces are in a folder, but none is set: set `root` in workspaces.toml as before"
                        .to_owned(),
                )),
            };
        };
        let (number, path) = (folders.root.number(), folders.root.path().display());
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
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}
