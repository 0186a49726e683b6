//! `POST /v1/users/{id}/attachments?name=report.pdf`: stores the body as a file of the user. The memory for it is reserved
//! before it is read; of a body that breaks off nothing stays. Equal bytes have one id, so a repeated request is harmless.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use bytes::Bytes;
use houston_domain::attachment::{
    AttachmentHash, AttachmentType, MAX_ATTACHMENT_BYTES, TypeCheck, file_name, is_encrypted,
};
use houston_domain::id::{AttachmentId, UserId};
use houston_domain::image::{ImageError, ImageHeader, MAX_IMAGE_BYTES};
use houston_protocol::attachment::AttachmentResponse;
use houston_store::attachment::NewAttachment;
use http_body_util::{BodyExt as _, Limited};
use serde::Deserialize;

use crate::agentable_path::Id;
use crate::attachments::response;
use crate::auth::Caller;
use crate::body::content_length;
use crate::deadline::Deadline;
use crate::documents::DocumentPermit;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::query::Query;
use crate::state::App;

/// How long the object store may take, besides the usual time of a request.
const STORING_TIME: Duration = Duration::from_secs(20);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    name: Option<String>,
}

/// A file that has arrived.
struct Received {
    data: Bytes,
    id: AttachmentId,
    kind: AttachmentType,
}

endpoint! {
    CREATE: post "/v1/users/{id}/attachments" => create,
    tag = "messages",
    operation_id = "create_attachment",
    summary = "Store a file for messages: the body is the file.",
    params(
        ("id" = houston_protocol::schema::UserId, Path, description = "Id of the user."),
        ("name" = Option<String>, Query, description = "Name of the file; at most 100 characters of it are kept.", example = "report.pdf")
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream", description = "The bytes of a PNG, JPEG, WebP or GIF image, of a PDF, or of a text in UTF-8; at most 20,000,000. `Content-Type` says what it is."),
    responses(
        (status = 201, description = "The file; the same one if the user has posted these bytes before.", body = AttachmentResponse),
        (status = 409, description = "`full`: the files of the user have too many bytes."),
        (status = 413, description = "`body_too_large`: the file is too large."),
        (status = 503, description = "`unavailable`: the object store cannot be used now.")
    ),
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<impl IntoResponse, ApiError> {
    let (mut parts, body) = request.into_parts();
    let caller = Caller::from_request_parts(&mut parts, &app).await?;
    let Id(user) = Id::<UserId>::from_request_parts(&mut parts, &app).await?;
    let Query(options) = Query::<Options>::from_request_parts(&mut parts, &app).await?;
    let length = content_length(&parts.headers, MAX_ATTACHMENT_BYTES)?;
    let name = options.name.map(|name| {
        file_name(&name)
            .ok_or_else(|| ApiError::parameter("name", "must have a character that can be displayed"))
    });
    let name = name.transpose()?;
    app.store(caller).user(user).await?;
    let limits = &app.state.config.attachments;
    let reserved = length.unwrap_or(MAX_ATTACHMENT_BYTES);
    let _permit =
        DocumentPermit::within(&app.uploads, limits.max_bytes_at_once, caller.tenant(), reserved).await?;
    let deadline = parts.extensions.get::<Deadline>();
    let within = Duration::from_secs(limits.upload_timeout_s.max(1));
    if let Some(deadline) = deadline {
        deadline.restart_after(within);
    }
    let read = tokio::time::timeout(within, receive(user, body, reserved));
    let (data, hash, check) = read.await.map_err(|_| ApiError::BodyMissing)??;
    if let Some(deadline) = deadline {
        deadline.restart_after(STORING_TIME);
    }
    let claimed = parts.headers.get(header::CONTENT_TYPE).and_then(|claimed| claimed.to_str().ok());
    let kind = check.finish(claimed).map_err(|error| ApiError::field("", error.to_string()))?;
    if let Some(why) = damage(kind, &data) {
        return Err(ApiError::field("", why));
    }
    let file = store(&app, caller, user, name, Received { data, id: hash.id(user), kind }).await?;
    let location = [(header::LOCATION, format!("/v1/attachments/{}", file.id))];
    Ok((StatusCode::CREATED, location, Json(file)))
}

/// Reads the body, and looks at it while it arrives.
async fn receive(
    user: UserId,
    body: axum::body::Body,
    reserved: usize,
) -> Result<(Bytes, AttachmentHash, TypeCheck), ApiError> {
    const TOO_LARGE: ApiError = ApiError::BodyTooLarge { limit: MAX_ATTACHMENT_BYTES };
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
    Ok((data.into(), hash, check))
}

/// Why no model could read the file, as far as that is seen at once.
fn damage(kind: AttachmentType, data: &[u8]) -> Option<String> {
    match kind {
        AttachmentType::Image(_) => match ImageHeader::read_whole(data) {
            Err(error @ ImageError::CutOff(_)) => Some(error.to_string()),
            // A larger image than models take is stored, too.
            _ => None,
        },
        AttachmentType::Pdf => is_encrypted(data).then(|| {
            "it is a PDF with a password, which models cannot read: send a copy without one".to_owned()
        }),
        AttachmentType::Text => None,
    }
}

async fn store(
    app: &App,
    caller: Caller,
    user: UserId,
    name: Option<String>,
    file: Received,
) -> Result<AttachmentResponse, ApiError> {
    let Received { data, id, kind } = file;
    let header = match kind {
        // Its header is at its beginning; a larger image than models take is stored, too.
        AttachmentType::Image(_) => ImageHeader::read(&data[..data.len().min(MAX_IMAGE_BYTES)]).ok(),
        AttachmentType::Pdf | AttachmentType::Text => None,
    };
    let name = name.unwrap_or_else(|| kind.default_name());
    let object = app.state.ids.beside(user);
    let new = NewAttachment { id, object, user, name: &name, kind, header, data: &data };
    let most = app.state.config.attachments.max_bytes_of_user;
    Ok(response(app.store(caller).put_attachment(&new, most).await?))
}
