//! `get_field_info`: what may be changed of a thing, to what, and by whom.

use houston_domain::field::Entity;
use serde_json::json;

use super::prelude::*;

built_in! {
    GetFieldInfo: "get_field_info", Read;
}

/// Which fields of a thing may be changed, to what, and by whom: api (your user, in their app), agent (you, with a
/// tool) or both.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetFieldInfo {
    #[schemars(extend("enum" = Entity::ALL.map(Entity::as_str)))]
    entity: String,
    /// One field; without it, all.
    field: Option<String>,
}

impl BuiltIn for GetFieldInfo {
    fn plan(self, _: &CallContext, _: &Outside) -> Result<Plan, Refusal> {
        let Some(entity) = Entity::from_name(self.entity.trim()) else {
            let all = Entity::ALL.map(Entity::as_str).join(", ");
            return Err(invalid(format!("`entity` must be one of {all}")));
        };
        let answer = match self.field.as_deref().map(str::trim) {
            None => json!(entity.fields()),
            Some(name) => json!(entity.field(name).ok_or_else(|| {
                let (name, updatable) = (entity.as_str(), entity.updatable());
                let reason = format!("a {name} has no field of this name; {updatable}");
                failed(ToolErrorCode::NotFound, reason)
            })?),
        };
        Ok(Plan::Answer(ToolResponse::success(answer.to_string())))
    }
}
