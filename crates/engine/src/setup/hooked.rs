//! The setup of a run after the hooks of the process have changed it.

use std::sync::Arc;

use houston_domain::agentable::AgentType;

use crate::config::Config;
use crate::hook::{RunHook, RunInfo, RunSetup};
use crate::setup::agents::Agents;
use crate::setup::{Setup, build_setup};

impl Agents {
    /// `setup` as the hooks change it; the same setup if they change nothing.
    pub(crate) fn hooked(
        &self,
        setup: Arc<Setup>,
        hooks: &[Arc<dyn RunHook>],
        run: RunInfo,
        config: &Config,
    ) -> Arc<Setup> {
        let before = before(&setup, run);
        let mut after = before.clone();
        for hook in hooks {
            hook.before_run(&mut after);
        }
        after.tools.retain(|tool| {
            let exists = self.tools.get(tool).is_some();
            if !exists {
                tracing::warn!(tool, "a hook names a tool that this process does not have");
            }
            exists
        });
        let prompt_is_same = after.role == before.role && after.guidelines == before.guidelines;
        let rest_is_same = after.tools == before.tools && Arc::ptr_eq(&after.model, &before.model);
        if prompt_is_same && rest_is_same && after.sections.is_empty() {
            return setup;
        }
        let mut agent_type = setup.agent_type.clone();
        (agent_type.prompt.role, agent_type.prompt.guidelines) = (after.role, after.guidelines);
        let sections = after.sections.into();
        if rest_is_same {
            return Arc::new(Setup { agent_type, sections, ..Setup::clone(&setup) });
        }
        // The guards stay as they are, and need not be compiled again.
        let guards = agent_type.guards.take();
        agent_type.tools = after.tools;
        // Cannot fail: all tools exist.
        match build_setup(agent_type, after.model, config, &self.tools, &self.guards) {
            Ok(rebuilt) => Arc::new(Setup {
                agent_type: AgentType { guards, ..rebuilt.agent_type },
                guards: Arc::clone(&setup.guards),
                driver: setup.driver.clone(),
                unknown_tools: Arc::clone(&setup.unknown_tools),
                reached: Arc::clone(&setup.reached),
                makes_plans: setup.makes_plans,
                sections,
                ..rebuilt
            }),
            Err(error) => {
                tracing::error!(%error, "the hooks of a run are ignored");
                setup
            }
        }
    }
}

/// What hooks may change of `setup`.
fn before(setup: &Setup, run: RunInfo) -> RunSetup {
    let Setup { agent_type, model, .. } = setup;
    RunSetup {
        role: agent_type.prompt.role.clone(),
        guidelines: agent_type.prompt.guidelines.clone(),
        ..RunSetup::new(run, Arc::clone(model), &agent_type.tools)
    }
}
