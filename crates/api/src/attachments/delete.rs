//! `DELETE /v1/attachments/{id}`: deletes a file. Messages that refer to it stay; models read that it is not there.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::AttachmentId;
use houston_protocol::schema;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

#[utoipa::path(
    delete,
    path = "/v1/attachments/{id}",
    tag = "messages",
    operation_id = "delete_attachment",
    summary = "Delete a file that was posted for messages.",
    params(("id" = schema::AttachmentId, Path, description = "Id of the file.")),
    responses((status = 204, description = "The file is deleted.")),
)]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<AttachmentId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_attachment(id).await?;
    Ok(StatusCode::NO_CONTENT)
}
