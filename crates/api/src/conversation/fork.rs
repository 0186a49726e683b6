//! `POST /v1/{kinds}/{id}/fork`: copies a conversation up to a position; the copy continues independently.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use houston_store::conversation::{ExportOptions, Origin};
use serde::Deserialize;

use super::{check_kind, create};
use crate::agentable_path::{AgentablePath, KindPath};
use crate::auth::Caller;
use crate::body::{Creation, OptionalBody, check_line};
use crate::documents::DocumentPermit;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Body {
    /// Position of the last history entry to copy; the whole history if not given.
    position: Option<i64>,
    /// Title of the copy; that of the original if not given.
    title: Option<String>,
    /// Whether the notes and learnings of that time are copied, too.
    knowledge: bool,
}

impl Default for Body {
    fn default() -> Self {
        Self { position: None, title: None, knowledge: true }
    }
}

endpoint! {
    FORK: post "/v1/{kinds}/{id}/fork" => fork,
    tag = "conversations",
    operation_id = "fork_conversation",
    summary = "Copy a conversation, up to a position if one is given.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat: the same request with the same key gets the first response again and creates nothing new. 1 to 255 printable ASCII characters, kept for a day.")
    ),
    request_body = Option<houston_protocol::conversation::ForkConversation>,
    responses(
        (status = 201, description = "The copy.", body = houston_protocol::agentable::AgentableResponse),
        (status = 409, description = "`not_creatable`: agentables of this kind are created by agents or with their user.")
    ),
}

pub(crate) async fn fork(
    State(app): State<Arc<App>>,
    caller: Caller,
    kind: KindPath,
    path: AgentablePath,
    OptionalBody(request): OptionalBody<Body>,
) -> Result<Response, ApiError> {
    let Creation { value: Body { position, title, knowledge }, key } = request;
    check_kind(&kind)?;
    title
        .as_deref()
        .map_or(Ok(()), |title| check_line("/title", title, houston_domain::agentable::MAX_TITLE_CHARS))?;
    let original = app.store(caller).agentable(&path.kind, path.id).await?;
    let max_bytes = app.state.config.conversation.max_bytes;
    let options = ExportOptions { until: position, knowledge, max_bytes };
    let permit = DocumentPermit::new(&app, caller.tenant(), max_bytes).await?;
    let forking = Arc::clone(&app);
    let fork = async move {
        let _permit = permit;
        let mut conversation = forking.store(caller).conversation(&original, &options).await?;
        if let Some(title) = title {
            conversation.title = title;
        }
        let origin = Origin { id: original.id, served_by: original.served_by };
        create(&forking, caller, &kind, original.user, (&conversation, None), Some(origin), key).await
    };
    app.offload.drive(fork).await
}
