//! `houston guard`: explains what the guards say of tool calls.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use houston_domain::guard::Decision;
use houston_engine::prompt::preview::guard::GuardPreview;
use serde_json::Value;

use super::agentable::{AgentArg, Database, table};
use super::{Context, Failure};
use crate::explain::Explainer;
use crate::output::{print, print_json};

/// Explain what agents may do with their tools (jobs/guards.toml).
#[derive(Debug, Args)]
pub(crate) struct Guard {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print which rule of which layer would decide about a tool call, and each step before it
    Explain {
        /// The id of an agent: `goal_…`, `task_…`, `user_agent_…`, or of a custom kind
        id: String,
        /// The name of the tool
        tool: String,
        /// Its arguments, a JSON object
        #[arg(default_value = "{}")]
        input: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        database: Database,
    },
}

impl Guard {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        let Action::Explain { id, tool, input, json, database } = self.action;
        let input: serde_json::Map<String, Value> = serde_json::from_str(&input)
            .context("the arguments must be a JSON object, for example '{\"path\": \"notes.md\"}'")
            .map_err(Failure::Usage)?;
        AgentArg::new(id, database).with(context, async |found| {
            let explainer = Explainer::new(found.context.loaded, found.context.registry);
            let (store, agentable) = (found.store.runs(), &found.agentable);
            let preview = explainer.guard(store, agentable, tool, Value::Object(input)).await?;
            if json {
                print_json(&preview);
            } else {
                show(&preview);
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

fn show(preview: &GuardPreview) {
    let GuardPreview { tool, lowered, explanation, .. } = preview;
    let rows: Vec<[String; 4]> = explanation
        .steps
        .iter()
        .map(|taken| {
            let layer = taken.name.clone().or_else(|| taken.layer.map(|layer| layer.to_string()));
            let outcome = format!("{:?}", taken.outcome).to_lowercase();
            [taken.step.to_string(), layer.unwrap_or_default(), outcome, taken.why.clone()]
        })
        .collect();
    table(&["STEP", "LAYER", "OUTCOME", "WHY"], &rows).iter().for_each(|line| print(line));
    print("");
    lowered.iter().for_each(|note| print(note));
    let verdict = &explanation.verdict;
    let decided = match &verdict.decision {
        Decision::Allow => "allowed".to_owned(),
        Decision::Ask { why, .. } => format!("asks a person first: {why}"),
        Decision::Deny { why, .. } => format!("refused: {why}"),
    };
    let layer = verdict.by.layer.map_or_else(String::new, |layer| format!("{layer}, "));
    print(&format!("{tool}: {decided} ({layer}{})", verdict.by.rule));
}
