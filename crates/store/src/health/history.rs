//! When checks changed their status. [`record_checks`](crate::RunStore::record_checks) notes it.

use chrono::{DateTime, Utc};
use houston_domain::health::HealthStatus;

use crate::error::Result;
use crate::handle::ApiStore;

/// A check had another status than before, or its first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The check's id, as in `stuck_runs`.
    pub check: String,
    /// The status from then on.
    pub status: HealthStatus,
    /// What was found, for people.
    pub detail: String,
    /// When.
    pub at: DateTime<Utc>,
}

/// Where a page of changes begins: after the change of this check at this time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct After {
    /// When that change was.
    pub at: DateTime<Utc>,
    /// Its check.
    pub check: String,
    /// Whether a change of the same check at the same time is on the page: it is of another cell, which comes after.
    pub is_inclusive: bool,
}

impl ApiStore {
    /// The newest changes, of one check or of all; those `after` a change are older.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn health_changes(
        &self,
        check: Option<&str>,
        after: Option<&After>,
        limit: i64,
    ) -> Result<Vec<Change>> {
        // The table is small, and so it is sorted when it is read.
        let rows = sqlx::query!(
            r#"-- store::health::history::list
            select check_id, at, status, detail from houston.health_changes
             where ($1::text is null or check_id = $1)
               and ($2::timestamptz is null or (at, check_id collate "C") < ($2, $3::text)
                    or ($4::boolean and at = $2 and check_id = $3))
             order by at desc, check_id collate "C" desc limit $5"#,
            check,
            after.map(|after| after.at),
            after.map(|after| after.check.as_str()),
            after.is_some_and(|after| after.is_inclusive),
            limit
        )
        .fetch_all(&self.pool)
        .await?;
        let changes = rows.into_iter().map(|row| Change {
            check: row.check_id,
            status: HealthStatus::from_name(&row.status),
            detail: row.detail,
            at: row.at,
        });
        Ok(changes.collect())
    }
}
