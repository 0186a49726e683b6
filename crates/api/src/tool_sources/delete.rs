//! `DELETE /v1/endpoints/{name}`: deletes a document of endpoints and its secrets.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::tool_source::SourceType;

use super::SourceName;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    DELETE: delete "/v1/endpoints/{name}" => delete,
    tag = "tools",
    operation_id = "delete_endpoints",
    summary = "Delete a document of endpoints and its secrets.",
    params(("name" = String, Path, description = "Name of the document.", example = "crm")),
    responses((status = 204, description = "It is deleted.")),
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    SourceName(name): SourceName,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_tool_source(SourceType::Endpoints, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}
