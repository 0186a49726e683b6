//! `run_shell`: runs a command of the system where it can read programs and nothing else.

use std::time::Duration;

use houston_domain::capability::Capability;
use houston_domain::guard::ToolFacts;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_sandbox::{MAX_SHELL_OUTPUT, Shell, ShellEnd, ShellRun};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::outside::Outside;
use crate::scripts;
use crate::tool::{CallContext, InvalidInput, Plan, Situation, Tool};

const NAME: &str = "run_shell";
/// Maximum length of a command, in bytes.
const MAX_COMMAND: usize = 16 << 10;
/// Maximum length of its input, in bytes.
const MAX_INPUT: usize = 256 << 10;
/// What the call may take beyond the time of the command, for instance while it waits for others.
const MORE_TIME: Duration = Duration::from_secs(60);

/// Runs a command. It keeps nothing and reaches nothing, so it may be repeated after a crash.
pub(super) struct RunShell {
    definition: ToolDefinition,
    shell: Option<Shell>,
    time: Duration,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    command: String,
    input: Option<String>,
}

impl RunShell {
    pub(super) fn new(outside: &Outside) -> Self {
        let time = outside.shell_time;
        let definition = ToolDefinition {
            name: NAME.to_owned(),
            description: format!(
                "Run a command of the system with /bin/sh: awk, sort, grep and what else is installed. It has no network and \
                 no files but programs, its folder is empty at first and deleted afterwards, and it may take {} s.",
                time.as_secs()
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "command": {"type": "string"},
                    "input": {"type": "string", "description": "Its standard input."},
                },
                "required": ["command"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: time + MORE_TIME,
        };
        Self { definition, shell: outside.shell.clone(), time }
    }
}

impl Tool for RunShell {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn offered(&self, _situation: Situation) -> bool {
        self.shell.is_some()
    }

    fn facts(&self) -> ToolFacts {
        scripts::facts()
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Code)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { command, input } = input::read(NAME, input)?;
        let command = input::text(NAME, "command", command, MAX_COMMAND)?;
        let input = input.unwrap_or_default();
        if input.len() > MAX_INPUT || command.contains('\0') {
            let text = format!(
                "{NAME}: `input` may have {MAX_INPUT} bytes, it has {}; `command` must not contain the character U+0000",
                input.len()
            );
            return Err(InvalidInput(text));
        }
        let (shell, time) = (self.shell.clone(), self.time);
        Ok(Plan::Execute(Box::pin(async move {
            let Some(shell) = shell else { return unavailable("it is switched off") };
            match shell.run(&command, &input, time).await {
                Ok(run) => response(run, time),
                Err(error) => unavailable(&error.to_string()),
            }
        })))
    }
}

fn unavailable(reason: &str) -> ToolResponse {
    let text =
        format!("{NAME}: no command can be run on this machine: {reason}; `houston doctor` says what to do");
    ToolResponse::failure(ToolErrorCode::ConfigError, text)
}

/// What the model reads: the output, the errors, and how it ended if not with 0.
fn response(run: ShellRun, time: Duration) -> ToolResponse {
    let ShellRun { end, output, errors } = run;
    let mut parts = vec![output];
    if !errors.trim().is_empty() {
        parts.push(format!("standard error:\n{errors}"));
    }
    let (code, ended) = match end {
        ShellEnd::Code(0) => (None, String::new()),
        // Many programs say with it what they found.
        ShellEnd::Code(code) => (None, format!("[It ended with code {code}.]")),
        ShellEnd::TimedOut => {
            let text = format!("[It took more than {} s and was killed.]", time.as_secs());
            (Some(ToolErrorCode::Timeout), text)
        }
        ShellEnd::Flooded => {
            let text = format!(
                "[It wrote more than {MAX_SHELL_OUTPUT} bytes and was killed: this is the beginning.]"
            );
            (Some(ToolErrorCode::Unknown), text)
        }
        ShellEnd::Killed => (Some(ToolErrorCode::Unknown), "[It was killed.]".to_owned()),
    };
    parts.push(ended);
    let text = parts.iter().map(|part| part.trim_end()).filter(|part| !part.is_empty()).collect::<Vec<_>>();
    let text = if text.is_empty() { "[It wrote nothing.]".to_owned() } else { text.join("\n") };
    match code {
        None => ToolResponse::success(text),
        Some(code) => ToolResponse::failure(code, text),
    }
}
