//! `/v1/images`: images that were posted with messages.

use axum::http::header;
use houston_domain::id::ImageId;

use crate::request::prelude::*;
use crate::resources::attachments::SAFE;

endpoints! {
    get "/v1/images/{id}" for ROW => get,
    "get_image" in "messages": "Get the bytes of an image that was posted with a message.",
    200 "The image." [Vec<u8>, content_type = "image/png"];

    // Messages that refer to it stay; models read that it is not there.
    delete "/v1/images/{id}" for ROW =>
        async |ctx: Ctx, Id(id): Id<ImageId>| gone(ctx.store().delete_image(id).await),
    "delete_image" in "messages": "Delete an image that was posted with messages.",
    204 "The image is deleted.";
}

/// Strangers may have made the image: its type is what its bytes say, and a browser that opens the address runs nothing of it.
async fn get(ctx: Ctx, Id(id): Id<ImageId>) -> Result<impl IntoResponse> {
    let image = ctx.store().image(id).await?;
    let content_type = [(header::CONTENT_TYPE, image.header.image_type.as_str())];
    let disposition = [(header::CONTENT_DISPOSITION, "inline")];
    Ok((content_type, disposition, SAFE, image.data.unwrap_or_default()))
}
