//! [`Connection`]: a server that has listed its tools, and the task that keeps it.

mod call;
mod handler;
mod keeper;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rmcp::model::{ClientRequest, PaginatedRequestParams, PingRequest, ProtocolVersion};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, RoleClient,
    ServiceError,
};
use rmcp::transport::IntoTransport;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::DropGuard;
use tokio_util::task::TaskTracker;

pub(crate) use self::call::{Again, Request};
use self::handler::{Handler, Heard};
pub(crate) use self::keeper::Ended;
use self::keeper::{Keeper, Use};
use crate::error::{CallError, StartError};
use crate::http::{self, HttpError};
use crate::listed::{Listed, listed_of};
use crate::owner::{Leavable, NoToken, Place};
use crate::process::Process;
use crate::surroundings::Shared;
use crate::text::cleaned;

/// A list of tools is asked for again after this time, whether or not the server said that it has changed.
const LISTED_FOR: Duration = Duration::from_mins(5);
/// How long a server may take to show that it still answers, after a call has timed out.
const PING: Duration = Duration::from_secs(10);
/// The most characters of an error that a server sends.
const MAX_ERROR: usize = 4000;
/// The key of a call, for servers that know it. It promises nothing.
const KEY: &str = "houston/idempotency_key";

/// A connection to a server. Dropping it ends its process.
pub(crate) struct Connection {
    peer: Peer<RoleClient>,
    used: watch::Sender<Use>,
    /// Locked while the server lists its tools again, so that no call relies on the list before.
    tools: Mutex<Tools>,
    /// What the server has said.
    heard: Arc<Heard>,
    /// How often the server has answered.
    answers: Arc<AtomicU64>,
    limits: Limits,
    is_http: bool,
    too_large: Arc<AtomicBool>,
    /// Whether a call was sent and not answered.
    cut: Arc<AtomicBool>,
    tracker: TaskTracker,
    _stop: DropGuard,
}

/// The tools that a server has listed.
struct Tools {
    at: Instant,
    /// [`Heard::changes`] before they were asked for.
    changes: u64,
    listed: Arc<[Listed]>,
}

/// Limits of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) call: Duration,
    pub(crate) idle: Duration,
    pub(crate) message_bytes: usize,
}

/// How messages reach a server.
pub(crate) struct Way<T> {
    pub(crate) transport: T,
    /// Whether it speaks the protocol of 2026-07-28, which has no handshake.
    pub(crate) is_modern: bool,
    /// The process at the other end, if it is ours.
    pub(crate) process: Option<Process>,
    /// Becomes true when a message of the server was too large.
    pub(crate) too_large: Arc<AtomicBool>,
    /// Its place among the connections of a tenant, until it has ended.
    pub(crate) place: Option<Place>,
}

/// A call in progress: as long as it lives, the connection is not idle.
pub(crate) struct InUse(Arc<Connection>);

impl InUse {
    /// The connection, which is not in use any more.
    pub(crate) fn release(self) -> Arc<Connection> {
        Arc::clone(&self.0)
    }
}

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

impl Leavable for Connection {
    /// Whether no call can begin any more.
    fn has_ended(&self) -> bool {
        self.used.borrow().ended.is_some()
    }

    fn leave(&self) -> bool {
        self.used.send_if_modified(|used| {
            let is_unused = used.calls == 0 && used.ended.is_none();
            if is_unused {
                used.ended = Some(Ended::Idle);
            }
            is_unused
        })
    }
}

impl Connection {
    /// Opens the connection to a server, and lists its tools.
    ///
    /// # Errors
    /// [`StartError::Handshake`] or [`StartError::List`]. Its process has been killed then.
    pub(crate) async fn open<T, E, A>(
        way: Way<T>,
        limits: Limits,
        shared: &Shared,
    ) -> Result<Arc<Self>, StartError>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let Way { transport, is_modern, process, too_large, place } = way;
        let is_http = process.is_none();
        let heard = Arc::<Heard>::default();
        let handler = Handler { heard: Arc::clone(&heard), is_modern };
        // `Discover` only if the operator says so: programs that do not know it may exit.
        let lifecycle = if is_modern {
            ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
        } else {
            ClientLifecycleMode::Initialize
        };
        let served = handler.serve_with_lifecycle(transport, lifecycle).await;
        let service = served.map_err(|error| {
            let of_http = match &error {
                ClientInitializeError::TransportError { error, .. } => http::cause(error),
                _ => None,
            };
            if let Some(HttpError::Token(reason)) = of_http {
                return StartError::Login(reason.to_string());
            }
            let reason = of_http.map_or_else(|| error.to_string(), HttpError::to_string);
            StartError::Handshake(cleaned(&reason, MAX_ERROR))
        })?;
        let peer = service.peer().clone();
        // A server could have its old list served for as long as it likes, and after failures.
        peer.set_response_cache_config(ClientCacheConfig::disabled()).await;
        let before = heard.changes.load(Ordering::Relaxed);
        let listed =
            list(&peer).await.map_err(|error| StartError::List(cleaned(&error.to_string(), MAX_ERROR)))?;
        let used = watch::Sender::new(Use::default());
        let stop = shared.stop.child_token();
        let cut = Arc::new(AtomicBool::new(false));
        let keeper = Keeper {
            process,
            service,
            idle: limits.idle,
            stop: stop.clone(),
            cut: Arc::clone(&cut),
            used: used.clone(),
            _place: place,
        };
        shared.tracker.spawn(keeper.keep());
        Ok(Arc::new(Self {
            peer,
            used,
            tools: Mutex::new(Tools { at: Instant::now(), changes: before, listed }),
            heard,
            answers: Arc::new(AtomicU64::new(0)),
            limits,
            is_http,
            too_large,
            cut,
            tracker: shared.tracker.clone(),
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

    /// Waits until the connection has ended.
    pub(crate) async fn ended(&self) {
        keeper::ended(&self.used).await;
    }

    /// The tools that the server lists. They are asked for again when it said that they have changed, and from time to time.
    ///
    /// # Errors
    /// [`CallError`] when they cannot be listed.
    pub(crate) async fn tools(&self, deadline: Instant) -> Result<Arc<[Listed]>, CallError> {
        self.until(deadline, self.listed()).await?
    }

    /// What is asked for, unless it takes too long.
    async fn until<T>(&self, deadline: Instant, asked: impl Future<Output = T>) -> Result<T, CallError> {
        timeout_at(deadline, asked).await.map_err(|_| {
            self.probe();
            CallError::Timeout(self.limits.call.as_secs())
        })
    }

    async fn listed(&self) -> Result<Arc<[Listed]>, CallError> {
        let mut tools = self.tools.lock().await;
        // Before the question: what changes while it is answered makes the answer old. A caller that gives up stores
        // nothing.
        let changes = self.heard.changes.load(Ordering::Relaxed);
        if tools.changes == changes && tools.at.elapsed() < LISTED_FOR {
            return Ok(Arc::clone(&tools.listed));
        }
        let listed = list(&self.peer).await.map_err(|error| match error {
            ListError::Service(error) if !matches!(error, ServiceError::McpError(_)) => self.failed(&error),
            error => CallError::List(cleaned(&error.to_string(), MAX_ERROR)),
        })?;
        *tools = Tools { at: Instant::now(), changes, listed: Arc::clone(&listed) };
        Ok(listed)
    }

    /// What a request without an answer means for the call. It may be the end of the connection.
    fn failed(&self, error: &ServiceError) -> CallError {
        let cause = match error {
            ServiceError::TransportSend(error) => http::cause(error),
            _ => None,
        };
        let status = match cause {
            // Over HTTP one answer has ended, and not the connection.
            None if self.is_http && !self.too_large.load(Ordering::Relaxed) => None,
            None | Some(HttpError::TooLarge) => return self.closed(),
            Some(HttpError::Expired) => {
                // Another session may be one with another version of the server: its tools are listed first.
                self.end(Ended::Idle);
                return CallError::NotSent(Box::new(CallError::Closed));
            }
            Some(HttpError::Web(error)) => {
                self.end(Ended::failed(error.to_string()));
                None
            }
            Some(HttpError::Status(status, _)) => {
                if status.is_server_error() {
                    // It may have been restarted, and not know the session any more: the next call opens a new one.
                    self.end(Ended::Idle);
                }
                Some(status.as_u16())
            }
            // As a server that gets no key.
            Some(HttpError::Token(NoToken::NeedsLogin(_))) => Some(401),
            Some(HttpError::Token(NoToken::Failed(_)) | HttpError::NotMcp(_)) => None,
        };
        let broken = || "the server's answer ended before it was complete".to_owned();
        let reason = cleaned(&cause.map_or_else(broken, HttpError::to_string), MAX_ERROR);
        let failed = CallError::Http { reason, status };
        if cause.is_some_and(HttpError::is_unsent) { CallError::NotSent(Box::new(failed)) } else { failed }
    }

    /// Ends the connection, unless it has ended.
    fn end(&self, why: Ended) {
        self.used.send_modify(|used| _ = used.ended.get_or_insert(why));
    }

    /// Finds out whether the server still answers: one that answers nothing is ended, so that the next call starts it
    /// again.
    fn probe(&self) {
        let (peer, answers, used) = (self.peer.clone(), Arc::clone(&self.answers), self.used.clone());
        let (limit, before) = (PING.min(self.limits.call), answers.load(Ordering::Relaxed));
        self.tracker.spawn(async move {
            let ping = peer.send_request(ClientRequest::PingRequest(PingRequest::default()));
            let ping = async {
                tokio::select! {
                    _ = ping => {}
                    () = keeper::ended(&used) => {}
                }
            };
            if timeout(limit, ping).await.is_err() && answers.load(Ordering::Relaxed) == before {
                let reason = "it did not answer a ping after a call had timed out".to_owned();
                used.send_modify(|used| _ = used.ended.get_or_insert(Ended::failed(reason)));
            }
        });
    }

    fn closed(&self) -> CallError {
        if self.too_large.load(Ordering::Relaxed) {
            self.end(Ended::failed("it sent a message that was too large".to_owned()));
            CallError::TooLarge(self.limits.message_bytes)
        } else {
            CallError::Closed
        }
    }
}

/// The most tools of one server.
const MAX_TOOLS: usize = 500;
/// The most pages of a list. A page may be empty, so the tools alone would not limit them.
const MAX_PAGES: usize = 100;

/// Why a server's tools could not be listed.
#[derive(Debug, thiserror::Error)]
enum ListError {
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error("{0}")]
    Refused(String),
}

/// Lists the tools of a server.
async fn list(peer: &Peer<RoleClient>) -> Result<Arc<[Listed]>, ListError> {
    let (mut tools, mut cursor) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(params)).await?;
        if tools.len() + page.tools.len() > MAX_TOOLS {
            return Err(ListError::Refused(format!(
                "it has more than {MAX_TOOLS} tools, which is the most of one server"
            )));
        }
        tools.extend(page.tools.iter().map(listed_of));
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(tools.into()),
        }
    }
    Err(ListError::Refused(format!(
        "its list of tools goes on after {MAX_PAGES} pages, which is the most of one server"
    )))
}
