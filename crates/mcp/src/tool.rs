//! [`McpTool`]: an approved tool of a server, as a tool of agents.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use houston_domain::guard::ToolFacts;
use houston_domain::id::UserId;
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use houston_domain::tool_schema::in_form;
use houston_tools::{Acted, CallContext, InvalidInput, Paused, Plan, Tool};
use serde_json::Value;

use crate::call::{Call, give_up};
use crate::pins::Pin;
use crate::server::Server;
use crate::trust::judged;

/// What the engine allows above the limits of the server, so that the server's reach the model.
const SPARE: Duration = Duration::from_secs(10);

pub(crate) struct McpTool {
    pub(crate) definition: ToolDefinition,
    pub(crate) facts: ToolFacts,
    pub(crate) pin: String,
    /// A call for this user.
    pub(crate) call: Box<dyn Fn(UserId) -> Call + Send + Sync>,
    /// The server, if it may begin tasks: those of tenants and users do not.
    pub(crate) tasks_at: Option<Arc<Server>>,
}

impl McpTool {
    /// The tool that a server of the operator calls `remote`, offered as `name`.
    pub(crate) fn new(server: Arc<Server>, remote: &str, name: String, pin: &Pin) -> Self {
        let settings = server.settings();
        let said = settings.tools.get(remote).cloned().unwrap_or_default();
        let (effect, facts) = judged(settings.trust, pin.hints, &said);
        let definition = definition(name, pin, effect, server.longest_call());
        let is_untrusted = facts.untrusted_output;
        let tasks_at = Some(Arc::clone(&server));
        let call = Call { server, remote: remote.to_owned(), effect, is_untrusted };
        Self { definition, facts, pin: pin.sha256.clone(), call: Box::new(move |_| call.clone()), tasks_at }
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
        (self.call)(context.user).plan(&self.definition.name, input, context)
    }

    fn go_on(&self, paused: Paused, input: &Value, context: &CallContext) -> BoxFuture<'static, Acted> {
        (self.call)(context.user).go_on(paused, input, context)
    }

    fn give_up(&self, state: Value) -> BoxFuture<'static, ()> {
        let server = self.tasks_at.clone();
        async move {
            if let Some(server) = server {
                give_up(&server, state).await;
            }
        }
        .boxed()
    }
}
