//! All open streams of the process: the poll that finds what the bus has lost, and the door to Postgres that
//! keeps them from crowding out everybody else.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;

use futures_util::task::AtomicWaker;
use houston_domain::id::{AgentableId, TenantId};
use houston_store::Store;
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, timeout};

use crate::auth::Caller;
use crate::config::Config;
use crate::error::ApiError;
use crate::keys::KeyInUse;
use crate::state::App;

/// How many streams may read from Postgres at once.
const READS_AT_ONCE: usize = 8;
/// How many agentables are asked about in one query.
const POLL_BATCH: usize = 1_000;

/// The streams that are open, by agentable.
#[derive(Debug)]
pub(crate) struct Streams {
    open: Mutex<HashMap<AgentableId, Vec<Arc<Watch>>>>,
    /// How many are open, by tenant.
    counts: Mutex<HashMap<TenantId, usize>>,
    /// To be held while reading.
    pub(crate) reads: Semaphore,
}

impl Default for Streams {
    fn default() -> Self {
        Self { open: Mutex::default(), counts: Mutex::default(), reads: Semaphore::new(READS_AT_ONCE) }
    }
}

/// What the poll knows of one stream.
#[derive(Debug)]
pub(crate) struct Watch {
    seq: AtomicI64,
    behind: AtomicBool,
    /// Its agentable was erased.
    gone: AtomicBool,
    waker: AtomicWaker,
}

impl Watch {
    /// Whether there is nothing left to watch.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    fn end(&self) {
        self.gone.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// The stream has sent every event up to `seq`.
    pub(crate) fn reached(&self, seq: i64) {
        self.seq.store(seq, Ordering::Relaxed);
    }

    /// Whether Postgres has more than the stream has sent; asked once, it is forgotten. Wakes `cx` when it
    /// becomes so.
    pub(crate) fn take_behind(&self, cx: &Context<'_>) -> bool {
        self.waker.register(cx.waker());
        self.behind.swap(false, Ordering::AcqRel)
    }

    fn told(&self, last_seq: i64) {
        if self.seq.load(Ordering::Relaxed) < last_seq {
            self.behind.store(true, Ordering::Release);
            self.waker.wake();
        }
    }
}

/// One of the streams a tenant may have open, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Admitted {
    app: Arc<App>,
    tenant: TenantId,
    pub(crate) key: KeyInUse,
}

impl Admitted {
    /// Counts one more stream of the caller's tenant, unless there are as many as may be.
    pub(crate) fn new(app: Arc<App>, caller: Caller) -> Result<Self, ApiError> {
        let tenant = caller.tenant;
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
        let key = app.keys.stream(caller.key);
        Ok(Self { app, tenant, key })
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut counts = self.app.streams.counts();
        let left = counts.get(&self.tenant).copied().unwrap_or(0).saturating_sub(1);
        if left == 0 {
            counts.remove(&self.tenant);
        } else {
            counts.insert(self.tenant, left);
        }
    }
}

/// Keeps a stream in the register for as long as it lives.
#[derive(Debug)]
pub(crate) struct Registered {
    app: Arc<App>,
    agentable: AgentableId,
    watch: Arc<Watch>,
}

impl Registered {
    /// A stream of `agentable` that has sent every event up to `seq`.
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

impl Drop for Registered {
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
    /// Asks Postgres, each `poll_ms`, which streams are behind, and wakes them. Never ends.
    pub(crate) async fn poll(&self, store: &Store, config: &Config) {
        let mut ticks = tokio::time::interval(config.poll());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(elapsed) = timeout(config.request_timeout(), self.poll_once(store)).await {
                tracing::debug!(%elapsed, "streams could not be polled");
            }
        }
    }

    async fn poll_once(&self, store: &Store) {
        let ids: Vec<uuid::Uuid> = self.lock().keys().map(|id| id.0).collect();
        for batch in ids.chunks(POLL_BATCH) {
            match store.last_seqs(batch).await {
                Ok(seqs) => {
                    let there: HashSet<_> = seqs.iter().map(|(agentable, _)| agentable.0).collect();
                    seqs.into_iter().for_each(|(agentable, last_seq)| self.tell(agentable, last_seq));
                    batch.iter().filter(|id| !there.contains(*id)).for_each(|id| self.end(AgentableId(*id)));
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

    fn tell(&self, agentable: AgentableId, last_seq: i64) {
        let open = self.lock();
        open.get(&agentable).into_iter().flatten().for_each(|watch| watch.told(last_seq));
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<TenantId, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AgentableId, Vec<Arc<Watch>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
