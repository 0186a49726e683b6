//! Agent types: what a kind of agentable is, read from `jobs/agents/<kind>.toml`. Code asks the type a question
//! (`conversational`), never for its name.

use serde::{Deserialize, Serialize};

use crate::agent::limits::LimitChanges;

/// What the user of an agentable reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// What the model passes to `send_message`; other text is thinking.
    SendMessage,
    /// The model's text.
    Text,
}

/// How urgent the runs of a kind are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Urgency {
    /// Somebody waits.
    #[default]
    Interactive,
    /// Nobody does.
    Background,
}

/// What a message does to a run that is open when it comes: double texting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DoubleTexting {
    /// The run reads it at its next step.
    #[default]
    Enqueue,
    /// The run is cancelled, and the message opens the next one. What the run did stays.
    Interrupt,
    /// It is refused, and nothing is stored.
    Reject,
    /// As `Interrupt`, and the model forgets the run. What its tools did to the world stays done.
    Rollback,
}

impl DoubleTexting {
    /// The name in the database and in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::Interrupt => "interrupt",
            Self::Reject => "reject",
            Self::Rollback => "rollback",
        }
    }

    /// Whether it cancels the run that is open.
    #[must_use]
    pub fn cancels(self) -> bool {
        matches!(self, Self::Interrupt | Self::Rollback)
    }
}

/// One kind of agentable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentType {
    /// The kind's name: the stem of its file and the prefix of its ids.
    pub kind: String,
    /// Whether it talks with a person: it stops after `send_message`, and nobody is left without an answer.
    pub conversational: bool,
    /// Whether quiet sessions are folded into summaries.
    pub archives: bool,
    /// What the user reads.
    pub reply: Reply,
    /// The statuses it may have, the first being that of a new one; empty: it has none.
    #[serde(default)]
    pub statuses: Vec<String>,
    /// How urgent its runs are.
    #[serde(default)]
    pub urgency: Urgency,
    /// What a message does to a run that is open, unless its request says otherwise.
    #[serde(default)]
    pub double_texting: DoubleTexting,
    /// The tools it may call.
    pub tools: Vec<String>,
    /// Which model it asks for, by use case.
    #[serde(default = "AgentType::default_use_case")]
    pub use_case: String,
    /// What it changes in the limits of `orchestrator.toml`.
    #[serde(default)]
    pub limits: LimitChanges,
    /// The texts of its system prompt.
    pub prompt: Prompt,
}

impl AgentType {
    fn default_use_case() -> String {
        "agent".to_owned()
    }

    /// The status of a new agentable of this kind.
    #[must_use]
    pub fn initial_status(&self) -> Option<&str> {
        self.statuses.first().map(String::as_str)
    }
}

/// The texts of an agent type's system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prompt {
    /// Who it is and what for.
    pub role: String,
    /// How it works.
    #[serde(default)]
    pub guidelines: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_names_itself_and_what_is_allowed() {
        let error = toml::from_str::<AgentType>("kind = 'x'\nconversationl = true").unwrap_err();
        assert!(error.to_string().contains("conversationl"), "{error}");
        assert!(error.to_string().contains("conversational"), "{error}");
    }

    #[test]
    fn a_policy_has_one_name_everywhere_and_an_unknown_one_is_told_the_four() {
        use DoubleTexting::{Enqueue, Interrupt, Reject, Rollback};
        for policy in [Enqueue, Interrupt, Reject, Rollback] {
            assert_eq!(serde_json::to_value(policy).unwrap(), policy.as_str());
        }
        let error = serde_json::from_str::<DoubleTexting>("\"merge\"").unwrap_err().to_string();
        assert!(error.contains("`enqueue`, `interrupt`, `reject`, `rollback`"), "{error}");
    }
}
