//! Which agent answers a run: the one its agentable names, the one its team's router picked, or the default agent of its
//! kind. It is read with the run's context, so a run uses the agent's version of the time the run began. Settings that the
//! agent does not have come from the file of the kind.

use std::sync::Arc;

use houston_domain::id::AgentId;
use houston_store::run_context::RunContext;
use houston_store::serving::{Serving, ServingAgent};
use serde_json::{Value, json};

use super::Attempt;
use super::routing::route;
use crate::error::Interrupted;
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;
use crate::setup::Setup;

/// The agent that answers a run, or why there is none.
#[derive(Debug, Default)]
pub(super) struct AnsweringAgent {
    /// Id and name of a team's agent, for the metadata of its messages.
    routed: Option<(AgentId, String)>,
    /// Why no agent may answer, for operators.
    pub(super) unavailable: Option<String>,
}

impl AnsweringAgent {
    fn unavailable(reason: String) -> Self {
        Self { routed: None, unavailable: Some(reason) }
    }

    fn routed_to(agent: &ServingAgent) -> Self {
        Self { routed: Some((agent.id, agent.name.clone())), unavailable: None }
    }

    /// Adds the team's agent to the metadata of a message.
    pub(super) fn label(&self, metadata: &mut Value) {
        if let Some((id, name)) = &self.routed {
            metadata["agent"] = json!({"id": id, "name": name});
        }
    }
}

/// The agent that answers, and its setup. Of a team, the router picks unless it has done so before. `kind` is the setup of the
/// agentable's kind.
pub(super) async fn answering_agent<S: RunStorage>(
    journal: &mut Journal<'_, S>,
    attempt: &Attempt,
    context: &RunContext,
    kind: Arc<Setup>,
) -> Result<(AnsweringAgent, Arc<Setup>), Interrupted> {
    let (answered_by, agent) = match &context.serving {
        Serving::File => return Ok((AnsweringAgent::default(), kind)),
        Serving::Unreadable(reason) => {
            let reason = format!(
                "The agent that answers here cannot be read; a newer Houston may have written it: {reason}"
            );
            return Ok((AnsweringAgent::unavailable(reason), kind));
        }
        Serving::Agent(agent) => (AnsweringAgent::default(), &**agent),
        Serving::Routed(agent) => (AnsweringAgent::routed_to(agent), &**agent),
        Serving::Team(team) => match Box::pin(route(journal, attempt, &kind, team, context)).await? {
            Some(agent) => (AnsweringAgent::routed_to(agent), agent),
            None => {
                let reason = format!(
                    "All agents of the team `{}` are disabled: enable one, or choose another agent or team here.",
                    team.name
                );
                return Ok((AnsweringAgent::unavailable(reason), kind));
            }
        },
    };
    if !agent.enabled {
        let name = &agent.name;
        let reason = format!("The agent `{name}` is disabled: enable it, or let another agent answer here.");
        return Ok((AnsweringAgent { unavailable: Some(reason), ..answered_by }, kind));
    }
    let services = journal.services;
    Ok((answered_by, services.setups.agents.set_up(&kind, agent, &services.config).await))
}
