//! `/v1/images`: images that were posted with messages.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::IntoResponse;
use houston_domain::id::ImageId;

use crate::caller::Caller;
use crate::error::ApiError;
use crate::request::agentable_path::Id;
use crate::request::endpoint::{Endpoint, endpoint};
use crate::state::App;

pub(crate) const ENDPOINTS: &[Endpoint] = &[GET, DELETE];

const SAFE: [(HeaderName, &str); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
    (header::CONTENT_DISPOSITION, "inline"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    // The same id has the same bytes. It may be deleted.
    (header::CACHE_CONTROL, "private, max-age=3600"),
];

endpoint! {
    GET: get "/v1/images/{id}" for ROW => get,
    tag = "messages",
    operation_id = "get_image",
    summary = "Get the bytes of an image that was posted with a message.",
    params(("id" = houston_domain::id::ImageId, Path, description = "Id of the image.")),
    responses((status = 200, description = "The image.", body = Vec<u8>, content_type = "image/png")),
}

/// Strangers may have made the image: its type is what its bytes say, and a browser that opens the address runs nothing of it.
async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<ImageId>,
) -> Result<impl IntoResponse, ApiError> {
    let image = app.store(caller).image(id).await?;
    let content_type = [(header::CONTENT_TYPE, image.header.image_type.media_type())];
    Ok((content_type, SAFE, image.data.unwrap_or_default()))
}

endpoint! {
    DELETE: delete "/v1/images/{id}" for ROW => delete,
    tag = "messages",
    operation_id = "delete_image",
    summary = "Delete an image that was posted with messages.",
    params(("id" = houston_domain::id::ImageId, Path, description = "Id of the image.")),
    responses((status = 204, description = "The image is deleted.")),
}

/// Messages that refer to it stay; models read that it is not there.
async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<ImageId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_image(id).await?;
    Ok(StatusCode::NO_CONTENT)
}
