//! Who answers a run: the agent its agentable names, the one its team's router picked, or the default one of its kind,
//! as each stands when the run begins. It is read with the run's context; what the file of the kind says holds where
//! nothing else is said.

use std::sync::Arc;
use std::time::Duration;

use houston_domain::id::AgentId;
use houston_store::history::RunContext;
use houston_store::serving::{Serving, ServingAgent};
use serde_json::{Value, json};

use crate::context::RunDriver;
use crate::drive::DriveOutcome;
use crate::error::Interrupted;

/// What a run fails with when nobody may answer it.
const AGENT_UNAVAILABLE: &str = "AGENT_UNAVAILABLE";

/// Who answers a run.
#[derive(Debug, Default)]
pub(crate) struct Served {
    /// The agent of a team: what its messages say of it.
    routed: Option<(AgentId, String)>,
    /// Why nobody may.
    refused: Option<String>,
}

impl Served {
    /// What a message says of who wrote it.
    pub(crate) fn label(&self, metadata: &mut Value) {
        if let Some((id, name)) = &self.routed {
            metadata["agent"] = json!({"id": id, "name": name});
        }
    }
}

impl RunDriver<'_> {
    /// Takes the setup of the agent that answers; of a team, its router is asked unless it has picked already.
    pub(crate) async fn take_agent(&mut self, context: &RunContext) -> Result<(), Interrupted> {
        self.served = Served::default();
        match &context.serving {
            Serving::File => {}
            Serving::Agent(agent) => self.serve(agent).await,
            Serving::Routed(agent) => {
                self.served.routed = Some((agent.id, agent.name.clone()));
                self.serve(agent).await;
            }
            Serving::Team(team) => match Box::pin(self.route(team, context)).await? {
                Some(agent) => {
                    self.served.routed = Some((agent.id, agent.name.clone()));
                    self.serve(agent).await;
                }
                None => self.refuse_with(format!(
                    "All agents of the team `{}` are disabled: enable one, or change who answers here.",
                    team.name
                )),
            },
            Serving::Unreadable(told) => self.refuse_with(format!(
                "Who is to answer cannot be read; a newer Houston may have written it: {told}"
            )),
        }
        Ok(())
    }

    async fn serve(&mut self, agent: &ServingAgent) {
        if !agent.enabled {
            let name = &agent.name;
            return self.refuse_with(format!(
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

    fn refuse_with(&mut self, told: String) {
        self.served.refused = Some(told);
    }

    /// Ends a run that nobody may answer; `None` when somebody may.
    pub(crate) async fn stop_unserved(&mut self) -> Result<Option<DriveOutcome>, Interrupted> {
        let Some(told) = self.served.refused.take() else { return Ok(None) };
        tracing::info!(run = %self.claimed.run, told, "nobody may answer");
        self.stop_with(AGENT_UNAVAILABLE, told).await.map(Some)
    }
}
