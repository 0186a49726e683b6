//! Agents: named configurations that belong to a tenant. Each agent is of a kind. The kind's file decides what it is
//! (conversational or not, its statuses, what a prompt says about the user); the agent decides who answers: its texts,
//! tools, model and limits.
//!
//! Every kind has a default agent, which uses the settings of the kind's file until it is changed.

use serde::{Deserialize, Serialize};

use crate::agent::limits::{LimitChanges, Limits};
use crate::agentable::{AgentType, Prompt};
use crate::answering::{Output, Sampling};
use crate::guard::GuardSettings;
use crate::model_policy::ModelPolicy;

/// Used as provider or model: the one that serves the use case when the run starts.
pub const DEFAULT: &str = "default";

/// Maximum length of an agent's name, in characters.
pub const MAX_AGENT_NAME_CHARS: usize = 100;
/// Maximum length of its description, in bytes: a router reads those of a whole team.
pub const MAX_AGENT_DESCRIPTION_BYTES: usize = 2_000;
/// Maximum length of its role and of its guidelines, each, in characters: both are part of every prompt, beside
/// what the agent knows.
pub const MAX_INSTRUCTIONS_CHARS: usize = 6_000;
/// Maximum length of a model's name, in characters.
pub const MAX_MODEL_CHARS: usize = 200;

/// The settings of an agent, beside its kind.
///
/// ```json
/// {"description": "Plans trips", "role": "You plan trips.", "guidelines": "", "tools": ["send_message"],
///  "use_case": "agent", "provider": "default", "model": "default", "limits": {"max_iterations": 10}}
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentSettings {
    /// What the agent is good for; people and a team's router read it.
    #[serde(default)]
    pub description: String,
    /// Who the agent is, and what for.
    pub role: String,
    /// How it works.
    #[serde(default)]
    pub guidelines: String,
    /// The names of the tools it may call.
    pub tools: Vec<String>,
    /// The use case whose model [`DEFAULT`] means.
    pub use_case: String,
    /// The provider, or [`DEFAULT`].
    pub provider: String,
    /// The model, or [`DEFAULT`].
    pub model: String,
    /// Overrides of `[limits]` in `orchestrator.toml`.
    #[serde(default)]
    pub limits: LimitChanges,
    /// How its model chooses its words, where it differs from its kind.
    #[serde(default, skip_serializing_if = "Sampling::is_empty")]
    pub sampling: Sampling,
    /// The form of its answers; `None`: that of its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// How its model is called, where it differs from its kind.
    #[serde(default, skip_serializing_if = "ModelPolicy::is_unset")]
    pub model_policy: ModelPolicy,
    /// What it may do with its tools, below what its kind may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guards: Option<GuardSettings>,
}

impl AgentSettings {
    /// The settings in the file of a kind: those of its default agent.
    pub fn of(kind: &AgentType) -> Self {
        Self {
            role: kind.prompt.role.clone(),
            guidelines: kind.prompt.guidelines.clone(),
            tools: kind.tools.clone(),
            use_case: kind.use_case.clone(),
            provider: DEFAULT.to_owned(),
            model: DEFAULT.to_owned(),
            limits: kind.limits,
            ..Self::default()
        }
    }

    /// The agent type that these settings make of `kind`. With `bounds`, tools and limits are reduced to what the
    /// file of the kind allows: the operator may have removed a tool, or lowered a limit, since the agent was
    /// created.
    pub fn applied_to(&self, kind: &AgentType, bounds: Option<Limits>) -> AgentType {
        let allowed = |tool: &&String| bounds.is_none() || kind.tools.contains(*tool);
        AgentType {
            tools: self.tools.iter().filter(allowed).cloned().collect(),
            use_case: self.use_case.clone(),
            limits: match bounds {
                Some(bounds) => self.limits.within(bounds.with(kind.limits)),
                None => self.limits,
            },
            sampling: self.sampling.over(&kind.sampling),
            output: self.output.clone().or_else(|| kind.output.clone()),
            model_policy: self.model_policy.over(kind.model_policy),
            prompt: Prompt {
                role: self.role.clone(),
                guidelines: self.guidelines.clone(),
                ..kind.prompt.clone()
            },
            ..kind.clone()
        }
    }

    /// The model to call, as `provider/model` or a provider alone; `None` means the one that serves the use case.
    /// `usual` is the provider that serves the use case.
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

    const LIMITS: Limits = Limits { max_output_tokens: 1000, ..Limits::USUAL };

    #[test]
    fn default_settings_leave_a_kind_unchanged() {
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
    fn agents_lose_tools_and_limits_their_kind_lost() {
        let mut settings = AgentSettings::of(&goal());
        settings.tools = vec!["send_message".into(), "book_hotel".into()];
        settings.limits.max_iterations = Some(50);
        settings.limits.max_output_tokens = Some(10);
        let bounded = settings.applied_to(&goal(), Some(LIMITS));
        assert_eq!(bounded.tools, ["send_message"]);
        assert_eq!((bounded.limits.max_iterations, bounded.limits.max_output_tokens), (Some(20), Some(10)));
        assert_eq!(settings.applied_to(&goal(), None).tools, ["send_message", "book_hotel"]);
    }

    #[test]
    fn default_means_the_model_of_the_use_case() {
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
