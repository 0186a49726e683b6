//! `GET /v1/endpoints/{name}`: a document of endpoints, without its secrets.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use houston_domain::tool_source::SourceType;
use houston_protocol::tool_source::EndpointsResponse;

use super::{SourceName, response};
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    GET: get "/v1/endpoints/{name}" => get,
    tag = "tools",
    operation_id = "get_endpoints",
    summary = "Get a document of endpoints, without its secrets.",
    params(("name" = String, Path, description = "Name of the document.", example = "crm")),
    responses((status = 200, description = "The document.", body = EndpointsResponse)),
}

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    SourceName(name): SourceName,
) -> Result<Json<EndpointsResponse>, ApiError> {
    let source = app.store(caller).tool_source(SourceType::Endpoints, &name).await?;
    Ok(Json(response(&app, source).await?))
}
