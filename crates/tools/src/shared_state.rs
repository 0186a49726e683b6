//! `update_state`: changes the state that the agent shares with front ends. Offered where the kind declares one.

use std::sync::Arc;

use houston_domain::question::schema::Mismatch;
use houston_domain::shared_state::{SharedState, UPDATE_STATE};
use houston_domain::storable::storable_value;
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use houston_store::record::RecordTx;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::input::{Refusal, invalid};
use crate::tool::{CallContext, Plan, SharedTool};
use crate::typed::{About, Access, BuiltIn, shared};
use crate::untrusted::marked;

/// The tool for the state that a kind declares.
pub fn update_state(declared: &Arc<SharedState>) -> SharedTool {
    shared::<UpdateState, _>(Arc::clone(declared))
}

/// Changes the state that you share with your user's screen; they see it at once. `patch` is merged into it (JSON Merge
/// Patch): give only the fields that change; null removes a field; a list is replaced as a whole. The schema of the
/// state:
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateState {
    /// The fields of the state that change.
    #[schemars(with = "Map<String, Value>")]
    patch: Value,
}

impl About for UpdateState {
    const NAME: &'static str = UPDATE_STATE;
    const EFFECT: EffectClass = EffectClass::Idempotent;
}

impl BuiltIn<Arc<SharedState>> for UpdateState {
    fn adapt(definition: &mut ToolDefinition, declared: &Arc<SharedState>) {
        definition.description += &format!(" {}", declared.schema);
    }

    fn plan(self, context: &CallContext, declared: &Arc<SharedState>) -> Result<Plan, Refusal> {
        let Self { mut patch } = self;
        if !patch.is_object() {
            return Err(invalid("`patch` must be an object"));
        }
        storable_value(&mut patch);
        Ok(Plan::record(Call { patch, declared: Arc::clone(declared) }, context))
    }
}

#[derive(Debug)]
struct Call {
    patch: Value,
    declared: Arc<SharedState>,
}

impl Access for Call {
    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String, Refusal> {
        let now = tx.shared_state().await?;
        let now = now.as_ref().unwrap_or(&self.declared.initial);
        let change = self.declared.merge(now, &self.patch).map_err(|Mismatch { pointer, reason }| {
            invalid(format!("{UPDATE_STATE}: the state would not match its schema: `{pointer}` {reason}"))
        })?;
        let text = format!("The state is now:\n{}", marked("the shared state", &change.state.to_string()));
        if !change.delta.is_empty() {
            tx.change_shared_state(change);
        }
        Ok(text)
    }
}
