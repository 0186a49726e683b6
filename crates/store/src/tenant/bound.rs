//! A lock for limits on how many rows an owner may have. It is taken before counting and inserting, so that two
//! concurrent requests do not both find room for the last row.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::Result;
use crate::statement::Statement as _;

/// Takes the advisory lock for the `what` of `owner`, until the transaction ends. Rows that were committed while
/// waiting are visible to the next statement, not to one that has already begun.
pub(crate) async fn lock(connection: &mut PgConnection, what: &str, owner: Uuid) -> Result<()> {
    sqlx::query!(
        "-- store::bound::lock
        select pg_advisory_xact_lock(hashtextextended($1, 0))",
        format!("{what} of {owner}")
    )
    .run(connection)
    .await
}
