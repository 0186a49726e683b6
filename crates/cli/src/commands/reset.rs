//! `houston reset`: empties a conversation.

use anyhow::anyhow;
use clap::Args;
use houston_protocol::agentable::AgentableResponse;
use houston_protocol::conversation::{ResetConversation, ResetConversationResponse};
use houston_protocol::problem::ProblemCode;
use reqwest::Method;

use super::agentable::AgentArg;
use super::{Context, Failure, Result};
use crate::output::print_either;

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
    pub(crate) fn run(self, context: Context) -> Result<()> {
        self.agent.with_api(context, async |api, path| {
            let wanted = ResetConversation { knowledge: self.knowledge };
            let done: ResetConversationResponse =
                match api.change(Method::POST, &format!("{path}/reset"), &wanted).await {
                    Err(error) if error.is(ProblemCode::RunInProgress) => {
                        let agent: AgentableResponse = api.get(path).await?;
                        let run = agent.run_id.map_or_else(|| "a run".to_owned(), |run| run.to_string());
                        return Err(Failure::Other(anyhow!(
                            "{run} is open: wait until it ends, or cancel it with `houston cancel`"
                        )));
                    }
                    done => done?,
                };
            let text = format!(
                "{} entries closed, {} notes, {} learnings and {} files deleted",
                done.closed_entries, done.deleted_notes, done.deleted_learnings, done.deleted_files
            );
            print_either(self.json, &done, &text);
            Ok(())
        })
    }
}
