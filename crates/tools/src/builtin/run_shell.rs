//! `run_shell`: runs a command of the system where it can read programs and nothing else; where workspaces are folders, also the
//! files of the agent.

use std::time::Duration;

use houston_domain::tool_call::ToolDefinition;
use houston_sandbox::{MAX_SHELL_OUTPUT, Shell, ShellEnd, ShellRun};
use houston_store::workspace_file::CommandFiles;
use houston_store::{Error, FolderError};

use super::prelude::*;
use super::run_code::runs_code;

built_in! {
    RunShell: "run_shell", Idempotent, capability Code, facts runs_code;
}

/// Maximum length of a command, in bytes.
const MAX_COMMAND: usize = 16 << 10;
/// Maximum length of its input, in bytes.
const MAX_INPUT: usize = 256 << 10;
/// What the call may take beyond the time of the command, for instance while it waits for others.
const MORE_TIME: Duration = Duration::from_secs(60);

/// How often the files are counted while a command runs that may write them.
const COUNT_EVERY: Duration = Duration::from_millis(250);
/// How many times the limits of a workspace a command may exceed before it is killed: programs write more than they keep.
const MOST_TIMES: u64 = 4;

// In an empty folder it keeps nothing and reaches nothing, so it may be repeated after a crash; with the files of the agent it
// may not.
/// Run a command of the system with /bin/sh: awk, sort, grep and what else is installed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunShell {
    command: String,
    /// Its standard input.
    input: Option<String>,
}

impl BuiltIn for RunShell {
    fn adapt(definition: &mut ToolDefinition, outside: &Outside) {
        definition.timeout = outside.shell_time + MORE_TIME;
        let folder = if outside.keeps_files {
            definition.effect = EffectClass::Effect;
            "Its folder is your workspace: it may read, change and add files there. It has no network and no other files but \
             programs"
        } else {
            "It has no network and no files but programs, its folder is empty at first and deleted afterwards"
        };
        let seconds = outside.shell_time.as_secs();
        definition.description += &format!(" {folder}, and it may take {seconds} s.");
    }

    fn is_available(outside: &Outside) -> bool {
        outside.shell.is_some()
    }

    fn plan(self, context: &CallContext, outside: &Outside) -> Result<Plan, Refusal> {
        let (command, input) = (self.command, self.input.unwrap_or_default());
        text("command", command.as_str(), MAX_COMMAND)?;
        if input.len() > MAX_INPUT || command.contains('\0') {
            return Err(invalid(format!(
                "`input` may have {MAX_INPUT} bytes, it has {}; `command` must not contain the character U+0000",
                input.len()
            )));
        }
        let (shell, time, files) = (outside.shell.clone(), outside.shell_time, context.files.clone());
        Ok(Plan::Execute(Box::pin(async move {
            let Some(shell) = shell else { return unavailable("it is switched off") };
            if let Some(files) = files {
                return run_on_files(&shell, &files, (&command, &input), time).await;
            }
            match shell.run(&command, &input, time).await {
                Ok(run) => response(run, time),
                Err(error) => unavailable(&error.to_string()),
            }
        })))
    }
}

/// Runs a command on the files of the agent. What it prints may be what strangers wrote, if a file is.
async fn run_on_files(
    shell: &Shell,
    files: &CommandFiles,
    (command, input): (&str, &str),
    time: Duration,
) -> ToolResponse {
    let folder = match files.ready().await {
        Ok(folder) => folder,
        Err(error) => {
            return ToolResponse::failure(ToolErrorCode::IoError, format!("{}: {error}", RunShell::NAME));
        }
    };
    let run = tokio::select! {
        run = shell.run_in(Some(&folder.path), command, input, time) => run,
        // The command is killed when its future is dropped.
        () = overflow(files) => {
            let run = ShellRun { end: ShellEnd::Killed, output: String::new(), errors: String::new() };
            let response = response(run, time).map_text(|_| {
                "[It wrote more files or bytes than the workspace may hold, and was killed. What it wrote is there.]".to_owned()
            });
            return with_usage(response, files).await;
        }
    };
    let response = match run {
        Ok(run) => response(run, time),
        Err(error) => return unavailable(&error.to_string()),
    };
    let response = if folder.untrusted {
        response.map_text(|text| untrusted::marked(RunShell::NAME, text))
    } else {
        response
    };
    with_usage(response, files).await
}

/// Ends when there is far more than a workspace may hold.
async fn overflow(files: &CommandFiles) {
    let limits = files.limits();
    let most_files = u64::from(limits.max_files).saturating_mul(MOST_TIMES);
    let most_bytes = limits.max_bytes.saturating_mul(MOST_TIMES);
    loop {
        tokio::time::sleep(COUNT_EVERY).await;
        match files.usage().await {
            Ok((count, bytes)) if count <= most_files && bytes <= most_bytes => {}
            Err(Error::Folder(FolderError::TooMany)) | Ok(_) => return,
            // It is counted again.
            Err(_) => {}
        }
    }
}

/// The response, and whether the workspace is over its limits now.
async fn with_usage(response: ToolResponse, files: &CommandFiles) -> ToolResponse {
    let limits = files.limits();
    let note = match files.usage().await {
        Ok((count, bytes)) if count <= limits.max_files.into() && bytes <= limits.max_bytes => {
            return response;
        }
        Ok((count, bytes)) => format!(
            "The workspace has {count} files with {bytes} bytes now; at most {} files with {} bytes are allowed. Until some are \
             deleted, the tools for files add nothing.",
            limits.max_files, limits.max_bytes
        ),
        Err(error) => error.to_string(),
    };
    response.map_text(|text| format!("{text}\n[{note}]"))
}

fn unavailable(reason: &str) -> ToolResponse {
    let text = format!(
        "{}: no command can be run on this machine: {reason}; `houston doctor` says what to do",
        RunShell::NAME
    );
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
