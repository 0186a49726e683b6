//! The registry of all tools, and the offer: the tools that one agent type may call.

use std::collections::BTreeMap;
use std::sync::Arc;

use houston_domain::guard::ToolFacts;
use houston_domain::tool_call::{ToolCall, ToolDefinition, ToolErrorCode, ToolResponse};

use crate::tool::{CallContext, Plan, SharedTool, Situation};

/// All tools of this process, by name.
#[derive(Clone, Default)]
pub struct Registry {
    tools: BTreeMap<String, SharedTool>,
}

/// A tool of the same name is registered already.
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
    /// [`NameTaken`] when a tool of the same name is registered already.
    pub fn add(&mut self, tool: SharedTool) -> Result<(), NameTaken> {
        let name = tool.definition().name.clone();
        if self.tools.contains_key(&name) {
            return Err(NameTaken(name));
        }
        self.tools.insert(name, tool);
        Ok(())
    }

    /// The tool with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&SharedTool> {
        self.tools.get(name)
    }

    /// The names of all tools, sorted.
    #[must_use]
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
        Ok(Offer::of(tools))
    }
}

/// The tools that one agent type may call; cheap to clone.
#[derive(Clone)]
pub struct Offer {
    list: Arc<List>,
    /// The tools offered while there is no closed session; computed once, because most runs start that way.
    at_first: Arc<List>,
}

struct List {
    tools: Vec<SharedTool>,
    definitions: Vec<ToolDefinition>,
    facts: Vec<ToolFacts>,
}

impl List {
    fn of(tools: Vec<SharedTool>) -> Arc<Self> {
        let definitions = tools.iter().map(|tool| tool.definition().clone()).collect();
        let facts = tools.iter().map(|tool| tool.facts()).collect();
        Arc::new(Self { tools, definitions, facts })
    }
}

impl Offer {
    fn of(tools: Vec<SharedTool>) -> Self {
        // One that is not offered in any situation needs what this installation does not have.
        let ever = Situation { has_sessions: true };
        let tools: Vec<SharedTool> = tools.into_iter().filter(|tool| tool.offered(ever)).collect();
        let at_first = tools.iter().filter(|tool| tool.offered(Situation::default())).cloned().collect();
        Self { list: List::of(tools), at_first: List::of(at_first) }
    }

    /// The tools offered in this situation.
    #[must_use]
    pub fn in_situation(&self, situation: Situation) -> Self {
        let list = if situation.has_sessions { &self.list } else { &self.at_first };
        Self { list: Arc::clone(list), at_first: Arc::clone(&self.at_first) }
    }

    /// Their definitions, as they are sent to the model.
    #[must_use]
    pub fn definitions(&self) -> &[ToolDefinition] {
        &self.list.definitions
    }

    /// The tools themselves, in the order of their definitions.
    #[must_use]
    pub fn tools(&self) -> &[SharedTool] {
        &self.list.tools
    }

    /// Only the tools with these names.
    #[must_use]
    pub fn limited_to(&self, names: &[String]) -> Self {
        let named = |tool: &&SharedTool| names.contains(&tool.definition().name);
        Self::of(self.list.tools.iter().filter(named).cloned().collect())
    }

    /// The tool with this name, if it is offered.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&SharedTool> {
        self.list.tools.iter().find(|tool| tool.definition().name == name)
    }

    /// What guards rely on about the tool with this name, if it is offered.
    #[must_use]
    pub fn facts(&self, name: &str) -> Option<&ToolFacts> {
        let of_list = self.list.definitions.iter().zip(&self.list.facts);
        of_list.into_iter().find(|(definition, _)| definition.name == name).map(|(_, facts)| facts)
    }

    /// The plan of a call. A call of an unknown tool, or with malformed arguments, is answered with an error that
    /// tells the model how to correct it.
    #[must_use]
    pub fn plan(&self, call: &ToolCall, context: &CallContext) -> Plan {
        let Some(tool) = self.get(&call.name) else {
            let offered: Vec<&str> = self.definitions().iter().map(|tool| tool.name.as_str()).collect();
            return Plan::Answer(ToolResponse::failure(
                ToolErrorCode::NotFound,
                format!("there is no tool `{}`; available tools: {}", call.name, offered.join(", ")),
            ));
        };
        if let Some(sent) = &call.malformed {
            return Plan::Answer(ToolResponse::failure(
                ToolErrorCode::ValidationError,
                format!("{}: the arguments are not a JSON object: {sent}", call.name),
            ));
        }
        tool.plan(&call.input, context).unwrap_or_else(|invalid| Plan::Answer(invalid.into()))
    }
}
