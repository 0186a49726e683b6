//! `POST /v1/{kinds}/import`: makes an agentable of a document. What cannot be gone on with is refused, with the entry
//! and the reason, and nothing is made.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use houston_domain::conversation::Conversation;
use houston_domain::id::UserId;
use serde::Deserialize;

use super::{check_kind, make};
use crate::agentables::tools;
use crate::auth::Caller;
use crate::body::{Creation, Document};
use crate::error::ApiError;
use crate::place::Kind;
use crate::state::App;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Body {
    user_id: UserId,
    /// Instead of the document's own.
    title: Option<String>,
    conversation: Conversation,
}

pub(crate) async fn import(
    State(app): State<Arc<App>>,
    caller: Caller,
    kind: Kind,
    Document(request): Document<Body>,
) -> Result<Response, ApiError> {
    let Creation { value: Body { user_id, title, mut conversation }, key } = request;
    check_kind(&kind)?;
    if conversation.kind != kind.name {
        let other = &conversation.kind;
        let told = format!("is `{other}`: import it at /v1/{other}s/import");
        return Err(ApiError::field("/conversation/kind", told));
    }
    if let Some(title) = title {
        crate::body::check_line("/title", &title, houston_domain::agentable::MAX_TITLE_CHARS)?;
        conversation.title = title;
    }
    conversation
        .check()
        .map_err(|invalid| ApiError::field(&format!("/conversation{}", invalid.pointer), invalid.detail))?;
    if let Some(names) = &conversation.tools {
        tools::check(&app, &kind.name, "/conversation/tools", names)?;
    }
    make(&app, caller, &kind, user_id, &conversation.upgraded(), None, key).await
}
