//! `GET /v1/{kinds}/{id}/export`: a conversation as a document, which `POST /v1/{kinds}/import` reads.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use houston_store::conversation::Reading;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::place::Place;
use crate::state::App;

pub(crate) async fn export(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: Place,
) -> Result<impl IntoResponse, ApiError> {
    let agentable = app.store().agentable(caller.tenant, &place.kind, place.id).await?;
    let reading =
        Reading { until: None, knowledge: true, max_bytes: app.state.config.conversation.max_bytes };
    let conversation = app.store().conversation(caller.tenant, &agentable, &reading).await?;
    let name = format!("attachment; filename=\"{}.json\"", place.shown());
    Ok(([(header::CONTENT_DISPOSITION, name)], Json(conversation)))
}
