//! Bounds on how many rows an owner may have. Whoever counts and then inserts holds this lock, so that two that count at
//! once do not both find room for one more.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::Result;

/// Waits until nobody else counts the `what` of `owner`; the lock is held until the transaction ends. Rows that are
/// committed meanwhile are seen by the next statement, not by one that has begun.
pub(crate) async fn lock(connection: &mut PgConnection, what: &str, owner: Uuid) -> Result<()> {
    sqlx::query!(
        "-- store::bound::lock
        select pg_advisory_xact_lock(hashtextextended($1, 0))",
        format!("{what} of {owner}")
    )
    .execute(connection)
    .await?;
    Ok(())
}
