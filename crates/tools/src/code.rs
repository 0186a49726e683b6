//! [`Code`]: a call that runs code, which calls other tools. Who drives the run answers those calls: this crate neither
//! judges nor stores them.

use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;
use houston_domain::tool_call::{ToolDefinition, ToolResponse};
pub use houston_sandbox::{Answer as CodeAnswer, Call as CodeCall};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

/// Calls that code has made at once, and where their answers go.
#[derive(Debug)]
pub struct CodeCalls {
    /// The id of the call that runs the code.
    pub of: String,
    /// The calls.
    pub calls: Vec<CodeCall>,
    /// Set if the call `of` runs no code, but has failed with this response, and its fallback is called.
    pub failed: Option<ToolResponse>,
    /// One answer per call, in their order. An error ends the code.
    pub answers: oneshot::Sender<Result<Vec<CodeAnswer>, String>>,
}

/// What code is given that calls tools.
#[derive(Debug)]
pub struct CodeHost {
    /// The id of the call that runs the code.
    pub of: String,
    /// The time that the code sees first: the same in every replay.
    pub now: DateTime<Utc>,
    /// Where its calls go.
    pub calls: mpsc::UnboundedSender<CodeCalls>,
}

impl CodeHost {
    /// Asks for answers to calls that the code has made at once.
    ///
    /// # Errors
    /// Why the code must end.
    pub async fn answer(&mut self, calls: Vec<CodeCall>) -> Result<Vec<CodeAnswer>, String> {
        self.send(calls, None).await
    }

    /// Asks for the fallback of a call that failed. What it answers is known to who drives the run.
    ///
    /// # Errors
    /// Why the run does not go on.
    pub async fn fall_back(&mut self, call: CodeCall, failed: ToolResponse) -> Result<(), String> {
        self.send(vec![call], Some(failed)).await.map(drop)
    }

    async fn send(
        &mut self,
        calls: Vec<CodeCall>,
        failed: Option<ToolResponse>,
    ) -> Result<Vec<CodeAnswer>, String> {
        let (answers, answered) = oneshot::channel();
        let gone = |()| "the run has ended".to_owned();
        let sent = self.calls.send(CodeCalls { of: self.of.clone(), calls, failed, answers });
        sent.map_err(|_| gone(()))?;
        answered.await.map_err(|_| gone(()))?
    }
}

/// Code that calls tools. Run again with the same answers, it makes the same calls in the same order.
pub struct Code(Box<dyn FnOnce(CodeHost) -> BoxFuture<'static, ToolResponse> + Send + Sync>);

impl Code {
    /// Code that `run` runs. It keeps to limits of its own: no time-out applies to the call.
    pub fn new(
        run: impl FnOnce(CodeHost) -> BoxFuture<'static, ToolResponse> + Send + Sync + 'static,
    ) -> Self {
        Self(Box::new(run))
    }

    /// Runs it; dropping the future ends it.
    pub fn run(self, host: CodeHost) -> BoxFuture<'static, ToolResponse> {
        (self.0)(host)
    }
}

/// The signatures of tools in TypeScript, one per line: what a model needs to call them from code.
pub fn declarations(tools: &[ToolDefinition]) -> String {
    let line = |tool: &ToolDefinition| {
        format!("{}(input: {}): Promise<any>", tool.name, type_of(&tool.input_schema, MAX_DEPTH))
    };
    tools.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// How deep types are written.
const MAX_DEPTH: usize = 4;
/// The most values of an enumeration that are written.
const MAX_VALUES: usize = 12;

/// The TypeScript type of a JSON schema, as far as it matters for a call.
fn type_of(schema: &Value, depth: usize) -> String {
    if let Some(values) = schema["enum"].as_array().filter(|values| values.len() <= MAX_VALUES) {
        return values.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    match schema["type"].as_str() {
        Some("string") => "string".to_owned(),
        Some("integer" | "number") => "number".to_owned(),
        Some("boolean") => "boolean".to_owned(),
        Some("null") => "null".to_owned(),
        Some("array") if depth > 0 => format!("Array<{}>", type_of(&schema["items"], depth - 1)),
        Some("object") if depth > 0 => object(schema, depth),
        _ => "any".to_owned(),
    }
}

fn object(schema: &Value, depth: usize) -> String {
    let Some(properties) = schema["properties"].as_object() else { return "object".to_owned() };
    let required = schema["required"].as_array();
    let is_required = |name: &str| {
        required.is_some_and(|required| required.iter().any(|required| required.as_str() == Some(name)))
    };
    let property = |(name, schema): (&String, &Value)| {
        let mark = if is_required(name) { "" } else { "?" };
        format!("{name}{mark}: {}", type_of(schema, depth - 1))
    };
    format!("{{{}}}", properties.iter().map(property).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use houston_domain::tool_call::EffectClass;
    use serde_json::json;

    use super::*;

    #[test]
    fn tools_are_declared_on_a_line_each() {
        let tool = |name: &str, schema: Value| ToolDefinition {
            name: name.to_owned(),
            description: "Long.".to_owned(),
            input_schema: schema.into(),
            effect: EffectClass::Read,
            timeout: Duration::from_secs(1),
        };
        let schema = json!({
            "type": "object",
            "properties": {
                "query": {"type": "string"},
                "limit": {"type": "integer"},
                "order": {"type": "string", "enum": ["new", "old"]},
                "tags": {"type": "array", "items": {"type": "string"}},
                "where": {"anyOf": []},
            },
            "required": ["query"],
        });
        let declared = declarations(&[tool("find", schema), tool("now", json!({"type": "object"}))]);
        assert_eq!(
            declared,
            "find(input: {query: string, limit?: number, order?: \"new\" | \"old\", tags?: Array<string>, where?: \
             any}): Promise<any>\nnow(input: object): Promise<any>"
        );
    }
}
