//! `houston why`: why an agent or a run does not go on, and what to do.

use std::process::ExitCode;

use anyhow::anyhow;
use clap::Args;
use houston_api::{Local, LocalError};
use houston_domain::id::{AgentableId, MessageId, RunId};
use houston_domain::message::Message;
use houston_protocol::why::{WhyReason, WhyResponse};

use super::agentable::{at, missing, one_line, parse};
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
        context.with_api(async |api| {
            let found: WhyResponse = match named {
                Named::Run(run) => of_run(&api.of_named(run, &self.id).await?, run).await?,
                Named::Message(id) => {
                    let api = api.of_named(id, &self.id).await?;
                    let message: Message = api.get(&format!("/v1/messages/{id}")).await?;
                    let run = message.run_id.ok_or_else(|| anyhow!("{id} belongs to no run"))?;
                    of_run(&api, run).await?
                }
                Named::Agentable(kind, id) => {
                    let api = api.of_named(id, &self.id).await?;
                    let found = api.get(&format!("/v1/{kind}s/{}/why", self.id)).await;
                    found.map_err(|error| Failure::from(error).or_missing(|| missing(&self.id)))?
                }
            };
            if self.json {
                print_json(&serde_json::json!(found));
            } else {
                print(&found.id);
                found.reasons.iter().flat_map(lines).for_each(|line| print(&line));
            }
            Ok(())
        })
    }
}

async fn of_run(api: &Local, run: RunId) -> Result<WhyResponse, LocalError> {
    api.get(&format!("/v1/runs/{run}/why")).await
}

fn lines(reason: &WhyReason) -> Vec<String> {
    let mut lines = vec![format!("  {}  {}", reason.cause, one_line(&reason.text, 300))];
    if let Some(until) = reason.until {
        lines.push(format!("      until {}", at(until.0)));
    }
    if let Some(question) = reason.question_id {
        lines.push(format!("      {question}"));
    }
    lines.extend(reason.todo.as_ref().map(|todo| format!("      → {todo}")));
    lines
}
