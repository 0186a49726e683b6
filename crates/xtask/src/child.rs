//! Children that share our terminal: `cargo`, `npm`, `pip`.

use std::process::{Command, ExitCode, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use houston_testkit::process::terminate;

/// How long a child that was asked to end may take: test runners stop their tests first.
const PATIENCE: Duration = Duration::from_secs(15);

/// A child that is asked to end, and waited for, when it is dropped before its end.
pub(crate) struct Running(pub(crate) tokio::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let Some(pid) = self.0.id() else { return };
        let _ = terminate(pid);
        let end = Instant::now() + PATIENCE;
        while matches!(self.0.try_wait(), Ok(None)) {
            if Instant::now() >= end {
                let _ = self.0.start_kill();
            }
            sleep(Duration::from_millis(10));
        }
    }
}

/// Runs `command` to its end.
pub async fn run(command: Command) -> Result<ExitStatus> {
    let shown = show(&command);
    let child = tokio::process::Command::from(command).spawn();
    let mut child = Running(child.with_context(|| format!("`{shown}` cannot be started"))?);
    Ok(child.0.wait().await?)
}

/// A child's exit code as our own; 1 when a signal ended it.
pub fn code(status: ExitStatus) -> ExitCode {
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Runs `command`, which must succeed.
pub async fn succeed(command: Command) -> Result<()> {
    let shown = show(&command);
    let status = run(command).await?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// Runs `command` quietly; what it printed is shown only if it fails.
pub fn quietly(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command.output().with_context(|| format!("`{shown}` cannot be started"))?;
    if !output.status.success() {
        bail!(
            "`{shown}` failed ({}):\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn show(command: &Command) -> String {
    let name = std::path::Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let mut words = vec![name.to_string_lossy()];
    words.extend(command.get_args().map(|argument| argument.to_string_lossy()));
    words.join(" ")
}
