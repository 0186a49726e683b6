//! Files that users post for their messages. The texts of messages refer to them; see [`houston_domain::attachment`]. Their
//! bytes are rows of their own, in parts, or one object of an object store. Objects are deleted afterwards: those of erased files,
//! and those whose upload has not ended.

use std::ops::Range;

use ::bytes::Bytes;
use chrono::{DateTime, Utc};
use houston_domain::attachment::AttachmentType;
use houston_domain::ensure;
use houston_domain::id::{AgentableId, AttachmentId, TenantId, UserId};
use houston_domain::image::ImageHeader;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::handle::{RunStore, TenantStore};
use crate::statement::{Statement as _, uuids};

/// Bytes of a part: what is in memory of a file that is read.
pub const PART_BYTES: usize = 2 << 20;

/// A file to be stored.
#[derive(Debug, Clone, Copy)]
pub struct NewAttachment<'a> {
    /// Its id, made of its user and its bytes.
    pub id: AttachmentId,
    /// The id of an object, if one is needed.
    pub object: Uuid,
    /// Its user.
    pub user: UserId,
    /// Its name, one line.
    pub name: &'a str,
    /// What it is.
    pub kind: AttachmentType,
    /// Of an image: its size in pixels, if its header says it.
    pub header: Option<ImageHeader>,
    /// Its bytes.
    pub data: &'a ::bytes::Bytes,
}

/// A stored file, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAttachment {
    /// The id by which texts refer to it.
    pub id: AttachmentId,
    /// Its user.
    pub user: UserId,
    /// Its name, one line.
    pub name: String,
    /// What it is.
    pub kind: AttachmentType,
    /// How many bytes it has.
    pub bytes: usize,
    /// Of an image: its size in pixels, if its header says it.
    pub header: Option<ImageHeader>,
    /// The text of a PDF, if it was read before, and whether there was more.
    pub text: Option<(String, bool)>,
    /// When it was posted first.
    pub created_at: DateTime<Utc>,
    /// The object with its bytes; `None`: they are rows.
    object: Option<Uuid>,
}

macro_rules! attachment {
    ($row:expr) => {{
        let row = $row;
        // Only types that exist are written.
        let kind = AttachmentType::of_media_type(&row.media_type).unwrap_or(AttachmentType::Text);
        let header = match kind {
            AttachmentType::Image(image_type) => {
                row.width.zip(row.height).map(|(width, height)| ImageHeader {
                    image_type,
                    width: u32::try_from(width).unwrap_or(0),
                    height: u32::try_from(height).unwrap_or(0),
                })
            }
            AttachmentType::Pdf | AttachmentType::Text => None,
        };
        StoredAttachment {
            id: AttachmentId(row.id),
            user: UserId(row.user_id),
            name: row.name,
            kind,
            bytes: usize::try_from(row.bytes).unwrap_or(0),
            header,
            text: row.pdf_text.map(|text| (text, row.pdf_text_cut)),
            created_at: row.created_at,
            object: row.object_id,
        }
    }};
}

impl TenantStore<'_> {
    /// A file of the tenant.
    pub async fn attachment(self, id: AttachmentId) -> Result<StoredAttachment> {
        let row = sqlx::query!(
            "-- store::attachment::get
            select id, user_id, name, media_type, bytes, width, height, object_id, pdf_text, pdf_text_cut, created_at
              from houston.attachments where tenant_id = $1 and id = $2",
            self.tenant.0,
            id.0
        )
        .map(|row| attachment!(row));
        row.fetch_optional(&self.pool).await?.ok_or(Error::NotFound { what: "attachment" })
    }

    /// Those of these files that the user has.
    pub async fn attachments(self, user: UserId, ids: &[AttachmentId]) -> Result<Vec<StoredAttachment>> {
        let rows = sqlx::query!(
            "-- store::attachment::list
            select id, user_id, name, media_type, bytes, width, height, object_id, pdf_text, pdf_text_cut, created_at
              from houston.attachments where tenant_id = $1 and user_id = $2 and id = any ($3)",
            self.tenant.0,
            user.0,
            &uuids(ids)
        )
        .map(|row| attachment!(row));
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Stores the text of a PDF, so that it is read once.
    pub async fn keep_pdf_text(self, id: AttachmentId, text: &str, is_cut: bool) -> Result<()> {
        sqlx::query!(
            "-- store::attachment::keep_text
            update houston.attachments set pdf_text = $3, pdf_text_cut = $4 where tenant_id = $1 and id = $2",
            self.tenant.0,
            id.0,
            text,
            is_cut
        )
        .run(&self.pool)
        .await
    }

    /// Deletes a file of the tenant. Texts that refer to it stay.
    pub async fn delete_attachment(self, id: AttachmentId) -> Result<()> {
        let row = sqlx::query!(
            r#"-- store::attachment::delete
            with gone as (delete from houston.attachments where tenant_id = $1 and id = $2 returning id, object_id),
            parts as (delete from houston.attachment_parts p using gone g where p.tenant_id = $1 and p.attachment_id = g.id),
            uses as (delete from houston.attachment_uses u using gone g where u.tenant_id = $1 and u.attachment_id = g.id),
            objects as (
                update houston.attachment_objects o set drop_at = now() from gone g
                 where o.tenant_id = $1 and o.id = g.object_id)
            select exists (select from gone) as "found!""#,
            self.tenant.0,
            id.0
        )
        .fetch_one(&self.pool)
        .await?;
        if row.found { Ok(()) } else { Err(Error::NotFound { what: "attachment" }) }
    }

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
                // It is dropped in an hour unless it is kept below.
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
            (true, None) => {
                for (nth, part) in new.data.chunks(PART_BYTES).enumerate() {
                    sqlx::query!(
                        "-- store::attachment::bytes::insert_part
                        insert into houston.attachment_parts (attachment_id, nth, tenant_id, user_id, data)
                        values ($1, $2, $3, $4, $5)",
                        new.id.0,
                        i32::try_from(nth).unwrap_or(i32::MAX),
                        self.tenant.0,
                        new.user.0,
                        part
                    )
                    .execute(&mut *tx)
                    .await?;
                }
            }
        }
        tx.commit().await?;
        self.attachment(new.id).await
    }

    /// Part `nth` of the bytes of a file; empty beyond its end.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the file was deleted, [`Error::Objects`] when the object store cannot be used.
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
        );
        data.fetch_optional(&self.pool).await?.map(Bytes::from).ok_or(Error::NotFound { what: "attachment" })
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
        let has_room = row.is_there && row.fits;
        Error::check_inserted("user", "bytes of files of a user", max_bytes, row.is_there, has_room)
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
        );
        Ok(renamed.execute(&self.pool).await?.rows_affected() > 0)
    }

    /// Lets an agentable use files of its user. Those that the user does not have are left out.
    pub async fn use_attachments(
        self,
        agentable: AgentableId,
        ids: &[AttachmentId],
    ) -> Result<Vec<UsedAttachment>> {
        let rows = sqlx::query!(
            r#"-- store::attachment::uses::add
            with a as materialized (
                select a.id, a.user_id from houston.agentables a where a.tenant_id = $1 and a.id = $2 for key share),
            found as materialized (
                select f.id, f.name, f.media_type from a
                  join houston.attachments f on f.user_id = a.user_id
                 where f.tenant_id = $1 and f.id = any ($3) for key share of f),
            uses as (
                insert into houston.attachment_uses (agentable_id, attachment_id, tenant_id)
                select a.id, f.id, $1 from found f cross join a on conflict do nothing)
            select a.id as agentable, f.id as "id?", f.name as "name?", f.media_type as "media_type?"
              from a left join found f on true"#,
            self.tenant.0,
            agentable.0,
            &uuids(ids)
        )
        .fetch_all(&self.pool)
        .await?;
        ensure!(!rows.is_empty(), Error::NotFound { what: "agentable" });
        let used = rows.into_iter().filter_map(|row| {
            let kind = AttachmentType::of_media_type(&row.media_type?)?;
            Some(UsedAttachment { id: AttachmentId(row.id?), name: row.name?, kind })
        });
        Ok(used.collect())
    }
}

/// The key of an object.
fn key(tenant: Uuid, object: Uuid) -> String {
    format!("{tenant}/{object}")
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

/// Keeps an object that was announced. One whose upload took so long that it was dropped meanwhile is not there any more.
async fn keep_object(connection: &mut PgConnection, tenant: TenantId, object: Uuid) -> Result<()> {
    sqlx::query!(
        "-- store::attachment::bytes::keep
        update houston.attachment_objects set drop_at = null where tenant_id = $1 and id = $2",
        tenant.0,
        object
    )
    .run_or(connection, Error::Busy { what: "attachment".to_owned() })
    .await
}

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

/// A file that a message names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedAttachment {
    /// The id by which texts refer to it.
    pub id: AttachmentId,
    /// Its name, one line.
    pub name: String,
    /// What it is.
    pub kind: AttachmentType,
}
