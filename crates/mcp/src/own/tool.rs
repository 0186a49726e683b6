//! [`OwnTool`]: an approved tool of a tenant's or a user's server.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use houston_domain::guard::ToolFacts;
use houston_domain::id::UserId;
use houston_domain::mcp_server::pin::Pin;
use houston_domain::tool_call::ToolDefinition;
use houston_domain::tool_schema::in_form;
use houston_tools::servers::OwnServer;
use houston_tools::{Acted, CallContext, InvalidInput, Paused, Plan, Tool};
use rmcp::model::JsonObject;
use serde_json::Value;

use super::OwnPool;
use crate::call::Call;
use crate::settings::McpLimits;
use crate::tool::SPARE;
use crate::trust::judged_own;

pub(super) struct OwnTool {
    pool: OwnPool,
    server: Arc<OwnServer>,
    /// The name that the server gives it.
    remote: String,
    definition: ToolDefinition,
    facts: ToolFacts,
    pin: String,
}

impl OwnTool {
    pub(super) fn new(
        pool: OwnPool,
        server: Arc<OwnServer>,
        remote: &str,
        name: String,
        pin: &Pin,
        limits: &McpLimits,
    ) -> Self {
        let settings = &server.document.settings;
        let said = settings.tools.get(remote).copied().unwrap_or_default();
        let (effect, facts) = judged_own(pin.hints, said);
        let definition = ToolDefinition {
            name,
            description: pin.description.clone(),
            input_schema: in_form(&Arc::new(pin.input_schema.clone())),
            effect,
            timeout: Duration::from_secs(settings.timeout_s + limits.start_s) + SPARE,
        };
        Self { pool, server, remote: remote.to_owned(), definition, facts, pin: pin.sha256.clone() }
    }

    /// A call for this user.
    fn call(&self, user: UserId) -> Call {
        Call {
            server: self.pool.server(&self.server, user),
            remote: self.remote.clone(),
            effect: self.definition.effect,
            is_untrusted: true,
        }
    }
}

impl Tool for OwnTool {
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
        let call = self.call(context.user);
        Ok(Plan::Begin(call.begin(arguments, context.clone()).boxed()))
    }

    fn go_on(&self, paused: Paused, input: &Value, context: &CallContext) -> BoxFuture<'static, Acted> {
        let arguments: JsonObject = input.as_object().cloned().unwrap_or_default();
        self.call(context.user).go_on(paused, arguments, context.clone()).boxed()
    }
}
