//! `houston tools`: lists the tools, and whether an agent may call each.

use std::process::ExitCode;

use clap::Args;

use super::agentable::{AgentArg, table};
use super::{Context, Failure};
use crate::explain::Explainer;
use crate::output::{print, print_json, print_stderr};

/// List the tools, whether an agent may call each, and why.
#[derive(Debug, Args)]
pub(crate) struct Tools {
    #[command(flatten)]
    agent: AgentArg,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Tools {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        self.agent.with(context, async |found| {
            let (loaded, registry) = (found.context.loaded, found.context.registry);
            let kinds = loaded.agent_types();
            let packs =
                kinds.get(&found.agentable.kind).map(|kind| kind.packs.join(", ")).unwrap_or_default();
            let packs = if packs.is_empty() { packs } else { format!("; packs of its kind: {packs}") };
            let explainer = Explainer::new(loaded, registry);
            let tools = explainer.tools(found.store.runs(), &found.agentable).await?;
            if self.json {
                print_json(&serde_json::json!({"data": tools}));
                return Ok(ExitCode::SUCCESS);
            }
            let rows: Vec<[String; 5]> = tools
                .iter()
                .map(|tool| {
                    let offered = if tool.offered { "yes" } else { "no" };
                    let capability = tool.capability.map_or("", |capability| capability.as_str());
                    [&tool.name, offered, capability, tool.effect.as_str(), &tool.reason].map(str::to_owned)
                })
                .collect();
            table(&["TOOL", "OFFERED", "FOR", "EFFECT", "WHY"], &rows).iter().for_each(|line| print(line));
            let offered = tools.iter().filter(|tool| tool.offered).count();
            print_stderr(&format!("{offered} of {} tools are offered to the agent{packs}", tools.len()));
            Ok(ExitCode::SUCCESS)
        })
    }
}
