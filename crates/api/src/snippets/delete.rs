//! `DELETE /v1/users/{id}/snippets/{name}`: deletes a snippet. Runs that begin later have its tool no more.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::UserId;

use super::SnippetName;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    DELETE: delete "/v1/users/{id}/snippets/{name}" => delete,
    tag = "snippets",
    operation_id = "delete_snippet_of_user",
    summary = "Delete a snippet, and the tool that it is.",
    params(
        ("id" = houston_protocol::schema::UserId, Path, description = "Id of the user."),
        ("name" = String, Path, description = "Name of the snippet.", example = "monthly_report")
    ),
    responses((status = 204, description = "The snippet is deleted.")),
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
    SnippetName(name): SnippetName,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_snippet(user, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}
