//! `houston fork`: copies a conversation into a new agent.

use std::process::ExitCode;

use anyhow::anyhow;
use clap::Args;
use houston_domain::agentable::MAX_TITLE_CHARS;
use houston_store::Error;
use houston_store::conversation::{ExportOptions, Origin};

use super::agentable::AgentArg;
use super::conversation::create;
use super::{Context, Failure, audit};
use crate::output::{print, print_json};

/// Copy a conversation up to an entry, into a new agent of the same user that continues from there.
#[derive(Debug, Args)]
pub(crate) struct Fork {
    #[command(flatten)]
    agent: AgentArg,
    /// Position of the last entry to copy, as `houston history` prints it [default: all]
    #[arg(long)]
    position: Option<i64>,
    /// Title of the copy [default: the original's]
    #[arg(long)]
    title: Option<String>,
    /// Do not copy notes and learnings
    #[arg(long)]
    no_knowledge: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Fork {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        self.agent.with(context, async |found| {
            let max_bytes = found.context.loaded.settings.server.conversation.max_bytes;
            let options = ExportOptions { until: self.position, knowledge: !self.no_knowledge, max_bytes };
            let original = &found.agentable;
            let read = found.store.tenant(found.tenant).conversation(original, &options).await;
            let mut conversation = read.map_err(|error| match error {
                Error::NoSuchPosition { .. } | Error::InsideTurn { .. } => Failure::Usage(anyhow!("{error}")),
                error => error.into(),
            })?;
            if let Some(title) = self.title {
                conversation.title = title.chars().take(MAX_TITLE_CHARS).collect();
            }
            let (kind, user) = (found.agent_type()?, original.user);
            let origin = Origin { id: original.id, served_by: original.served_by };
            let id =
                create(&found.store, found.tenant, user, kind, (&conversation, None), Some(origin)).await?;
            audit::record_of(found.store.tenant(found.tenant), "fork_conversation", found.public_id()).await;
            let entries = conversation.history.len();
            if self.json {
                print_json(
                    &serde_json::json!({"id": id, "forked_from": found.public_id(), "entries": entries}),
                );
            } else {
                print(&id);
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}
