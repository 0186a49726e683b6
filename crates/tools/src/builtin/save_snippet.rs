//! `save_snippet`: keeps code for later runs of the user's agents.

use houston_domain::capability::Capability;
use houston_domain::snippet::{self, MAX_CODE_CHARS, MAX_DESCRIPTION_CHARS};
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use houston_sandbox::Language;
use houston_store::record::RecordTx;
use houston_store::snippet::{NewSnippet, SavedSnippet};
use serde::Deserialize;
use serde_json::{Value, json};

use super::run_snippet;
use crate::input;
use crate::outside::Outside;
use crate::record::{Record, RecordFuture, created};
use crate::snippets::{invalid, language_name};
use crate::tool::{CallContext, InvalidInput, Plan, Situation, Tool};

const NAME: &str = "save_snippet";

/// Saves a snippet. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct SaveSnippet {
    definition: ToolDefinition,
    /// Whether snippets can be run here.
    can_run: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    name: String,
    description: String,
    code: String,
    #[serde(default)]
    language: Language,
}

impl SaveSnippet {
    pub(super) fn new(outside: &Outside) -> Self {
        let definition = ToolDefinition {
            name: NAME.to_owned(),
            description: format!(
                "Keep code that will be needed again, for all agents of your user; one of the same name is replaced. Try it \
                 first. {} runs it.",
                run_snippet::NAME
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "Small letters, digits and `_`: monthly_report."},
                    "description": {"type": "string", "description":
                        "One line: what it does, what `input` has, what it returns."},
                    "code": {"type": "string", "description":
                        format!("The body of an async function, which reads its argument as `input`. At most {MAX_CODE_CHARS} \
                                 characters.")},
                    "language": {"type": "string", "enum": ["javascript", "typescript"]},
                },
                "required": ["name", "description", "code"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        };
        Self { definition, can_run: outside.sandbox.is_some() }
    }
}

impl Tool for SaveSnippet {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn offered(&self, _situation: Situation) -> bool {
        self.can_run
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Snippets)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { name, description, code, language } = input::read(NAME, input)?;
        snippet::check_name(&name).map_err(|error| invalid(NAME, &error))?;
        let description = input::line(NAME, "description", description, MAX_DESCRIPTION_CHARS)?;
        let code = input::text(NAME, "code", code, usize::MAX)?;
        snippet::check_code(&code).map_err(|error| invalid(NAME, &error))?;
        Ok(Plan::record(Input { name, description, code, language }))
    }
}

impl Record for Input {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let snippet = NewSnippet {
                name: &self.name,
                language: language_name(self.language),
                description: &self.description,
                code: &self.code,
                tool: None,
            };
            let saved = tx.save_snippet(&snippet, 0).await;
            let (done, saved) = match saved {
                Ok(saved) => (Ok(()), saved),
                Err(error) => (Err(error), SavedSnippet { replaced: false, lost_tool: false }),
            };
            created(done, || {
                let done = if saved.replaced { "Replaced" } else { "Saved" };
                let lost = if saved.lost_tool {
                    format!(
                        " {} is no tool any more: a person must allow it again.",
                        snippet::tool_name(&self.name)
                    )
                } else {
                    String::new()
                };
                format!("{done} {}.{lost}", self.name)
            })
        })
    }
}
