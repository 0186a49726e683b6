//! `houston export`: a conversation as a document.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use houston_store::conversation::Reading;

use super::agentable::Which;
use super::{Context, Failure};
use crate::output::{print_json_text, tell};

/// Write a conversation down: thread, history, closed sessions, notes and learnings, for `houston import`.
#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    which: Which,
    /// Where to; stdout, if not given
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// All on one line
    #[arg(long)]
    json: bool,
}

impl Export {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        self.which.with(context, async |found| {
            let max_bytes = found.context.loaded.settings.server.conversation.max_bytes;
            let reading = Reading { until: None, knowledge: true, max_bytes };
            let conversation = found.store.conversation(found.tenant, &found.agentable, &reading).await?;
            let written = if self.json {
                serde_json::to_string(&conversation)
            } else {
                serde_json::to_string_pretty(&conversation)
            };
            let text = written.context("the conversation cannot be written as JSON")?;
            match &self.output {
                None => print_json_text(&text),
                Some(path) => {
                    std::fs::write(path, text + "\n")
                        .with_context(|| format!("{} cannot be written", path.display()))?;
                    let (entries, messages) = (conversation.history.len(), conversation.messages.len());
                    tell(&format!("{entries} entries and {messages} messages are in {}", path.display()));
                }
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}
