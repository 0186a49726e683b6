//! A request to erase something that is not completed yet.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::error::Result;
use crate::workspace_file::settle::Folders;

/// An open request, locked by this transaction.
pub(super) struct OpenRequest {
    pub(super) id: Uuid,
    pub(super) tenant: Uuid,
    /// The user to erase, unless the target is an agentable.
    pub(super) user: Option<Uuid>,
    pub(super) resource: Uuid,
    pub(super) agentables: Vec<Uuid>,
    pub(super) phase: String,
    pub(super) after_key: String,
    pub(super) deleted: BTreeMap<String, i64>,
    /// Where the files of agentables are, if they are no rows.
    pub(super) folders: Option<Folders>,
    /// Nothing is left but objects of the object store.
    pub(super) waits: bool,
}

impl OpenRequest {
    /// Removes the folders of these agentables.
    pub(super) async fn remove_folders(&self, agentables: &[Uuid]) -> Result<()> {
        if let Some(folders) = &self.folders {
            folders.remove(agentables.iter().map(|agentable| (self.tenant, *agentable)).collect()).await?;
        }
        Ok(())
    }

    /// Adds to the deleted rows of `table`; returns `rows`.
    pub(super) fn count(&mut self, table: &str, rows: i64) -> i64 {
        if rows > 0 {
            *self.deleted.entry(table.to_owned()).or_default() += rows;
        }
        rows
    }
}
