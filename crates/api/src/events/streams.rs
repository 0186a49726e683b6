//! All open streams of the process: limits on their number, the poll that finds events the bus has lost, and the
//! semaphore that bounds their concurrent reads, so that they leave database connections to other requests.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;

use futures_util::task::AtomicWaker;
use houston_domain::id::{AgentableId, TenantId};
use houston_store::ApiStore;
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, timeout};

use crate::admission;
use crate::auth::Caller;
use crate::config::Config;
use crate::error::ApiError;
use crate::events::stream::Abort;
use crate::keys::KeyInUse;
use crate::state::App;

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
}

impl Default for Streams {
    fn default() -> Self {
        Self { open: Mutex::default(), counts: Mutex::default(), reads: Semaphore::new(READS_AT_ONCE) }
    }
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
    app: Arc<App>,
    pub(crate) caller: Caller,
    pub(crate) key: KeyInUse,
}

impl StreamPermit {
    /// Counts one more stream of the caller's tenant.
    ///
    /// # Errors
    /// [`ApiError::TooManyStreams`] when the process or the tenant has the maximum number of open streams.
    pub(crate) fn new(app: Arc<App>, caller: Caller) -> Result<Self, ApiError> {
        let tenant = caller.tenant();
        let config = &app.state.config;
        let (all_limit, own_limit) = (config.max_streams, config.max_streams_per_tenant);
        let mut counts = app.streams.counts();
        let all: usize = counts.values().sum();
        let own = counts.get(&tenant).copied().unwrap_or(0);
        if all >= all_limit {
            return Err(ApiError::TooManyStreams { open: all, whose: "all tenants", limit: all_limit });
        }
        if own >= own_limit {
            return Err(ApiError::TooManyStreams { open: own, whose: "this tenant", limit: own_limit });
        }
        counts.insert(tenant, own + 1);
        drop(counts);
        app.state.metrics.streams.connections.inc();
        let key = app.keys.stream(caller.key());
        Ok(Self { app, caller, key })
    }
}

tokio::task_local! {
    /// The place that the request of this task has taken for its stream, before it changes anything.
    static RESERVED: RefCell<Option<StreamPermit>>;
}

/// Runs a request that may reserve a place; one that it did not use is free again.
pub(crate) async fn with_place<R>(request: impl Future<Output = R>) -> R {
    RESERVED.scope(RefCell::default(), request).await
}

/// Takes the place for the stream that this request opens later: one that is refused has changed nothing.
///
/// # Errors
/// As [`StreamPermit::new`].
pub(crate) fn reserve(app: &Arc<App>, caller: Caller) -> Result<(), ApiError> {
    let permit = StreamPermit::new(Arc::clone(app), caller)?;
    let _ = RESERVED.try_with(|reserved| reserved.replace(Some(permit)));
    Ok(())
}

impl StreamPermit {
    /// The place that the request has reserved, or a new one.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn reserved_or_new(app: Arc<App>, caller: Caller) -> Result<Self, ApiError> {
        let reserved = RESERVED.try_with(RefCell::take).ok().flatten();
        admission::give_back();
        reserved.map_or_else(|| Self::new(app, caller), Ok)
    }
}

impl StreamPermit {
    /// Counts that the stream is aborted.
    pub(crate) fn dropped(&self, abort: Abort) -> Abort {
        self.app.state.metrics.streams.dropped(abort.reason());
        abort
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.app.state.metrics.streams.connections.dec();
        let mut counts = self.app.streams.counts();
        let tenant = self.caller.tenant();
        let left = counts.get(&tenant).copied().unwrap_or(0).saturating_sub(1);
        if left == 0 {
            counts.remove(&tenant);
        } else {
            counts.insert(tenant, left);
        }
    }
}

/// Keeps a stream registered for the poll until it is dropped.
#[derive(Debug)]
pub(crate) struct StreamRegistration {
    app: Arc<App>,
    agentable: AgentableId,
    watch: Arc<Watch>,
}

impl StreamRegistration {
    /// Registers a stream of `agentable` that has sent every event up to `seq`.
    pub(crate) fn new(app: Arc<App>, agentable: AgentableId, seq: i64) -> Self {
        let (behind, gone) = (AtomicBool::new(false), AtomicBool::new(false));
        let watch = Arc::new(Watch { seq: AtomicI64::new(seq), behind, gone, waker: AtomicWaker::new() });
        app.streams.lock().entry(agentable).or_default().push(Arc::clone(&watch));
        Self { app, agentable, watch }
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }
}

impl Drop for StreamRegistration {
    fn drop(&mut self) {
        let mut open = self.app.streams.lock();
        if let Some(watches) = open.get_mut(&self.agentable) {
            watches.retain(|watch| !Arc::ptr_eq(watch, &self.watch));
            if watches.is_empty() {
                open.remove(&self.agentable);
            }
        }
    }
}

impl Streams {
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
        let ids: Vec<uuid::Uuid> = self.lock().keys().map(|id| id.0).collect();
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
        let open = self.lock();
        open.get(&agentable).into_iter().flatten().for_each(|watch| watch.end());
    }

    fn notify(&self, agentable: AgentableId, last_seq: i64) {
        let open = self.lock();
        open.get(&agentable).into_iter().flatten().for_each(|watch| watch.notify(last_seq));
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<TenantId, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AgentableId, Vec<Arc<Watch>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
