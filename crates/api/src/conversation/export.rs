//! `GET /v1/{kinds}/{id}/export`: a conversation as one document, which `POST /v1/import/{kinds}` accepts.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use houston_store::conversation::ExportOptions;

use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::documents::{DocumentBody, DocumentPermit};
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    EXPORT: get "/v1/{kinds}/{id}/export" => export,
    tag = "conversations",
    operation_id = "export_conversation",
    summary = "Export a conversation as one document.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    responses(
        (status = 200, description = "The document.", body = houston_protocol::schema::Conversation),
        (status = 413, description = "`too_large`: the conversation is larger than `server.conversation.max_bytes`.")
    ),
}

pub(crate) async fn export(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    let agentable = app.store(caller).agentable(&path.kind, path.id).await?;
    let max_bytes = app.state.config.conversation.max_bytes;
    let permit = DocumentPermit::new(&app, caller.tenant(), max_bytes).await?;
    let options = ExportOptions { until: None, knowledge: true, max_bytes };
    let exporting = Arc::clone(&app);
    let export = async move {
        let conversation = exporting.store(caller).conversation(&agentable, &options).await?;
        Ok(DocumentBody::new(&conversation, permit))
    };
    let sent = app.offload.drive(export).await?;
    let name = format!("attachment; filename=\"{}.json\"", path.public_id());
    let headers =
        [(header::CONTENT_DISPOSITION, name), (header::CONTENT_TYPE, "application/json".to_owned())];
    Ok((headers, Body::new(sent)))
}
