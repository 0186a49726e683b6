//! [`Server`]: starts the process of a server when a call needs it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rmcp::model::{CallToolResult, JsonObject};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::backoff::pause;
use crate::connection::{Connection, Ended, InUse, Limits};
use crate::error::{CallError, StartError};
use crate::listed::Listed;
use crate::pins::{Pin, Standing};
use crate::pool::Shared;
use crate::process::Process;
use crate::settings::{McpLimits, ServerSettings};
use crate::stderr::Stderr;

/// One server of this process, with at most one process of its own at a time.
pub struct Server {
    name: String,
    settings: ServerSettings,
    limits: McpLimits,
    pins: BTreeMap<String, Pin>,
    shared: Arc<Shared>,
    slot: Mutex<Slot>,
    /// Failures since a call was answered.
    failures: AtomicU32,
}

/// What a server is doing.
#[derive(Default)]
struct Slot {
    connection: Option<Arc<Connection>>,
    paused: Option<Paused>,
}

/// A server that is left alone after a failure.
#[derive(Clone, Copy)]
struct Paused {
    until: Instant,
    is_off: bool,
}

/// What a server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// It has no process; the next call starts one.
    Idle,
    /// Its process is starting.
    Starting,
    /// It answers calls.
    Ready,
    /// It has failed: the next call after this time starts it again.
    Waiting {
        /// How much of the pause is left.
        seconds: u64,
    },
    /// It has failed too often.
    Off {
        /// How much of the pause is left.
        seconds: u64,
    },
}

/// What a server answered when it was started for a look.
#[derive(Debug)]
pub struct Look {
    /// Its tools, or why it could not be started.
    pub tools: Result<Arc<[Listed]>, StartError>,
    /// The last lines that it printed to its standard error.
    pub printed: Vec<String>,
}

impl Server {
    pub(crate) fn new(
        name: &str,
        settings: ServerSettings,
        limits: McpLimits,
        pins: BTreeMap<String, Pin>,
        shared: Arc<Shared>,
    ) -> Self {
        let (name, slot, failures) = (name.to_owned(), Mutex::default(), AtomicU32::new(0));
        Self { name, settings, limits, pins, shared, slot, failures }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its settings.
    #[must_use]
    pub fn settings(&self) -> &ServerSettings {
        &self.settings
    }

    /// What it is doing.
    #[must_use]
    pub fn state(&self) -> State {
        let Ok(slot) = self.slot.try_lock() else { return State::Starting };
        if slot.connection.as_ref().is_some_and(|connection| connection.ended().is_none()) {
            return State::Ready;
        }
        let left = |paused: &Paused| paused.until.saturating_duration_since(Instant::now()).as_secs();
        match &slot.paused {
            Some(paused) if paused.is_off && left(paused) > 0 => State::Off { seconds: left(paused) },
            Some(paused) if left(paused) > 0 => State::Waiting { seconds: left(paused) },
            _ => State::Idle,
        }
    }

    /// The longest time of a call, including the start of the process.
    pub(crate) fn longest_call(&self) -> Duration {
        self.settings.call_limit(&self.limits) + Duration::from_secs(self.limits.start_s)
    }

    /// Calls a tool by the name that the server gives it. Starts the process if there is none.
    ///
    /// # Errors
    /// [`CallError`]. A result that the server calls an error is an `Ok`.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: JsonObject,
        key: &str,
    ) -> Result<CallToolResult, CallError> {
        let connection = self.connect().await?;
        let tools = connection.tools().await?;
        let listed = tools.iter().find(|listed| listed.name == tool).ok_or(CallError::Gone)?;
        if listed.standing(self.pins.get(tool)) != Standing::Approved {
            return Err(CallError::Changed);
        }
        let result = connection.call(tool, arguments, key).await;
        if matches!(result, Ok(_) | Err(CallError::Rpc { .. })) {
            self.failures.store(0, Ordering::Relaxed);
        }
        result
    }

    /// Starts a process for a look at its tools, and stops it.
    pub async fn look(&self) -> Look {
        let stderr = Stderr::default();
        let tools = match self.start(&stderr).await {
            Ok(connection) => Ok(connection.tools().await.unwrap_or_else(|_| Arc::new([]))),
            Err(error) => Err(error),
        };
        Look { tools, printed: stderr.last_lines(10) }
    }

    /// The connection, ready for a call. Several callers wait for the same start.
    async fn connect(&self) -> Result<InUse, CallError> {
        let mut slot = self.slot.lock().await;
        if let Some(connection) = slot.connection.take() {
            match connection.begin() {
                Ok(in_use) => {
                    slot.connection = Some(connection);
                    return Ok(in_use);
                }
                Err(Ended::Idle) => {}
                Err(Ended::Failed(reason)) => self.failed(&mut slot, &reason, false),
            }
        }
        if let Some(paused) = slot.paused {
            let left = paused.until.saturating_duration_since(Instant::now());
            if left > Duration::ZERO {
                return Err(CallError::Paused { seconds: left.as_secs() + 1 });
            }
        }
        let stderr = Stderr::default();
        match self.start(&stderr).await {
            Ok(connection) => {
                let in_use = connection.begin().map_err(|_| CallError::Closed)?;
                (slot.connection, slot.paused) = (Some(connection), None);
                Ok(in_use)
            }
            Err(error) => {
                let printed = stderr.last_lines(3).join(" | ");
                self.failed(&mut slot, &format!("{error}; it printed: {printed}"), error.is_setting());
                Err(CallError::Start)
            }
        }
    }

    /// A wrong setting is no reason for longer and longer pauses: it fails at once, and costs nothing.
    fn failed(&self, slot: &mut Slot, reason: &str, is_setting: bool) {
        let failures =
            if is_setting { 1 } else { self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1) };
        let pause = pause(failures, rand::random());
        let (server, seconds) = (&self.name, pause.wait.as_secs());
        tracing::warn!(
            server,
            failures,
            seconds,
            reason,
            "an MCP server failed; it is not started again before"
        );
        slot.paused = Some(Paused { until: Instant::now() + pause.wait, is_off: pause.is_off });
    }

    async fn start(&self, stderr: &Stderr) -> Result<Arc<Connection>, StartError> {
        // The semaphore is never closed.
        let _permit = self.shared.starts.acquire().await.ok();
        let (process, pipes) = Process::start(&self.name, &self.settings, &self.shared.surroundings)?;
        let limits = Limits {
            call: self.settings.call_limit(&self.limits),
            idle: Duration::from_secs(self.limits.idle_s),
            message_bytes: self.limits.answer_bytes,
        };
        let seconds = self.limits.start_s;
        let opened = Connection::open(process, pipes, stderr.clone(), limits, &self.shared);
        timeout(Duration::from_secs(seconds), opened).await.unwrap_or(Err(StartError::Timeout { seconds }))
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("name", &self.name)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
