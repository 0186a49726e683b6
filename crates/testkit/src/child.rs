//! Runs child processes: `cargo`, `npm`, `pip`.

use std::process::{Command, ExitCode, ExitStatus, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::process::{Signal, signal};
use anyhow::{Context, Result, bail};

/// How long a terminated child may take to end: test runners stop their tests first.
const PATIENCE: Duration = Duration::from_secs(15);

/// A child that gets SIGTERM, and after 15 seconds SIGKILL, if this is dropped before its end.
#[derive(Debug)]
pub struct Running(pub tokio::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let Some(pid) = self.0.id() else { return };
        let _ = signal(Signal::TERM, Some(pid));
        let end = Instant::now() + PATIENCE;
        while matches!(self.0.try_wait(), Ok(None)) {
            if Instant::now() >= end {
                let _ = self.0.start_kill();
            }
            sleep(Duration::from_millis(10));
        }
    }
}

/// Runs `command` to its end, on this terminal.
pub async fn run(command: Command) -> Result<ExitStatus> {
    let line = command_line(&command);
    let child = tokio::process::Command::from(command).spawn();
    let mut child = Running(child.with_context(|| format!("`{line}` cannot be started"))?);
    Ok(child.0.wait().await?)
}

/// Runs `command` to its end and captures its stdout and stderr.
pub async fn capture(command: Command) -> Result<Output> {
    let line = command_line(&command);
    let mut command = tokio::process::Command::from(command);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    output.with_context(|| format!("`{line}` cannot be started"))
}

/// The stdout of a child, then its stderr.
pub fn text(output: &Output) -> String {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{}\n{}", stdout.trim(), stderr.trim()).trim().to_owned()
}

/// The exit code of a child; 1 if a signal ended it.
pub fn code(status: ExitStatus) -> ExitCode {
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Runs `command`; an error if it does not exit with 0.
pub async fn succeed(command: Command) -> Result<()> {
    let line = command_line(&command);
    let status = run(command).await?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// Runs `command`; returns its stdout. If it fails, the error contains its stderr.
pub fn output(command: &mut Command) -> Result<String> {
    let line = command_line(command);
    let output = command.output().with_context(|| format!("`{line}` cannot be started"))?;
    if !output.status.success() {
        bail!("`{line}` failed ({}):\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn command_line(command: &Command) -> String {
    let name = std::path::Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let mut words = vec![name.to_string_lossy()];
    words.extend(command.get_args().map(|argument| argument.to_string_lossy()));
    words.join(" ")
}
