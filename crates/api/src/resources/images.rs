//! `/v1/images`: images that were posted with messages.

use axum::http::{HeaderName, header};
use houston_domain::id::ImageId;

use crate::request::prelude::*;

endpoints! {
    get "/v1/images/{id}" for ROW => get,
    "get_image" in "messages": "Get the bytes of an image that was posted with a message.",
    params(("id" = ImageId, Path, description = "Id of the image.")),
    200 "The image." [Vec<u8>, content_type = "image/png"];

    // Messages that refer to it stay; models read that it is not there.
    delete "/v1/images/{id}" for ROW =>
        async |ctx: Ctx, Id(id): Id<ImageId>| gone(ctx.store().delete_image(id).await),
    "delete_image" in "messages": "Delete an image that was posted with messages.",
    params(("id" = ImageId, Path, description = "Id of the image.")),
    204 "The image is deleted.";
}

const SAFE: [(HeaderName, &str); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
    (header::CONTENT_DISPOSITION, "inline"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    // The same id has the same bytes. It may be deleted.
    (header::CACHE_CONTROL, "private, max-age=3600"),
];

/// Strangers may have made the image: its type is what its bytes say, and a browser that opens the address runs nothing of it.
async fn get(ctx: Ctx, Id(id): Id<ImageId>) -> Result<impl IntoResponse> {
    let image = ctx.store().image(id).await?;
    let content_type = [(header::CONTENT_TYPE, image.header.image_type.as_str())];
    Ok((content_type, SAFE, image.data.unwrap_or_default()))
}
