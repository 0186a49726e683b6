//! Tools from functions: [`tool`].

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;
use houston_domain::guard::{Risk, ToolFacts};
use houston_domain::id::{AgentableId, RunId, UserId};
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_tools::{CallContext, InvalidInput, Plan, SharedTool, Tool, input, schema};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::error::Error;

/// A tool whose calls execute `run`. The model is sent the JSON Schema of `Input`, with the texts of its documentation comments;
/// it reads what `run` returns: a string as it is, anything else as JSON.
///
/// Unless [`FunctionTool::effect`] says otherwise, a call acts outside: it is never executed twice, and if the process dies
/// during a call, the model reads that its outcome is unknown.
///
/// ```
/// use houston::{Context, EffectClass, tool};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Sum {
///     /// The numbers to add.
///     numbers: Vec<f64>,
/// }
///
/// let add = tool("add", "Add numbers.", async |sum: Sum, _: Context| Ok(sum.numbers.iter().sum::<f64>()))
///     .effect(EffectClass::Read);
/// ```
pub fn tool<Input, Output, Run>(
    name: impl Into<String>,
    description: impl Into<String>,
    run: impl Fn(Input, Context) -> Run + Send + Sync + 'static,
) -> FunctionTool
where
    Input: DeserializeOwned + JsonSchema + Send + 'static,
    Output: Serialize,
    Run: Future<Output = Result<Output, ToolError>> + Send + 'static,
{
    let name = name.into();
    let of = name.clone();
    let run = Arc::new(run);
    let execute = move |given: &Value, context: &CallContext| -> Result<Execution, InvalidInput> {
        let (input, context, run) = (input::read(&of, given)?, Context::of(context), Arc::clone(&run));
        Ok(Box::pin(
            async move { run(input, context).await.map_or_else(ToolResponse::from, |it| response(&it)) },
        ))
    };
    let definition = ToolDefinition::new(name, description, schema::of::<Input>(), EffectClass::default());
    FunctionTool { definition, risk: None, execute: Arc::new(execute) }
}

type Execution = BoxFuture<'static, ToolResponse>;
type Execute = dyn Fn(&Value, &CallContext) -> Result<Execution, InvalidInput> + Send + Sync;

/// A tool that [`tool`] made.
#[derive(Clone)]
pub struct FunctionTool {
    definition: ToolDefinition,
    risk: Option<Risk>,
    execute: Arc<Execute>,
}

impl FunctionTool {
    /// Says what may be repeated after a crash. Default: [`EffectClass::Effect`], nothing.
    ///
    /// Class `checkable` needs [`Tool::check`](houston_tools::Tool::check): implement the trait instead.
    #[must_use]
    pub fn effect(mut self, effect: EffectClass) -> Self {
        self.definition.effect = effect;
        self
    }

    /// Says what may go wrong. Before a call of [`Risk::External`], [`Risk::Exec`] or [`Risk::Destructive`], a person is
    /// asked, unless the guards say otherwise. Default: [`Risk::Read`] for class `read`, else [`Risk::Write`].
    #[must_use]
    pub fn risk(mut self, risk: Risk) -> Self {
        self.risk = Some(risk);
        self
    }

    /// Limits the time of a call. Default: two minutes.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.definition.timeout = timeout;
        self
    }

    /// # Errors
    /// [`Error::Tool`] when providers would refuse it.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let ToolDefinition { name, input_schema, effect, .. } = &self.definition;
        let refuse = |reason: &str| Err(Error::Tool { name: name.clone(), reason: reason.to_owned() });
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
            return refuse("a name has 1 to 64 letters, digits, `_` and `-`");
        }
        if input_schema["type"] != "object" {
            return refuse("its input must be a struct with named fields, because arguments have names");
        }
        if *effect == EffectClass::Checkable {
            return refuse("a function cannot check whether a call was executed: implement the trait `Tool`");
        }
        Ok(())
    }
}

impl std::fmt::Debug for FunctionTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FunctionTool").field("definition", &self.definition).finish_non_exhaustive()
    }
}

impl Tool for FunctionTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn facts(&self) -> ToolFacts {
        let facts = ToolFacts::of_effect(self.definition.effect);
        ToolFacts { risk: self.risk.unwrap_or(facts.risk), ..facts }
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        (self.execute)(input, context).map(Plan::Execute)
    }
}

/// What the model reads of an output.
fn response(output: &impl Serialize) -> ToolResponse {
    match serde_json::to_value(output) {
        Ok(Value::String(text)) => ToolResponse::success(text),
        Ok(value) => ToolResponse::success(value.to_string()),
        Err(error) => ToolResponse::failure(
            ToolErrorCode::Unknown,
            format!("the result cannot be written as JSON: {error}"),
        ),
    }
}

/// The circumstances of a call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Context {
    /// The run the call belongs to.
    pub run: RunId,
    /// The conversation.
    pub conversation: AgentableId,
    /// The user the agent works for.
    pub user: UserId,
    /// The same for each execution of one call: pass it to services that recognise repeated requests.
    pub idempotency_key: String,
    /// The time of the call, by the database's clock.
    pub now: DateTime<Utc>,
    /// Cancelled together with the run.
    pub stop: CancellationToken,
}

impl Context {
    fn of(context: &CallContext) -> Self {
        let CallContext { agentable, user, run, idempotency_key, now, stop, .. } = context;
        Self {
            run: *run,
            conversation: *agentable,
            user: *user,
            idempotency_key: idempotency_key.clone(),
            now: *now,
            stop: stop.clone(),
        }
    }
}

/// Why a call failed. The model reads the text; every error converts into one with the code `UNKNOWN`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    /// The kind of failure, for the model and for statistics.
    pub code: ToolErrorCode,
    /// What is wrong, and what to do.
    pub text: String,
}

impl ToolError {
    /// A failure that the model reads.
    pub fn new(code: ToolErrorCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

// `ToolError` is no `std::error::Error`: otherwise it could not be made from every one.
impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self::new(ToolErrorCode::Unknown, error.to_string())
    }
}

impl From<ToolError> for ToolResponse {
    fn from(error: ToolError) -> Self {
        Self::failure(error.code, error.text)
    }
}

/// A tool for an agent: a function, an implementation of [`Tool`], or the name of one that comes with Houston, is defined in the
/// settings, or belongs to an MCP server.
#[derive(Clone)]
pub struct AgentTool(pub(crate) AnyTool);

#[derive(Clone)]
pub(crate) enum AnyTool {
    Function(FunctionTool),
    Own(SharedTool),
    Named(String),
}

impl From<FunctionTool> for AgentTool {
    fn from(tool: FunctionTool) -> Self {
        Self(AnyTool::Function(tool))
    }
}

impl From<SharedTool> for AgentTool {
    fn from(tool: SharedTool) -> Self {
        Self(AnyTool::Own(tool))
    }
}

impl From<&str> for AgentTool {
    fn from(name: &str) -> Self {
        Self(AnyTool::Named(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    /// Arguments of a test.
    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "most of it is needed for its schema only")]
    struct Trip {
        /// Where to.
        city: City,
        nights: Option<u8>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum City {
        Rome,
        Paris,
    }

    #[test]
    fn schema_follows_from_the_type() {
        let expected = json!({
            "type": "object",
            "description": "Arguments of a test.",
            "properties": {
                "city": {"description": "Where to.", "type": "string", "enum": ["rome", "paris"]},
                "nights": {"type": ["integer", "null"], "format": "uint8", "minimum": 0, "maximum": 255}
            },
            "required": ["city"],
            "additionalProperties": false
        });
        assert_eq!(schema::of::<Trip>(), expected);
    }

    #[test]
    fn tools_that_providers_would_refuse_are_refused() {
        let refused = |tool: FunctionTool| tool.check().unwrap_err().to_string();
        let text = tool("echo", "", async |text: String, _: Context| Ok(text));
        assert!(refused(text).contains("struct with named fields"));
        let named = |name: &str| tool(name, "", async |trip: Trip, _: Context| Ok(trip.nights));
        assert!(refused(named("book a trip")).contains("`book a trip`"));
        assert!(refused(named("book").effect(EffectClass::Checkable)).contains("implement the trait"));
        named("book").check().unwrap();
    }

    #[test]
    fn outputs_are_text_or_json() {
        assert_eq!(response(&"as it is").text(), "as it is");
        assert_eq!(response(&json!({"a": 1})).text(), r#"{"a":1}"#);
        let error: ToolError = std::io::Error::other("no disk").into();
        assert_eq!(ToolResponse::from(error).text(), "no disk");
    }
}
