//! As whom a run is replayed: an agent of the tenant or a kind, and other texts of its prompt.

use std::path::Path;

use anyhow::anyhow;
use houston_domain::agentable::AgentType;
use houston_store::agent::Agent as Stored;

use super::file;
use crate::commands::agentable::agent_type;
use crate::commands::{Context, Failure};

/// The longest text of a prompt, in bytes.
const MOST_BYTES: usize = 1024 * 1024;

/// An agent that a run is replayed as.
#[derive(Debug)]
pub(in crate::commands) struct Agent {
    /// Its kind with its settings: texts, tools, use case, limits.
    pub(super) agent_type: AgentType,
    /// The provider and the model that it names, each unless it has the default.
    pub(super) stored: Option<Stored>,
}

impl Agent {
    /// The default agent of a kind, as its file says.
    pub(in crate::commands) fn of_kind(context: &Context, kind: &str) -> Result<Self, Failure> {
        Ok(Self { agent_type: agent_type(&context.loaded, kind)?.clone(), stored: None })
    }

    /// An agent of a tenant, within what its kind allows.
    pub(super) fn of_tenant(context: &Context, stored: &Stored) -> Result<Self, Failure> {
        let kind = agent_type(&context.loaded, &stored.kind)?;
        let bounds = context.loaded.settings.orchestrator.limits;
        Ok(Self { agent_type: stored.settings.applied_to(kind, Some(bounds)), stored: Some(stored.clone()) })
    }
}

/// Texts of a prompt that replace those of the agent.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::commands) enum PromptFiles {
    /// The system prompt as a whole.
    Whole(String),
    /// Of a folder: those that it has.
    Parts { role: Option<String>, guidelines: Option<String> },
}

impl PromptFiles {
    /// Reads a folder with `role.md` and `guidelines.md`, of which one may be missing, or a file.
    pub(in crate::commands) fn read(path: &Path) -> Result<Self, Failure> {
        if !path.is_dir() {
            return Ok(Self::Whole(file::text(path, MOST_BYTES)?));
        }
        let part = |name: &str| {
            let part = path.join(name);
            part.exists().then(|| file::text(&part, MOST_BYTES)).transpose()
        };
        match (part("role.md")?, part("guidelines.md")?) {
            (None, None) => {
                Err(Failure::Usage(anyhow!("{} has neither `role.md` nor `guidelines.md`", path.display())))
            }
            (role, guidelines) => Ok(Self::Parts { role, guidelines }),
        }
    }

    /// The system prompt of an agent with these texts.
    pub(super) fn system(files: Option<&Self>, agent: &AgentType) -> String {
        let (mut role, mut guidelines) = (&agent.prompt.role, &agent.prompt.guidelines);
        match files {
            Some(Self::Whole(text)) => return text.clone(),
            Some(Self::Parts { role: other_role, guidelines: others }) => {
                role = other_role.as_ref().unwrap_or(role);
                guidelines = others.as_ref().unwrap_or(guidelines);
            }
            None => {}
        }
        format!("{role}\n\n{guidelines}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_replaces_the_texts_that_it_has() {
        let kind: AgentType = toml::from_str(include_str!("../../../../../jobs/agents/goal.toml")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        assert!(PromptFiles::read(folder.path()).is_err());
        std::fs::write(folder.path().join("role.md"), "You are brief.").unwrap();
        let files = PromptFiles::read(folder.path()).unwrap();
        let system = PromptFiles::system(Some(&files), &kind);
        assert_eq!(system, format!("You are brief.\n\n{}", kind.prompt.guidelines));
        let whole = PromptFiles::read(&folder.path().join("role.md")).unwrap();
        assert_eq!(PromptFiles::system(Some(&whole), &kind), "You are brief.");
    }
}
