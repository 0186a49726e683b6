//! The bytes of files: in parts as rows, or as one object.

use std::ops::Range;

use ::bytes::Bytes;
use houston_domain::id::TenantId;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{NewAttachment, StoredAttachment};
use crate::error::{Error, Result};
use crate::handle::TenantStore;

/// Bytes of a part: what is in memory of a file that is read.
pub const PART_BYTES: usize = 2 << 20;

/// The key of an object.
pub(super) fn key(tenant: Uuid, object: Uuid) -> String {
    format!("{tenant}/{object}")
}

impl TenantStore<'_> {
    /// Stores a file of a user. One that the user has posted before is not stored again, and has the new name.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such user, [`Error::Full`] when the user's files would have more than
    /// `max_bytes` together, [`Error::Objects`] when the object store cannot be used; then nothing is stored.
    /// [`Error::Database`] when Postgres cannot be reached or refuses a statement.
    pub async fn put_attachment(self, new: &NewAttachment<'_>, max_bytes: i64) -> Result<StoredAttachment> {
        self.check_room(new, max_bytes).await?;
        if self.rename_attachment(new).await? {
            return self.attachment(new.id).await;
        }
        let object = match &self.objects {
            None => None,
            Some(objects) => {
                self.announce_object(new).await?;
                let pieces = vec![new.data.clone()];
                objects.put(&key(self.tenant.0, new.object), pieces).await?;
                Some(new.object)
            }
        };
        let mut tx = self.pool.begin().await?;
        let is_new = insert(&mut tx, self.tenant, new, object).await?;
        match (is_new, object) {
            // Another request has stored it meanwhile: its object will be dropped.
            (false, _) => {}
            (true, Some(object)) => keep_object(&mut tx, self.tenant, object).await?,
            (true, None) => insert_parts(&mut tx, self.tenant, new).await?,
        }
        tx.commit().await?;
        self.attachment(new.id).await
    }

    /// Part `nth` of the bytes of a file; empty beyond its end.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the file was deleted, [`Error::Objects`] when the object store cannot be used,
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    pub async fn attachment_part(self, file: &StoredAttachment, nth: usize) -> Result<Bytes> {
        let Range { start, end } = nth * PART_BYTES..((nth + 1) * PART_BYTES).min(file.bytes);
        if start >= end {
            return Ok(Bytes::new());
        }
        if let Some(object) = file.object {
            let objects = self.objects.as_ref().ok_or(Error::NoObjects)?;
            let range = u64::try_from(start).unwrap_or(0)..u64::try_from(end).unwrap_or(0);
            return Ok(objects.part(&key(self.tenant.0, object), range).await?);
        }
        let data = sqlx::query_scalar!(
            "-- store::attachment::bytes::part
            select data from houston.attachment_parts where tenant_id = $1 and attachment_id = $2 and nth = $3",
            self.tenant.0,
            file.id.0,
            i32::try_from(nth).unwrap_or(i32::MAX)
        )
        .fetch_optional(&self.pool)
        .await?;
        data.map(Bytes::from).ok_or(Error::NotFound { what: "attachment" })
    }

    /// All bytes of a file.
    ///
    /// # Errors
    /// As [`Self::attachment_part`].
    pub async fn attachment_bytes(self, file: &StoredAttachment) -> Result<Vec<u8>> {
        let mut all = Vec::with_capacity(file.bytes);
        for nth in 0..file.bytes.div_ceil(PART_BYTES) {
            all.extend_from_slice(&self.attachment_part(file, nth).await?);
        }
        Ok(all)
    }

    /// Whether the user exists and has room for the file. Requests at the same moment may exceed the limit together.
    async fn check_room(self, new: &NewAttachment<'_>, max_bytes: i64) -> Result<()> {
        let row = sqlx::query!(
            r#"-- store::attachment::bytes::room
            select exists (select from houston.users u where u.tenant_id = $1 and u.id = $2) as "is_there!",
                   coalesce((select sum(a.bytes) from houston.attachments a
                              where a.tenant_id = $1 and a.user_id = $2 and a.id <> $3), 0) + $4 <= $5 as "fits!""#,
            self.tenant.0,
            new.user.0,
            new.id.0,
            i64::try_from(new.data.len()).unwrap_or(i64::MAX),
            max_bytes
        )
        .fetch_one(&self.pool)
        .await?;
        match (row.is_there, row.fits) {
            (false, _) => Err(Error::NotFound { what: "user" }),
            (true, false) => Err(Error::Full { what: "bytes of files of a user", limit: max_bytes }),
            (true, true) => Ok(()),
        }
    }

    /// Gives a file that is stored the name of the new one; whether there is one.
    async fn rename_attachment(self, new: &NewAttachment<'_>) -> Result<bool> {
        let renamed = sqlx::query!(
            "-- store::attachment::bytes::rename
            update houston.attachments set name = $4 where tenant_id = $1 and user_id = $2 and id = $3",
            self.tenant.0,
            new.user.0,
            new.id.0,
            new.name
        )
        .execute(&self.pool)
        .await?;
        Ok(renamed.rows_affected() > 0)
    }

    /// Says that an object is about to be written. It is dropped in an hour unless [`keep_object`] is called.
    async fn announce_object(self, new: &NewAttachment<'_>) -> Result<()> {
        sqlx::query!(
            "-- store::attachment::bytes::announce
            insert into houston.attachment_objects (id, tenant_id, user_id, drop_at)
            values ($1, $2, $3, clock_timestamp() + interval '1 hour')",
            new.object,
            self.tenant.0,
            new.user.0
        )
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}

/// Inserts the row of a file; whether there was none. A user who was erased meanwhile has none.
async fn insert(
    connection: &mut PgConnection,
    tenant: TenantId,
    new: &NewAttachment<'_>,
    object: Option<Uuid>,
) -> Result<bool> {
    let pixels = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    let row = sqlx::query!(
        r#"-- store::attachment::bytes::insert
        with u as materialized (
            select u.id from houston.users u where u.tenant_id = $2 and u.id = $3 for key share),
        made as (
            insert into houston.attachments (id, tenant_id, user_id, name, media_type, bytes, width, height, object_id)
            select $1, $2, u.id, $4, $5, $6, $7, $8, $9 from u on conflict (id) do nothing returning id)
        select exists (select from u) as "is_there!", exists (select from made) as "is_new!""#,
        new.id.0,
        tenant.0,
        new.user.0,
        new.name,
        new.kind.media_type(),
        i32::try_from(new.data.len()).unwrap_or(i32::MAX),
        new.header.map(|header| pixels(header.width)),
        new.header.map(|header| pixels(header.height)),
        object
    )
    .fetch_one(connection)
    .await?;
    if row.is_there { Ok(row.is_new) } else { Err(Error::NotFound { what: "user" }) }
}

async fn insert_parts(
    connection: &mut PgConnection,
    tenant: TenantId,
    new: &NewAttachment<'_>,
) -> Result<()> {
    for (nth, part) in new.data.chunks(PART_BYTES).enumerate() {
        sqlx::query!(
            "-- store::attachment::bytes::insert_part
            insert into houston.attachment_parts (attachment_id, nth, tenant_id, user_id, data)
            values ($1, $2, $3, $4, $5)",
            new.id.0,
            i32::try_from(nth).unwrap_or(i32::MAX),
            tenant.0,
            new.user.0,
            part
        )
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

/// Keeps an object that was announced. One whose upload took so long that it was dropped meanwhile is not there any more.
async fn keep_object(connection: &mut PgConnection, tenant: TenantId, object: Uuid) -> Result<()> {
    let kept = sqlx::query!(
        "-- store::attachment::bytes::keep
        update houston.attachment_objects set drop_at = null where tenant_id = $1 and id = $2",
        tenant.0,
        object
    )
    .execute(connection)
    .await?;
    if kept.rows_affected() == 0 { Err(Error::Busy { what: "attachment".to_owned() }) } else { Ok(()) }
}
