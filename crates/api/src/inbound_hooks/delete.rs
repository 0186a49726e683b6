//! `DELETE /v1/inbound-hooks/{id}`: from then on nothing is received there.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::InboundHookId;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    DELETE: delete "/v1/inbound-hooks/{id}" => delete,
    tag = "webhooks",
    operation_id = "delete_inbound_hook",
    summary = "Delete an inbound hook.",
    params(("id" = houston_protocol::schema::InboundHookId, Path, description = "Id of the hook.")),
    responses((status = 204, description = "It is deleted.")),
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<InboundHookId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_inbound_hook(id).await?;
    Ok(StatusCode::NO_CONTENT)
}
