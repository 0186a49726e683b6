//! The registry of all tools, and of the skills that come with the installation.

use std::collections::BTreeMap;
use std::sync::Arc;

use houston_domain::skill::BundledSkill;

use houston_domain::snippet::TOOL_PREFIX;

use crate::many::is_reserved;
use crate::offer::Offer;
use crate::tool::SharedTool;

/// All tools of this process, by name.
#[derive(Clone, Default)]
pub struct Registry {
    tools: BTreeMap<String, SharedTool>,
    skills: Arc<[BundledSkill]>,
}

/// A tool of the same name is registered already, or comes with Houston.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there are two tools named `{0}`: rename one")]
pub struct NameTaken(pub String);

/// An agent type names a tool that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no tool `{name}`; existing tools: {existing}")]
pub struct UnknownTool {
    /// The unknown name.
    pub name: String,
    /// The names of all registered tools, separated by commas.
    pub existing: String,
}

impl Registry {
    /// Adds a tool.
    ///
    /// # Errors
    /// [`NameTaken`] when a tool of the same name is registered already, is one that finds others, or begins like
    /// those of snippets.
    pub fn add(&mut self, tool: SharedTool) -> Result<(), NameTaken> {
        let name = tool.definition().name.clone();
        if self.is_taken(&name) {
            return Err(NameTaken(name));
        }
        self.tools.insert(name, tool);
        Ok(())
    }

    /// Whether a tool may not have this name, because one of the installation's has it.
    pub fn is_taken(&self, name: &str) -> bool {
        self.tools.contains_key(name) || is_reserved(name) || name.starts_with(TOOL_PREFIX)
    }

    /// Sets the skills that come with the installation and are enabled.
    pub fn set_skills(&mut self, skills: Vec<BundledSkill>) {
        self.skills = skills.into_iter().filter(|skill| skill.summary.enabled).collect();
    }

    /// The skills that come with the installation and are enabled.
    pub fn skills(&self) -> &Arc<[BundledSkill]> {
        &self.skills
    }

    /// The tool with this name.
    pub fn get(&self, name: &str) -> Option<&SharedTool> {
        self.tools.get(name)
    }

    /// The names of all tools, sorted.
    pub fn names(&self) -> Vec<String> {
        self.tools.keys().cloned().collect()
    }

    /// The tools with these names, in the given order.
    ///
    /// # Errors
    /// [`UnknownTool`] when there is no tool with one of the names.
    pub fn offer(&self, names: &[String]) -> Result<Offer, UnknownTool> {
        let tools = names
            .iter()
            .map(|name| {
                self.get(name).cloned().ok_or_else(|| UnknownTool {
                    name: name.clone(),
                    existing: self.tools.keys().cloned().collect::<Vec<_>>().join(", "),
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Offer::of(tools, false))
    }
}
