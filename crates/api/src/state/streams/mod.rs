//! All open streams of the process: limits on their number, the poll that finds events the bus has lost, and the
//! semaphore that bounds their concurrent reads, so that they leave database connections to other requests.

pub(crate) mod feeds;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::task::Context;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream::once;
use futures_util::task::AtomicWaker;
use houston_domain::id::{AgentableId, TenantId};
use houston_metrics::Metrics;
use houston_metrics::streams::Dropped;
use houston_store::{ApiStore, Error};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, timeout};

use crate::admission;
use crate::caller::Caller;
use crate::error::{ApiError, Result};
use crate::state::caches::take_off;
use crate::state::config::Config;
use crate::state::keys::{KeyCache, KeyInUse};

/// How many streams may read Postgres at once.
const READS_AT_ONCE: usize = 8;
/// How many agentables one poll query covers.
const POLL_BATCH: usize = 1_000;

/// The open streams, by agentable and by tenant.
#[derive(Debug)]
pub(crate) struct Streams {
    open: Mutex<HashMap<AgentableId, Vec<Arc<Watch>>>>,
    /// Number of open streams, by tenant.
    counts: Mutex<HashMap<TenantId, usize>>,
    /// Acquired by a stream while it reads Postgres.
    pub(crate) reads: Semaphore,
    /// The most streams of all tenants, and of one.
    max: usize,
    max_per_tenant: usize,
    keys: Arc<KeyCache>,
    metrics: Arc<Metrics>,
}

/// State shared between one stream and the poll.
#[derive(Debug)]
pub(crate) struct Watch {
    seq: AtomicI64,
    behind: AtomicBool,
    /// The agentable was erased.
    gone: AtomicBool,
    waker: AtomicWaker,
}

impl Watch {
    /// Whether the agentable was erased.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    fn end(&self) {
        self.gone.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Records that the stream has sent every event up to `seq`.
    pub(crate) fn reached(&self, seq: i64) {
        self.seq.store(seq, Ordering::Relaxed);
    }

    /// Returns and clears whether Postgres has events that the stream has not sent. Wakes `cx` when that becomes true.
    pub(crate) fn take_behind(&self, cx: &Context<'_>) -> bool {
        self.waker.register(cx.waker());
        self.behind.swap(false, Ordering::AcqRel)
    }

    fn notify(&self, last_seq: i64) {
        if self.seq.load(Ordering::Relaxed) < last_seq {
            self.behind.store(true, Ordering::Release);
            self.waker.wake();
        }
    }
}

/// Counts an open stream of a tenant until it is dropped.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    streams: Arc<Streams>,
    pub(crate) caller: Caller,
    pub(crate) key: KeyInUse,
}

tokio::task_local! {
    /// The place that the request of this task has taken for its stream, before it changes anything.
    static RESERVED: RefCell<Option<StreamPermit>>;
}

/// Runs a request that may reserve a place; one that it did not use is free again.
pub(crate) async fn with_place<R>(request: impl Future<Output = R>) -> R {
    RESERVED.scope(RefCell::default(), request).await
}

impl StreamPermit {
    /// Counts that the stream is aborted.
    pub(crate) fn dropped(&self, abort: Abort) -> Abort {
        self.streams.metrics.streams.dropped(abort.reason());
        abort
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.streams.metrics.streams.connections.dec();
        take_off(&mut self.streams.counts.lock(), self.caller.tenant(), 1);
    }
}

/// Keeps a stream registered for the poll until it is dropped.
#[derive(Debug)]
pub(crate) struct StreamRegistration {
    streams: Arc<Streams>,
    agentable: AgentableId,
    pub(crate) watch: Arc<Watch>,
}

impl Drop for StreamRegistration {
    fn drop(&mut self) {
        let mut open = self.streams.open.lock();
        if let Some(watches) = open.get_mut(&self.agentable) {
            watches.retain(|watch| !Arc::ptr_eq(watch, &self.watch));
            if watches.is_empty() {
                open.remove(&self.agentable);
            }
        }
    }
}

impl Streams {
    pub(crate) fn new(config: &Config, keys: Arc<KeyCache>, metrics: Arc<Metrics>) -> Self {
        Self {
            open: Mutex::default(),
            counts: Mutex::default(),
            reads: Semaphore::new(READS_AT_ONCE),
            max: config.max_streams,
            max_per_tenant: config.max_streams_per_tenant,
            keys,
            metrics,
        }
    }

    /// Counts one more stream of the caller's tenant.
    ///
    /// # Errors
    /// [`ApiError::TooManyStreams`] when the process or the tenant has the maximum number of open streams.
    pub(crate) fn permit(self: &Arc<Self>, caller: Caller) -> Result<StreamPermit> {
        let tenant = caller.tenant();
        let mut counts = self.counts.lock();
        let all: usize = counts.values().sum();
        let own = counts.get(&tenant).copied().unwrap_or(0);
        let limits = [(all, "all tenants", self.max), (own, "this tenant", self.max_per_tenant)];
        if let Some((open, whose, limit)) = limits.into_iter().find(|(open, _, limit)| open >= limit) {
            return Err(ApiError::TooManyStreams { open, whose, limit });
        }
        counts.insert(tenant, own + 1);
        drop(counts);
        self.metrics.streams.connections.inc();
        Ok(StreamPermit { streams: Arc::clone(self), caller, key: self.keys.stream(caller.key()) })
    }

    /// Takes the place for the stream that this request opens later: one that is refused has changed nothing.
    pub(crate) fn reserve(self: &Arc<Self>, caller: Caller) -> Result<()> {
        let permit = self.permit(caller)?;
        let _ = RESERVED.try_with(|reserved| reserved.replace(Some(permit)));
        Ok(())
    }

    /// The place that the request has reserved, or a new one.
    pub(crate) fn reserved_or_new(self: &Arc<Self>, caller: Caller) -> Result<StreamPermit> {
        let reserved = RESERVED.try_with(RefCell::take).ok().flatten();
        admission::give_back();
        reserved.map_or_else(|| self.permit(caller), Ok)
    }

    /// Registers a stream of `agentable` that has sent every event up to `seq`.
    pub(crate) fn register(self: &Arc<Self>, agentable: AgentableId, seq: i64) -> StreamRegistration {
        let (behind, gone) = (AtomicBool::new(false), AtomicBool::new(false));
        let watch = Arc::new(Watch { seq: AtomicI64::new(seq), behind, gone, waker: AtomicWaker::new() });
        self.open.lock().entry(agentable).or_default().push(Arc::clone(&watch));
        StreamRegistration { streams: Arc::clone(self), agentable, watch }
    }

    /// Asks Postgres every `poll_ms` which streams are behind, and wakes them. Never returns.
    pub(crate) async fn poll(&self, store: &ApiStore, config: &Config) {
        let mut ticks = tokio::time::interval(config.poll());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(elapsed) = timeout(config.request_timeout(), self.poll_once(store)).await {
                tracing::debug!(%elapsed, "streams could not be polled");
            }
        }
    }

    async fn poll_once(&self, store: &ApiStore) {
        let ids: Vec<uuid::Uuid> = self.open.lock().keys().map(|id| id.0).collect();
        for batch in ids.chunks(POLL_BATCH) {
            match store.last_seqs(batch).await {
                Ok(seqs) => {
                    let existing: HashSet<_> = seqs.iter().map(|(agentable, _)| agentable.0).collect();
                    seqs.into_iter().for_each(|(agentable, last_seq)| self.notify(agentable, last_seq));
                    batch
                        .iter()
                        .filter(|id| !existing.contains(*id))
                        .for_each(|id| self.end(AgentableId(*id)));
                }
                Err(error) => {
                    tracing::debug!(%error, "streams could not be polled");
                    return;
                }
            }
        }
    }

    /// Ends the streams of an agentable that was erased.
    pub(crate) fn end(&self, agentable: AgentableId) {
        let open = self.open.lock();
        open.get(&agentable).into_iter().flatten().for_each(|watch| watch.end());
    }

    fn notify(&self, agentable: AgentableId, last_seq: i64) {
        let open = self.open.lock();
        open.get(&agentable).into_iter().flatten().for_each(|watch| watch.notify(last_seq));
    }
}

/// Why a stream was aborted. Clients reconnect and resume.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Abort {
    /// The process is shutting down.
    #[error("the server is draining")]
    Draining,
    /// The API key of the stream was revoked, or has expired.
    #[error("the API key was revoked or has expired")]
    Revoked,
    /// The agentable was erased.
    #[error("the agentable was erased")]
    Gone,
    /// The user was moved to another cell, where the stream goes on.
    #[error("the user was moved to another cell")]
    Moved,
    /// The client reads too slowly.
    #[error("the client is too slow")]
    TooSlow,
    /// An event in Postgres cannot be decoded, or events were deleted by age before the client got them: it is refused when
    /// it resumes.
    #[error(transparent)]
    Unreadable(#[from] Error),
}

impl Abort {
    /// The reason, for metrics.
    pub(crate) fn reason(&self) -> Dropped {
        match self {
            Self::Draining => Dropped::Draining,
            Self::Revoked => Dropped::Revoked,
            Self::Gone => Dropped::Erased,
            Self::Moved => Dropped::Moved,
            Self::TooSlow => Dropped::TooSlow,
            Self::Unreadable(Error::EventsExpired { .. } | Error::EventsDeleted) => Dropped::Expired,
            Self::Unreadable(_) => Dropped::Unreadable,
        }
    }
}

/// A body that aborts the connection.
pub(crate) fn aborted() -> Body {
    Body::from_stream(once(ready(Err::<Bytes, _>(Abort::Draining))))
}
