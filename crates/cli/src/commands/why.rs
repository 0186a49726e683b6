//! `houston why`: why an agent or a run does not go on, and what to do.

use std::process::ExitCode;

use anyhow::anyhow;
use clap::Args;
use houston_domain::agentable::Urgency;
use houston_domain::id::{AgentableId, RunId};
use houston_protocol::why::{WhyReason, WhyResponse};
use houston_queue::Lane;
use houston_store::{Error, Store};

use super::agentable::{Database, one_line, parse};
use super::{Context, Failure};
use crate::output::{print, print_json};

/// Explain why an agent or a run does not go on, and what to do about it.
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// An agent (`goal_…`, `task_…`, …) or a run (`run_…`)
    id: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    database: Database,
}

impl Why {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        let run: Option<RunId> = self.id.parse().ok();
        let agentable = match run {
            Some(_) => None,
            None => Some(parse(&context.loaded, &self.id).map_err(Failure::Usage)?),
        };
        self.database.with(context, async |context, stores| {
            let kinds = context.loaded.agent_types();
            let lane_of = |kind: &str| {
                Lane::from(kinds.get(kind).map_or_else(Urgency::default, |kind| kind.urgency)).as_str()
            };
            let found = match (run, agentable) {
                (Some(run), _) => of_run(stores.of(run), run, lane_of).await,
                (None, Some((kind, id))) => of_agentable(stores.of(id), &kind, id, lane_of(&kind)).await,
                (None, None) => Err(Error::NotFound { what: "agentable" }),
            };
            let found = found.map_err(|error| match error {
                Error::NotFound { .. } => {
                    Failure::Other(anyhow!("there is no {}; `houston list` prints the existing ids", self.id))
                }
                error => error.into(),
            })?;
            if self.json {
                print_json(&serde_json::json!(found));
            } else {
                print(&found.id);
                found.reasons.iter().flat_map(lines).for_each(|line| print(&line));
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

async fn of_agentable(store: &Store, kind: &str, id: AgentableId, lane: &str) -> Result<WhyResponse, Error> {
    let (tenant, _) = store.operator().agentable_anywhere(kind, id).await?;
    Ok(WhyResponse::of(id.public_id(kind), &store.tenant(tenant).why(id, lane).await?))
}

async fn of_run(
    store: &Store,
    run: RunId,
    lane_of: impl Fn(&str) -> &'static str,
) -> Result<WhyResponse, Error> {
    let tenant = store.operator().tenant_of_run(run).await?;
    let found = store.tenant(tenant).run(run).await?;
    let facts = store.tenant(tenant).why(found.agentable, lane_of(&found.kind)).await?;
    Ok(WhyResponse::of(found.agentable.public_id(&found.kind), &facts))
}

fn lines(reason: &WhyReason) -> Vec<String> {
    let mut lines = vec![format!("  {}  {}", reason.cause, one_line(&reason.text, 300))];
    if let Some(until) = reason.until {
        lines.push(format!("      until {}", until.0.to_rfc3339_opts(chrono::SecondsFormat::Secs, true)));
    }
    if let Some(question) = reason.question_id {
        lines.push(format!("      {question}"));
    }
    lines.extend(reason.todo.as_ref().map(|todo| format!("      → {todo}")));
    lines
}
