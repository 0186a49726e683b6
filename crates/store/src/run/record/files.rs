//! What a tool call may do with the files of its agentable.

use std::collections::BTreeMap;

use houston_domain::workspace::{FileLimits, FileVersion, Present, WorkspacePath};

use super::RecordTx;
use crate::error::Result;
use crate::workspace_file::{self, FileEntry, WorkspaceFile};

/// The errors of all methods: [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the
/// statement.
impl RecordTx<'_> {
    /// How much the workspace may hold.
    #[must_use]
    pub fn file_limits(&self) -> FileLimits {
        self.tx.knowledge_limits.files
    }

    /// A file of the agentable; `None`: there is none with this path.
    pub async fn file(&mut self, path: &WorkspacePath) -> Result<Option<WorkspaceFile>> {
        let (tenant, agentable) = (self.owner.tenant, self.owner.agentable);
        workspace_file::find(self.tx.connection(), tenant, agentable, path.as_str()).await
    }

    /// The files of the agentable without their contents, in the order of their paths, at most `limit`.
    pub async fn files(&mut self, limit: u32) -> Result<Vec<FileEntry>> {
        let (tenant, agentable) = (self.owner.tenant, self.owner.agentable);
        workspace_file::list(self.tx.connection(), tenant, agentable, "", limit.into()).await
    }

    /// The contents of the files with these paths.
    pub async fn file_contents(&mut self, paths: &[&str]) -> Result<BTreeMap<String, String>> {
        let (tenant, agentable) = (self.owner.tenant, self.owner.agentable);
        workspace_file::contents(self.tx.connection(), tenant, agentable, paths).await
    }

    /// What decides whether the file at `path` may be changed. It stays so until the step is committed: others write files
    /// of the agentable only under its lock, which this transaction holds.
    pub async fn present_files(&mut self, path: &WorkspacePath) -> Result<Present> {
        let (tenant, agentable) = (self.owner.tenant, self.owner.agentable);
        workspace_file::present(self.tx.connection(), tenant, agentable, path).await
    }

    /// Creates a file, or replaces its content. `keeps`: whether it has text of a file that is marked as untrusted.
    pub async fn write_file(
        &mut self,
        path: &WorkspacePath,
        content: &str,
        keeps: bool,
    ) -> Result<FileVersion> {
        let (tenant, agentable) = (self.owner.tenant, self.owner.agentable);
        let untrusted = self.owner.untrusted || keeps;
        workspace_file::write(self.tx.connection(), tenant, agentable, path, content, untrusted).await
    }

    /// Deletes a file, if it exists.
    pub async fn delete_file(&mut self, path: &WorkspacePath) -> Result<()> {
        let (tenant, agentable) = (self.owner.tenant, self.owner.agentable);
        workspace_file::delete(self.tx.connection(), tenant, agentable, path).await
    }
}
