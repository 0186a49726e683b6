//! [`Process`]: the process of a server, in a process group of its own; and [`Stderr`], the last that it has printed.

use std::collections::VecDeque;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use crate::error::StartError;
use crate::settings::ServerSettings;
use crate::surroundings::Surroundings;
use crate::text::cleaned;

/// How long a process may take to exit at the end of its input, and again after SIGTERM.
const ON_END: Duration = Duration::from_secs(2);
const ON_SIGNAL: Duration = Duration::from_secs(1);

/// A process and its group. Dropping it kills the group.
pub(crate) struct Process {
    child: Child,
    group: Option<Pid>,
}

/// The three pipes of a process.
pub(crate) struct Pipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

impl Process {
    /// Starts the server `name`.
    ///
    /// # Errors
    /// [`StartError::Variable`], [`StartError::Home`] or [`StartError::Spawn`].
    pub(crate) fn start(
        name: &str,
        settings: &ServerSettings,
        surroundings: &Surroundings,
    ) -> Result<(Self, Pipes), StartError> {
        let home = home(&surroundings.homes, name)?;
        let mut command = Command::new(&settings.command);
        command.args(&settings.args).env_clear().env("HOME", &home).current_dir(&home);
        command.envs(surroundings.path.iter().map(|path| ("PATH", path))).envs(&settings.set);
        for name in &settings.env {
            let value = (surroundings.variable)(name);
            let value = value.ok_or_else(|| StartError::Variable(name.clone()))?;
            command.env(name, value);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |source| StartError::Spawn { command: settings.command.clone(), source };
        let mut child = command.process_group(0).kill_on_drop(true).spawn().map_err(failed)?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let process = Self { child, group };
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(failed(std::io::Error::other("it has no pipes")));
        };
        Ok((process, Pipes { stdin, stdout, stderr }))
    }

    /// Waits until the process has exited.
    pub(crate) async fn exited(&mut self) -> std::io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Ends the process, whose input has been closed, and all that it has started.
    pub(crate) async fn stop(mut self) {
        if tokio::time::timeout(ON_END, self.child.wait()).await.is_err() {
            self.signal(Signal::TERM);
            let _ = tokio::time::timeout(ON_SIGNAL, self.child.wait()).await;
        }
        self.kill();
        let _ = self.child.wait().await;
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // There is no such group when all of it has exited.
            let _ = kill_process_group(group, signal);
        }
    }

    fn kill(&mut self) {
        self.signal(Signal::KILL);
        // Once the leader has been waited for, the number may belong to another group some day.
        self.group = None;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The folder that is the server's `HOME` and current folder: what it stores there stays. It is no wall: a server may open
/// whatever the worker may.
fn home(homes: &Path, name: &str) -> Result<PathBuf, StartError> {
    let path = homes.join(name);
    let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
    created.and_then(|()| std::path::absolute(&path)).map_err(|source| StartError::Home { path, source })
}

/// How much is kept.
const KEPT: usize = 64 * 1024;

/// The last 64 KiB that a process has written to its standard error.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stderr(Arc<Mutex<VecDeque<u8>>>);

impl Stderr {
    /// Reads until the end. Without a reader a process that prints much would wait forever.
    pub(crate) async fn drain(self, mut from: impl AsyncRead + Unpin) {
        let mut piece = vec![0; 8 * 1024];
        while let Ok(read @ 1..) = from.read(&mut piece).await {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend(piece.iter().take(read));
            let surplus = kept.len().saturating_sub(KEPT);
            kept.drain(..surplus);
        }
    }

    /// The last lines, without characters that a terminal would obey.
    pub(crate) fn last_lines(&self, lines: usize) -> Vec<String> {
        let kept: Vec<u8> = self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let text = String::from_utf8_lossy(&kept);
        let mut last: Vec<String> = text
            .lines()
            .rev()
            .map(|line| cleaned(line, 400))
            .filter(|line| !line.is_empty())
            .take(lines)
            .collect();
        last.reverse();
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_end_is_kept() {
        let stderr = Stderr::default();
        let printed = format!("{}\nlast \u{1b}[31mline\n", "x".repeat(KEPT * 3));
        stderr.clone().drain(printed.as_bytes()).await;
        assert_eq!(stderr.0.lock().unwrap().len(), KEPT);
        assert_eq!(stderr.last_lines(1), ["last [31mline"]);
    }
}
