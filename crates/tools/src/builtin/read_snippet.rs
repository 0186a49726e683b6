//! `read_snippet`: reads the code of a snippet. What runs a snippet reads it with this tool.

use houston_domain::capability::Capability;
use houston_domain::focus::Tier;
use houston_domain::snippet;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use super::list_snippets;
use crate::input;
use crate::record::{Record, RecordFuture, not_found};
use crate::snippets::invalid;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};
use crate::untrusted;

pub(crate) const NAME: &str = "read_snippet";

/// Reads a snippet.
#[derive(Debug)]
pub(super) struct ReadSnippet(ToolDefinition);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    name: String,
}

impl Default for ReadSnippet {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Read the code of a saved snippet.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"name": {"type": "string"}},
                "required": ["name"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ReadSnippet {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn tier(&self) -> Tier {
        Tier::Detail
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Snippets)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { name } = input::read(NAME, input)?;
        snippet::check_name(&name).map_err(|error| invalid(NAME, &error))?;
        Ok(Plan::record(Input { name }))
    }
}

impl Record for Input {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let Some(found) = tx.snippet(&self.name).await? else {
                return Ok(not_found(format!("snippet {}", self.name), list_snippets::NAME));
            };
            let pin = found.tool.map(|tool| tool.pin);
            let text = json!({
                "name": found.name, "language": found.language, "description": found.description, "code": found.code,
                "pin": pin,
            })
            .to_string();
            // As JSON, the text has no `<` that could look like the end of a mark.
            let text = if found.untrusted { text.replace('<', "\\u003c") } else { text };
            let source = format!("snippet {}", self.name);
            Ok(ToolResponse::success(untrusted::stored(found.untrusted, &source, text)))
        })
    }
}
