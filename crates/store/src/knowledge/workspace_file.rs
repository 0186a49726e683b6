//! Files of the workspaces of agentables. Runs write them in the transactions of their steps; requests read them.
//!
//! Without a folder, files are rows. With one (`Folders`), a row says first what is to be done in the folder, in the
//! transaction of the step, and it is done once that is committed (`folder`): by the process that has committed it, else by the
//! next one that changes files of the agentable, or by the sweep. Readers see the rows over the folder, so that they never see
//! less than what is committed; and what is done twice is the same.
//!
//! [`CommandFiles`]: the folder of an agentable's files, for a tool that runs commands there.

pub(crate) mod folder;

use std::path::PathBuf;

use houston_domain::id::{AgentableId, TenantId};
pub use houston_domain::workspace::{FileEntry, WorkspaceFile};
use houston_domain::workspace::{FileLimits, FileVersion, Present, WorkspacePath};
use houston_folder::Folder;
use sqlx::PgConnection;

use self::folder::Folders;
use crate::error::{Error, Result};
use crate::handle::{RunStore, Shared, TenantStore};
use crate::row_security::with_connection;
use crate::statement::Statement as _;

/// Decodes the stored SHA-256, which has 32 bytes.
fn version(sha256: &[u8]) -> FileVersion {
    FileVersion(sha256.try_into().unwrap_or_default())
}

fn length(bytes: i32) -> u64 {
    u64::try_from(bytes).unwrap_or(0)
}

/// The entry of a row.
macro_rules! entry {
    ($path:expr, $row:expr) => {
        FileEntry {
            path: $path,
            bytes: length($row.bytes),
            version: version(&$row.sha256),
            untrusted: $row.untrusted,
            created_at: $row.created_at.into(),
            updated_at: $row.updated_at.into(),
        }
    };
}
use entry;

/// The workspace of one agentable.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    tenant: TenantId,
    agentable: AgentableId,
    folders: Option<Folders>,
}

impl Shared {
    pub(crate) fn workspace(&self, tenant: TenantId, agentable: AgentableId) -> Workspace {
        Workspace { tenant, agentable, folders: self.folders.clone() }
    }
}

impl Workspace {
    /// Whether its files are in a folder.
    pub(crate) fn is_folder(&self) -> bool {
        self.folders.is_some()
    }

    /// A file; `None`: there is none with this path.
    pub(crate) async fn find(
        &self,
        connection: &mut PgConnection,
        path: &WorkspacePath,
    ) -> Result<Option<WorkspaceFile>> {
        let row = self.row_of(connection, path).await?;
        self.read(row, path).await
    }

    /// Files whose paths come after `after`, without their contents, in the order of their paths.
    pub(crate) async fn list(
        &self,
        connection: &mut PgConnection,
        after: &str,
        limit: i64,
    ) -> Result<Vec<FileEntry>> {
        if let Some(folders) = &self.folders {
            let rows = self.rows(connection).await?;
            return self.list_in(folders, rows, after, limit).await;
        }
        let entries = sqlx::query!(
            "-- store::workspace_file::list
            select path, bytes, sha256, untrusted, created_at, updated_at from houston.workspace_files
             where tenant_id = $1 and agentable_id = $2 and path > $3 order by path limit $4",
            self.tenant.0,
            self.agentable.0,
            after,
            limit
        )
        .map(|row| entry!(row.path, row));
        Ok(entries.fetch_all(connection).await?)
    }

    /// What decides whether the file at `path` may be changed.
    pub(crate) async fn present(
        &self,
        connection: &mut PgConnection,
        path: &WorkspacePath,
    ) -> Result<Present> {
        if let Some(folders) = &self.folders {
            return self.present_in(folders, connection, path).await;
        }
        let folders: Vec<&str> = path.folders().collect();
        let row = sqlx::query!(
            r#"-- store::workspace_file::present
            select count(*) as "files!", coalesce(sum(bytes), 0) as "bytes!",
                   decode(max(encode(sha256, 'hex')) filter (where path = $3), 'hex') as sha256, max(bytes) filter (where path = $3) as file_bytes,
                   max(path) filter (where path = any ($4)) as file_above,
                   coalesce(bool_or(starts_with(path, $3 || '/')), false) as "is_folder!"
              from houston.workspace_files where tenant_id = $1 and agentable_id = $2"#,
            self.tenant.0,
            self.agentable.0,
            path.as_str(),
            &folders as &[&str]
        )
        .fetch_one(connection)
        .await?;
        Ok(Present {
            file: row.sha256.zip(row.file_bytes).map(|(sha256, bytes)| (version(&sha256), length(bytes))),
            file_above: row.file_above,
            is_folder: row.is_folder,
            files: u64::try_from(row.files).unwrap_or(0),
            bytes: u64::try_from(row.bytes).unwrap_or(0),
        })
    }

    /// Creates a file, or replaces its content. The caller holds the lock of the agentable.
    pub(crate) async fn write(
        &self,
        connection: &mut PgConnection,
        path: &WorkspacePath,
        content: &str,
        untrusted: bool,
    ) -> Result<FileVersion> {
        let place = if self.is_folder() { "new" } else { "row" };
        let version = FileVersion::of(content);
        sqlx::query!(
            "-- store::workspace_file::write
            insert into houston.workspace_files as f (agentable_id, path, tenant_id, content, sha256, bytes, created_at,
                                                      updated_at, untrusted, place)
            values ($2, $3, $1, $4, $5, $6, clock_timestamp(), clock_timestamp(), $7, $8)
            on conflict (agentable_id, path) do update
               set content = excluded.content, sha256 = excluded.sha256, bytes = excluded.bytes,
                   updated_at = excluded.updated_at, untrusted = excluded.untrusted, place = excluded.place,
                   created_at = case when f.place = 'removed' then excluded.created_at else f.created_at end
             where f.tenant_id = $1",
            self.tenant.0,
            self.agentable.0,
            path.as_str(),
            content,
            &version.0[..],
            i32::try_from(content.len()).unwrap_or(i32::MAX),
            untrusted,
            place
        )
        .execute(connection)
        .await?;
        Ok(version)
    }

    /// Deletes a file, if it exists.
    pub(crate) async fn delete(&self, connection: &mut PgConnection, path: &WorkspacePath) -> Result<()> {
        if self.is_folder() {
            return self.delete_all_in(connection, &[path.as_str()]).await;
        }
        sqlx::query!(
            "-- store::workspace_file::delete
            delete from houston.workspace_files where tenant_id = $1 and agentable_id = $2 and path = $3",
            self.tenant.0,
            self.agentable.0,
            path.as_str()
        )
        .run(connection)
        .await
    }
}

impl TenantStore<'_> {
    /// Files of an agentable of the tenant without their contents, in the order of their paths, after `after` if given.
    ///
    /// # Errors
    /// [`Error::Folder`].
    pub async fn files(
        self,
        agentable: AgentableId,
        after: Option<String>,
        limit: i64,
    ) -> Result<Vec<FileEntry>> {
        let (workspace, after) = (self.workspace(self.tenant, agentable), after.unwrap_or_default());
        // A folder may be slow: no transaction waits for it.
        if let Some(folders) = &workspace.folders {
            let rows = with_connection!(self.pool, |c| workspace.rows(c));
            return workspace.list_in(folders, rows, &after, limit).await;
        }
        Ok(with_connection!(self.pool, |c| workspace.list(c, &after, limit)))
    }

    /// A file of an agentable of the tenant.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such file, [`Error::Database`] when Postgres cannot be reached or refuses
    /// the statement, [`Error::Folder`] when it cannot be read.
    pub async fn file(self, agentable: AgentableId, path: &WorkspacePath) -> Result<WorkspaceFile> {
        let workspace = self.workspace(self.tenant, agentable);
        let row = with_connection!(self.pool, |c| workspace.row_of(c, path));
        workspace.read(row, path).await?.ok_or(Error::NotFound { what: "file" })
    }
}

/// The folder of an agentable's files.
#[derive(Debug, Clone)]
pub struct CommandFiles {
    store: RunStore,
    folders: Folders,
    workspace: Workspace,
}

/// The folder as a command finds it.
#[derive(Debug)]
pub struct FilesForCommand {
    /// Its path.
    pub path: PathBuf,
    /// Whether it has a file that a session wrote which had read what strangers wrote, or that was not written by a tool.
    pub untrusted: bool,
}

impl RunStore {
    /// The folder of an agentable's files; `None`: they are rows.
    pub fn command_files(&self, tenant: TenantId, agentable: AgentableId) -> Option<CommandFiles> {
        let (folders, workspace) = (self.folders.clone()?, self.workspace(tenant, agentable));
        Some(CommandFiles { store: self.clone(), folders, workspace })
    }
}

impl CommandFiles {
    /// The folder, after everything was written to it that is to be there.
    ///
    /// # Errors
    /// [`Error::Folder`](crate::Error::Folder).
    pub async fn ready(&self) -> Result<FilesForCommand> {
        let Workspace { tenant, agentable, .. } = self.workspace;
        self.folders.settle(tenant, agentable).await?;
        let files = self.workspace.list(&mut *self.store.pool.acquire().await?, "", i64::MAX).await?;
        let ids = self.workspace.ids();
        let path = self.folders.root.run(move |root| root.make(ids.0, ids.1)?.path_of_files()).await?;
        Ok(FilesForCommand { path, untrusted: files.iter().any(|file| file.untrusted) })
    }

    /// How many files there are, and how many bytes they have.
    ///
    /// # Errors
    /// [`Error::Folder`](crate::Error::Folder), also when there is more than is looked at.
    pub async fn usage(&self) -> Result<(u64, u64)> {
        let walk = self.workspace.walk(&self.folders, Folder::walk).await?;
        Ok((walk.count, walk.bytes))
    }

    /// How much a workspace may hold.
    pub fn limits(&self) -> FileLimits {
        self.store.knowledge_limits.files
    }
}
