//! `DELETE /v1/attachments/{id}`: deletes a file. Messages that refer to it stay; models read that it is not there.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::AttachmentId;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    DELETE: delete "/v1/attachments/{id}" => delete,
    tag = "messages",
    operation_id = "delete_attachment",
    summary = "Delete a file that was posted for messages.",
    params(("id" = houston_protocol::schema::AttachmentId, Path, description = "Id of the file.")),
    responses((status = 204, description = "The file is deleted.")),
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<AttachmentId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_attachment(id).await?;
    Ok(StatusCode::NO_CONTENT)
}
