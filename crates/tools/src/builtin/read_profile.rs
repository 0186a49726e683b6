//! `read_profile`: reads the whole profile of the user.

use houston_domain::capability::Capability;
use houston_domain::knowledge::KnowledgeAction;
use houston_domain::tool_call::{EffectClass, Record, ToolDefinition};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "read_profile";

/// Reads the profile.
#[derive(Debug)]
pub(super) struct ReadProfile(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {}

impl Default for ReadProfile {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Read all of what is known of the user: facts, preferences, communication style, interests, aims. <user> has the first of each."
                .to_owned(),
            input_schema: json!({"type": "object", "properties": {}, "additionalProperties": false}),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ReadProfile {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Memory)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input {} = input::read(NAME, input)?;
        Ok(Plan::Record(Record::Knowledge(KnowledgeAction::ReadProfile)))
    }
}
