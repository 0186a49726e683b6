//! `GET /v1/users/{id}/snippets/{name}`: a snippet with its code.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::UserId;
use houston_domain::snippet;
use houston_protocol::snippet::SnippetCodeResponse;
use houston_protocol::time::Time;

use super::SnippetName;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    GET: get "/v1/users/{id}/snippets/{name}" => get,
    tag = "snippets",
    operation_id = "get_snippet",
    summary = "Get a snippet with its code.",
    params(
        ("id" = houston_protocol::schema::UserId, Path, description = "Id of the user."),
        ("name" = String, Path, description = "Name of the snippet.", example = "monthly_report")
    ),
    responses((status = 200, description = "The snippet.", body = SnippetCodeResponse)),
}

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
    SnippetName(name): SnippetName,
) -> Result<impl IntoResponse, ApiError> {
    let found = app.store(caller).snippet(user, &name).await?;
    Ok(Json(SnippetCodeResponse {
        tool: found.tool.as_ref().map(|_| snippet::tool_name(&found.name)),
        input_schema: found.tool.map(|tool| tool.input_schema),
        name: found.name,
        language: found.language,
        description: found.description,
        code: found.code,
        untrusted: found.untrusted,
        created_at: Time(found.created_at),
        updated_at: Time(found.updated_at),
    }))
}
