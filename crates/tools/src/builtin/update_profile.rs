//! `update_profile`: adds, changes or removes an entry of the user's profile.

use houston_domain::capability::Capability;
use houston_domain::knowledge::KnowledgeAction;
use houston_domain::profile::{MAX_PROFILE_ENTRY_BYTES, ProfileChange, ProfileList};
use houston_domain::tool_call::{EffectClass, Record, ToolDefinition};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "update_profile";

/// Changes the profile. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct UpdateProfile(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    list: ProfileList,
    old: Option<String>,
    new: Option<String>,
}

impl Default for UpdateProfile {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Keep what is lasting about the user, one short sentence an entry. `new` alone adds an entry, `old` alone \
                 removes one, both correct one. All agents of the user read it."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "list": {"type": "string",
                             "enum": ProfileList::ALL.map(ProfileList::as_str),
                             "description": "facts: who they are; preferences: how they like things; \
                                             communication_style: how to talk with them; interests; aims: what they \
                                             want to reach."},
                    "old": {"type": "string", "description": "An entry, exactly as read_profile returns it."},
                    "new": {"type": "string", "description": "The entry as it should be."},
                },
                "required": ["list"],
                "additionalProperties": false,
            }),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for UpdateProfile {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Memory)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { list, old, new } = input::read(NAME, input)?;
        let entry = |field, text| input::optional_text(NAME, field, text, MAX_PROFILE_ENTRY_BYTES);
        let change = match (entry("old", old)?, entry("new", new)?) {
            (None, Some(new)) => ProfileChange::Add(new),
            (Some(old), Some(new)) => ProfileChange::Replace { old, new },
            (Some(old), None) => ProfileChange::Remove(old),
            (None, None) => {
                return Err(InvalidInput(format!("{NAME}: give `old`, `new` or both")));
            }
        };
        Ok(Plan::Record(Record::Knowledge(KnowledgeAction::UpdateProfile { list, change })))
    }
}
