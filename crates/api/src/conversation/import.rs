//! `POST /v1/import/{kinds}`, and [as before](EARLIER_PATH) `POST /v1/{kinds}/import`: creates an agentable from a document. A document that no model could continue is refused
//! with the JSON Pointer and the reason, and nothing is created.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use houston_domain::conversation::Conversation;
use houston_domain::id::{UserId, shard};
use serde::Deserialize;

use super::{check_kind, create};
use crate::agentable_path::KindPath;
use crate::agentables::tools;
use crate::auth::Caller;
use crate::body::Creation;
use crate::documents::ReceivedDocument;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

/// The path that it has had before. In a document it would be ambiguous: `/v1/agents/{id}` could be the same.
pub(crate) const EARLIER_PATH: &str = "/v1/{kinds}/import";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Body {
    user_id: UserId,
    /// Title of the agentable; that of the document if not given.
    title: Option<String>,
    conversation: Conversation,
}

endpoint! {
    IMPORT: post "/v1/import/{kinds}" => import,
    tag = "conversations",
    operation_id = "import_conversation",
    summary = "Create an agentable from an exported document.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat: the same request with the same key gets the first response again and creates nothing new. 1 to 255 printable ASCII characters, kept for a day.")
    ),
    request_body = houston_protocol::conversation::ImportConversation,
    responses(
        (status = 201, description = "The new agentable.", body = houston_protocol::agentable::AgentableResponse),
        (status = 409, description = "`not_creatable`: agentables of this kind are created by agents or with their user.")
    ),
}

pub(crate) async fn import(
    State(app): State<Arc<App>>,
    caller: Caller,
    kind: KindPath,
    received: ReceivedDocument,
) -> Result<Response, ApiError> {
    check_kind(&kind)?;
    let importing = Arc::clone(&app);
    app.offload.drive(async move { parse_and_create(&importing, caller, &kind, received).await }).await
}

async fn parse_and_create(
    app: &Arc<App>,
    caller: Caller,
    kind: &KindPath,
    received: ReceivedDocument,
) -> Result<Response, ApiError> {
    let (Creation { value: Body { user_id, title, mut conversation }, key }, _permit) = received.read()?;
    caller.check_user(user_id)?;
    let app = &app.with_shard(shard(user_id));
    if conversation.kind != kind.name {
        let other = &conversation.kind;
        let detail = format!("is `{other}`; import it at /v1/import/{other}s");
        return Err(ApiError::field("/conversation/kind", detail));
    }
    let digest = conversation.digest();
    if let Some(title) = title {
        crate::body::check_line("/title", &title, houston_domain::agentable::MAX_TITLE_CHARS)?;
        conversation.title = title;
    }
    if conversation.title.is_empty() && !kind.titles {
        return Err(ApiError::field("/conversation/title", "must not be empty"));
    }
    conversation
        .check()
        .and_then(|()| conversation.check_counts(&app.store(caller).knowledge_limits()))
        .map_err(|invalid| ApiError::field(&format!("/conversation{}", invalid.pointer), invalid.detail))?;
    if let Some(names) = &conversation.tools {
        tools::check(app, caller, &kind.name, "/conversation/tools", names).await?;
    }
    create(app, caller, kind, user_id, (&conversation.upgraded(), Some(digest)), None, key).await
}
