//! `read_profile`: reads the whole profile of the user.

use houston_domain::capability::Capability;
use houston_domain::focus::Tier;
use houston_domain::profile::{Profile, ProfileList};
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};
use crate::untrusted::marked;

pub const NAME: &str = "read_profile";

/// Reads the profile.
#[derive(Debug)]
pub(super) struct ReadProfile(ToolDefinition);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {}

impl Default for ReadProfile {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Read all of what is known of the user: facts, preferences, communication style, interests, aims. <user> has the first of each."
                .to_owned(),
            input_schema: json!({"type": "object", "properties": {}, "additionalProperties": false}).into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ReadProfile {
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
            let profile = tx.profile().await?;
            let lists = ProfileList::ALL.map(|list| list_text(&profile, list));
            Ok(ToolResponse::success(lists.join("\n")))
        })
    }
}

/// A list with its name, one entry a line. Entries that may be what strangers wrote come last, between marks.
pub(super) fn list_text(profile: &Profile, list: ProfileList) -> String {
    let lines = |untrusted: bool| -> String {
        let entries = profile.list(list).iter().filter(|entry| profile.is_untrusted(entry) == untrusted);
        entries.map(|entry| format!("\n- {entry}")).collect()
    };
    let (own, theirs) = (lines(false), lines(true));
    let name = list.as_str();
    match theirs.trim_start() {
        "" if own.is_empty() => format!("{name}: nothing"),
        "" => format!("{name}:{own}"),
        theirs => format!("{name}:{own}\n{}", marked(NAME, theirs)),
    }
}
