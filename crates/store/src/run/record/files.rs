//! What a tool call may do with the files of its agentable.

use std::collections::BTreeMap;

use houston_domain::workspace::{FileLimits, FileVersion, Present, WorkspacePath};

use super::RecordTx;
use crate::error::Result;
use crate::workspace_file::{FileEntry, Workspace, WorkspaceFile};

/// The errors of all methods: [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the
/// statement, and [`Error::Folder`](crate::Error::Folder) when files are in a folder and cannot be read there. The transaction
/// goes on after the latter.
impl RecordTx<'_> {
    fn workspace(&self) -> Workspace {
        Workspace::new(self.owner.tenant, self.owner.agentable, self.tx.folders.clone())
    }

    /// How much the workspace may hold.
    #[must_use]
    pub fn file_limits(&self) -> FileLimits {
        self.tx.knowledge_limits.files
    }

    /// A file of the agentable; `None`: there is none with this path.
    pub async fn file(&mut self, path: &WorkspacePath) -> Result<Option<WorkspaceFile>> {
        self.workspace().find(self.tx.connection(), path).await
    }

    /// The files of the agentable without their contents, in the order of their paths, at most `limit`.
    pub async fn files(&mut self, limit: u32) -> Result<Vec<FileEntry>> {
        self.workspace().list(self.tx.connection(), "", limit.into()).await
    }

    /// The contents of the files with these paths.
    pub async fn file_contents(&mut self, paths: &[&str]) -> Result<BTreeMap<String, String>> {
        self.workspace().contents(self.tx.connection(), paths).await
    }

    /// What decides whether the file at `path` may be changed. It stays so until the step is committed: others write files
    /// of the agentable only under its lock, which this transaction holds.
    pub async fn present_files(&mut self, path: &WorkspacePath) -> Result<Present> {
        self.workspace().present(self.tx.connection(), path).await
    }

    /// Creates a file, or replaces its content. `keeps`: whether it has text of a file that is marked as untrusted.
    pub async fn write_file(
        &mut self,
        path: &WorkspacePath,
        content: &str,
        keeps: bool,
    ) -> Result<FileVersion> {
        let untrusted = self.owner.untrusted || keeps;
        self.tx.changed_files_of = Some(self.owner.tenant);
        self.workspace().write(self.tx.connection(), path, content, untrusted).await
    }

    /// Deletes a file, if it exists.
    pub async fn delete_file(&mut self, path: &WorkspacePath) -> Result<()> {
        self.tx.changed_files_of = Some(self.owner.tenant);
        self.workspace().delete(self.tx.connection(), path).await
    }
}
