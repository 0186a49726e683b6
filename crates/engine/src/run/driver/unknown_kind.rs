//! Ending a run whose kind has no agent type in this process.

use houston_domain::agent::step::Next;
use houston_domain::agent::{AgentRun, RunPolicy};
use houston_domain::agentable::Reply;
use houston_domain::error_message::{ErrorMessage, user_text};
use houston_domain::event::Live;
use houston_domain::run::RunStatus;
use houston_store::run_context::RunContext;

use super::ending::close_calls;
use super::{DriveOutcome, Driven};
use crate::config::ContextConfig;
use crate::error::Interrupted;
use crate::run::journal::{Journal, show_error};
use crate::run::storage::RunStorage;
use crate::run::tool_runner::OpenCalls;

/// The code of its error message.
const CODE: &str = "UNKNOWN_KIND";

/// Ends the run with an error message in its thread. Its open calls get their results: without them no model would take
/// the history when the kind is back.
pub(super) async fn refuse<S: RunStorage>(
    mut journal: Journal<'_, S>,
    kind: &str,
    context: Option<Box<RunContext>>,
) -> Result<Driven, Interrupted> {
    tracing::error!(kind, "no agent type of this name: add jobs/agents/<kind>.toml");
    let text = format!("There is no agent type `{kind}`: its file is missing in jobs/agents.");
    let status = RunStatus::Failed;
    let mut run = history(&journal, context).await?;
    let open = match run.next(journal.now()) {
        Next::CallTools(calls) => OpenCalls::read(&journal, &calls).await?,
        _ => OpenCalls::default(),
    };
    let mut step = journal.next_step();
    close_calls(&mut run, &mut step, status, open);
    show_error(&mut step, &ErrorMessage::permanent(journal.run(), CODE, user_text(CODE)));
    step.transition = journal.terminated(status, Some(CODE.to_owned()), Some(text));
    match journal.commit(step).await {
        // Only the response was lost. Streams read the events from Postgres.
        Err(Interrupted::Landed) => journal.services.bus.publish(journal.agentable(), Live::Nudge),
        done => drop(done?),
    }
    Ok(Driven { outcome: DriveOutcome::Ended(status), wants_title: false })
}

/// The run with its history. The policy decides nothing here.
async fn history<S: RunStorage>(
    journal: &Journal<'_, S>,
    context: Option<Box<RunContext>>,
) -> Result<AgentRun, Interrupted> {
    let config = &journal.services.config;
    let ContextConfig { notes, prompt, .. } = &config.context;
    let (agentable, run) = (journal.agentable(), journal.run());
    let context = match context {
        Some(context) => *context,
        None => journal.retrying(|storage| storage.context(agentable, run, *notes, prompt)).await?,
    };
    let limits = config.limits;
    let policy = RunPolicy { conversational: true, expects_reply: true, reply: Reply::Text, limits };
    Ok(AgentRun::resume(policy, context.history, context.run_entries, journal.now()))
}
