//! Files that users post for their messages: images, PDFs and texts.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;

use houston_protocol::attachment::AttachmentResponse;
use houston_protocol::time::Time;
use houston_store::attachment::StoredAttachment;

fn response(file: StoredAttachment) -> AttachmentResponse {
    AttachmentResponse {
        id: file.id,
        user_id: file.user,
        name: file.name,
        media_type: file.kind.media_type().to_owned(),
        bytes: i64::try_from(file.bytes).unwrap_or(i64::MAX),
        url: format!("/v1/attachments/{}", file.id),
        created_at: Time(file.created_at),
    }
}
