//! `houston cancel`: cancels runs.

use std::process::ExitCode;

use anyhow::anyhow;
use clap::Args;
use houston_domain::id::{AgentableId, RunId};
use houston_store::{Error, Store};
use serde_json::json;

use super::agentable::{Database, parse};
use super::audit;
use super::{Context, Failure};
use crate::output::{print, print_json};

/// Cancel the open run of an agent and those of all its tasks, or one run. Their workers are notified at once; what was
/// done stays done.
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// An agent (`goal_…`, `task_…`, …) or a run (`run_…`)
    id: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    database: Database,
}

impl Cancel {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        let run: Option<RunId> = self.id.parse().ok();
        let agentable = match run {
            Some(_) => None,
            None => Some(parse(&context.loaded, &self.id).map_err(Failure::Usage)?),
        };
        self.database.with(context, async |_, stores| {
            let cancelled = match (run, agentable) {
                (Some(run), _) => cancel_run(stores.of(run), run).await,
                (None, Some((kind, id))) => cancel_agentable(stores.of(id), &kind, id).await,
                (None, None) => Ok(Vec::new()),
            };
            let cancelled = cancelled.map_err(|error| match error {
                Error::NotFound { .. } => {
                    Failure::Other(anyhow!("there is no {}; `houston list` prints the existing ids", self.id))
                }
                error => error.into(),
            })?;
            if self.json {
                print_json(&json!({"id": self.id, "cancelled_runs": cancelled}));
            } else if cancelled.is_empty() {
                print("no run is open");
            } else {
                cancelled.iter().for_each(|run| print(&format!("{run}: cancel requested")));
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

async fn cancel_run(store: &Store, run: RunId) -> Result<Vec<RunId>, Error> {
    let tenant = store.operator().tenant_of_run(run).await?;
    let cancelled = store.tenant(tenant).cancel_run(run).await?;
    audit::record(store, Some(tenant), "cancel_run", run.to_string()).await;
    Ok(cancelled.map(|_| run).into_iter().collect())
}

async fn cancel_agentable(store: &Store, kind: &str, id: AgentableId) -> Result<Vec<RunId>, Error> {
    let (tenant, _) = store.operator().agentable_anywhere(kind, id).await?;
    let cancelled = store.tenant(tenant).cancel_agentable(kind, id, false).await?;
    audit::record(store, Some(tenant), "cancel_agentable", id.public_id(kind)).await;
    Ok(cancelled.into_iter().map(|one| one.run).collect())
}
