//! Tool definitions as in OpenAI's Chat Completions, also used by other wires.

use std::sync::Arc;

use houston_domain::tool_call::ToolDefinition;
use serde::Serialize;
use serde_json::Value;

use super::tool_schema::Rules;

/// Definition of a tool.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FunctionTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Definition<'a>,
}

#[derive(Debug, Clone, Serialize)]
struct Definition<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Arc<Value>,
}

/// That the model must call this tool.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct FunctionChoice<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Name<'a>,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Name<'a> {
    name: &'a str,
}

impl<'a> FunctionChoice<'a> {
    pub(crate) fn new(name: &'a str) -> Self {
        Self { kind: "function", function: Name { name } }
    }
}

impl<'a> FunctionTool<'a> {
    /// Converts a tool definition of the engine; `None` if its schema cannot be sent.
    pub(crate) fn new(tool: &'a ToolDefinition, rules: &'static Rules) -> Option<Self> {
        let parameters = rules.parameters(tool)?;
        let function = Definition { name: &tool.name, description: &tool.description, parameters };
        Some(Self { kind: "function", function })
    }
}
