//! [`CommandFiles`]: the folder of an agentable's files, for a tool that runs commands there.

use std::path::PathBuf;

use houston_domain::id::{AgentableId, TenantId};
use houston_domain::workspace::FileLimits;
use houston_folder::Folder;

use super::folder::look;
use super::settle::Folders;
use crate::error::Result;
use crate::handle::RunStore;

/// The folder of an agentable's files.
#[derive(Debug, Clone)]
pub struct CommandFiles {
    store: RunStore,
    folders: Folders,
    tenant: TenantId,
    agentable: AgentableId,
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
    #[must_use]
    pub fn command_files(&self, tenant: TenantId, agentable: AgentableId) -> Option<CommandFiles> {
        let folders = self.folders.clone()?;
        Some(CommandFiles { store: self.clone(), folders, tenant, agentable })
    }
}

impl CommandFiles {
    /// The folder, after everything was written to it that is to be there.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses a statement,
    /// [`Error::Folder`](crate::Error::Folder).
    pub async fn ready(&self) -> Result<FilesForCommand> {
        self.folders.settle(self.tenant, self.agentable).await?;
        let files = {
            let workspace = self.store.workspace(self.tenant, self.agentable);
            workspace.list(&mut *self.store.pool.acquire().await?, "", i64::MAX).await?
        };
        let ids = (self.tenant.0, self.agentable.0);
        let path = self.folders.root.run(move |root| root.make(ids.0, ids.1)?.path_of_files()).await?;
        Ok(FilesForCommand { path, untrusted: files.iter().any(|file| file.untrusted) })
    }

    /// How many files there are, and how many bytes they have.
    ///
    /// # Errors
    /// [`Error::Folder`](crate::Error::Folder), also when there is more than is looked at.
    pub async fn usage(&self) -> Result<(u64, u64)> {
        let ids = (self.tenant.0, self.agentable.0);
        let walk =
            self.folders.root.run(move |root| look(root, ids, Folder::walk)).await?.unwrap_or_default();
        Ok((walk.count, walk.bytes))
    }

    /// How much a workspace may hold.
    #[must_use]
    pub fn limits(&self) -> FileLimits {
        self.store.knowledge_limits.files
    }
}
