//! `POST /v1/{kinds}/{id}/fork`: a copy that goes on from some point of its own accord.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use houston_protocol::agentable::AgentableResponse;
use houston_protocol::conversation::ForkConversation;
use houston_protocol::schema;
use houston_store::conversation::{Origin, Reading};
use serde::Deserialize;

use super::{check_kind, make};
use crate::auth::Caller;
use crate::body::{Creation, OptionalBody, check_line};
use crate::documents::Room;
use crate::error::ApiError;
use crate::agentable_path::{Kind, AgentablePath};
use crate::state::App;

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Body {
    /// The position of the last entry of the history that is copied; all, if not given.
    position: Option<i64>,
    /// Instead of the original's.
    title: Option<String>,
    /// Whether the notes and learnings of that time come along.
    knowledge: bool,
}

impl Default for Body {
    fn default() -> Self {
        Self { position: None, title: None, knowledge: true }
    }
}

#[utoipa::path(
    post,
    path = "/v1/{kinds}/{id}/fork",
    tag = "conversations",
    operation_id = "fork_conversation",
    summary = "Copies a conversation",
    params(
        ("kinds" = String, Path, description = "The plural of a kind.", example = "goals"),
        ("id" = schema::AgentableId, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "The same request under the same key is answered the same, and creates nothing twice. 1 to 255 visible ASCII characters, kept for a day.")
    ),
    request_body = Option<ForkConversation>,
    responses(
        (status = 201, description = "The copy", body = AgentableResponse),
        (status = 409, description = "`not_creatable`")
    ),
)]
pub(crate) async fn fork(
    State(app): State<Arc<App>>,
    caller: Caller,
    kind: Kind,
    place: AgentablePath,
    OptionalBody(request): OptionalBody<Body>,
) -> Result<Response, ApiError> {
    let Creation { value: Body { position, title, knowledge }, key } = request;
    check_kind(&kind)?;
    title
        .as_deref()
        .map_or(Ok(()), |title| check_line("/title", title, houston_domain::agentable::MAX_TITLE_CHARS))?;
    let original = app.store().agentable(caller.tenant, &place.kind, place.id).await?;
    let max_bytes = app.state.config.conversation.max_bytes;
    let reading = Reading { until: position, knowledge, max_bytes };
    let room = Room::new(&app, caller.tenant, max_bytes).await?;
    let forking = Arc::clone(&app);
    let fork = async move {
        let _room = room;
        let mut conversation = forking.store().conversation(caller.tenant, &original, &reading).await?;
        if let Some(title) = title {
            conversation.title = title;
        }
        let origin = Origin { id: original.id, served_by: original.served_by };
        make(&forking, caller, &kind, original.user, &conversation, Some(origin), key).await
    };
    app.offload.drive(fork).await
}
