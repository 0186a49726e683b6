//! Files that users post for their messages.

use houston_domain::id::{AttachmentId, UserId};
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// A stored file.
///
/// ```json
/// {"id": "att_0190…", "user_id": "user_0190…", "name": "report.pdf", "media_type": "application/pdf", "bytes": 81920,
///  "url": "/v1/attachments/att_0190…", "created_at": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttachmentResponse {
    pub id: AttachmentId,
    pub user_id: UserId,
    pub name: String,
    /// What its bytes are: `image/png`, `image/jpeg`, `image/webp`, `image/gif`, `application/pdf` or `text/plain`.
    pub media_type: String,
    /// How many it has.
    pub bytes: i64,
    /// Where its bytes are read.
    #[cfg_attr(
        feature = "openapi",
        schema(example = "/v1/attachments/att_019ab3c4d5e67f8091a2b3c4d5e6f708")
    )]
    pub url: String,
    pub created_at: Time,
}
