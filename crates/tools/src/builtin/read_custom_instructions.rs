//! `read_custom_instructions`: reads all custom instructions of the user.

use houston_domain::capability::Capability;
use houston_domain::focus::Tier;
use houston_domain::knowledge::KnowledgeKind;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

pub const NAME: &str = "read_custom_instructions";

/// Reads the custom instructions. No tool writes them: text that an agent reads must not become a rule for all agents.
#[derive(Debug)]
pub(super) struct ReadCustomInstructions(ToolDefinition);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {}

impl Default for ReadCustomInstructions {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Read all custom instructions of the user in full. <custom_instructions> may have only some, and shortened."
                .to_owned(),
            input_schema: json!({"type": "object", "properties": {}, "additionalProperties": false}).into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ReadCustomInstructions {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn tier(&self) -> Tier {
        Tier::Detail
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Memory)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input {} = input::read(NAME, input)?;
        Ok(Plan::record(Input {}))
    }
}

impl Record for Input {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let all = tx.texts(KnowledgeKind::CustomInstruction).await?;
            let none = "There are no custom instructions.".to_owned();
            Ok(ToolResponse::success(if all.is_empty() { none } else { all.join("\n\n") }))
        })
    }
}
