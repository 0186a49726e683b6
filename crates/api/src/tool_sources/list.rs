//! `GET /v1/endpoints`: all documents of endpoints of the tenant, by name.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use houston_domain::tool_source::SourceType;
use houston_protocol::tool_source::EndpointsList;

use super::response;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    LIST: get "/v1/endpoints" => list,
    tag = "tools",
    operation_id = "list_endpoints",
    summary = "List the documents of endpoints of the tenant, without their secrets.",
    responses((status = 200, description = "All documents, by name; at most 50.", body = EndpointsList)),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<EndpointsList>, ApiError> {
    let mut data = Vec::new();
    for source in app.store(caller).tool_sources(SourceType::Endpoints).await? {
        data.push(response(&app, source).await?);
    }
    Ok(Json(EndpointsList { data }))
}
