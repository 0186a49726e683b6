//! `run_code`: runs JavaScript or TypeScript in the sandbox; and [`Scripts`], how all tools that run code do it.

use std::time::Duration;

use houston_domain::guard::{Category, Level, Risk, ToolFacts};
use houston_domain::snippet;
use houston_domain::tool_call::ToolDefinition;
use houston_sandbox::{
    Answer, Call, Error, Host, Language, MAX_CODE, MAX_TIME, NoTools, Outcome, Run, Sandbox, Script,
};
use serde_json::{Value, json};

use super::prelude::*;
use super::snippets::ReadSnippet;
use crate::code::{Code, CodeHost, declarations};

built_in! {
    RunCode: "run_code", Idempotent, capability Code, for_code false, facts runs_code;
}

/// The languages of code, for schemas.
pub(super) const LANGUAGES: [&str; 2] = ["javascript", "typescript"];

// It reaches nothing but the tools of its agent, so a call may be repeated after a crash: those are answered as before. Its
// random numbers follow from the call.
/// Run JavaScript or TypeScript to compute or to transform data. The code is the body of an async function: `return`
/// the result. It has console, Date, timers, nothing else: no network, files, packages.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunCode {
    code: String,
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = LANGUAGES))]
    language: Language,
    #[schemars(range(min = 1, max = MAX_TIME.as_secs()))]
    timeout_s: Option<u64>,
}

impl BuiltIn<Scripts> for RunCode {
    fn adapt(definition: &mut ToolDefinition, scripts: &Scripts) {
        definition.description += &scripts.about_tools();
    }

    fn is_available(scripts: &Scripts) -> bool {
        scripts.sandbox.is_some()
    }

    fn calling(scripts: &Scripts, tools: &[ToolDefinition]) -> Option<Scripts> {
        Some(scripts.with_tools(tools))
    }

    fn plan(self, context: &CallContext, scripts: &Scripts) -> Result<Plan, Refusal> {
        text("code", self.code.as_str(), usize::MAX)?;
        let most = MAX_TIME.as_secs();
        if let Some(seconds) = self.timeout_s.filter(|seconds| !(1..=most).contains(seconds)) {
            return Err(invalid(format!("`timeout_s` is {seconds}, but must be from 1 to {most}")));
        }
        let mut script = scripts.script(&self.code, self.language, context);
        if let Some(seconds) = self.timeout_s {
            script.limits.time = Duration::from_secs(seconds);
        }
        Ok(scripts.plan(Self::NAME, script))
    }
}

/// Runs code in the sandbox. Its random numbers follow from the call, so that it may be repeated after a crash.
#[derive(Clone)]
pub(super) struct Scripts {
    pub(super) sandbox: Option<Sandbox>,
    /// The same for code that calls tools. It keeps its child while it waits for one that may need a child as well.
    calling: Option<Sandbox>,
    time: Duration,
    most_calls: usize,
    /// Whether snippets may be tools.
    pub(super) may_be_tools: bool,
    /// The tools that code may call: none outside code mode.
    tools: Vec<String>,
    /// Their signatures.
    declared: String,
}

/// What guards rely on about a tool that runs code.
pub(super) fn runs_code() -> ToolFacts {
    ToolFacts {
        level: Level::Execute,
        category: Category::CodeExecute,
        risk: Risk::Exec,
        ..ToolFacts::default()
    }
}

impl From<&Outside> for Scripts {
    fn from(outside: &Outside) -> Self {
        Self {
            sandbox: outside.sandbox.clone(),
            calling: outside.sandbox.as_ref().map(Sandbox::apart),
            time: outside.code_time,
            most_calls: outside.code_calls,
            may_be_tools: outside.snippet_tools > 0,
            tools: Vec::new(),
            declared: String::new(),
        }
    }
}

impl Scripts {
    /// The same for code that may call `tools`.
    pub(super) fn with_tools(&self, tools: &[ToolDefinition]) -> Self {
        let names = tools.iter().map(|tool| tool.name.clone()).collect();
        Self { tools: names, declared: declarations(tools), ..self.clone() }
    }

    /// What a description says of the tools that code may call.
    fn about_tools(&self) -> String {
        if self.tools.is_empty() {
            return String::new();
        }
        format!(
            " With `await tools.<name>(input)` it calls your tools, at most {} times: the value is their result, an error is \
             thrown. Use it for many calls, or to reduce what they return. Tools:\n{}",
            self.most_calls, self.declared
        )
    }

    /// The script of a call.
    pub(super) fn script(&self, code: &str, language: Language, context: &CallContext) -> Script {
        let mut script = Script::new(code);
        script.language = language;
        script.now_ms = context.now.timestamp_millis();
        script.seed = seed(&context.idempotency_key);
        script.limits.time = self.time;
        script.limits.calls = self.most_calls;
        script.tools.clone_from(&self.tools);
        script
    }

    /// Runs a script for a call of the tool `name`.
    pub(super) fn plan(&self, name: &'static str, mut script: Script) -> Plan {
        if script.tools.is_empty() {
            let sandbox = self.sandbox.clone();
            return Plan::Execute(Box::pin(async move {
                let Some(sandbox) = sandbox else { return unavailable() };
                finished(name, sandbox.run(&script, &mut NoTools).await)
            }));
        }
        let sandbox = self.calling.clone();
        Plan::Code(Code::new(move |host| {
            Box::pin(async move {
                let Some(sandbox) = sandbox else { return unavailable() };
                // The same in every replay.
                script.now_ms = host.now.timestamp_millis();
                finished(name, sandbox.run(&script, &mut Calls { host, before: 0 }).await)
            })
        }))
    }

    /// Runs the snippet `snippet` of the user with `input`, for a call of the tool `name`. The first call of the code reads
    /// it: that is judged and recorded like every other call, so a repetition after a crash runs the same code. `pin`: the
    /// hash of what a person allowed; other code is not run.
    pub(super) fn plan_snippet(
        &self,
        name: &'static str,
        snippet: String,
        pin: Option<String>,
        input: Value,
        context: &CallContext,
    ) -> Plan {
        let (sandbox, template) = (self.calling.clone(), self.script("", Language::default(), context));
        Plan::Code(Code::new(move |mut host| {
            Box::pin(async move {
                let Some(sandbox) = sandbox else { return unavailable() };
                let call =
                    Call { number: 1, tool: ReadSnippet::NAME.to_owned(), input: json!({"name": snippet}) };
                let read = match host.answer(vec![call]).await {
                    Ok(answers) => answers.into_iter().next(),
                    Err(reason) => return ToolResponse::failure(ToolErrorCode::IoError, reason),
                };
                let loaded = match read {
                    Some(Ok(value)) => Loaded::of(value),
                    Some(Err(message)) => return ToolResponse::failure(ToolErrorCode::NotFound, message),
                    None => None,
                };
                let Some(loaded) = loaded else {
                    let text = format!("{name}: the snippet {snippet} cannot be read: save it again");
                    return ToolResponse::failure(ToolErrorCode::IoError, text);
                };
                if pin.is_some() && loaded.pin != pin {
                    return ToolResponse::failure(ToolErrorCode::PermissionDenied, changed(&snippet));
                }
                let mut script = template;
                script.now_ms = host.now.timestamp_millis();
                script.language = loaded.language;
                script.code = with_input(&loaded.code, &input);
                let (chars, most) = (script.code.chars().count(), MAX_CODE);
                if chars > most {
                    let text = format!(
                        "{name}: the code and its input have {chars} characters together; at most {most} are allowed: give \
                         less input"
                    );
                    return ToolResponse::failure(ToolErrorCode::ValidationError, text);
                }
                finished(name, sandbox.run(&script, &mut Calls { host, before: 1 }).await)
            })
        }))
    }
}

fn changed(snippet: &str) -> String {
    format!(
        "{} has changed since a person allowed it: a person must allow it again",
        snippet::tool_name(snippet)
    )
}

/// The code with its argument, on the same line so that the lines of errors are those of the code.
fn with_input(code: &str, input: &Value) -> String {
    let json = Value::String(input.to_string());
    format!("const input = JSON.parse({json}); {code}")
}

/// A snippet as the tool that reads it answers.
#[derive(Deserialize)]
struct Loaded {
    language: Language,
    code: String,
    pin: Option<String>,
}

impl Loaded {
    fn of(answer: Value) -> Option<Self> {
        match answer {
            Value::String(text) => serde_json::from_str(untrusted::inner(&text)).ok(),
            other => serde_json::from_value(other).ok(),
        }
    }
}

/// Passes the calls of a script on.
struct Calls {
    host: CodeHost,
    /// How many calls were made before those of the script.
    before: usize,
}

impl Host for Calls {
    async fn answer(&mut self, calls: Vec<Call>) -> Result<Vec<Answer>, String> {
        let call = |call: Call| Call { number: call.number + self.before, ..call };
        let calls = calls.into_iter().map(call).collect();
        self.host.answer(calls).await
    }
}

fn unavailable() -> ToolResponse {
    let reason = "code cannot be run safely on this machine: `houston doctor` says why";
    ToolResponse::failure(ToolErrorCode::ConfigError, reason)
}

fn finished(name: &str, run: Result<Run, Error>) -> ToolResponse {
    match run {
        Ok(run) => response(&run),
        Err(error) => ToolResponse::failure(ToolErrorCode::IoError, format!("{name}: {error}")),
    }
}

/// The first 64 bits of the key, which is hexadecimal.
fn seed(key: &str) -> u64 {
    key.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default()
}

/// What the model reads: the result, then the console.
fn response(run: &Run) -> ToolResponse {
    let mut text = run.outcome.text();
    if !run.console.is_empty() {
        text += &format!("\n\nconsole:\n{}", run.console.trim_end());
    }
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
