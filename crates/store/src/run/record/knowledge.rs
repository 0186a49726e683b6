//! What a tool call may do with what agents know, beside [`Knowledge`](crate::Knowledge): custom tables, files of the workspace, skills.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use houston_domain::custom_table::{Fault, Field, Fields};
use houston_domain::id::TableId;
use houston_domain::skill::SkillSource;
use houston_domain::workspace::{FileVersion, Present, WorkspacePath};

use super::{Owner, RecordTx};
use crate::custom_table::CustomTable;
use crate::error::Result;
use crate::skill::{self, SkillText};
use crate::workspace_file::{FileEntry, Workspace, WorkspaceFile};

/// The errors of all methods: [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the
/// statement. After the others, which are named, nothing was written, and the transaction goes on.
impl RecordTx<'_> {
    /// Creates a table of the user with [`RecordIds::row`](super::RecordIds::row) as its id.
    ///
    /// # Errors
    /// [`Error::Exists`](crate::Error::Exists) when there is one with this name, [`Error::Full`](crate::Error::Full) when
    /// there are too many.
    pub async fn create_table(
        &mut self,
        name: String,
        description: String,
        fields: Fields,
        created_at: DateTime<Utc>,
    ) -> Result<()> {
        let (id, Owner { user, untrusted, .. }) = (TableId(self.ids.row), self.owner);
        let new =
            CustomTable { untrusted, ..CustomTable::new(id, user, (name, description), fields, created_at) };
        self.knowledge().create_table(&new).await
    }

    /// Adds fields to a table of the user, which [`table_named`](crate::Knowledge::table_named) returned; the inner error has what is wrong with them.
    /// `None`: the table was deleted meanwhile.
    pub async fn add_fields(
        &mut self,
        table: &CustomTable,
        more: &[Field],
    ) -> Result<Option<std::result::Result<CustomTable, Vec<Fault>>>> {
        self.knowledge().add_fields(table.id, more).await
    }

    /// Deletes a table of the user, which [`table_named`](crate::Knowledge::table_named) returned, with its records. Returns whether it existed.
    pub async fn delete_table(&mut self, table: &CustomTable) -> Result<bool> {
        self.knowledge().delete_table(table.id).await
    }
}

/// The errors of all methods: [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the
/// statement, and [`Error::Folder`](crate::Error::Folder) when files are in a folder and cannot be read there. The transaction
/// goes on after the latter.
impl RecordTx<'_> {
    fn workspace(&self) -> Workspace {
        self.tx.shared.workspace(self.owner.tenant, self.owner.agentable)
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

/// The errors of all methods: [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the
/// statement.
impl RecordTx<'_> {
    /// The text of a stored skill; `None`: it was deleted.
    pub async fn skill_text(&mut self, source: SkillSource, name: &str) -> Result<Option<SkillText>> {
        let owner = skill::owner_id(self.owner.tenant, self.owner.user, source);
        skill::text(self.tx.connection(), self.owner.tenant, owner, name).await
    }
}
