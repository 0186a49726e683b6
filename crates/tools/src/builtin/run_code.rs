//! `run_code`: runs JavaScript or TypeScript in the sandbox.

use std::sync::Arc;

use houston_domain::capability::Capability;
use houston_domain::guard::ToolFacts;
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use houston_sandbox::{Language, MAX_TIME};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::outside::Outside;
use crate::scripts::{self, Scripts};
use crate::tool::{CallContext, InvalidInput, Plan, SharedTool, Situation, Tool};

pub(super) const NAME: &str = "run_code";

/// Runs code that reaches nothing but the tools of its agent, so a call may be repeated after a crash: those are answered as
/// before. Its random numbers follow from the call.
#[derive(Clone)]
pub(super) struct RunCode {
    definition: ToolDefinition,
    scripts: Scripts,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    code: String,
    #[serde(default)]
    language: Language,
    timeout_s: Option<u64>,
}

impl RunCode {
    pub(super) fn new(outside: &Outside) -> Self {
        let definition = ToolDefinition {
            name: NAME.to_owned(),
            description: "Run JavaScript or TypeScript to compute or to transform data. The code is the body of an \
                          async function: `return` the result. It has console, Date, timers, nothing else: no network, \
                          files, packages."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "code": {"type": "string"},
                    "language": {"type": "string", "enum": ["javascript", "typescript"]},
                    "timeout_s": {"type": "integer", "minimum": 1, "maximum": MAX_TIME.as_secs()},
                },
                "required": ["code"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        };
        Self { definition, scripts: Scripts::new(outside) }
    }
}

impl Tool for RunCode {
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
        let mut calling = Self { scripts: self.scripts.with_tools(tools), ..self.clone() };
        calling.definition.description = calling.scripts.described(&self.definition.description, tools);
        Some(Arc::new(calling))
    }

    fn facts(&self) -> ToolFacts {
        scripts::facts()
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Code)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { code, language, timeout_s } = input::read(NAME, input)?;
        let code = input::text(NAME, "code", code, usize::MAX)?;
        let most = MAX_TIME.as_secs();
        if let Some(seconds) = timeout_s.filter(|seconds| !(1..=most).contains(seconds)) {
            return Err(InvalidInput(format!(
                "{NAME}: `timeout_s` is {seconds}, but must be from 1 to {most}"
            )));
        }
        let mut script = self.scripts.script(&code, language, context);
        if let Some(seconds) = timeout_s {
            script.limits.time = std::time::Duration::from_secs(seconds);
        }
        Ok(self.scripts.plan(NAME, script))
    }
}
