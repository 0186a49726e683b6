//! Rows of users that the target may have already.

use sqlx::{Connection as _, PgConnection, Row as _};
use uuid::Uuid;

use super::{Rows, all, connect, execute, ids, pipe};
use crate::error::Result;
use crate::pool::Store;

impl Store {
    /// Makes the index by which moves from this cell find idempotency keys. It is there only while users are moved, because each
    /// request with a key writes to it. Without it, each piece of a move reads all keys.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses a statement.
    pub async fn begin_moves(&self) -> Result<()> {
        // One that was not finished is of no use.
        self.end_moves().await?;
        let mut connection = connect(self).await?;
        wait_longer(&mut connection).await?;
        let index = "create index concurrently if not exists idempotency_keys_moving
                         on houston.idempotency_keys (right(resource_id::text, 4))";
        execute(&mut connection, index).await?;
        let _ = connection.close().await;
        Ok(())
    }

    /// Drops the index of [`Self::begin_moves`], if it is there.
    ///
    /// # Errors
    /// As [`Self::begin_moves`].
    pub async fn end_moves(&self) -> Result<()> {
        let mut connection = connect(self).await?;
        wait_longer(&mut connection).await?;
        execute(&mut connection, "drop index concurrently if exists houston.idempotency_keys_moving").await?;
        let _ = connection.close().await;
        Ok(())
    }
}

/// An index is made and dropped without stopping others, so it may wait for them.
async fn wait_longer(connection: &mut PgConnection) -> Result<()> {
    execute(connection, "set lock_timeout = 0").await?;
    execute(connection, "set statement_timeout = '1min'").await.map(drop)
}

/// Makes the client tokens of the users at the target those of the source. The home has a copy of each, so the target may have
/// them, and what the source has stays: nothing of the users is found there by them.
pub(super) async fn move_tokens(
    source: &mut PgConnection,
    target: &mut PgConnection,
    rows: &Rows,
) -> Result<()> {
    let (of_users, columns) = (rows.tokens(), columns(source, "api_keys").await?);
    let ours = ids(source, &format!("select id from houston.api_keys where {of_users}")).await?;
    // Deleted where the users are, before they expired.
    execute(target, &format!("delete from houston.api_keys where {of_users} and id <> all ({ours})")).await?;
    let theirs = ids(target, &format!("select id from houston.api_keys where {of_users}")).await?;
    let out = format!(
        "copy (select {columns} from houston.api_keys where {of_users} and id <> all ({theirs})) to stdout (format binary)"
    );
    let into = format!("copy houston.api_keys ({columns}) from stdin (format binary)");
    pipe(source, &out, target, &into).await?;
    Ok(())
}

/// Deletes idempotency keys at the source that the target has for other requests: a key is compared within a cell only, and
/// there it is taken.
pub(super) async fn drop_present_keys(
    source: &mut PgConnection,
    target: &mut PgConnection,
    rows: &Rows,
) -> Result<()> {
    let ours =
        format!("select tenant_id, key from houston.idempotency_keys where {}", rows.idempotency_keys());
    let (tenants, keys) = pairs(all(source, &ours).await?)?;
    if keys.is_empty() {
        return Ok(());
    }
    let present = sqlx::query(
        "-- store::cell_move::present::keys
        select k.tenant_id, k.key from houston.idempotency_keys k
          join unnest($1::uuid[], $2::text[]) as o (tenant_id, key) on o.tenant_id = k.tenant_id and o.key = k.key",
    )
    .bind(tenants)
    .bind(keys);
    let (tenants, keys) = pairs(present.fetch_all(target).await?)?;
    if !keys.is_empty() {
        sqlx::query(
            "-- store::cell_move::present::drop_keys
            delete from houston.idempotency_keys k using unnest($1::uuid[], $2::text[]) as o (tenant_id, key)
             where o.tenant_id = k.tenant_id and o.key = k.key",
        )
        .bind(tenants)
        .bind(keys)
        .execute(source)
        .await?;
    }
    Ok(())
}

fn pairs(rows: Vec<sqlx::postgres::PgRow>) -> Result<(Vec<Uuid>, Vec<String>)> {
    let pairs: std::result::Result<Vec<(Uuid, String)>, sqlx::Error> =
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect();
    Ok(pairs?.into_iter().unzip())
}

/// The columns of a table that are stored, quoted.
async fn columns(source: &mut PgConnection, table: &str) -> Result<String> {
    let found = all(
        source,
        &format!(
            "select quote_ident(attname)::text from pg_attribute
              where attrelid = 'houston.{table}'::regclass and attnum > 0 and not attisdropped and attgenerated = ''
              order by attnum"
        ),
    )
    .await?;
    let names: std::result::Result<Vec<String>, sqlx::Error> =
        found.iter().map(|row| row.try_get(0)).collect();
    Ok(names?.join(", "))
}
