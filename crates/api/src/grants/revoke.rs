//! `DELETE /v1/grants/{id}`: revokes a grant. Calls that it covered are asked about again.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::GrantId;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    REVOKE: delete "/v1/grants/{id}" => revoke,
    tag = "guards",
    operation_id = "revoke_grant",
    summary = "Revoke a lasting yes.",
    params(("id" = houston_protocol::schema::GrantId, Path, description = "Id of the grant.")),
    responses((status = 204, description = "The grant is revoked.")),
}

pub(crate) async fn revoke(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<GrantId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).revoke_grant(id).await?;
    Ok(StatusCode::NO_CONTENT)
}
