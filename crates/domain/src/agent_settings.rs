//! Agents: named configurations of a tenant's. Each is of a kind, whose file says what the kind is (conversational or
//! not, its statuses, what a prompt tells of the user); the agent says who answers: its texts, tools, model and limits.
//!
//! Every kind has an agent by itself, the default one, which says what the file says until somebody changes it.

use serde::{Deserialize, Serialize};

use crate::agent::limits::{LimitChanges, Limits};
use crate::agentable::{AgentType, Prompt};

/// What stands for the provider, or the model, that serves the use case when the run begins.
pub const DEFAULT: &str = "default";

/// Characters of an agent's name.
pub const MAX_AGENT_NAME_CHARS: usize = 100;
/// Bytes of its description: a router reads those of a whole team.
pub const MAX_AGENT_DESCRIPTION_BYTES: usize = 2_000;
/// Characters of its role and of its guidelines, each: both stand in every prompt, beside what the agent knows.
pub const MAX_INSTRUCTIONS_CHARS: usize = 6_000;
/// Characters of the name of a model.
pub const MAX_MODEL_CHARS: usize = 200;

/// What an agent is, beside its kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSettings {
    /// What it is good for, in the words of people and of a team's router.
    #[serde(default)]
    pub description: String,
    /// Who it is and what for.
    pub role: String,
    /// How it works.
    #[serde(default)]
    pub guidelines: String,
    /// The tools it may call.
    pub tools: Vec<String>,
    /// Whose model [`DEFAULT`] is.
    pub use_case: String,
    /// The provider, or [`DEFAULT`].
    pub provider: String,
    /// The model, or [`DEFAULT`].
    pub model: String,
    /// What it changes in the limits of `orchestrator.toml`.
    #[serde(default)]
    pub limits: LimitChanges,
}

impl AgentSettings {
    /// What the file of a kind says.
    #[must_use]
    pub fn of(kind: &AgentType) -> Self {
        Self {
            description: String::new(),
            role: kind.prompt.role.clone(),
            guidelines: kind.prompt.guidelines.clone(),
            tools: kind.tools.clone(),
            use_case: kind.use_case.clone(),
            provider: DEFAULT.to_owned(),
            model: DEFAULT.to_owned(),
            limits: kind.limits,
        }
    }

    /// An agent type as these settings make it of `kind`. With `bounds`, as far as the file of the kind allows: who
    /// runs the installation may have taken a tool, or a limit, back since the agent was made.
    #[must_use]
    pub fn applied_to(&self, kind: &AgentType, bounds: Option<Limits>) -> AgentType {
        let allowed = |tool: &&String| bounds.is_none() || kind.tools.contains(*tool);
        AgentType {
            tools: self.tools.iter().filter(allowed).cloned().collect(),
            use_case: self.use_case.clone(),
            limits: match bounds {
                Some(bounds) => self.limits.within(bounds.with(kind.limits)),
                None => self.limits,
            },
            prompt: Prompt {
                role: self.role.clone(),
                guidelines: self.guidelines.clone(),
                ..kind.prompt.clone()
            },
            ..kind.clone()
        }
    }

    /// Which model is asked: by name, as `provider/model` or a provider alone; `None` when it is the use case's.
    /// `usual` is the provider that serves the use case.
    #[must_use]
    pub fn model_name(&self, usual: &str) -> Option<String> {
        match (self.provider.as_str(), self.model.as_str()) {
            (DEFAULT, DEFAULT) => None,
            (DEFAULT, model) => Some(format!("{usual}/{model}")),
            (provider, DEFAULT) => Some(provider.to_owned()),
            (provider, model) => Some(format!("{provider}/{model}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal() -> AgentType {
        toml::from_str(include_str!("../../../jobs/agents/goal.toml")).unwrap()
    }

    const LIMITS: Limits = Limits {
        max_iterations: 20,
        max_same_tool: 5,
        max_duration_s: 600,
        max_history_entries: 0,
        max_output_tokens: 1000,
    };

    #[test]
    fn what_the_file_says_applied_to_its_kind_is_the_kind() {
        for text in [
            include_str!("../../../jobs/agents/goal.toml"),
            include_str!("../../../jobs/agents/task.toml"),
            include_str!("../../../jobs/agents/user_agent.toml"),
        ] {
            let kind: AgentType = toml::from_str(text).unwrap();
            assert_eq!(AgentSettings::of(&kind).applied_to(&kind, None), kind);
        }
    }

    #[test]
    fn what_was_taken_back_from_the_kind_is_taken_back_from_its_agents() {
        let mut settings = AgentSettings::of(&goal());
        settings.tools = vec!["send_message".into(), "ring_bell".into()];
        settings.limits.max_iterations = Some(50);
        settings.limits.max_output_tokens = Some(10);
        let bounded = settings.applied_to(&goal(), Some(LIMITS));
        assert_eq!(bounded.tools, ["send_message"]);
        assert_eq!((bounded.limits.max_iterations, bounded.limits.max_output_tokens), (Some(20), Some(10)));
        assert_eq!(settings.applied_to(&goal(), None).tools, ["send_message", "ring_bell"]);
    }

    #[test]
    fn default_stands_for_what_serves_the_use_case() {
        let named = |provider: &str, model: &str| {
            let settings = AgentSettings {
                provider: provider.into(),
                model: model.into(),
                ..AgentSettings::of(&goal())
            };
            settings.model_name("openai")
        };
        assert_eq!(named("default", "default"), None);
        assert_eq!(named("default", "gpt-5").as_deref(), Some("openai/gpt-5"));
        assert_eq!(named("groq", "default").as_deref(), Some("groq"));
        assert_eq!(named("groq", "a/b").as_deref(), Some("groq/a/b"));
    }
}
