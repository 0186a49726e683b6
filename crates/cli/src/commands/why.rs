//! `houston why`: why an agent or a run does not go on, and what to do.

use std::process::ExitCode;

use anyhow::anyhow;
use clap::Args;
use houston_domain::agentable::Urgency;
use houston_domain::id::{AgentableId, MessageId, RunId, TenantId};
use houston_protocol::why::{WhyReason, WhyResponse};
use houston_queue::Lane;
use houston_store::{Error, Store};

use super::agentable::{Database, one_line, parse};
use super::{Context, Failure};
use crate::config::Loaded;
use crate::output::{print, print_json};

/// Explain why an agent, a run or a message does not go on, and what to do about it.
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// An agent (`goal_…`, `task_…`, `plan_…`, …), a run (`run_…`) or a message (`msg_…`)
    id: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    database: Database,
}

/// What an id names.
enum Named {
    Agentable(String, AgentableId),
    Run(RunId),
    Message(MessageId),
}

impl Named {
    fn read(loaded: &Loaded, id: &str) -> Result<Self, Failure> {
        if let Ok(run) = id.parse() {
            return Ok(Self::Run(run));
        }
        if let Ok(message) = id.parse() {
            return Ok(Self::Message(message));
        }
        let (kind, id) = parse(loaded, id).map_err(Failure::Usage)?;
        Ok(Self::Agentable(kind, id))
    }
}

impl Why {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        let named = Named::read(&context.loaded, &self.id)?;
        self.database.with(context, async |context, stores| {
            let kinds = context.loaded.agent_types();
            let lane_of = |kind: &str| {
                Lane::from(kinds.get(kind).map_or_else(Urgency::default, |kind| kind.urgency)).as_str()
            };
            let found = match named {
                Named::Run(run) => of_run(stores.of(run), run, lane_of).await,
                Named::Message(message) => of_message(stores.of(message), message, lane_of).await,
                Named::Agentable(kind, id) => of_agentable(stores.of(id), &kind, id, lane_of(&kind)).await,
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
    let health = store.api().health().await?.facts();
    Ok(WhyResponse::of(id.public_id(kind), &store.tenant(tenant).why(id, lane, health).await?))
}

async fn of_message(
    store: &Store,
    message: MessageId,
    lane_of: impl Fn(&str) -> &'static str,
) -> Result<WhyResponse, Error> {
    let (tenant, run) = store.operator().run_of_message(message).await?;
    of_run_of(store, tenant, run, lane_of).await
}

async fn of_run(
    store: &Store,
    run: RunId,
    lane_of: impl Fn(&str) -> &'static str,
) -> Result<WhyResponse, Error> {
    let tenant = store.operator().tenant_of_run(run).await?;
    of_run_of(store, tenant, run, lane_of).await
}

async fn of_run_of(
    store: &Store,
    tenant: TenantId,
    run: RunId,
    lane_of: impl Fn(&str) -> &'static str,
) -> Result<WhyResponse, Error> {
    let found = store.tenant(tenant).run(run).await?;
    let health = store.api().health().await?.facts();
    let facts = store.tenant(tenant).why(found.agentable, lane_of(&found.kind), health).await?;
    let error = found.error_code.as_deref().zip(found.error_message.as_deref());
    let public_id = found.agentable.public_id(&found.kind);
    Ok(WhyResponse::of_run(public_id, &facts, run, found.status, error))
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
