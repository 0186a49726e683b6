//! `POST /v1/{kinds}/import`: makes an agentable of a document. What cannot be gone on with is refused, with the entry
//! and the reason, and nothing is made.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use houston_domain::conversation::Conversation;
use houston_domain::id::UserId;
use houston_protocol::agentable::AgentableResponse;
use houston_protocol::conversation::ImportConversation;
use serde::Deserialize;

use super::{check_kind, make};
use crate::agentables::tools;
use crate::auth::Caller;
use crate::body::Creation;
use crate::documents::Received;
use crate::error::ApiError;
use crate::agentable_path::Kind;
use crate::state::App;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Body {
    user_id: UserId,
    /// Instead of the document's own.
    title: Option<String>,
    conversation: Conversation,
}

#[utoipa::path(
    post,
    path = "/v1/{kinds}/import",
    tag = "conversations",
    operation_id = "import_conversation",
    summary = "Creates an agentable from a document",
    params(
        ("kinds" = String, Path, description = "The plural of a kind.", example = "goals"),
        ("Idempotency-Key" = Option<String>, Header, description = "The same request under the same key is answered the same, and creates nothing twice. 1 to 255 visible ASCII characters, kept for a day.")
    ),
    request_body = ImportConversation,
    responses(
        (status = 201, description = "The agentable", body = AgentableResponse),
        (status = 409, description = "`not_creatable`")
    ),
)]
pub(crate) async fn import(
    State(app): State<Arc<App>>,
    caller: Caller,
    kind: Kind,
    received: Received,
) -> Result<Response, ApiError> {
    check_kind(&kind)?;
    let importing = Arc::clone(&app);
    app.offload.drive(async move { read_and_make(&importing, caller, &kind, received).await }).await
}

async fn read_and_make(
    app: &App,
    caller: Caller,
    kind: &Kind,
    received: Received,
) -> Result<Response, ApiError> {
    let (Creation { value: Body { user_id, title, mut conversation }, key }, _room) = received.read()?;
    if conversation.kind != kind.name {
        let other = &conversation.kind;
        let told = format!("is `{other}`: import it at /v1/{other}s/import");
        return Err(ApiError::field("/conversation/kind", told));
    }
    if let Some(title) = title {
        crate::body::check_line("/title", &title, houston_domain::agentable::MAX_TITLE_CHARS)?;
        conversation.title = title;
    }
    if conversation.title.is_empty() && !kind.titles {
        return Err(ApiError::field("/conversation/title", "may not be empty"));
    }
    conversation
        .check()
        .map_err(|invalid| ApiError::field(&format!("/conversation{}", invalid.pointer), invalid.detail))?;
    if let Some(names) = &conversation.tools {
        tools::check(app, &kind.name, "/conversation/tools", names)?;
    }
    make(app, caller, kind, user_id, &conversation.upgraded(), None, key).await
}
