//! [`McpTool`]: an approved tool of a server, as a tool of agents.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use houston_domain::guard::ToolFacts;
use houston_domain::tool_call::ToolDefinition;
use houston_tools::untrusted::marked;
use houston_tools::{CallContext, InvalidInput, Plan, Tool};
use serde_json::Value;

use crate::answer::response;
use crate::pins::Pin;
use crate::server::Server;
use crate::trust::judged;

/// What the engine allows above the limits of the server, so that the server's reach the model.
const SPARE: Duration = Duration::from_secs(10);

pub(crate) struct McpTool {
    server: Arc<Server>,
    /// The name that the server gives it.
    remote: String,
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
        let definition = ToolDefinition {
            name,
            description: pin.description.clone(),
            input_schema: Arc::new(pin.input_schema.clone()),
            effect,
            timeout: server.longest_call() + SPARE,
        };
        Self { server, remote: remote.to_owned(), definition, facts, pin: pin.sha256.clone() }
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
        let Value::Object(arguments) = input.clone() else {
            return Err(InvalidInput(format!(
                "{}: the arguments must be a JSON object",
                self.definition.name
            )));
        };
        let (server, tool, key) =
            (Arc::clone(&self.server), self.remote.clone(), context.idempotency_key.clone());
        let (effect, is_untrusted) = (self.definition.effect, self.facts.untrusted_output);
        let call = async move {
            let response = response(effect, server.call(&tool, arguments, &key).await);
            if is_untrusted { response.map_text(|text| marked(server.name(), text)) } else { response }
        };
        Ok(Plan::Execute(call.boxed()))
    }
}
