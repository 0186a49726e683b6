//! `houston export`: a conversation as a document.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use houston_store::conversation::ExportOptions;

use super::agentable::AgentArg;
use super::{Context, Failure};
use crate::output::{print_json_text, print_stderr};

/// Export a conversation as JSON, for `houston import`: thread, history, closed sessions, notes, learnings and
/// closed questions.
#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    agent: AgentArg,
    /// File to write [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the JSON on one line
    #[arg(long)]
    json: bool,
}

impl Export {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        self.agent.with(context, async |found| {
            let max_bytes = found.context.loaded.settings.server.conversation.max_bytes;
            let options = ExportOptions { until: None, knowledge: true, max_bytes };
            let conversation =
                found.store.tenant(found.tenant).conversation(&found.agentable, &options).await?;
            let written = if self.json {
                serde_json::to_string(&conversation)
            } else {
                serde_json::to_string_pretty(&conversation)
            };
            let text = written.context("the conversation cannot be serialised")?;
            match &self.output {
                None => print_json_text(&text),
                Some(path) => {
                    std::fs::write(path, text + "\n")
                        .with_context(|| format!("{} cannot be written", path.display()))?;
                    let (entries, messages) = (conversation.history.len(), conversation.messages.len());
                    print_stderr(&format!(
                        "{entries} entries and {messages} messages written to {}",
                        path.display()
                    ));
                }
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}
