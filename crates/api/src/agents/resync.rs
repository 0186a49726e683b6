//! `POST /v1/agents/resync`: reads `jobs/agents` anew and lets the tenant's default agents say what the files say, but
//! for those that somebody changed. No worker is restarted for it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_protocol::agent::ResyncResponse;
use houston_store::agent::Synced;

use super::{defaults, read_files};
use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

#[utoipa::path(
    post,
    path = "/v1/agents/resync",
    tag = "agents",
    operation_id = "resync_agents",
    summary = "Reads the files of the default agents anew",
    responses(
        (status = 200, description = "What became of each", body = ResyncResponse),
        (status = 409, description = "`unreadable_files`")
    ),
)]
pub(crate) async fn resync(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<impl IntoResponse, ApiError> {
    let mut files = read_files(&app)?;
    let mut report = ResyncResponse::default();
    files.retain(|kind, _| {
        let known = app.state.agent_types.contains_key(kind);
        if !known {
            report.needs_restart.push(kind.clone());
        }
        known
    });
    let synced = app.store().sync_default_agents(caller.tenant, &defaults(&app, &files)).await?;
    for (kind, became) in synced {
        let list = match became {
            Synced::Created => &mut report.created,
            Synced::Updated => &mut report.updated,
            Synced::Unchanged => &mut report.unchanged,
            Synced::Kept => &mut report.kept,
        };
        list.push(kind);
    }
    Ok(Json(report))
}
