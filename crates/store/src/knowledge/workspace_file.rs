//! Files of the workspaces of agentables. Runs write them in the transactions of their steps; requests read them.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentableId, TenantId};
use houston_domain::workspace::{FileVersion, Present, WorkspacePath};
use sqlx::PgConnection;

use crate::error::{Error, Result};
use crate::handle::TenantStore;

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceFile {
    /// Its path below the workspace.
    pub path: String,
    /// Its text.
    pub content: String,
    /// What the text is compared by.
    pub version: FileVersion,
    /// Whether a session wrote it that had read what strangers wrote.
    pub untrusted: bool,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// A file without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// Its path below the workspace.
    pub path: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// What its text is compared by.
    pub version: FileVersion,
    /// Whether a session wrote it that had read what strangers wrote.
    pub untrusted: bool,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Decodes the stored SHA-256, which has 32 bytes.
fn version(sha256: &[u8]) -> FileVersion {
    FileVersion(sha256.try_into().unwrap_or_default())
}

fn length(bytes: i32) -> u64 {
    u64::try_from(bytes).unwrap_or(0)
}

/// A file of an agentable; `None`: there is none with this path.
pub(crate) async fn find(
    connection: &mut PgConnection,
    tenant: TenantId,
    agentable: AgentableId,
    path: &str,
) -> Result<Option<WorkspaceFile>> {
    let row = sqlx::query!(
        "-- store::workspace_file::find
        select path, content, sha256, untrusted, created_at, updated_at from houston.workspace_files
         where tenant_id = $1 and agentable_id = $2 and path = $3",
        tenant.0,
        agentable.0,
        path
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(|row| WorkspaceFile {
        path: row.path,
        content: row.content,
        version: version(&row.sha256),
        untrusted: row.untrusted,
        created_at: row.created_at,
        updated_at: row.updated_at,
    }))
}

/// Files of an agentable whose paths come after `after`, without their contents, in the order of their paths.
pub(crate) async fn list(
    connection: &mut PgConnection,
    tenant: TenantId,
    agentable: AgentableId,
    after: &str,
    limit: i64,
) -> Result<Vec<FileEntry>> {
    let rows = sqlx::query!(
        "-- store::workspace_file::list
        select path, bytes, sha256, untrusted, created_at, updated_at from houston.workspace_files
         where tenant_id = $1 and agentable_id = $2 and path > $3 order by path limit $4",
        tenant.0,
        agentable.0,
        after,
        limit
    )
    .fetch_all(connection)
    .await?;
    let entries = rows.into_iter().map(|row| FileEntry {
        path: row.path,
        bytes: length(row.bytes),
        version: version(&row.sha256),
        untrusted: row.untrusted,
        created_at: row.created_at,
        updated_at: row.updated_at,
    });
    Ok(entries.collect())
}

/// The contents of files of an agentable, by path.
pub(crate) async fn contents(
    connection: &mut PgConnection,
    tenant: TenantId,
    agentable: AgentableId,
    paths: &[&str],
) -> Result<BTreeMap<String, String>> {
    let rows = sqlx::query!(
        "-- store::workspace_file::contents
        select path, content from houston.workspace_files
         where tenant_id = $1 and agentable_id = $2 and path = any ($3)",
        tenant.0,
        agentable.0,
        paths as &[&str]
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.path, row.content)).collect())
}

/// What decides whether the file at `path` may be changed.
pub(crate) async fn present(
    connection: &mut PgConnection,
    tenant: TenantId,
    agentable: AgentableId,
    path: &WorkspacePath,
) -> Result<Present> {
    let folders: Vec<&str> = path.folders().collect();
    let row = sqlx::query!(
        r#"-- store::workspace_file::present
        select count(*) as "files!", coalesce(sum(bytes), 0) as "bytes!",
               decode(max(encode(sha256, 'hex')) filter (where path = $3), 'hex') as sha256, max(bytes) filter (where path = $3) as file_bytes,
               max(path) filter (where path = any ($4)) as file_above,
               coalesce(bool_or(starts_with(path, $3 || '/')), false) as "is_folder!"
          from houston.workspace_files where tenant_id = $1 and agentable_id = $2"#,
        tenant.0,
        agentable.0,
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
    connection: &mut PgConnection,
    tenant: TenantId,
    agentable: AgentableId,
    path: &WorkspacePath,
    content: &str,
    untrusted: bool,
) -> Result<FileVersion> {
    let version = FileVersion::of(content);
    sqlx::query!(
        "-- store::workspace_file::write
        insert into houston.workspace_files as f (agentable_id, path, tenant_id, content, sha256, bytes, created_at,
                                                  updated_at, untrusted)
        values ($2, $3, $1, $4, $5, $6, clock_timestamp(), clock_timestamp(), $7)
        on conflict (agentable_id, path) do update
           set content = excluded.content, sha256 = excluded.sha256, bytes = excluded.bytes,
               updated_at = excluded.updated_at, untrusted = excluded.untrusted
         where f.tenant_id = $1",
        tenant.0,
        agentable.0,
        path.as_str(),
        content,
        &version.0[..],
        i32::try_from(content.len()).unwrap_or(i32::MAX),
        untrusted
    )
    .execute(connection)
    .await?;
    Ok(version)
}

/// Deletes a file, if it exists.
pub(crate) async fn delete(
    connection: &mut PgConnection,
    tenant: TenantId,
    agentable: AgentableId,
    path: &WorkspacePath,
) -> Result<()> {
    sqlx::query!(
        "-- store::workspace_file::delete
        delete from houston.workspace_files where tenant_id = $1 and agentable_id = $2 and path = $3",
        tenant.0,
        agentable.0,
        path.as_str()
    )
    .execute(connection)
    .await?;
    Ok(())
}

impl TenantStore<'_> {
    /// Files of an agentable of the tenant without their contents, in the order of their paths, after `after` if given.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    pub async fn files(
        self,
        agentable: AgentableId,
        after: Option<String>,
        limit: i64,
    ) -> Result<Vec<FileEntry>> {
        list(&mut *self.pool.acquire().await?, self.tenant, agentable, &after.unwrap_or_default(), limit)
            .await
    }

    /// A file of an agentable of the tenant.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such file, [`Error::Database`] when Postgres cannot be reached or refuses
    /// the statement.
    pub async fn file(self, agentable: AgentableId, path: &WorkspacePath) -> Result<WorkspaceFile> {
        let found = find(&mut *self.pool.acquire().await?, self.tenant, agentable, path.as_str()).await?;
        found.ok_or(Error::NotFound { what: "file" })
    }
}
