//! Custom tables of users. Their records are in [`custom_record`](crate::custom_record).

pub use houston_domain::custom_table::CustomTable;
use houston_domain::custom_table::{Fault, Field, Fields};
use houston_domain::id::{TableId, UserId};
use serde_json::Value;
use sqlx::types::Json;

use super::Knowledge;
use crate::bound;
use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::idempotency::{Created, Once};
use crate::row_security::with_connection;

macro_rules! table {
    ($row:expr) => {{
        let row = $row;
        let Json(fields) = row.fields;
        CustomTable {
            id: TableId(row.id),
            user: UserId(row.user_id),
            name: row.name,
            description: row.description,
            schema: fields.schema(),
            fields,
            records: row.records.into(),
            bytes: row.bytes,
            untrusted: row.untrusted,
            created_at: row.created_at.into(),
        }
    }};
}

impl Knowledge<'_> {
    /// Creates a table.
    ///
    /// # Errors
    /// [`Error::Exists`] when the user has a table with this name, [`Error::Full`] when there are too many,
    /// [`Error::NotFound`] when the tenant has no such user. Then nothing was written, and the transaction goes on.
    pub(crate) async fn create_table(&mut self, new: &CustomTable) -> Result<()> {
        bound::lock(self.connection, "custom tables", new.user.0).await?;
        if let Some(table) = self.table_named(&new.name).await? {
            return Err(Error::Exists { what: "table", existing: Some(table.id.to_string()) });
        }
        let limit = self.limits.tables.max_tables;
        let done = sqlx::query!(
            r#"-- store::custom_table::insert
            with owner as (select id, tenant_id from houston.users where tenant_id = $1 and id = $2),
            made as (
                insert into houston.custom_tables (id, tenant_id, user_id, name, description, fields, untrusted, created_at)
                select $3, tenant_id, id, $4, $5, $6, $7, $8 from owner
                 where (select count(*) from houston.custom_tables where tenant_id = $1 and user_id = $2) < $9
                returning id)
            select exists (select from owner) as "found!", exists (select from made) as "made!""#,
            self.tenant.0,
            new.user.0,
            new.id.0,
            new.name,
            new.description,
            Json(&new.fields) as _,
            new.untrusted,
            new.created_at.0,
            i64::from(limit)
        )
        .fetch_one(&mut *self.connection)
        .await?;
        Error::check_inserted("user", "tables of a user", limit, done.found, done.made)
    }

    /// Tables of the user by their names, from after `after` on; without a limit as many as there may be.
    pub async fn tables(&mut self, after: &str, limit: Option<i64>) -> Result<Vec<CustomTable>> {
        let rows = sqlx::query!(
            r#"-- store::custom_table::list
            select id, user_id, name, description, fields as "fields: Json<Fields>", records, bytes, untrusted, created_at
              from houston.custom_tables where tenant_id = $1 and user_id = $2 and name > $3 order by name limit $4"#,
            self.tenant.0,
            self.user(),
            after,
            limit.unwrap_or(self.limits.tables.max_tables.into())
        )
        .map(|row| table!(row));
        Ok(rows.fetch_all(&mut *self.connection).await?)
    }

    /// The table of the user with this name.
    pub async fn table_named(&mut self, name: &str) -> Result<Option<CustomTable>> {
        let row = sqlx::query!(
            r#"-- store::custom_table::find_named
            select id, user_id, name, description, fields as "fields: Json<Fields>", records, bytes, untrusted, created_at
              from houston.custom_tables where tenant_id = $1 and user_id = $2 and name = $3"#,
            self.tenant.0,
            self.user(),
            name
        )
        .map(|row| table!(row));
        Ok(row.fetch_optional(&mut *self.connection).await?)
    }

    /// A table of the tenant.
    pub(crate) async fn table(&mut self, id: TableId) -> Result<Option<CustomTable>> {
        let row = sqlx::query!(
            r#"-- store::custom_table::find
            select t.id, t.user_id, t.name, t.description, t.fields as "fields: Json<Fields>", t.records, t.bytes,
                   t.untrusted, t.created_at
              from houston.custom_tables t join houston.users u on u.id = t.user_id
             -- A user who is being erased has no tenant any more.
             where t.tenant_id = $1 and u.tenant_id = $1 and t.id = $2"#,
            self.tenant.0,
            id.0
        )
        .map(|row| table!(row));
        Ok(row.fetch_optional(&mut *self.connection).await?)
    }

    /// Adds fields to a table, which is locked meanwhile: its records have no value of them. Returns the table as it is then;
    /// `None`: the tenant has no such table.
    pub(crate) async fn add_fields(
        &mut self,
        id: TableId,
        more: &[Field],
    ) -> Result<Option<std::result::Result<CustomTable, Vec<Fault>>>> {
        let locked = sqlx::query_scalar!(
            "-- store::custom_table::lock
            select t.id from houston.custom_tables t
             where t.tenant_id = $1 and t.id = $2
               and exists (select from houston.users u where u.id = t.user_id and u.tenant_id = $1) for no key update",
            self.tenant.0,
            id.0
        );
        if locked.fetch_optional(&mut *self.connection).await?.is_none() {
            return Ok(None);
        }
        let Some(table) = self.table(id).await? else { return Ok(None) };
        let fields = match table.fields.extended(more.to_vec(), table.records, &self.limits.tables) {
            Ok(fields) => fields,
            Err(faults) => return Ok(Some(Err(faults))),
        };
        sqlx::query!(
            "-- store::custom_table::set_fields
            update houston.custom_tables set fields = $3, untrusted = untrusted or $4 where tenant_id = $1 and id = $2",
            self.tenant.0,
            id.0,
            Json(&fields) as _,
            self.untrusted
        )
        .execute(&mut *self.connection)
        .await?;
        let untrusted = table.untrusted || self.untrusted;
        Ok(Some(Ok(CustomTable { schema: fields.schema(), fields, untrusted, ..table })))
    }

    /// Deletes a table with its records. Returns whether it existed.
    pub(crate) async fn delete_table(&mut self, id: TableId) -> Result<bool> {
        let gone = sqlx::query_scalar!(
            "-- store::custom_table::delete
            delete from houston.custom_tables t
             where t.tenant_id = $1 and t.id = $2
               and exists (select from houston.users u where u.id = t.user_id and u.tenant_id = $1)
            returning user_id",
            self.tenant.0,
            id.0
        );
        let Some(user) = gone.fetch_optional(&mut *self.connection).await? else { return Ok(false) };
        // Who adds a record changes the row of the table first, so none is added any more, and this statement sees all.
        sqlx::query!(
            "-- store::custom_table::delete_records
            delete from houston.custom_records where tenant_id = $1 and user_id = $2 and table_id = $3",
            self.tenant.0,
            user,
            id.0
        )
        .execute(&mut *self.connection)
        .await?;
        Ok(true)
    }
}

const NOT_FOUND: Error = Error::NotFound { what: "table" };

impl TenantStore<'_> {
    /// Creates a table.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such user, [`Error::Exists`] when the user has a table with this
    /// name, [`Error::Full`] when there are too many.
    pub async fn create_table(self, new: &CustomTable, once: Once<'_>) -> Result<Created<Value>> {
        self.create_once(new.id.0, once, async |tx| self.knowledge_of(new.user, tx).create_table(new).await)
            .await
    }

    /// Tables of a user by their names, from after `after` on.
    pub async fn tables(self, user: UserId, after: Option<&str>, limit: i64) -> Result<Vec<CustomTable>> {
        let after = after.unwrap_or_default();
        Ok(with_connection!(self.pool, |c| self.knowledge_of(user, c).tables(after, Some(limit))))
    }

    /// A table of the tenant.
    pub async fn table(self, id: TableId) -> Result<CustomTable> {
        with_connection!(self.pool, |c| self.knowledge(c).table(id)).ok_or(NOT_FOUND)
    }

    /// Adds fields to a table of the tenant; the inner error has what is wrong with them.
    pub async fn add_fields(
        self,
        id: TableId,
        more: &[Field],
    ) -> Result<std::result::Result<CustomTable, Vec<Fault>>> {
        with_connection!(self.pool, |c| self.knowledge(c).add_fields(id, more)).ok_or(NOT_FOUND)
    }

    /// Deletes a table of the tenant with its records.
    pub async fn delete_table(self, id: TableId) -> Result<()> {
        let is_gone = with_connection!(self.pool, |c| self.knowledge(c).delete_table(id));
        if is_gone { Ok(()) } else { Err(NOT_FOUND) }
    }
}
