//! `houston why`: why an agent or a run does not go on, and what to do.

use anyhow::anyhow;
use clap::Args;
use houston_domain::id::{MessageId, RunId};
use houston_domain::message::Message;
use houston_protocol::why::{WhyReason, WhyResponse};

use super::agentable::{at, missing, one_line, parse};
use super::{Context, Failure, Result};
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

impl Why {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        let (run, message) = (self.id.parse::<RunId>(), self.id.parse::<MessageId>());
        let is_agent = run.is_err() && message.is_err();
        let (id, mut path) = match (run, &message) {
            (Ok(run), _) => (run.0, format!("/v1/runs/{run}")),
            (_, Ok(message)) => (message.0, format!("/v1/messages/{message}")),
            _ => {
                let (kind, id) = parse(&context.loaded, &self.id).map_err(Failure::Usage)?;
                (id.0, format!("/v1/{kind}s/{}", self.id))
            }
        };
        context.with_api(async |api| {
            let api = api.of_named(id, &self.id).await?;
            if let Ok(id) = message {
                let message: Message = api.get(&path).await?;
                let run = message.run_id.ok_or_else(|| anyhow!("{id} belongs to no run"))?;
                path = format!("/v1/runs/{run}");
            }
            let found: WhyResponse = match api.get(&format!("{path}/why")).await.map_err(Failure::from) {
                Err(error) if is_agent => return Err(error.or_missing(|| missing(&self.id))),
                found => found?,
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
