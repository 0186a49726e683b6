//! The files of the exported workspace.

use houston_domain::conversation::ExportedFile;

use super::{End, Reader};
use crate::error::Result;

/// Files of one page: each has at most 1 MiB.
const PAGE: i64 = 10;

impl Reader<'_> {
    pub(super) async fn files(&mut self, end: End) -> Result<Vec<ExportedFile>> {
        let mut files: Vec<ExportedFile> = Vec::new();
        loop {
            let rows = sqlx::query_as!(
                ExportedFile,
                "-- store::conversation::read::files::page
                select path, content, created_at, updated_at from houston.workspace_files
                 where tenant_id = $1 and agentable_id = $2 and path > $3
                   and ($4::timestamptz is null or created_at <= $4)
                 order by path limit $5",
                self.tenant.0,
                self.agentable.id.0,
                files.last().map_or("", |last| last.path.as_str()),
                end.at,
                PAGE
            )
            .fetch_all(&mut *self.connection)
            .await?;
            let is_last = rows.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
            for file in rows {
                self.count(file.content.len())?;
                files.push(file);
            }
            if is_last {
                return Ok(files);
            }
        }
    }
}
