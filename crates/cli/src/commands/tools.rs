//! `houston tools`: what an agent may call, and why not the rest.

use std::process::ExitCode;

use clap::Args;

use super::agentable::{Which, table};
use super::{Context, Failure};
use crate::explain::Explainer;
use crate::output::{print, print_json, tell};

/// What an agent may call, and why not the rest.
#[derive(Debug, Args)]
pub(crate) struct Tools {
    #[command(flatten)]
    which: Which,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

impl Tools {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        self.which.with(context, async |found| {
            let (loaded, registry) = (found.context.loaded, found.context.registry);
            let explainer = Explainer::new(found.store, loaded, registry);
            let tools = explainer.tools(&found.agentable).await?;
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
            tell(&format!("{offered} of {} tools may be called", tools.len()));
            Ok(ExitCode::SUCCESS)
        })
    }
}
