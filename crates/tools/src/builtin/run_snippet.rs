//! `run_snippet`: runs a snippet in the sandbox; and [`SnippetRunner`], a snippet that is a tool.

use std::sync::Arc;

use houston_domain::capability::Capability;
use houston_domain::guard::ToolFacts;
use houston_domain::snippet::{self, SnippetTool};
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::many::arguments;
use crate::outside::Outside;
use crate::scripts::{self, Scripts};
use crate::snippets::invalid;
use crate::tool::{CallContext, InvalidInput, Plan, SharedTool, Situation, Tool};

pub(crate) const NAME: &str = "run_snippet";

/// Runs a snippet, like code that the model writes.
#[derive(Clone)]
pub(super) struct RunSnippet {
    definition: ToolDefinition,
    scripts: Scripts,
    /// Whether snippets may be tools.
    may_be_tools: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    name: String,
    input: Option<Value>,
}

impl RunSnippet {
    pub(super) fn new(outside: &Outside) -> Self {
        let definition = ToolDefinition {
            name: NAME.to_owned(),
            description: "Run a saved snippet, and read what it returns.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "input": {"type": "object", "description": "What its code reads as `input`."},
                },
                "required": ["name"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        };
        Self { definition, scripts: Scripts::new(outside), may_be_tools: outside.snippet_tools > 0 }
    }
}

impl Tool for RunSnippet {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn offered(&self, _situation: Situation) -> bool {
        self.scripts.can_run()
    }

    fn is_for_code(&self) -> bool {
        false
    }

    fn calling(&self, tools: &[ToolDefinition]) -> Option<SharedTool> {
        Some(Arc::new(Self { scripts: self.scripts.with_tools(tools), ..self.clone() }))
    }

    fn snippet_tool(&self, tool: &SnippetTool) -> Option<SharedTool> {
        let runner = || SnippetRunner::new(tool, self.scripts.clone());
        self.may_be_tools.then(|| Arc::new(runner()) as SharedTool)
    }

    fn facts(&self) -> ToolFacts {
        scripts::facts()
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Snippets)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { name, input } = input::read(NAME, input)?;
        snippet::check_name(&name).map_err(|error| invalid(NAME, &error))?;
        let input = input.unwrap_or_else(|| json!({}));
        Ok(self.scripts.plan_snippet(NAME, (name, None), input, context))
    }
}

/// A snippet that a person let become a tool.
#[derive(Clone)]
struct SnippetRunner {
    tool: SnippetTool,
    definition: ToolDefinition,
    scripts: Scripts,
}

impl SnippetRunner {
    fn new(tool: &SnippetTool, scripts: Scripts) -> Self {
        let definition = ToolDefinition {
            name: tool.tool_name(),
            description: tool.description.clone(),
            input_schema: tool.input_schema.clone().into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        };
        Self { tool: tool.clone(), definition, scripts }
    }
}

impl Tool for SnippetRunner {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn is_for_code(&self) -> bool {
        false
    }

    fn calling(&self, tools: &[ToolDefinition]) -> Option<SharedTool> {
        Some(Arc::new(Self { scripts: self.scripts.with_tools(tools), ..self.clone() }))
    }

    fn facts(&self) -> ToolFacts {
        ToolFacts { untrusted_output: self.tool.untrusted, ..scripts::facts() }
    }

    fn pin(&self) -> Option<&str> {
        Some(&self.tool.pin)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        if let Some(complaint) = arguments::complaint(&self.tool.input_schema, input) {
            return Err(InvalidInput(format!("{}: {complaint}", self.definition.name)));
        }
        let snippet = (self.tool.name.clone(), Some(self.tool.pin.clone()));
        Ok(self.scripts.plan_snippet(NAME, snippet, input.clone(), context))
    }
}
