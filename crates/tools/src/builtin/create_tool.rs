//! `create_tool`: saves a snippet that is a tool of the user's agents, once a person has allowed it.

use houston_domain::capability::Capability;
use houston_domain::guard::ToolFacts;
use houston_domain::snippet::{self, MAX_CODE_CHARS, MAX_DESCRIPTION_CHARS};
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use houston_sandbox::Language;
use houston_store::record::RecordTx;
use houston_store::snippet::NewSnippet;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::outside::Outside;
use crate::record::{Record, RecordFuture, created};
use crate::scripts;
use crate::snippets::{invalid, language_name};
use crate::tool::{CallContext, InvalidInput, Plan, Situation, Tool};

const NAME: &str = "create_tool";

/// Makes a tool. Written with the step: exactly once. The arguments are all that the tool is, so a person who allows the
/// call allows this tool and no other.
#[derive(Debug)]
pub(super) struct CreateTool {
    definition: ToolDefinition,
    can_run: bool,
    /// How many tools a user may have.
    most: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    name: String,
    description: String,
    input_schema: Value,
    code: String,
    #[serde(default)]
    language: Language,
}

#[derive(Debug)]
struct Call {
    input: Input,
    most: u32,
}

impl CreateTool {
    pub(super) fn new(outside: &Outside) -> Self {
        let definition = ToolDefinition {
            name: NAME.to_owned(),
            description: "Make code a tool of all agents of your user, from the next run on. A person must allow it. Try the \
                          code first."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description":
                        format!("Small letters, digits and `_`. The tool is called {}<name>.", snippet::TOOL_PREFIX)},
                    "description": {"type": "string", "description": "One line: what it does, and what it returns."},
                    "input_schema": {"type": "object", "description": "The JSON schema of its arguments, an object."},
                    "code": {"type": "string", "description":
                        format!("The body of an async function, which reads its arguments as `input`. At most \
                                 {MAX_CODE_CHARS} characters.")},
                    "language": {"type": "string", "enum": ["javascript", "typescript"]},
                },
                "required": ["name", "description", "input_schema", "code"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        };
        Self { definition, can_run: outside.sandbox.is_some(), most: outside.snippet_tools }
    }
}

impl Tool for CreateTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn offered(&self, _situation: Situation) -> bool {
        self.can_run && self.most > 0
    }

    /// What code asks for, a person would have to decide while the code waits.
    fn is_for_code(&self) -> bool {
        false
    }

    fn facts(&self) -> ToolFacts {
        ToolFacts { asks_each_time: true, ..scripts::facts() }
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Snippets)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { name, description, input_schema, code, language } = input::read(NAME, input)?;
        snippet::check_name(&name).map_err(|error| invalid(NAME, &error))?;
        let description = input::line(NAME, "description", description, MAX_DESCRIPTION_CHARS)?;
        let code = input::text(NAME, "code", code, usize::MAX)?;
        snippet::check_code(&code).map_err(|error| invalid(NAME, &error))?;
        snippet::check_schema(&input_schema).map_err(|error| invalid(NAME, &error))?;
        let input = Input { name, description, input_schema, code, language };
        Ok(Plan::record(Call { input, most: self.most }))
    }
}

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        let Input { name, description, input_schema, code, language } = &self.input;
        Box::pin(async move {
            let language = language_name(*language);
            let pin = snippet::pin(name, language, description, code, input_schema);
            let tool = Some((input_schema, pin.as_str()));
            let snippet = NewSnippet { name, language, description, code, tool };
            let saved = tx.save_snippet(&snippet, self.most).await.map(drop);
            created(saved, || {
                format!("{} is a tool of your user's agents from the next run on.", snippet::tool_name(name))
            })
        })
    }
}
