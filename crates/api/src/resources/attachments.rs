//! Files that users post for their messages: images, PDFs and texts.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, header};
use bytes::Bytes;
use futures_util::stream;
use houston_domain::attachment::{
    AttachmentHash, AttachmentType, MAX_ATTACHMENT_BYTES, TypeCheck, file_name, is_encrypted,
};
use houston_domain::id::{AttachmentId, UserId};
use houston_domain::image::{ImageHeader, MAX_IMAGE_BYTES};
use houston_protocol::attachment::AttachmentResponse;
use houston_store::attachment::{NewAttachment, StoredAttachment};
use http_body_util::{BodyExt as _, Limited};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::deadline::Deadline;
use crate::request::body::content_length;
use crate::request::prelude::*;
use crate::state::documents::DocumentPermit;

endpoints! {
    post "/v1/users/{id}/attachments" for USER => create,
    "create_attachment" in "messages": "Store a file for messages: the body is the file.",
    params(("name" = Option<String>, Query, description = "Name of the file; at most 100 characters of it are kept.", example = "report.pdf")),
    body [Vec<u8>, content_type = "application/octet-stream", description = "The bytes of a PNG, JPEG, WebP or GIF image, of a PDF, or of a text in UTF-8; at most 20,000,000. `Content-Type` says what it is."],
    201 "The file; the same one if the user has posted these bytes before." [AttachmentResponse],
    409 "`full`: the files of the user have too many bytes.",
    413 "`body_too_large`: the file is too large.",
    503 "`unavailable`: the object store cannot be used now.";

    get "/v1/attachments/{id}" for ROW => get,
    "get_attachment" in "messages": "Get the bytes of a file that was posted for messages.",
    200 "The file." [Vec<u8>, content_type = "application/octet-stream"],
    503 "`unavailable`: the object store cannot be used now.";

    // Messages that refer to it stay; models read that it is not there.
    delete "/v1/attachments/{id}" for ROW =>
        async |ctx: Ctx, Id(id): Id<AttachmentId>| gone(ctx.store().delete_attachment(id).await),
    "delete_attachment" in "messages": "Delete a file that was posted for messages.",
    204 "The file is deleted.";
}

/// How long the object store may take, besides the usual time of a request.
const STORING_TIME: Duration = Duration::from_secs(20);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    name: Option<String>,
}

/// A body that has arrived, with what was seen of it meanwhile.
struct ReadBody {
    data: Bytes,
    hash: AttachmentHash,
    check: TypeCheck,
}

/// A file that has arrived.
struct Received {
    data: Bytes,
    id: AttachmentId,
    kind: AttachmentType,
}

/// Stores the body as a file of the user. The memory for it is reserved before it is read; of a body that breaks off nothing
/// stays. Equal bytes have one id, so a repeated request is harmless.
async fn create(
    ctx: Ctx,
    Id(user): Id<UserId>,
    Query(options): Query<Options>,
    request: Request,
) -> Result<impl IntoResponse> {
    let (parts, body) = request.into_parts();
    let length = content_length(&parts.headers, MAX_ATTACHMENT_BYTES)?;
    let name = options.name.map(|name| {
        file_name(&name)
            .ok_or_else(|| ApiError::parameter("name", "must have a character that can be displayed"))
    });
    let name = name.transpose()?;
    ctx.store().user(user).await?;
    let limits = &ctx.state.config.attachments;
    let reserved = length.unwrap_or(MAX_ATTACHMENT_BYTES);
    let _permit = DocumentPermit::within(&ctx.uploads, ctx.caller.tenant(), reserved).await?;
    let deadline = parts.extensions.get::<Deadline>();
    let within = Duration::from_secs(limits.upload_timeout_s.max(1));
    if let Some(deadline) = deadline {
        deadline.restart_after(within);
    }
    let read = tokio::time::timeout(within, receive(user, body, reserved));
    let ReadBody { data, hash, check } = read.await.map_err(|_| ApiError::BodyMissing)??;
    if let Some(deadline) = deadline {
        deadline.restart_after(STORING_TIME);
    }
    let claimed = parts.headers.get(header::CONTENT_TYPE).and_then(|claimed| claimed.to_str().ok());
    let kind = check.finish(claimed).map_err(|error| ApiError::field("", error))?;
    if let Some(why) = damage(kind, &data) {
        return Err(ApiError::field("", why));
    }
    let file = store(&ctx, user, name, Received { data, id: hash.id(user), kind }).await?;
    let location = [(header::LOCATION, format!("/v1/attachments/{}", file.id))];
    Ok((StatusCode::CREATED, location, Json(file)))
}

/// Reads the body, and looks at it while it arrives.
async fn receive(user: UserId, body: axum::body::Body, reserved: usize) -> Result<ReadBody> {
    const TOO_LARGE: ApiError = ApiError::BodyTooLarge(MAX_ATTACHMENT_BYTES);
    let mut body = Limited::new(body, MAX_ATTACHMENT_BYTES);
    let mut data = Vec::new();
    let (mut hash, mut check) = (AttachmentHash::new(user), TypeCheck::default());
    // The type is in the first bytes, which may arrive in pieces.
    let mut checked = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            if error.is::<http_body_util::LengthLimitError>() { TOO_LARGE } else { ApiError::BrokenBody }
        })?;
        let Ok(piece) = frame.into_data() else { continue };
        hash.update(&piece);
        if data.is_empty() {
            data.reserve_exact(reserved);
        }
        data.extend_from_slice(&piece);
        if data.len() >= 64 {
            check.update(&data[checked..]);
            checked = data.len();
        }
    }
    check.update(&data[checked..]);
    Ok(ReadBody { data: data.into(), hash, check })
}

/// Why no model could read the file, as far as that is seen at once.
fn damage(kind: AttachmentType, data: &[u8]) -> Option<String> {
    match kind {
        // A larger image than models take is stored, too.
        AttachmentType::Image(_) => ImageHeader::read(data).ok()?.cut_off(data),
        AttachmentType::Pdf => is_encrypted(data).then(|| {
            "it is a PDF with a password, which models cannot read: send a copy without one".to_owned()
        }),
        AttachmentType::Text => None,
    }
}

async fn store(ctx: &Ctx, user: UserId, name: Option<String>, file: Received) -> Result<AttachmentResponse> {
    let Received { data, id, kind } = file;
    let header = match kind {
        // Its header is at its beginning; a larger image than models take is stored, too.
        AttachmentType::Image(_) => ImageHeader::read(&data[..data.len().min(MAX_IMAGE_BYTES)]).ok(),
        AttachmentType::Pdf | AttachmentType::Text => None,
    };
    let name = name.unwrap_or_else(|| kind.default_name());
    let object = ctx.state.ids.beside(user);
    let new = NewAttachment { id, object, user, name: &name, kind, header, data: &data };
    let most = ctx.state.config.attachments.max_bytes_of_user;
    Ok(response(ctx.store().put_attachment(&new, most).await?))
}

/// Headers for bytes that strangers may have made: a browser runs nothing of them.
pub(crate) const SAFE: [(HeaderName, &str); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    // The same id has the same bytes. It may be deleted.
    (header::CACHE_CONTROL, "private, max-age=3600"),
];

/// The bytes of a file, part by part. Strangers may have made it: its type is what its bytes are, texts are never anything else
/// for a browser, and a browser that opens the address runs nothing of it.
async fn get(ctx: Ctx, Id(id): Id<AttachmentId>) -> Result<Response> {
    let file = ctx.store().attachment(id).await?;
    // Whether it can be read at all is found out before the answer begins.
    let first = ctx.store().attachment_part(&file, 0).await?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type(file.kind))),
        (header::CONTENT_LENGTH, HeaderValue::from(file.bytes)),
        (header::CONTENT_DISPOSITION, disposition(&file)),
    ];
    let rest = stream::unfold((ctx, file, 1), move |(ctx, file, nth)| async move {
        let part = ctx.store().attachment_part(&file, nth).await;
        match part {
            Ok(part) if part.is_empty() => None,
            part => Some((part, (ctx, file, nth + 1))),
        }
    });
    let body = futures_util::StreamExt::chain(stream::iter([Ok(first)]), rest);
    Ok((headers, SAFE, Body::from_stream(body)).into_response())
}

fn content_type(kind: AttachmentType) -> &'static str {
    match kind {
        AttachmentType::Text => "text/plain; charset=utf-8",
        AttachmentType::Pdf | AttachmentType::Image(_) => kind.media_type(),
    }
}

/// What is encoded in the name of a file.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'_').remove(b'-');

/// Images are displayed, everything else is saved. The name is in ASCII for old clients, and in UTF-8.
fn disposition(file: &StoredAttachment) -> HeaderValue {
    let how = if matches!(file.kind, AttachmentType::Image(_)) { "inline" } else { "attachment" };
    let is_plain = |of: &char| of.is_ascii_alphanumeric() || " ._-".contains(*of);
    let plain: String = file.name.chars().map(|of| if is_plain(&of) { of } else { '_' }).collect();
    let encoded = utf8_percent_encode(&file.name, ENCODED);
    let text = format!("{how}; filename=\"{plain}\"; filename*=UTF-8''{encoded}");
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("attachment"))
}

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
