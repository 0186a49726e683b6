//! What a tool call may do with what agents know: custom tables, todos, snippets, files of the workspace, skills.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use houston_domain::custom_table::{Aggregate, Fault, Field, Fields};
use houston_domain::id::{RecordId, TableId, TodoId};
use houston_domain::skill::SkillSource;
use houston_domain::workspace::{FileVersion, Present, WorkspacePath};
use serde_json::{Map, Value};

use super::{Owner, RecordTx};
use crate::custom_record::{CustomRecord, Group, RecordData, RecordFilter, RecordSearch};
use crate::custom_table::CustomTable;
use crate::error::Result;
use crate::skill::{self, SkillText};
use crate::snippet::{Snippet, SnippetEntry};
use crate::todo::{NewTodo, Todo, TodoChange, TodoQuery};
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

    /// The tables of the user, by their names, at most the number that there may be.
    pub async fn tables(&mut self) -> Result<Vec<CustomTable>> {
        let (user, limits) = (self.owner.user, self.settings.knowledge_limits.tables);
        self.knowledge().tables(user, "", limits.max_tables.into()).await
    }

    /// The table of the user with this name.
    pub async fn table(&mut self, name: &str) -> Result<Option<CustomTable>> {
        let user = self.owner.user;
        self.knowledge().table_named(user, name).await
    }

    /// Adds fields to a table of the user, which [`Self::table`] returned; the inner error has what is wrong with them.
    /// `None`: the table was deleted meanwhile.
    pub async fn add_fields(
        &mut self,
        table: &CustomTable,
        more: &[Field],
    ) -> Result<Option<std::result::Result<CustomTable, Vec<Fault>>>> {
        self.knowledge().add_fields(table.id, more).await
    }

    /// Deletes a table of the user, which [`Self::table`] returned, with its records. Returns whether it existed.
    pub async fn delete_table(&mut self, table: &CustomTable) -> Result<bool> {
        self.knowledge().delete_table(table.id).await
    }

    /// Adds checked records to a table.
    ///
    /// # Errors
    /// [`Error::Full`](crate::Error::Full) when there would be too many, [`Error::TooLarge`](crate::Error::TooLarge) when
    /// one or all of them would be too long.
    pub async fn add_records(&mut self, table: &CustomTable, new: &[RecordData]) -> Result<()> {
        self.knowledge().add_records(table, new, None).await
    }

    /// Records of a table that match, and how many there are in all.
    pub async fn search_records(
        &mut self,
        table: &CustomTable,
        search: &RecordSearch,
    ) -> Result<(Vec<CustomRecord>, i64)> {
        self.knowledge().search_records(table, search).await
    }

    /// Numbers over the records of a table that match.
    pub async fn aggregate_records(
        &mut self,
        table: &CustomTable,
        filter: &RecordFilter,
        aggregate: &Aggregate,
    ) -> Result<Vec<Group>> {
        self.knowledge().aggregate_records(table, filter, aggregate).await
    }

    /// Changes values of a record, which have been checked; null removes one. `None`: the table has no such record.
    ///
    /// # Errors
    /// [`Error::TooLarge`](crate::Error::TooLarge) when it would be too long.
    pub async fn change_record(
        &mut self,
        table: &CustomTable,
        id: RecordId,
        changes: &Map<String, Value>,
    ) -> Result<Option<CustomRecord>> {
        self.knowledge().change_record(table, id, changes).await
    }

    /// Deletes a record of a table. Returns whether it existed.
    pub async fn delete_record(&mut self, table: &CustomTable, id: RecordId) -> Result<bool> {
        self.knowledge().delete_record(table, id).await
    }
}

/// The errors of all methods: [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the
/// statement.
impl RecordTx<'_> {
    /// Creates todos of the user, in the order given; they come last.
    ///
    /// # Errors
    /// [`Error::Full`](crate::Error::Full) when there would be too many; nothing was written, and the transaction goes on.
    pub async fn create_todos(&mut self, new: &[NewTodo]) -> Result<()> {
        let Owner { user, agentable, .. } = self.owner;
        self.knowledge().create_todos(user, new, Some(agentable), None).await
    }

    /// Todos of the user in their order, those that are done last. `written_here`: only those that agents of this agentable
    /// wrote.
    pub async fn todos(&mut self, query: &TodoQuery, written_here: bool) -> Result<Vec<Todo>> {
        let Owner { user, agentable, .. } = self.owner;
        let query = TodoQuery { written_for: written_here.then_some(agentable), ..query.clone() };
        self.knowledge().todos(user, &query).await
    }

    /// Changes todos of the user in the same way. Returns those that exist, as they are then.
    pub async fn change_todos(&mut self, ids: &[TodoId], change: &TodoChange) -> Result<Vec<Todo>> {
        let user = self.owner.user;
        self.knowledge().change_todos(Some(user), ids, change).await
    }

    /// Moves a todo of the user before another one. Returns whether both exist.
    pub async fn put_todo_before(&mut self, id: TodoId, next: TodoId) -> Result<bool> {
        let user = self.owner.user;
        self.knowledge().put_todo_before(user, id, next).await
    }

    /// Deletes todos of the user. Returns how many existed.
    pub async fn delete_todos(&mut self, ids: &[TodoId]) -> Result<u64> {
        let user = self.owner.user;
        self.knowledge().delete_todos(Some(user), ids).await
    }
}

/// The errors of all methods: [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the
/// statement.
impl RecordTx<'_> {
    /// The snippets of the user without their code, in the order of their names.
    pub async fn snippets(&mut self) -> Result<Vec<SnippetEntry>> {
        let (user, limits) = (self.owner.user, self.settings.knowledge_limits);
        self.knowledge().snippets(user, "", limits.max_snippets.into()).await
    }

    /// A snippet of the user; `None`: there is none of this name.
    pub async fn snippet(&mut self, name: &str) -> Result<Option<Snippet>> {
        let user = self.owner.user;
        self.knowledge().snippet(user, name).await
    }

    /// Deletes a snippet of the user. Returns whether it existed.
    pub async fn delete_snippet(&mut self, name: &str) -> Result<bool> {
        let user = self.owner.user;
        self.knowledge().delete_snippet(user, name).await
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
