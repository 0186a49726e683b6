//! `GET /v1/{kinds}/{id}/export`: a conversation as a document, which `POST /v1/{kinds}/import` reads.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use houston_protocol::schema;
use houston_store::conversation::Reading;

use crate::auth::Caller;
use crate::documents::{Room, Sent};
use crate::error::ApiError;
use crate::agentable_path::AgentablePath;
use crate::state::App;

#[utoipa::path(
    get,
    path = "/v1/{kinds}/{id}/export",
    tag = "conversations",
    operation_id = "export_conversation",
    summary = "A conversation as a document",
    params(
        ("kinds" = String, Path, description = "The plural of a kind.", example = "goals"),
        ("id" = schema::AgentableId, Path)
    ),
    responses(
        (status = 200, description = "The document", body = schema::Conversation),
        (status = 413, description = "`too_large`")
    ),
)]
pub(crate) async fn export(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    let agentable = app.store().agentable(caller.tenant, &place.kind, place.id).await?;
    let max_bytes = app.state.config.conversation.max_bytes;
    let room = Room::new(&app, caller.tenant, max_bytes).await?;
    let reading = Reading { until: None, knowledge: true, max_bytes };
    let store = app.store().clone();
    let export = async move {
        let conversation = store.conversation(caller.tenant, &agentable, &reading).await?;
        Ok(Sent::new(&conversation, room))
    };
    let sent = app.offload.drive(export).await?;
    let name = format!("attachment; filename=\"{}.json\"", place.shown());
    let headers =
        [(header::CONTENT_DISPOSITION, name), (header::CONTENT_TYPE, "application/json".to_owned())];
    Ok((headers, Body::new(sent)))
}
