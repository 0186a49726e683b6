//! Section 6: where the agent works.

use houston_domain::agentable::AgentType;

use crate::prompt::section::{List, Section, Stability};

/// The `workspace` text of the kind's file.
#[must_use]
pub fn workspace(agent_type: &AgentType) -> Section {
    let list = List::fixed(agent_type.prompt.workspace.trim());
    Section::new("workspace", Stability::Kind, "workspace", vec![list])
}
