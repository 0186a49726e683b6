//! The files of the exported workspace.

use houston_domain::conversation::ExportedFile;

use super::{End, Reader};
use crate::error::Result;

/// Files of one page: each has at most 1 MiB.
const PAGE: i64 = 10;

impl Reader<'_> {
    pub(super) async fn files(&mut self, end: End) -> Result<Vec<ExportedFile>> {
        if self.workspace.is_folder() {
            self.files_of_folder(end).await
        } else {
            self.files_of_rows(end).await
        }
    }

    /// Files that are no texts are left out: a document cannot have them.
    async fn files_of_folder(&mut self, end: End) -> Result<Vec<ExportedFile>> {
        let mut files = Vec::new();
        let mut entries = self.workspace.list(&mut *self.connection, "", i64::MAX).await?;
        entries.retain(|entry| end.at.is_none_or(|at| entry.created_at <= at));
        for page in entries.chunks(usize::try_from(PAGE).unwrap_or(1)) {
            let paths: Vec<&str> = page.iter().map(|entry| entry.path.as_str()).collect();
            let mut contents = self.workspace.contents(&mut *self.connection, &paths).await?;
            for entry in page {
                let Some(content) = contents.remove(&entry.path) else { continue };
                self.count(content.len())?;
                let (created_at, updated_at) = (entry.created_at, entry.updated_at);
                files.push(ExportedFile { path: entry.path.clone(), content, created_at, updated_at });
            }
        }
        Ok(files)
    }

    async fn files_of_rows(&mut self, end: End) -> Result<Vec<ExportedFile>> {
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
