//! `update_profile`: adds, changes or removes an entry of the user's profile.

use houston_domain::capability::Capability;
use houston_domain::profile::{MAX_PROFILE_ENTRY_BYTES, ProfileChange, ProfileChangeError, ProfileList};
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use super::read_profile;
use crate::input;
use crate::record::{Record, RecordFuture};
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
                    "old": {"type": "string", "description":
                        format!("An entry, exactly as {} returns it.", read_profile::NAME)},
                    "new": {"type": "string", "description": "The entry as it should be."},
                },
                "required": ["list"],
                "additionalProperties": false,
            }).into(),
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
        Ok(Plan::record(Call { list, change }))
    }
}

#[derive(Debug)]
struct Call {
    list: ProfileList,
    change: ProfileChange,
}

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        let list = self.list;
        Box::pin(async move {
            let mut profile = tx.lock_profile().await?;
            if let Err(error) = tx.change_profile(&mut profile, list, &self.change) {
                let text = match error {
                    ProfileChangeError::Full { .. } => format!("{error}; replace or remove one"),
                    ProfileChangeError::NoSuchEntry { .. } => {
                        format!("{error}: `old` must be exactly an entry that {} returns", read_profile::NAME)
                    }
                };
                return Ok(ToolResponse::failure(ToolErrorCode::NotFound, text));
            }
            tx.write_profile(&profile).await?;
            Ok(ToolResponse::success(read_profile::list_text(&profile, list)))
        })
    }
}
