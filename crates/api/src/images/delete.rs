//! `DELETE /v1/images/{id}`: deletes an image. Messages that refer to it stay; models read that it is not there.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::ImageId;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    DELETE: delete "/v1/images/{id}" => delete,
    tag = "messages",
    operation_id = "delete_image",
    summary = "Delete an image that was posted with messages.",
    params(("id" = houston_protocol::schema::ImageId, Path, description = "Id of the image.")),
    responses((status = 204, description = "The image is deleted.")),
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<ImageId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_image(id).await?;
    Ok(StatusCode::NO_CONTENT)
}
