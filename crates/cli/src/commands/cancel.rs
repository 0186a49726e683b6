//! `houston cancel`: cancels runs.

use clap::Args;
use houston_domain::id::RunId;
use houston_protocol::problem::ProblemCode;
use houston_protocol::run::{CancelledRunsResponse, RunResponse};
use serde_json::json;

use super::agentable::{missing, parse};
use super::{Context, Failure, Result};
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
}

impl Cancel {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        let run: Option<RunId> = self.id.parse().ok();
        let (id, path) = match run {
            Some(run) => (run.0, format!("/v1/runs/{run}/cancel")),
            None => {
                let (kind, id) = parse(&context.loaded, &self.id).map_err(Failure::Usage)?;
                (id.0, format!("/v1/{kind}s/{}/cancel", self.id))
            }
        };
        context.with_api(async |api| {
            let api = api.of_named(id, &self.id).await?;
            let cancelled: Vec<RunId> = match run {
                Some(_) => match api.post::<RunResponse>(&path).await {
                    Err(error) if error.is(ProblemCode::InvalidState) => Vec::new(),
                    cancelled => vec![cancelled?.id],
                },
                None => {
                    let done = api.post::<CancelledRunsResponse>(&path).await;
                    let done = done.map_err(|error| Failure::from(error).or_missing(|| missing(&self.id)))?;
                    done.data.into_iter().map(|one| one.run_id).collect()
                }
            };
            if self.json {
                print_json(&json!({"id": self.id, "cancelled_runs": cancelled}));
            } else if cancelled.is_empty() {
                print("no run is open");
            } else {
                cancelled.iter().for_each(|run| print(&format!("{run}: cancel requested")));
            }
            Ok(())
        })
    }
}
