//! `POST /v1/agents/resync`: reads `jobs/agents` anew and lets the tenant's default agents say what the files say, but
//! for those that somebody changed. No worker is restarted for it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_store::agent::Synced;
use serde::Serialize;

use super::{defaults, read_files};
use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

/// The kinds, by what became of their default agents.
#[derive(Debug, Default, Serialize)]
struct Report {
    /// There was none.
    created: Vec<String>,
    /// They say now what their files say.
    updated: Vec<String>,
    /// They said so already.
    unchanged: Vec<String>,
    /// Somebody changed them: `reset` puts one back.
    kept: Vec<String>,
    /// Files of kinds that this server has not known since its start: it takes a restart to make agentables of them.
    needs_restart: Vec<String>,
}

pub(crate) async fn resync(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<impl IntoResponse, ApiError> {
    let mut files = read_files(&app)?;
    let mut report = Report::default();
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
