//! `run_code`: runs JavaScript or TypeScript in the sandbox.

use std::sync::Arc;
use std::time::Duration;

use houston_domain::capability::Capability;
use houston_domain::guard::{Category, Level, Risk, ToolFacts};
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_sandbox::{
    Answer, Call, Error, Host, Language, MAX_TIME, NoTools, Outcome, Run, Sandbox, Script,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::code::{Code, CodeCall, CodeHost, declarations};
use crate::input;
use crate::outside::Outside;
use crate::tool::{CallContext, InvalidInput, Plan, SharedTool, Situation, Tool};

pub(super) const NAME: &str = "run_code";

/// Runs code that reaches nothing but the tools of its agent, so a call may be repeated after a crash: those are answered as
/// before. Its random numbers follow from the call.
#[derive(Clone)]
pub(super) struct RunCode {
    definition: ToolDefinition,
    sandbox: Option<Sandbox>,
    /// The same for code that calls tools. It keeps its child while it waits for one that may need a child as well.
    calling: Option<Sandbox>,
    time: Duration,
    most_calls: usize,
    /// The tools that code may call: none outside code mode.
    tools: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    code: String,
    #[serde(default)]
    language: Language,
    timeout_s: Option<u64>,
}

impl RunCode {
    pub(super) fn new(outside: &Outside) -> Self {
        let definition = ToolDefinition {
            name: NAME.to_owned(),
            description: "Run JavaScript or TypeScript to compute or to transform data. The code is the body of an \
                          async function: `return` the result. It has console, Date, timers, nothing else: no network, \
                          files, packages."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "code": {"type": "string"},
                    "language": {"type": "string", "enum": ["javascript", "typescript"]},
                    "timeout_s": {"type": "integer", "minimum": 1, "maximum": MAX_TIME.as_secs()},
                },
                "required": ["code"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        };
        Self {
            definition,
            sandbox: outside.sandbox.clone(),
            calling: outside.sandbox.as_ref().map(Sandbox::apart),
            time: outside.code_time,
            most_calls: outside.code_calls,
            tools: Vec::new(),
        }
    }
}

impl Tool for RunCode {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn offered(&self, _situation: Situation) -> bool {
        self.sandbox.is_some()
    }

    fn is_for_code(&self) -> bool {
        false
    }

    fn calling(&self, tools: &[ToolDefinition]) -> Option<SharedTool> {
        let mut calling =
            Self { tools: tools.iter().map(|tool| tool.name.clone()).collect(), ..self.clone() };
        if !tools.is_empty() {
            calling.definition.description = format!(
                "{} With `await tools.<name>(input)` it calls your tools, at most {} times: the value is their result, an \
                 error is thrown. Use it for many calls, or to reduce what they return. Tools:\n{}",
                self.base_description(),
                self.most_calls,
                declarations(tools)
            );
        }
        Some(Arc::new(calling))
    }

    fn facts(&self) -> ToolFacts {
        ToolFacts {
            level: Level::Execute,
            category: Category::CodeExecute,
            risk: Risk::Exec,
            ..ToolFacts::default()
        }
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Code)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { code, language, timeout_s } = input::read(NAME, input)?;
        let code = input::text(NAME, "code", code, usize::MAX)?;
        let most = MAX_TIME.as_secs();
        if let Some(seconds) = timeout_s.filter(|seconds| !(1..=most).contains(seconds)) {
            return Err(InvalidInput(format!(
                "{NAME}: `timeout_s` is {seconds}, but must be from 1 to {most}"
            )));
        }
        let mut script = Script::new(&code);
        script.language = language;
        script.now_ms = context.now.timestamp_millis();
        script.seed = seed(&context.idempotency_key);
        script.limits.time = timeout_s.map_or(self.time, Duration::from_secs);
        if !self.tools.is_empty() {
            script.tools.clone_from(&self.tools);
            script.limits.calls = self.most_calls;
            return Ok(Plan::Code(calling(self.calling.clone(), script)));
        }
        let sandbox = self.sandbox.clone();
        Ok(Plan::Execute(Box::pin(async move {
            let Some(sandbox) = sandbox else { return unavailable() };
            finished(sandbox.run(&script, &mut NoTools).await)
        })))
    }
}

impl RunCode {
    /// The description without tools.
    fn base_description(&self) -> &str {
        self.definition.description.split(" With `await").next().unwrap_or_default()
    }
}

/// Code that calls tools. The time it sees is that of its host, which is the same in every replay.
fn calling(sandbox: Option<Sandbox>, mut script: Script) -> Code {
    Code::new(move |host| {
        Box::pin(async move {
            let Some(sandbox) = sandbox else { return unavailable() };
            script.now_ms = host.now.timestamp_millis();
            finished(sandbox.run(&script, &mut Calls(host)).await)
        })
    })
}

/// Passes the calls of a script on.
struct Calls(CodeHost);

impl Host for Calls {
    async fn answer(&mut self, calls: Vec<Call>) -> Result<Vec<Answer>, String> {
        let call = |Call { number, tool, input }| CodeCall { number, tool, input };
        self.0.answer(calls.into_iter().map(call).collect()).await
    }
}

fn unavailable() -> ToolResponse {
    let reason = "code cannot be run safely on this machine: `houston doctor` says why";
    ToolResponse::failure(ToolErrorCode::ConfigError, reason)
}

fn finished(run: Result<Run, Error>) -> ToolResponse {
    match run {
        Ok(run) => response(&run),
        Err(error) => ToolResponse::failure(ToolErrorCode::IoError, format!("{NAME}: {error}")),
    }
}

/// The first 64 bits of the key, which is hexadecimal.
fn seed(key: &str) -> u64 {
    key.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default()
}

/// What the model reads: the result, then the console.
fn response(run: &Run) -> ToolResponse {
    let console = run.console.text();
    let text = if console.is_empty() {
        run.outcome.text()
    } else {
        format!("{}\n\nconsole:\n{}", run.outcome.text(), console.trim_end())
    };
    if run.outcome.is_value() {
        return ToolResponse::success(text);
    }
    let code = match run.outcome {
        Outcome::Invalid(_) => ToolErrorCode::ValidationError,
        Outcome::TimedOut(_) => ToolErrorCode::Timeout,
        _ => ToolErrorCode::Unknown,
    };
    ToolResponse::failure(code, text)
}
