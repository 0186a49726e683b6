//! `POST /v1/agents/resync`: reads `jobs/agents` again and updates the tenant's default agents from the files, except
//! those that were changed. Workers need not be restarted.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_protocol::agent::ResyncResponse;
use houston_store::agent::Synced;

use super::{defaults, read_files};
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    RESYNC: post "/v1/agents/resync" => resync,
    tag = "agents",
    operation_id = "resync_agents",
    summary = "Read jobs/agents again and update the default agents that were not changed.",
    responses(
        (status = 200, description = "The kinds, by what happened to their default agents.", body = ResyncResponse),
        (status = 409, description = "`unreadable_files`: jobs/agents cannot be read.")
    ),
}

pub(crate) async fn resync(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<impl IntoResponse, ApiError> {
    let mut files = read_files(&app)?;
    let mut report = ResyncResponse::default();
    files.retain(|kind, _| {
        let exists = app.state.agent_types.contains_key(kind);
        if !exists {
            report.needs_restart.push(kind.clone());
        }
        exists
    });
    let synced = app.store(caller).sync_default_agents(&defaults(&app, &files)).await?;
    for (kind, became) in synced {
        let list = match became {
            Synced::Created => &mut report.created,
            Synced::Updated => &mut report.updated,
            Synced::Unchanged => &mut report.unchanged,
            Synced::Customised => &mut report.kept,
        };
        list.push(kind);
    }
    Ok(Json(report))
}
