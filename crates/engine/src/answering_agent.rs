//! Which agent answers a run: the one its agentable names, the one its team's router picked, or the default agent of its
//! kind. It is read with the run's context, so a run uses the agent's version of the time the run began. Settings that the
//! agent does not have come from the file of the kind.

use std::sync::Arc;
use std::time::Duration;

use houston_domain::id::AgentId;
use houston_store::run_context::RunContext;
use houston_store::serving::{Serving, ServingAgent};
use serde_json::{Value, json};

use crate::drive::DriveOutcome;
use crate::error::Interrupted;
use crate::run_driver::RunDriver;

/// Error code of a run that no agent may answer.
const AGENT_UNAVAILABLE: &str = "AGENT_UNAVAILABLE";

/// The agent that answers a run, or why there is none.
#[derive(Debug, Default)]
pub(crate) struct AnsweringAgent {
    /// Id and name of a team's agent, for the metadata of its messages.
    routed: Option<(AgentId, String)>,
    /// Why no agent may answer, for operators.
    unavailable: Option<String>,
}

impl AnsweringAgent {
    /// Adds the team's agent to the metadata of a message.
    pub(crate) fn label(&self, metadata: &mut Value) {
        if let Some((id, name)) = &self.routed {
            metadata["agent"] = json!({"id": id, "name": name});
        }
    }
}

impl RunDriver<'_> {
    /// Uses the setup of the agent that answers. Of a team, the router picks unless it has done so before.
    pub(crate) async fn resolve_agent(&mut self, context: &RunContext) -> Result<(), Interrupted> {
        self.answered_by = AnsweringAgent::default();
        match &context.serving {
            Serving::File => {}
            Serving::Agent(agent) => self.use_agent(agent).await,
            Serving::Routed(agent) => {
                self.answered_by.routed = Some((agent.id, agent.name.clone()));
                self.use_agent(agent).await;
            }
            Serving::Team(team) => match Box::pin(self.route(team, context)).await? {
                Some(agent) => {
                    self.answered_by.routed = Some((agent.id, agent.name.clone()));
                    self.use_agent(agent).await;
                }
                None => self.set_unavailable(format!(
                    "All agents of the team `{}` are disabled: enable one, or choose another agent or team here.",
                    team.name
                )),
            },
            Serving::Unreadable(reason) => self.set_unavailable(format!(
                "The agent that answers here cannot be read; a newer Houston may have written it: {reason}"
            )),
        }
        Ok(())
    }

    async fn use_agent(&mut self, agent: &ServingAgent) {
        if !agent.enabled {
            let name = &agent.name;
            return self.set_unavailable(format!(
                "The agent `{name}` is disabled: enable it, or let another agent answer here."
            ));
        }
        let Some(kind) = self.engine.setup(&self.claimed.kind) else { return };
        let setup = self.engine.setups.agents.set_up(kind, agent, &self.engine.config).await;
        if !Arc::ptr_eq(&setup, &self.setup) {
            let most = setup.policy.limits.max_duration_s + self.engine.config.watchdog.grace_s;
            self.watchdog = self.claimed_at + Duration::from_secs(most);
            self.answering = setup.model.description().clone();
            self.setup = setup;
        }
    }

    fn set_unavailable(&mut self, reason: String) {
        self.answered_by.unavailable = Some(reason);
    }

    /// Ends a run that no agent may answer. `None` when one may.
    pub(crate) async fn stop_if_unavailable(&mut self) -> Result<Option<DriveOutcome>, Interrupted> {
        let Some(reason) = self.answered_by.unavailable.take() else { return Ok(None) };
        tracing::info!(run = %self.claimed.run, reason, "no agent may answer");
        self.stop_with(AGENT_UNAVAILABLE, reason).await.map(Some)
    }
}
