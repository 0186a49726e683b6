//! Files that users post for their messages. The texts of messages refer to them; see [`houston_domain::attachment`]. Their
//! bytes are rows of their own, or objects of an object store.

mod bytes;
mod objects;
mod uses;

use chrono::{DateTime, Utc};
use houston_domain::attachment::AttachmentType;
use houston_domain::id::{AttachmentId, UserId};
use houston_domain::image::ImageHeader;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::handle::TenantStore;

pub use self::bytes::PART_BYTES;
pub use self::objects::Dropped;
pub use self::uses::UsedAttachment;
pub(crate) use self::uses::use_in;

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
        stored(
            (row.id, row.user_id, row.object_id),
            row.name,
            &row.media_type,
            row.bytes,
            row.width.zip(row.height),
            row.pdf_text.map(|text| (text, row.pdf_text_cut)),
            row.created_at,
        )
    }};
}

/// A file of the columns of its row.
fn stored(
    (id, user, object): (Uuid, Uuid, Option<Uuid>),
    name: String,
    media_type: &str,
    bytes: i32,
    pixels: Option<(i32, i32)>,
    text: Option<(String, bool)>,
    created_at: DateTime<Utc>,
) -> StoredAttachment {
    // Only types that exist are written.
    let kind = AttachmentType::of_media_type(media_type).unwrap_or(AttachmentType::Text);
    let header = match kind {
        AttachmentType::Image(image_type) => pixels.map(|(width, height)| ImageHeader {
            image_type,
            width: u32::try_from(width).unwrap_or(0),
            height: u32::try_from(height).unwrap_or(0),
        }),
        AttachmentType::Pdf | AttachmentType::Text => None,
    };
    StoredAttachment {
        id: AttachmentId(id),
        user: UserId(user),
        name,
        kind,
        bytes: usize::try_from(bytes).unwrap_or(0),
        header,
        text,
        created_at,
        object,
    }
}

impl TenantStore<'_> {
    /// A file of the tenant.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such file, [`Error::Database`] when Postgres cannot be reached or refuses
    /// the statement.
    pub async fn attachment(self, id: AttachmentId) -> Result<StoredAttachment> {
        let row = sqlx::query!(
            "-- store::attachment::get
            select id, user_id, name, media_type, bytes, width, height, object_id, pdf_text, pdf_text_cut, created_at
              from houston.attachments where tenant_id = $1 and id = $2",
            self.tenant.0,
            id.0
        )
        .fetch_optional(&self.pool)
        .await?
        .ok_or(Error::NotFound { what: "attachment" })?;
        Ok(attachment!(row))
    }

    /// Those of these files that the user has.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    pub async fn attachments(self, user: UserId, ids: &[AttachmentId]) -> Result<Vec<StoredAttachment>> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        let rows = sqlx::query!(
            "-- store::attachment::list
            select id, user_id, name, media_type, bytes, width, height, object_id, pdf_text, pdf_text_cut, created_at
              from houston.attachments where tenant_id = $1 and user_id = $2 and id = any ($3)",
            self.tenant.0,
            user.0,
            &ids
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.into_iter().map(|row| attachment!(row)).collect())
    }

    /// Stores the text of a PDF, so that it is read once.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    pub async fn keep_pdf_text(self, id: AttachmentId, text: &str, is_cut: bool) -> Result<()> {
        sqlx::query!(
            "-- store::attachment::keep_text
            update houston.attachments set pdf_text = $3, pdf_text_cut = $4 where tenant_id = $1 and id = $2",
            self.tenant.0,
            id.0,
            text,
            is_cut
        )
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Deletes a file of the tenant. Texts that refer to it stay.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such file, [`Error::Database`] when Postgres cannot be reached or refuses
    /// the statement.
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
}
