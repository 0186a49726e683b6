//! Custom tables of users. Their records are in [`custom_record`](crate::custom_record).

pub use houston_domain::custom_table::CustomTable;
use houston_domain::custom_table::{Fault, Field, Fields, TableLimits};
use houston_domain::id::{TableId, TenantId, UserId};
use serde_json::Value;
use sqlx::PgConnection;
use sqlx::types::Json;

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

/// Creates a table.
///
/// # Errors
/// [`Error::Exists`] when the user has a table with this name, [`Error::Full`] when there are too many,
/// [`Error::NotFound`] when the tenant has no such user. Then nothing was written, and the transaction goes on.
pub(crate) async fn insert(
    connection: &mut PgConnection,
    tenant: TenantId,
    new: &CustomTable,
    limits: &TableLimits,
) -> Result<()> {
    bound::lock(connection, "custom tables", new.user.0).await?;
    if let Some(table) = find_named(connection, tenant, new.user, &new.name).await? {
        return Err(Error::Exists { what: "table", existing: Some(table.id.to_string()) });
    }
    let done = sqlx::query!(
        r#"-- store::custom_table::insert
        with owner as (select id, tenant_id from houston.users where tenant_id = $1 and id = $2),
        made as (
            insert into houston.custom_tables (id, tenant_id, user_id, name, description, fields, untrusted, created_at)
            select $3, tenant_id, id, $4, $5, $6, $7, $8 from owner
             where (select count(*) from houston.custom_tables where tenant_id = $1 and user_id = $2) < $9
            returning id)
        select exists (select from owner) as "found!", exists (select from made) as "made!""#,
        tenant.0,
        new.user.0,
        new.id.0,
        new.name,
        new.description,
        Json(&new.fields) as _,
        new.untrusted,
        new.created_at.0,
        i64::from(limits.max_tables)
    )
    .fetch_one(connection)
    .await?;
    Error::check_inserted("user", "tables of a user", limits.max_tables, done.found, done.made)
}

/// Tables of a user by their names, from after `after` on.
pub(crate) async fn list(
    connection: &mut PgConnection,
    (tenant, user): (TenantId, UserId),
    after: &str,
    limit: i64,
) -> Result<Vec<CustomTable>> {
    let rows = sqlx::query!(
        r#"-- store::custom_table::list
        select id, user_id, name, description, fields as "fields: Json<Fields>", records, bytes, untrusted, created_at
          from houston.custom_tables where tenant_id = $1 and user_id = $2 and name > $3 order by name limit $4"#,
        tenant.0,
        user.0,
        after,
        limit
    )
    .map(|row| table!(row));
    Ok(rows.fetch_all(connection).await?)
}

/// The table of a user with this name.
pub(crate) async fn find_named(
    connection: &mut PgConnection,
    tenant: TenantId,
    user: UserId,
    name: &str,
) -> Result<Option<CustomTable>> {
    let row = sqlx::query!(
        r#"-- store::custom_table::find_named
        select id, user_id, name, description, fields as "fields: Json<Fields>", records, bytes, untrusted, created_at
          from houston.custom_tables where tenant_id = $1 and user_id = $2 and name = $3"#,
        tenant.0,
        user.0,
        name
    )
    .map(|row| table!(row));
    Ok(row.fetch_optional(connection).await?)
}

/// A table of the tenant.
pub(crate) async fn find(
    connection: &mut PgConnection,
    tenant: TenantId,
    id: TableId,
) -> Result<Option<CustomTable>> {
    let row = sqlx::query!(
        r#"-- store::custom_table::find
        select t.id, t.user_id, t.name, t.description, t.fields as "fields: Json<Fields>", t.records, t.bytes,
               t.untrusted, t.created_at
          from houston.custom_tables t join houston.users u on u.id = t.user_id
         -- A user who is being erased has no tenant any more.
         where t.tenant_id = $1 and u.tenant_id = $1 and t.id = $2"#,
        tenant.0,
        id.0
    )
    .map(|row| table!(row));
    Ok(row.fetch_optional(connection).await?)
}

/// Adds fields to a table, which is locked meanwhile: its records have no value of them. Returns the table as it is then;
/// `None`: the tenant has no such table.
pub(crate) async fn add_fields(
    connection: &mut PgConnection,
    tenant: TenantId,
    id: TableId,
    (more, untrusted): (&[Field], bool),
    limits: &TableLimits,
) -> Result<Option<std::result::Result<CustomTable, Vec<Fault>>>> {
    let locked = sqlx::query_scalar!(
        "-- store::custom_table::lock
        select t.id from houston.custom_tables t
         where t.tenant_id = $1 and t.id = $2
           and exists (select from houston.users u where u.id = t.user_id and u.tenant_id = $1) for no key update",
        tenant.0,
        id.0
    );
    if locked.fetch_optional(&mut *connection).await?.is_none() {
        return Ok(None);
    }
    let Some(table) = find(&mut *connection, tenant, id).await? else { return Ok(None) };
    let fields = match table.fields.extended(more.to_vec(), table.records, limits) {
        Ok(fields) => fields,
        Err(faults) => return Ok(Some(Err(faults))),
    };
    sqlx::query!(
        "-- store::custom_table::set_fields
        update houston.custom_tables set fields = $3, untrusted = untrusted or $4 where tenant_id = $1 and id = $2",
        tenant.0,
        id.0,
        Json(&fields) as _,
        untrusted
    )
    .execute(connection)
    .await?;
    let untrusted = table.untrusted || untrusted;
    Ok(Some(Ok(CustomTable { schema: fields.schema(), fields, untrusted, ..table })))
}

/// Deletes a table with its records. Returns whether it existed.
pub(crate) async fn delete(connection: &mut PgConnection, tenant: TenantId, id: TableId) -> Result<bool> {
    let gone = sqlx::query_scalar!(
        "-- store::custom_table::delete
        delete from houston.custom_tables t
         where t.tenant_id = $1 and t.id = $2
           and exists (select from houston.users u where u.id = t.user_id and u.tenant_id = $1)
        returning user_id",
        tenant.0,
        id.0
    );
    let Some(user) = gone.fetch_optional(&mut *connection).await? else { return Ok(false) };
    // Who adds a record changes the row of the table first, so none is added any more, and this statement sees all.
    sqlx::query!(
        "-- store::custom_table::delete_records
        delete from houston.custom_records where tenant_id = $1 and user_id = $2 and table_id = $3",
        tenant.0,
        user,
        id.0
    )
    .execute(connection)
    .await?;
    Ok(true)
}

const NOT_FOUND: Error = Error::NotFound { what: "table" };

impl TenantStore<'_> {
    /// Creates a table.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such user, [`Error::Exists`] when the user has a table with this
    /// name, [`Error::Full`] when there are too many.
    pub async fn create_table(self, new: &CustomTable, once: Once<'_>) -> Result<Created<Value>> {
        let limits = &self.knowledge_limits.tables;
        self.create_once(new.id.0, once, async |tx| insert(tx, self.tenant, new, limits).await).await
    }

    /// Tables of a user by their names, from after `after` on.
    pub async fn tables(self, user: UserId, after: Option<&str>, limit: i64) -> Result<Vec<CustomTable>> {
        let after = after.unwrap_or_default();
        Ok(with_connection!(self.pool, |c| list(c, (self.tenant, user), after, limit)))
    }

    /// A table of the tenant.
    pub async fn table(self, id: TableId) -> Result<CustomTable> {
        with_connection!(self.pool, |c| find(c, self.tenant, id)).ok_or(NOT_FOUND)
    }

    /// Adds fields to a table of the tenant; the inner error has what is wrong with them.
    pub async fn add_fields(
        self,
        id: TableId,
        more: &[Field],
    ) -> Result<std::result::Result<CustomTable, Vec<Fault>>> {
        let (mut tx, limits) = (self.pool.begin().await?, &self.knowledge_limits.tables);
        let done = add_fields(&mut tx, self.tenant, id, (more, false), limits).await?.ok_or(NOT_FOUND)?;
        tx.commit().await?;
        Ok(done)
    }

    /// Deletes a table of the tenant with its records.
    pub async fn delete_table(self, id: TableId) -> Result<()> {
        let mut tx = self.pool.begin().await?;
        let is_gone = delete(&mut tx, self.tenant, id).await?;
        tx.commit().await?;
        if is_gone { Ok(()) } else { Err(NOT_FOUND) }
    }
}
