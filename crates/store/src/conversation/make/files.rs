//! The files of the new workspace.

use houston_domain::conversation::{Conversation, ExportedFile};
use houston_domain::workspace::FileVersion;
use sqlx::PgConnection;

use super::Owner;
use crate::error::Result;

/// Bytes of the contents of one statement, which must finish within the statement time-out.
const BYTES: usize = 4 * 1024 * 1024;
/// Files of one statement.
const FILES: usize = 500;

impl Owner {
    pub(super) async fn files(
        &self,
        connection: &mut PgConnection,
        conversation: &Conversation,
    ) -> Result<()> {
        let mut rest = &conversation.files[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |file: &&ExportedFile| {
                bytes += file.content.len();
                bytes <= BYTES
            };
            // One file always fits.
            let count = rest.iter().take(FILES).take_while(fits).count().max(1);
            let (files, later) = rest.split_at(count);
            self.insert_files(connection, files).await?;
            rest = later;
        }
        Ok(())
    }

    async fn insert_files(&self, connection: &mut PgConnection, files: &[ExportedFile]) -> Result<()> {
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let contents: Vec<&str> = files.iter().map(|file| file.content.as_str()).collect();
        let versions: Vec<Vec<u8>> =
            files.iter().map(|file| FileVersion::of(&file.content).0.to_vec()).collect();
        let lengths: Vec<i32> =
            files.iter().map(|file| i32::try_from(file.content.len()).unwrap_or(i32::MAX)).collect();
        let created: Vec<_> = files.iter().map(|file| file.created_at).collect();
        let changed: Vec<_> = files.iter().map(|file| file.updated_at).collect();
        sqlx::query!(
            "-- store::conversation::make::files::insert
            insert into houston.workspace_files (agentable_id, tenant_id, path, content, sha256, bytes, created_at,
                                                 updated_at)
            select $1, $2, f.path, f.content, f.sha256, f.bytes, f.made, f.changed
              from unnest($3::text[], $4::text[], $5::bytea[], $6::integer[], $7::timestamptz[], $8::timestamptz[])
                   as f (path, content, sha256, bytes, made, changed)",
            self.agentable.0,
            self.tenant.0,
            &paths as &[&str],
            &contents as &[&str],
            &versions,
            &lengths,
            &created,
            &changed
        )
        .execute(connection)
        .await?;
        Ok(())
    }
}
