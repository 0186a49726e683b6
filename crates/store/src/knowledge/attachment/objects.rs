//! Deleting objects of the object store: those of erased files, and those whose upload has not ended.

use uuid::Uuid;

use super::bytes::key;
use crate::error::Result;
use crate::handle::RunStore;

/// What a call has deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Objects that are gone.
    pub deleted: usize,
    /// Objects that could not be deleted; they are tried again in a minute.
    pub failed: usize,
}

impl RunStore {
    /// Deletes objects that are due, at most `limit`. Several processes may call it at once: each takes other rows. Without an
    /// object store nothing is done.
    ///
    /// # Errors
    /// [`crate::Error::Database`] when Postgres cannot be reached or refuses a statement. An object that cannot be deleted is
    /// no error: its row stays.
    pub async fn drop_objects(&self, limit: i64) -> Result<Dropped> {
        let Some(objects) = &self.objects else { return Ok(Dropped::default()) };
        // The row is hidden for a minute instead of locked: no transaction waits for the object store.
        let due = sqlx::query!(
            "-- store::attachment::objects::take
            update houston.attachment_objects o set drop_at = now() + interval '1 minute'
             where o.id = any (array(
                   select d.id from houston.attachment_objects d where d.drop_at <= now()
                    order by d.drop_at limit $1 for update skip locked))
            returning o.id, o.tenant_id",
            limit
        )
        .fetch_all(&self.pool)
        .await?;
        let mut dropped = Dropped::default();
        let mut gone: Vec<Uuid> = Vec::with_capacity(due.len());
        for row in due {
            match objects.delete(&key(row.tenant_id, row.id)).await {
                Ok(()) => gone.push(row.id),
                Err(error) => {
                    dropped.failed += 1;
                    tracing::warn!(%error, "an object is not deleted yet; trying again");
                    // The others would fail, too.
                    break;
                }
            }
        }
        dropped.deleted = gone.len();
        sqlx::query!(
            "-- store::attachment::objects::forget
            delete from houston.attachment_objects where id = any ($1) and drop_at is not null",
            &gone
        )
        .execute(&self.pool)
        .await?;
        Ok(dropped)
    }
}
