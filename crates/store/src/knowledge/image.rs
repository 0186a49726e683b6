//! Images that users post with messages. The texts of messages refer to them; see [`houston_domain::image`].

use std::collections::BTreeSet;

use houston_domain::attachment;
use houston_domain::conversation::Conversation;
use houston_domain::history::Block;
use houston_domain::id::{AgentableId, ImageId, TenantId, UserId};
use houston_domain::image::{ImageHeader, ImageType, references};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::idempotency::IdempotencyKey;
use crate::statement::{Statement as _, uuids};

/// An image to be stored.
#[derive(Debug, Clone, Copy)]
pub struct NewImage<'a> {
    /// Its id: [`ImageId::of`] its user and its bytes.
    pub id: ImageId,
    /// Type and size.
    pub header: ImageHeader,
    /// Its bytes.
    pub data: &'a [u8],
}

/// A stored image.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredImage {
    /// The id by which texts refer to it.
    pub id: ImageId,
    /// Type and size.
    pub header: ImageHeader,
    /// How many bytes it has.
    pub bytes: usize,
    /// They, if they were asked for.
    pub data: Option<Vec<u8>>,
}

/// Without the bytes.
impl std::fmt::Debug for StoredImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { id, header, bytes, .. } = self;
        f.debug_struct("StoredImage")
            .field("id", id)
            .field("header", header)
            .field("bytes", bytes)
            .finish_non_exhaustive()
    }
}

/// An image of the columns of its row.
fn stored(
    id: Uuid,
    media_type: &str,
    (width, height): (i32, i32),
    bytes: i32,
    data: Option<Vec<u8>>,
) -> StoredImage {
    let pixels = |count: i32| u32::try_from(count).unwrap_or(0);
    // Only types that exist are written.
    let image_type = ImageType::from_name(media_type).unwrap_or(ImageType::Png);
    StoredImage {
        id: ImageId(id),
        header: ImageHeader { image_type, width: pixels(width), height: pixels(height) },
        bytes: usize::try_from(bytes).unwrap_or(0),
        data,
    }
}

impl TenantStore<'_> {
    /// The text of the message that was posted with this request before, with the references to its images; `None`: it is new.
    pub async fn text_posted_before(self, key: IdempotencyKey<'_>) -> Result<Option<String>> {
        let row = sqlx::query!(
            "-- store::image::text_posted_before
            select m.content from houston.idempotency_keys k
              join houston.messages m on m.tenant_id = k.tenant_id and m.id = k.resource_id
             where k.tenant_id = $1 and k.key = $2 and k.request_sha256 = $3",
            self.tenant.0,
            key.key,
            key.request_sha256
        )
        .map(|row| row.content);
        Ok(row.fetch_optional(&self.pool).await?)
    }

    /// Stores images that are posted to an agentable of the user. One that the user has posted before is not stored again.
    /// Posts at the same moment may exceed `max_bytes` together.
    ///
    /// # Errors
    /// [`Error::Full`] when the user's images would have more than `max_bytes` together; then none is stored.
    pub async fn put_images(
        self,
        (agentable, user): (AgentableId, UserId),
        images: &[NewImage<'_>],
        max_bytes: i64,
    ) -> Result<()> {
        let ids: Vec<_> = images.iter().map(|image| image.id.0).collect();
        let types: Vec<&str> = images.iter().map(|image| image.header.image_type.as_str()).collect();
        let pixels = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        let widths: Vec<i32> = images.iter().map(|image| pixels(image.header.width)).collect();
        let heights: Vec<i32> = images.iter().map(|image| pixels(image.header.height)).collect();
        let data: Vec<&[u8]> = images.iter().map(|image| image.data).collect();
        let row = sqlx::query!(
            r#"-- store::image::put
            with i as materialized (
                select distinct on (i.id) i.*
                  from unnest($4::uuid[], $5::text[], $6::integer[], $7::integer[], $8::bytea[])
                       as i (id, media_type, width, height, data)),
            fits as materialized (
                select coalesce((select sum(k.bytes) from houston.images k where k.tenant_id = $1 and k.user_id = $2), 0)
                       + coalesce((select sum(octet_length(i.data)) from i
                                    where not exists (select from houston.images k where k.id = i.id)), 0) <= $9 as yes),
            a as materialized (
                select a.id from houston.agentables a where a.tenant_id = $1 and a.user_id = $2 and a.id = $3 for key share),
            made as (
                insert into houston.images (id, tenant_id, user_id, media_type, width, height, bytes, data)
                select i.id, $1, $2, i.media_type, i.width, i.height, octet_length(i.data), i.data
                  from i cross join a cross join fits f where f.yes
                on conflict (id) do nothing),
            uses as (
                insert into houston.image_uses (agentable_id, image_id, tenant_id)
                select a.id, i.id, $1 from i cross join a cross join fits f where f.yes on conflict do nothing)
            select f.yes as "fits!", exists (select from a) as "found!" from fits f"#,
            self.tenant.0,
            user.0,
            agentable.0,
            &ids,
            &types as &[&str],
            &widths,
            &heights,
            &data as &[&[u8]],
            max_bytes
        )
        .fetch_one(&self.pool)
        .await?;
        let is_put = row.found && row.fits;
        Error::check_inserted("agentable", "bytes of images of a user", max_bytes, row.found, is_put)
    }

    /// An image of the tenant, with its bytes.
    pub async fn image(self, id: ImageId) -> Result<StoredImage> {
        let row = sqlx::query!(
            "-- store::image::get
            select id, media_type, width, height, bytes, data from houston.images where tenant_id = $1 and id = $2",
            self.tenant.0,
            id.0
        )
        .map(|row| stored(row.id, &row.media_type, (row.width, row.height), row.bytes, Some(row.data)));
        row.fetch_optional(&self.pool).await?.ok_or(Error::NotFound { what: "image" })
    }

    /// Deletes an image of the tenant. Texts that refer to it stay.
    pub async fn delete_image(self, id: ImageId) -> Result<()> {
        let row = sqlx::query!(
            r#"-- store::image::delete
            with gone as (delete from houston.images where tenant_id = $1 and id = $2 returning id),
            uses as (delete from houston.image_uses u using gone g where u.tenant_id = $1 and u.image_id = g.id)
            select exists (select from gone) as "found!""#,
            self.tenant.0,
            id.0
        );
        if row.fetch_one(&self.pool).await?.found { Ok(()) } else { Err(Error::NotFound { what: "image" }) }
    }

    /// Those of these images and attachments that a provider has refused, and why.
    pub async fn refused_files(self, ids: &[Uuid]) -> Result<Vec<(Uuid, String)>> {
        let rows = sqlx::query!(
            r#"-- store::image::refused
            select id as "id!", refused as "why!" from houston.images
             where tenant_id = $1 and id = any ($2) and refused is not null
            union all
            select id, refused from houston.attachments
             where tenant_id = $1 and id = any ($2) and refused is not null"#,
            self.tenant.0,
            ids
        )
        .map(|row| (row.id, row.why));
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Remembers that a provider has refused these images and attachments: no model is sent them again.
    pub async fn refuse_files(self, ids: &[Uuid], why: &str) -> Result<()> {
        sqlx::query!(
            "-- store::image::refuse
            with images as (update houston.images set refused = $3 where tenant_id = $1 and id = any ($2))
            update houston.attachments set refused = $3 where tenant_id = $1 and id = any ($2)",
            self.tenant.0,
            ids,
            why
        )
        .run(&self.pool)
        .await
    }

    /// Those of these images that the user has; those of `with_data` with their bytes.
    pub async fn images(
        self,
        user: UserId,
        ids: &[ImageId],
        with_data: &[ImageId],
    ) -> Result<Vec<StoredImage>> {
        let rows = sqlx::query!(
            "-- store::image::list
            select id, media_type, width, height, bytes, case when id = any ($4) then data end as data
              from houston.images where tenant_id = $1 and user_id = $2 and id = any ($3)",
            self.tenant.0,
            user.0,
            &uuids(ids),
            &uuids(with_data)
        )
        .map(|row| stored(row.id, &row.media_type, (row.width, row.height), row.bytes, row.data));
        Ok(rows.fetch_all(&self.pool).await?)
    }
}

/// Lets a copy of a conversation keep the images and files of its user that it refers to. One without references executes
/// nothing.
pub(crate) async fn use_in(
    connection: &mut PgConnection,
    tenant: TenantId,
    (agentable, user): (AgentableId, UserId),
    conversation: &Conversation,
) -> Result<()> {
    let said = conversation.history.iter().flat_map(|entry| &entry.content).filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let texts = conversation.messages.iter().map(|message| message.content.as_str()).chain(said);
    let images: BTreeSet<Uuid> = texts.clone().flat_map(references).map(|id| id.0).collect();
    let files: BTreeSet<Uuid> = texts.flat_map(attachment::references).map(|id| id.0).collect();
    if images.is_empty() && files.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "-- store::image::use_in
        with images as (
            insert into houston.image_uses (agentable_id, image_id, tenant_id)
            select $3, i.id, $1 from houston.images i where i.tenant_id = $1 and i.user_id = $2 and i.id = any ($4))
        insert into houston.attachment_uses (agentable_id, attachment_id, tenant_id)
        select $3, f.id, $1 from houston.attachments f where f.tenant_id = $1 and f.user_id = $2 and f.id = any ($5)",
        tenant.0,
        user.0,
        agentable.0,
        &Vec::from_iter(images),
        &Vec::from_iter(files)
    )
    .run(connection)
    .await
}
