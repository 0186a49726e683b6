//! `delete_snippet`: deletes a snippet.

use houston_domain::capability::Capability;
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

const NAME: &str = "delete_snippet";

/// Deletes a snippet. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct DeleteSnippet(ToolDefinition);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    name: String,
}

impl Default for DeleteSnippet {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Delete a saved snippet for good, for all agents of your user.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"name": {"type": "string"}},
                "required": ["name"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for DeleteSnippet {
    fn definition(&self) -> &ToolDefinition {
        &self.0
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
            let name = &self.name;
            Ok(if tx.delete_snippet(name).await? {
                ToolResponse::success(format!("Deleted {name}."))
            } else {
                not_found(format!("snippet {name}"), list_snippets::NAME)
            })
        })
    }
}
