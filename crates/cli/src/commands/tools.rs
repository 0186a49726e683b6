//! `houston tools`: lists the tools, and whether an agent may call each.

use clap::Args;
use houston_engine::prompt::preview::ToolStatus;
use serde::{Deserialize, Serialize};

use super::agentable::{AgentArg, print_table};
use super::{Context, Result};
use crate::output::{print_json, print_stderr};

/// List the tools, whether an agent may call each, and why.
#[derive(Debug, Args)]
pub(crate) struct Tools {
    #[command(flatten)]
    agent: AgentArg,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What the API lists.
#[derive(Serialize, Deserialize)]
struct Listed {
    data: Vec<ToolStatus>,
}

impl Tools {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        let packs = self.agent.agent_type(&context.loaded)?.packs.join(", ");
        let packs = if packs.is_empty() { packs } else { format!("; packs of its kind: {packs}") };
        self.agent.with_api(context, async |api, path| {
            let listed: Listed = api.get(&format!("{path}/tools")).await?;
            if self.json {
                print_json(&listed);
                return Ok(());
            }
            let tools = listed.data;
            let rows = tools.iter().map(|tool| {
                let offered = if tool.offered { "yes" } else { "no" };
                let capability = tool.capability.map_or("", |capability| capability.as_str());
                [&tool.name, offered, capability, tool.effect.as_str(), &tool.reason].map(str::to_owned)
            });
            print_table(["TOOL", "OFFERED", "FOR", "EFFECT", "WHY"], rows);
            let offered = tools.iter().filter(|tool| tool.offered).count();
            print_stderr(&format!("{offered} of {} tools are offered to the agent{packs}", tools.len()));
            Ok(())
        })
    }
}
