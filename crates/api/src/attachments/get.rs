//! `GET /v1/attachments/{id}`: the bytes of a file, part by part. Strangers may have made it: its type is what its bytes
//! are, texts are never anything else for a browser, and a browser that opens the address runs nothing of it.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use houston_domain::attachment::AttachmentType;
use houston_domain::id::AttachmentId;
use houston_store::attachment::StoredAttachment;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

const SAFE: [(HeaderName, &str); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    // The same id has the same bytes. It may be deleted.
    (header::CACHE_CONTROL, "private, max-age=3600"),
];

endpoint! {
    GET: get "/v1/attachments/{id}" => get,
    tag = "messages",
    operation_id = "get_attachment",
    summary = "Get the bytes of a file that was posted for messages.",
    params(("id" = houston_protocol::schema::AttachmentId, Path, description = "Id of the file.")),
    responses(
        (status = 200, description = "The file.", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 503, description = "`unavailable`: the object store cannot be used now.")
    ),
}

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<AttachmentId>,
) -> Result<Response, ApiError> {
    let file = app.store(caller).attachment(id).await?;
    // Whether it can be read at all is found out before the answer begins.
    let first = app.store(caller).attachment_part(&file, 0).await?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type(file.kind))),
        (header::CONTENT_LENGTH, HeaderValue::from(file.bytes)),
        (header::CONTENT_DISPOSITION, disposition(&file)),
    ];
    let rest = stream::unfold((app, file, 1), move |(app, file, nth)| async move {
        let part = app.store(caller).attachment_part(&file, nth).await;
        match part {
            Ok(part) if part.is_empty() => None,
            part => Some((part, (app, file, nth + 1))),
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

/// Images are displayed, everything else is saved. The name is in ASCII for old clients, and in UTF-8.
fn disposition(file: &StoredAttachment) -> HeaderValue {
    let how = if matches!(file.kind, AttachmentType::Image(_)) { "inline" } else { "attachment" };
    let is_plain = |of: &char| of.is_ascii_alphanumeric() || " ._-".contains(*of);
    let plain: String = file.name.chars().map(|of| if is_plain(&of) { of } else { '_' }).collect();
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let encoded: String = file
        .name
        .bytes()
        .map(|byte| if is_kept(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    let text = format!("{how}; filename=\"{plain}\"; filename*=UTF-8''{encoded}");
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("attachment"))
}
