//! `houston reset`: empties a conversation.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use clap::Args;
use houston_domain::clock::SystemClock;
use houston_domain::id::Ids;
use houston_protocol::conversation::ResetConversationResponse;
use houston_store::Error;

use super::agentable::AgentArg;
use super::{Context, Failure, audit};
use crate::output::{print, print_json};

/// Reset a conversation: the model forgets it. The thread stays, and the history moves to a closed session. Refused
/// while a run is open.
#[derive(Debug, Args)]
pub(crate) struct Reset {
    #[command(flatten)]
    agent: AgentArg,
    /// Also delete its notes, learnings and files
    #[arg(long)]
    knowledge: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Reset {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        self.agent.with(context, async |found| {
            let session = Ids::new(Arc::new(SystemClock)).beside(found.agentable.id);
            let done =
                found.store.tenant(found.tenant).reset(found.agentable.id, self.knowledge, session).await;
            let done = done.map_err(|error| match error {
                Error::RunInProgress { run } => Failure::Other(anyhow!(
                    "{run} is open: wait until it ends, or cancel it with `houston cancel`"
                )),
                error => error.into(),
            })?;
            let store = found.store.tenant(found.tenant);
            audit::record_of(store, "reset_conversation", found.public_id()).await;
            let (closed, notes) = (done.closed_entries, done.notes);
            let (learnings, files) = (done.learnings, done.files);
            if self.json {
                print_json(&ResetConversationResponse {
                    id: found.public_id(),
                    closed_entries: closed,
                    deleted_notes: notes,
                    deleted_learnings: learnings,
                    deleted_files: files,
                });
            } else {
                print(&format!(
                    "{closed} entries closed, {notes} notes, {learnings} learnings and {files} files deleted"
                ));
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}
