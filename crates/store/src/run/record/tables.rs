//! What a tool call may do with the custom tables of its user.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use houston_domain::custom_table::{Aggregate, Fault, Field, Fields, TableLimits, TablePresets};
use houston_domain::id::{RecordId, TableId};
use serde_json::{Map, Value};

use super::RecordTx;
use crate::custom_record::{self, CustomRecord, Group, RecordFilter, RecordSearch};
use crate::custom_table::{self, CustomTable, NewCustomTable};
use crate::error::Result;

/// The errors of all methods: [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the
/// statement. After the others, which are named, nothing was written, and the transaction goes on.
impl RecordTx<'_> {
    /// How much the tables of a user may hold.
    #[must_use]
    pub fn table_limits(&self) -> TableLimits {
        self.tx.knowledge_limits.tables
    }

    /// Tables that are created by name.
    #[must_use]
    pub fn table_presets(&self) -> Arc<TablePresets> {
        Arc::clone(&self.tx.table_presets)
    }

    /// Creates a table of the user with [`RecordIds::row`](super::RecordIds::row) as its id.
    ///
    /// # Errors
    /// [`Error::Exists`](crate::Error::Exists) when there is one with this name, [`Error::Full`](crate::Error::Full) when
    /// there are too many.
    pub async fn create_table(
        &mut self,
        name: &str,
        description: &str,
        fields: &Fields,
        created_at: DateTime<Utc>,
    ) -> Result<()> {
        let (owner, limits) = (self.owner, self.table_limits());
        let (id, user, untrusted) = (TableId(self.ids.row), owner.user, owner.untrusted);
        let new = NewCustomTable { id, user, name, description, fields, untrusted, created_at };
        custom_table::insert(self.tx.connection(), owner.tenant, &new, &limits).await
    }

    /// The tables of the user, by their names, at most the number that there may be.
    pub async fn tables(&mut self) -> Result<Vec<CustomTable>> {
        let (of, limits) = ((self.owner.tenant, self.owner.user), self.table_limits());
        custom_table::list(self.tx.connection(), of, "", limits.max_tables.into()).await
    }

    /// The table of the user with this name.
    pub async fn table(&mut self, name: &str) -> Result<Option<CustomTable>> {
        let (tenant, user) = (self.owner.tenant, self.owner.user);
        custom_table::find_named(self.tx.connection(), tenant, user, name).await
    }

    /// Adds fields to a table of the user, which [`Self::table`] returned; the inner error has what is wrong with them.
    /// `None`: the table was deleted meanwhile.
    pub async fn add_fields(
        &mut self,
        table: &CustomTable,
        more: &[Field],
    ) -> Result<Option<std::result::Result<CustomTable, Vec<Fault>>>> {
        let (owner, limits) = (self.owner, self.table_limits());
        let fields = (more, owner.untrusted);
        custom_table::add_fields(self.tx.connection(), owner.tenant, table.id, fields, &limits).await
    }

    /// Deletes a table of the user, which [`Self::table`] returned, with its records. Returns whether it existed.
    pub async fn delete_table(&mut self, table: &CustomTable) -> Result<bool> {
        let tenant = self.owner.tenant;
        custom_table::delete(self.tx.connection(), tenant, table.id).await
    }

    /// Adds checked records to a table.
    ///
    /// # Errors
    /// [`Error::Full`](crate::Error::Full) when there would be too many, [`Error::TooLarge`](crate::Error::TooLarge) when
    /// one or all of them would be too long.
    pub async fn add_records(
        &mut self,
        table: &CustomTable,
        new: &[(RecordId, Map<String, Value>)],
    ) -> Result<()> {
        let (owner, limits) = (self.owner, self.table_limits());
        let how = (owner.untrusted, None);
        custom_record::insert(self.tx.connection(), owner.tenant, table, new, how, &limits).await
    }

    /// Records of a table that match, and how many there are in all.
    pub async fn search_records(
        &mut self,
        table: &CustomTable,
        search: &RecordSearch,
    ) -> Result<(Vec<CustomRecord>, i64)> {
        let (tenant, limits) = (self.owner.tenant, self.table_limits());
        custom_record::search(self.tx.connection(), tenant, table, search, &limits).await
    }

    /// Numbers over the records of a table that match.
    pub async fn aggregate_records(
        &mut self,
        table: &CustomTable,
        filter: &RecordFilter,
        aggregate: &Aggregate,
    ) -> Result<Vec<Group>> {
        let (tenant, limits) = (self.owner.tenant, self.table_limits());
        custom_record::aggregate(self.tx.connection(), tenant, table, (filter, aggregate), &limits).await
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
        let (owner, limits) = (self.owner, self.table_limits());
        let (tenant, untrusted) = (owner.tenant, owner.untrusted);
        custom_record::change(self.tx.connection(), tenant, (table, id), changes, untrusted, &limits).await
    }

    /// Deletes a record of a table. Returns whether it existed.
    pub async fn delete_record(&mut self, table: &CustomTable, id: RecordId) -> Result<bool> {
        let tenant = self.owner.tenant;
        custom_record::delete(self.tx.connection(), tenant, (table.user, table.id, id)).await
    }
}
