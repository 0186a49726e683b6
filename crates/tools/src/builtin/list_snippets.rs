//! `list_snippets`: lists the snippets of the user.

use houston_domain::capability::Capability;
use houston_domain::snippet;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::record::RecordTx;
use houston_store::snippet::SnippetEntry;
use serde::Deserialize;
use serde_json::{Value, json};

use super::read_snippet;
use crate::input;
use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};
use crate::untrusted;

pub(crate) const NAME: &str = "list_snippets";

/// Lists snippets without their code, in the order of their names.
#[derive(Debug)]
pub(super) struct ListSnippets(ToolDefinition);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {}

impl Default for ListSnippets {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: format!(
                "List the code that was saved for your user: names and what each does. {} shows the code.",
                read_snippet::NAME
            ),
            input_schema: json!({"type": "object", "properties": {}, "additionalProperties": false}).into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ListSnippets {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Snippets)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        input::read::<Input>(NAME, input).map(Plan::record)
    }
}

impl Record for Input {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let found = tx.snippets().await?;
            if found.is_empty() {
                return Ok(ToolResponse::success("There are no snippets yet."));
            }
            let lines: Vec<String> = found.into_iter().map(line).collect();
            Ok(ToolResponse::success(lines.join("\n")))
        })
    }
}

/// `monthly_report (javascript, 120 characters): what it does`
fn line(entry: SnippetEntry) -> String {
    let SnippetEntry { name, language, description, chars, untrusted, is_tool, .. } = entry;
    let tool = if is_tool { format!(", the tool {}", snippet::tool_name(&name)) } else { String::new() };
    let description = untrusted::stored(untrusted, &format!("snippet {name}"), description);
    format!("{name} ({language}, {chars} characters{tool}): {description}")
}
