//! `update_state`: changes the state that the agent shares with front ends. Offered where the kind declares one.

use std::sync::Arc;

use houston_domain::question::schema::Mismatch;
use houston_domain::shared_state::{SharedState, UPDATE_STATE};
use houston_domain::storable::storable_value;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, SharedTool, Tool};
use crate::untrusted::marked;

struct UpdateState {
    definition: ToolDefinition,
    declared: Arc<SharedState>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    patch: Value,
}

/// The tool for the state that a kind declares.
#[must_use]
pub fn update_state(declared: &Arc<SharedState>) -> SharedTool {
    let definition = ToolDefinition {
        name: UPDATE_STATE.to_owned(),
        description: format!(
            "Changes the state that you share with your user's screen; they see it at once. `patch` is merged into it (JSON \
             Merge Patch): give only the fields that change; null removes a field; a list is replaced as a whole. The schema \
             of the state: {}",
            declared.schema
        ),
        input_schema: json!({
            "type": "object",
            "properties": {"patch": {"type": "object", "description": "The fields of the state that change."}},
            "required": ["patch"],
            "additionalProperties": false,
        })
        .into(),
        effect: EffectClass::Idempotent,
        timeout: ToolDefinition::default_timeout(),
    };
    Arc::new(UpdateState { definition, declared: Arc::clone(declared) })
}

impl Tool for UpdateState {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn plan(&self, input: &Value, _: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { mut patch } = input::read(UPDATE_STATE, input)?;
        if !patch.is_object() {
            return Err(InvalidInput(format!("{UPDATE_STATE}: `patch` must be an object")));
        }
        storable_value(&mut patch);
        Ok(Plan::record(Call { patch, declared: Arc::clone(&self.declared) }))
    }
}

#[derive(Debug)]
struct Call {
    patch: Value,
    declared: Arc<SharedState>,
}

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let now = tx.shared_state().await?;
            let now = now.as_ref().unwrap_or(&self.declared.initial);
            let change = match self.declared.merge(now, &self.patch) {
                Ok(change) => change,
                Err(Mismatch { pointer, reason }) => {
                    let text =
                        format!("{UPDATE_STATE}: the state would not match its schema: `{pointer}` {reason}");
                    return Ok(ToolResponse::failure(ToolErrorCode::ValidationError, text));
                }
            };
            let text =
                format!("The state is now:\n{}", marked("the shared state", &change.state.to_string()));
            if !change.delta.is_empty() {
                tx.change_shared_state(change);
            }
            Ok(ToolResponse::success(text))
        })
    }
}
