//! `houston cancel`: cancels runs.

use std::process::ExitCode;

use clap::Args;
use houston_api::Local;
use houston_domain::id::RunId;
use houston_protocol::problem::ProblemCode;
use houston_protocol::run::{CancelledRunsResponse, RunResponse};
use serde_json::json;

use super::agentable::{missing, parse};
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
}

impl Cancel {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        let run: Option<RunId> = self.id.parse().ok();
        let agentable = match run {
            Some(_) => None,
            None => Some(parse(&context.loaded, &self.id).map_err(Failure::Usage)?),
        };
        context.with_api(async |api| {
            let cancelled = match (run, agentable) {
                (Some(run), _) => cancel_run(&api.of_named(run, &self.id).await?, run).await?,
                (None, Some((kind, id))) => {
                    let path = format!("/v1/{kind}s/{}/cancel", self.id);
                    let done = api.of_named(id, &self.id).await?.post::<CancelledRunsResponse>(&path).await;
                    let done = done.map_err(|error| Failure::from(error).or_missing(|| missing(&self.id)))?;
                    done.data.into_iter().map(|one| one.run_id).collect()
                }
                (None, None) => Vec::new(),
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

/// Cancels a run. Returns none if it has ended before.
async fn cancel_run(api: &Local, run: RunId) -> Result<Vec<RunId>, Failure> {
    match api.post::<RunResponse>(&format!("/v1/runs/{run}/cancel")).await {
        Ok(cancelled) => Ok(vec![cancelled.id]),
        Err(error) if error.is(ProblemCode::InvalidState) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}
