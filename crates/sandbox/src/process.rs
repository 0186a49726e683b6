//! A child process as its parent sees it: started with nothing, read within bounds, killed in the end.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, timeout};

use crate::outcome::Error;
use crate::protocol::{CPU_SECONDS, Message, OUTPUT, TASKS, Task};

/// How long after its time limit a child is killed that has not stopped by itself.
const GRACE: Duration = Duration::from_millis(500);
/// Time to build the walls, of which a busy machine needs more than a short script gets.
const START_TIME: Duration = Duration::from_secs(5);

/// How to start a child: a program, and its arguments before the task.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
    /// The name in lists of processes, if it is not the path.
    name: Option<OsString>,
}

impl Program {
    /// This program as `<program> sandbox`, which its `main` hands to [`crate::child::main`].
    pub fn this() -> Self {
        // The kernel's link, and not the path behind it: after an upgrade the path is another program.
        let path = if cfg!(target_os = "linux") {
            PathBuf::from("/proc/self/exe")
        } else {
            std::env::current_exe().unwrap_or_default()
        };
        Self { path, arguments: vec!["sandbox".into()], name: std::env::args_os().next() }
    }

    /// The program at `path`, with `arguments` before the task.
    pub fn new(path: impl Into<PathBuf>, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self { path: path.into(), arguments, name: None }
    }
}

/// What a child may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    /// CPU time after which the kernel ends it, also when its parent is dead.
    pub(crate) cpu: Duration,
    /// Time while the parent waits for it, from when it is ready; [`GRACE`] later it is killed.
    pub(crate) time: Duration,
    /// Bytes of text a converter may answer with.
    pub(crate) output: usize,
    /// Bytes of one line. How many lines a child may write, the protocol says.
    pub(crate) line: usize,
}

/// A child that runs. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Child {
    process: tokio::process::Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    line: usize,
    /// Its time once it is ready.
    time: Duration,
    /// What is left of its time; it does not run while the parent works for it.
    left: Duration,
    is_ready: bool,
}

/// What was read.
pub(crate) enum Read {
    Message(Message),
    /// It closed its output, and ended so.
    End(Death),
    /// Its time is over.
    TimedOut,
}

impl Child {
    /// Starts a child.
    pub(crate) fn start(program: &Program, task: Task, allowance: Allowance) -> Result<Self, Error> {
        let cpu_seconds = allowance.cpu.as_secs().max(1);
        let name = TASKS.iter().find(|(_, of)| *of == task).map(|(name, _)| *name);
        let mut command = Command::new(&program.path);
        command
            .args(&program.arguments)
            .args(name)
            .args([CPU_SECONDS, &cpu_seconds.to_string(), OUTPUT, &allowance.output.to_string()])
            .env_clear()
            .env("TZ", "UTC")
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        if let Some(name) = &program.name {
            command.arg0(name);
        }
        let mut process = command.spawn().map_err(Error::Start)?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Error::NotASandbox("it has no pipes".to_owned()));
        };
        Ok(Self {
            process,
            input: Some(input),
            output: BufReader::new(output),
            line: allowance.line,
            time: allowance.time + GRACE,
            left: START_TIME,
            is_ready: false,
        })
    }

    /// Its time begins: it is ready.
    pub(crate) fn begin(&mut self) {
        self.left = self.time;
        self.is_ready = true;
    }

    /// Whether its time has begun.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Writes to its input. A child that does not read or is dead shows itself at the next [`Self::message`].
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        let began = Instant::now();
        if let Some(input) = &mut self.input {
            let written = timeout(self.left, input.write_all(bytes)).await;
            if !matches!(written, Ok(Ok(()))) {
                self.input = None;
            }
        }
        self.left = self.left.saturating_sub(began.elapsed());
    }

    /// Closes its input.
    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// Reads its next message. A child without one has ended, or is killed after its time.
    pub(crate) async fn message(&mut self) -> Result<Read, Error> {
        let began = Instant::now();
        let line = timeout(self.left, self.line()).await;
        self.left = self.left.saturating_sub(began.elapsed());
        let Ok(line) = line else { return Ok(Read::TimedOut) };
        let Some(line) = line? else { return Ok(Read::End(self.wait().await)) };
        match serde_json::from_slice(&line) {
            Ok(message) => Ok(Read::Message(message)),
            Err(error) => Err(Error::Protocol(format!("a line is no message: {error}"))),
        }
    }

    /// Reads a line of bounded length; `None` at the end.
    async fn line(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let mut line = Vec::new();
        loop {
            // A pipe that fails is at its end.
            let Ok(available) = self.output.fill_buf().await else { return Ok(None) };
            if available.is_empty() {
                return Ok(None);
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |at| at + 1);
            if line.len() + taken > self.line {
                return Err(Error::Protocol("a line is longer than it may be".to_owned()));
            }
            line.extend_from_slice(&available[..taken]);
            self.output.consume(taken);
            if end.is_some() {
                return Ok(Some(line));
            }
        }
    }

    /// Kills it, and waits until it is gone.
    pub(crate) async fn kill(&mut self) {
        let _ = self.process.kill().await;
    }

    /// Waits for its end after it has closed its output, and kills it if that takes too long.
    async fn wait(&mut self) -> Death {
        self.input = None;
        let status = match timeout(self.left.max(GRACE), self.process.wait()).await {
            Ok(status) => status.ok(),
            Err(_) => {
                self.kill().await;
                None
            }
        };
        match status.map(|status| (status.signal(), status.code())) {
            Some((Some(OUT_OF_TIME), _)) => Death::OutOfTime,
            Some((Some(signal), _)) => Death::Signal(signal),
            Some((None, code)) => Death::Code(code.unwrap_or(-1)),
            None => Death::Code(-1),
        }
    }
}

/// SIGXCPU: the kernel's limit of CPU time.
const OUT_OF_TIME: i32 = 24;

/// How a child ended that said nothing.
pub(crate) enum Death {
    OutOfTime,
    Signal(i32),
    Code(i32),
}
