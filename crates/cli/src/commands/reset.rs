//! `houston reset`: an agent that begins anew.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use clap::Args;
use houston_domain::clock::SystemClock;
use houston_domain::id::Ids;
use houston_store::Error;

use super::agentable::Which;
use super::{Context, Failure};
use crate::output::{print, print_json};

/// Let an agent begin anew: its model forgets the conversation. The thread stays, and so does the history, in a closed
/// session. Refused while a run is open.
#[derive(Debug, Args)]
pub(crate) struct Reset {
    #[command(flatten)]
    which: Which,
    /// Delete its notes and learnings, too
    #[arg(long)]
    knowledge: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

impl Reset {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        self.which.with(context, async |found| {
            let session = Ids::new(Arc::new(SystemClock)).next();
            let done = found.store.reset(found.tenant, found.agentable.id, self.knowledge, session).await;
            let done = done.map_err(|error| match error {
                Error::RunInProgress { run } => {
                    Failure::Other(anyhow!("{run} is open: wait until it has ended, or cancel it"))
                }
                error => error.into(),
            })?;
            let (closed, notes, learnings) = (done.closed_entries, done.notes, done.learnings);
            if self.json {
                print_json(&serde_json::json!({
                    "id": found.shown(), "closed_entries": closed, "deleted_notes": notes,
                    "deleted_learnings": learnings,
                }));
            } else {
                print(&format!(
                    "{closed} entries are closed, {notes} notes and {learnings} learnings deleted"
                ));
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}
