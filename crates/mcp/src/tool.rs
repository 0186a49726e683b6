//! [`McpTool`]: an approved tool of a server, as a tool of agents.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use houston_domain::guard::ToolFacts;
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use houston_domain::tool_schema::in_form;
use houston_tools::{Acted, CallContext, InvalidInput, Paused, Plan, Tool};
use serde_json::Value;

use crate::call::Call;
use crate::pins::Pin;
use crate::server::Server;
use crate::trust::judged;

/// What the engine allows above the limits of the server, so that the server's reach the model.
const SPARE: Duration = Duration::from_secs(10);

pub(crate) struct McpTool {
    call: Call,
    definition: ToolDefinition,
    facts: ToolFacts,
    pin: String,
}

impl McpTool {
    /// The tool that the server calls `remote`, offered as `name`.
    pub(crate) fn new(server: Arc<Server>, remote: &str, name: String, pin: &Pin) -> Self {
        let settings = server.settings();
        let said = settings.tools.get(remote).cloned().unwrap_or_default();
        let (effect, facts) = judged(settings.trust, pin.hints, &said);
        let definition = definition(name, pin, effect, server.longest_call());
        let is_untrusted = facts.untrusted_output;
        let call = Call { server, remote: remote.to_owned(), effect, is_untrusted };
        Self { call, definition, facts, pin: pin.sha256.clone() }
    }
}

/// The definition of a tool as it was approved; `longest`: what its server may take for a call.
pub(crate) fn definition(name: String, pin: &Pin, effect: EffectClass, longest: Duration) -> ToolDefinition {
    ToolDefinition {
        name,
        description: pin.description.clone(),
        input_schema: in_form(&Arc::new(pin.input_schema.clone())),
        effect,
        timeout: longest + SPARE,
    }
}

impl Tool for McpTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn facts(&self) -> ToolFacts {
        self.facts.clone()
    }

    fn pin(&self) -> Option<&str> {
        Some(&self.pin)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        self.call.clone().plan(&self.definition.name, input, context)
    }

    fn go_on(&self, paused: Paused, input: &Value, context: &CallContext) -> BoxFuture<'static, Acted> {
        self.call.clone().go_on(paused, input, context)
    }

    fn give_up(&self, state: Value) -> BoxFuture<'static, ()> {
        self.call.clone().give_up(state).boxed()
    }
}
