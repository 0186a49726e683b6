//! [`Connection`]: the process of a server that has listed its tools, and the task that keeps it.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig, ErrorCode,
    Implementation, JsonObject, MetaObject, RequestMetaObject,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, Peer, RoleClient, RunningService,
    ServiceError,
};
use rmcp::{ClientHandler, ErrorData};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::bounded::Bounded;
use crate::error::{CallError, StartError};
use crate::listed::Listed;
use crate::pool::Shared;
use crate::process::{Pipes, Process};
use crate::stderr::Stderr;
use crate::text::cleaned;

/// How long the transport may take to close the input of the process.
const CLOSE: Duration = Duration::from_secs(1);
/// A list of tools is asked for again after this time, whether or not the server said that it has changed.
const LISTED_FOR: Duration = Duration::from_mins(5);
/// The most tools of one server.
const MAX_TOOLS: usize = 500;
/// The most characters of an error that a server sends.
const MAX_ERROR: usize = 4000;
/// The key of a call, for servers that know it. It promises nothing.
const KEY: &str = "houston/idempotency_key";

/// A connection to a server. Dropping it ends its process.
pub(crate) struct Connection {
    peer: Peer<RoleClient>,
    used: watch::Sender<Use>,
    tools: Mutex<(Instant, Arc<[Listed]>)>,
    changed: Arc<AtomicBool>,
    limits: Limits,
    too_large: Arc<AtomicBool>,
    _stop: DropGuard,
}

/// Limits of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) call: Duration,
    pub(crate) idle: Duration,
    pub(crate) message_bytes: usize,
}

/// Who uses a connection.
#[derive(Debug, Default)]
struct Use {
    /// Calls in progress.
    calls: usize,
    /// Why it has ended, if it has.
    ended: Option<Ended>,
}

/// Why a connection has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It was not used for a while.
    Idle,
    /// The process ended, or broke the protocol: the reason, for operators.
    Failed(String),
}

/// A call in progress: as long as it lives, the connection is not idle.
pub(crate) struct InUse(Arc<Connection>);

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.used.send_modify(|used| used.calls = used.calls.saturating_sub(1));
    }
}

impl std::ops::Deref for InUse {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0
    }
}

/// What a server may ask of us: nothing. It may say that its tools have changed.
struct Handler {
    changed: Arc<AtomicBool>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let version = env!("CARGO_PKG_VERSION");
        ClientConfig::new(ClientCapabilities::default(), Implementation::new("houston", version))
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.store(true, Ordering::Relaxed);
    }
}

impl Connection {
    /// Opens the connection to a process that was just started, and lists its tools.
    ///
    /// # Errors
    /// [`StartError::Handshake`] or [`StartError::List`]. The process has been killed then.
    pub(crate) async fn open(
        process: Process,
        pipes: Pipes,
        stderr: Stderr,
        limits: Limits,
        shared: &Shared,
    ) -> Result<Arc<Self>, StartError> {
        let Pipes { stdin, stdout, stderr: printed } = pipes;
        shared.tracker.spawn(stderr.drain(printed));
        let (too_large, changed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let stdout = Bounded::new(stdout, limits.message_bytes, Arc::clone(&too_large));
        let handler = Handler { changed: Arc::clone(&changed) };
        // Not `Discover`: programs that do not know it may exit.
        let served = handler.serve_with_lifecycle((stdout, stdin), ClientLifecycleMode::Initialize).await;
        let service = served
            .map_err(|error| StartError::Handshake { reason: cleaned(&error.to_string(), MAX_ERROR) })?;
        let peer = service.peer().clone();
        let tools = list(&peer).await?;
        let (used, stop) = (watch::Sender::new(Use::default()), shared.stop.child_token());
        let keeper = Keeper { process, service, idle: limits.idle, stop: stop.clone(), used: used.clone() };
        shared.tracker.spawn(keeper.keep());
        Ok(Arc::new(Self {
            peer,
            used,
            tools: Mutex::new((Instant::now(), tools)),
            changed,
            limits,
            too_large,
            _stop: stop.drop_guard(),
        }))
    }

    /// Begins a call.
    ///
    /// # Errors
    /// Why the connection has ended.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<InUse, Ended> {
        let mut ended = None;
        self.used.send_modify(|used| match &used.ended {
            Some(why) => ended = Some(why.clone()),
            None => used.calls += 1,
        });
        match ended {
            Some(why) => Err(why),
            None => Ok(InUse(Arc::clone(self))),
        }
    }

    /// Why it has ended, if it has.
    pub(crate) fn ended(&self) -> Option<Ended> {
        self.used.borrow().ended.clone()
    }

    /// The tools that the server lists. They are asked for again when it said that they have changed, and from time to time.
    ///
    /// # Errors
    /// [`CallError`] when they cannot be listed.
    pub(crate) async fn tools(&self) -> Result<Arc<[Listed]>, CallError> {
        let (listed_at, tools) = self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let has_changed = self.changed.swap(false, Ordering::Relaxed);
        if !has_changed && listed_at.elapsed() < LISTED_FOR {
            return Ok(tools);
        }
        let listed = timeout(self.limits.call, list(&self.peer)).await;
        let Ok(Ok(tools)) = listed else {
            self.changed.store(true, Ordering::Relaxed);
            let seconds = self.limits.call.as_secs();
            return Err(if listed.is_err() { CallError::Timeout { seconds } } else { self.closed() });
        };
        *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), Arc::clone(&tools));
        Ok(tools)
    }

    /// Calls a tool. Dropping the future cancels the call at the server.
    ///
    /// # Errors
    /// [`CallError`]. A result that the server calls an error is an `Ok`.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: JsonObject,
        key: &str,
    ) -> Result<CallToolResult, CallError> {
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let meta = JsonObject::from_iter([(KEY.to_owned(), key.into())]);
        params.meta = Some(RequestMetaObject(MetaObject(meta)));
        match timeout(self.limits.call, self.peer.call_tool_once(params)).await {
            Err(_) => Err(CallError::Timeout { seconds: self.limits.call.as_secs() }),
            Ok(Ok(CallToolResponse::Complete(result))) => Ok(result),
            Ok(Ok(CallToolResponse::InputRequired(_))) => {
                Err(CallError::Unsupported { wants: "with a question to a person" })
            }
            Ok(Ok(_)) => Err(CallError::Unsupported { wants: "with a task to ask for later" }),
            Ok(Err(ServiceError::McpError(ErrorData { code: ErrorCode(code), message, .. }))) => {
                Err(CallError::Rpc { code, message: cleaned(&message, MAX_ERROR) })
            }
            Ok(Err(ServiceError::UnexpectedResponse)) => {
                Err(CallError::Unsupported { wants: "with something else" })
            }
            Ok(Err(_)) => Err(self.closed()),
        }
    }

    fn closed(&self) -> CallError {
        if self.too_large.load(Ordering::Relaxed) {
            CallError::TooLarge { bytes: self.limits.message_bytes }
        } else {
            CallError::Closed
        }
    }
}

/// Lists the tools of a server.
async fn list(peer: &Peer<RoleClient>) -> Result<Arc<[Listed]>, StartError> {
    let tools = peer.list_all_tools().await;
    let tools = tools.map_err(|error| StartError::List { reason: cleaned(&error.to_string(), MAX_ERROR) })?;
    if tools.len() > MAX_TOOLS {
        let reason = format!("it has {} tools; at most {MAX_TOOLS} are allowed", tools.len());
        return Err(StartError::List { reason });
    }
    Ok(tools.iter().map(Listed::of).collect())
}

/// Keeps a process while it is needed, and sees that nothing of it is left.
struct Keeper {
    process: Process,
    service: RunningService<RoleClient, Handler>,
    idle: Duration,
    stop: CancellationToken,
    used: watch::Sender<Use>,
}

impl Keeper {
    async fn keep(self) {
        let Self { mut process, service, idle, stop, used } = self;
        let close = service.cancellation_token();
        let mut closed = pin!(service.waiting());
        let why = tokio::select! {
            _ = &mut closed => Ended::Failed("it closed its output, or sent a message that was too large".to_owned()),
            status = process.exited() => Ended::Failed(status),
            () = stop.cancelled() => Ended::Idle,
            () = unused(&used, idle) => Ended::Idle,
        };
        used.send_modify(|used| used.ended = Some(used.ended.take().unwrap_or(why)));
        // The input of the process is closed, so that it can exit by itself.
        close.cancel();
        let _ = timeout(CLOSE, closed).await;
        process.stop().await;
    }
}

/// Waits until the connection has not been used for `idle`; from then on no call begins.
async fn unused(used: &watch::Sender<Use>, idle: Duration) {
    let mut seen = used.subscribe();
    loop {
        let is_used = seen.borrow_and_update().calls > 0;
        // The sender is here, so `changed` does not fail.
        if is_used {
            let _ = seen.changed().await;
        } else if timeout(idle, seen.changed()).await.is_err()
            && used.send_if_modified(|used| {
                let is_unused = used.calls == 0;
                if is_unused {
                    used.ended = Some(Ended::Idle);
                }
                is_unused
            })
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn connection_in_use_is_not_idle() {
        let used = watch::Sender::new(Use { calls: 1, ended: None });
        let idle = Duration::from_secs(10);
        assert!(timeout(Duration::from_secs(60), unused(&used, idle)).await.is_err());
        assert_eq!(used.borrow().ended, None);
        used.send_modify(|used| used.calls = 0);
        unused(&used, idle).await;
        assert_eq!(used.borrow().ended, Some(Ended::Idle));
    }
}
