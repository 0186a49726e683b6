//! The worker's lease. It is renewed by an OS thread with its own connection, so that neither a blocked runtime nor an
//! exhausted pool can lose it, and measured by a clock that includes the time the machine is suspended.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use houston_domain::id::WorkerId;
use houston_engine::Holder;
use houston_faults::mutation::{self, Mutation};
use houston_metrics::worker::Lease;
use houston_queue::{Hint, Lane};
use houston_store::lease::{LeaseConnection, Look, WorkerDescription};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::worker::Worker;

/// Time-out of Postgres, after which the connection counts as broken.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The same while nothing is urgent: a renewal, which follows, has time left.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// Time-out of giving back the lease at the end; after that it expires by itself.
const RESIGN_TIMEOUT: Duration = Duration::from_secs(2);

/// Milliseconds since the machine started, including suspends.
fn boot_millis() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}

/// The current worker id of this process with its lease; `None` between two leases.
pub(crate) type Current = watch::Receiver<Option<Holder>>;

/// Pauses these lanes, and lets all others go on.
pub(crate) type PauseLanes = Arc<dyn Fn(&[Lane]) + Send + Sync>;

/// What the lease thread needs.
pub(crate) struct LeaseKeeper {
    pub(crate) worker: Arc<Worker>,
    /// How it introduces itself to operators.
    pub(crate) description: WorkerDescription,
    /// Cancelled when the process is stopping, also by this thread when an operator asks for it: runs are handed over.
    pub(crate) drain: CancellationToken,
    /// Cancelled when every run has ended or was cut off: the lease is given back.
    pub(crate) done: CancellationToken,
    /// Called with the lanes that are paused.
    pub(crate) pause_lanes: PauseLanes,
    /// Notified when the worker that this one watches seems to be dead.
    pub(crate) neighbour_gone: Arc<Notify>,
    /// See [`Holder::send_hint`].
    pub(crate) send_hint: Arc<dyn Fn(Lane, Hint) + Send + Sync>,
}

/// Waits until the lease was given back.
pub(crate) async fn resigned(mut current: Current) {
    let _ = tokio::time::timeout(RESIGN_TIMEOUT, current.wait_for(Option::is_none)).await;
}

/// The lease thread could not be started.
#[derive(Debug, thiserror::Error)]
#[error("the lease thread could not be started")]
pub struct LeaseThread(#[from] std::io::Error);

impl LeaseKeeper {
    /// Starts the thread. The receiver has the current lease, and closes when the lease was given back.
    ///
    /// # Errors
    /// [`LeaseThread`] when the thread or its runtime cannot be started.
    pub(crate) fn start(self) -> Result<Current, LeaseThread> {
        let (sender, current) = watch::channel(None);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("houston-lease".to_owned()).spawn(move || {
            runtime.block_on(self.keep(&sender));
        })?;
        Ok(current)
    }

    /// Holds one lease after the other until the process is done.
    async fn keep(self, current: &watch::Sender<Option<Holder>>) {
        let mut former = Vec::new();
        let lease = self.worker.metrics.worker.lease();
        while !self.done.is_cancelled() {
            let incarnation = Incarnation::new(&self, &lease, former.is_empty());
            let mut drops_runs = true;
            match incarnation.hold(current, &mut former).await {
                LeaseEnd::Done(connection) => {
                    if let Err(error) = connection.deregister().await {
                        tracing::warn!(%error, "could not give the lease back; it expires by itself");
                    }
                }
                LeaseEnd::Lost => {
                    former.push(incarnation.holder.worker);
                    self.worker.metrics.worker.leases_lost.inc();
                    drops_runs = !mutation::is(Mutation::BatchFence) && !mutation::is(Mutation::Takeover);
                }
                LeaseEnd::Never => {}
            }
            current.send_replace(None);
            if drops_runs {
                incarnation.holder.lost.cancel();
            }
        }
    }
}

/// Why a lease ended.
enum LeaseEnd {
    /// The process is done.
    Done(LeaseConnection),
    /// The lease was lost while the process is alive, and its runs were dropped.
    Lost,
    /// The process was done before it had a lease.
    Never,
}

/// Releases the locks that this process held under earlier worker ids. Failures are retried at the next call.
async fn release_former_locks(connection: &mut LeaseConnection, former: &mut Vec<WorkerId>) {
    while let Some(worker) = former.last() {
        match tokio::time::timeout(ANSWER_TIMEOUT, connection.release_locks(*worker)).await {
            Ok(Ok(())) => former.pop(),
            Ok(Err(error)) => return tracing::debug!(%error, "could not release earlier runs yet"),
            Err(_) => return tracing::debug!("no response to releasing earlier runs yet"),
        };
    }
}

/// One worker id of this process, with its lease.
struct Incarnation<'k> {
    keeper: &'k LeaseKeeper,
    holder: Holder,
    /// When the last successful renewal was sent, in milliseconds since boot.
    renewed: Arc<AtomicU64>,
    /// The same, for metrics.
    measured: &'k Lease,
    /// When the process connected anew, after its first connection.
    reconnected: Cell<Option<Instant>>,
}

impl<'k> Incarnation<'k> {
    fn new(keeper: &'k LeaseKeeper, measured: &'k Lease, is_first: bool) -> Self {
        let renewed = Arc::new(AtomicU64::new(0));
        let Worker { lease, ids, process, .. } = &*keeper.worker;
        let trust = lease.trust_s * 1000;
        let seen = Arc::clone(&renewed);
        let worker = ids.next::<WorkerId>().in_process(*process);
        let holder = Holder {
            worker,
            lost: CancellationToken::new(),
            drain: keeper.drain.clone(),
            trusted: Arc::new(move || boot_millis().saturating_sub(seen.load(Ordering::Acquire)) < trust),
            send_hint: Arc::clone(&keeper.send_hint),
        };
        let reconnected = Cell::new((!is_first).then(Instant::now));
        Self { keeper, holder, renewed, measured, reconnected }
    }

    async fn connect(&self) -> houston_store::Result<LeaseConnection> {
        let Worker { database_url, lease, .. } = &*self.keeper.worker;
        LeaseConnection::open(database_url, self.holder.worker, Duration::from_secs(lease.ttl_s)).await
    }

    /// Registers the worker, releases the locks of its `former` ids, and renews the lease until it is lost or no longer needed.
    async fn hold(&self, current: &watch::Sender<Option<Holder>>, former: &mut Vec<WorkerId>) -> LeaseEnd {
        let Some(mut connection) = self.register().await else { return LeaseEnd::Never };
        tracing::info!(worker = %self.holder.worker, name = self.keeper.description.name, "worker registered");
        // Which lanes are paused, before anything is claimed. If it fails, the next look says so.
        self.is_alive(&mut connection).await;
        current.send_replace(Some(self.holder.clone()));
        let renew = Duration::from_secs(self.keeper.worker.lease.renew_s);
        // Whether the drain was noticed, and whether the row says so.
        let (mut drains, mut says_so) = (false, false);
        let mut renewed = Instant::now();
        loop {
            release_former_locks(&mut connection, former).await;
            tokio::select! {
                () = self.keeper.done.cancelled() => return LeaseEnd::Done(connection),
                () = self.keeper.drain.cancelled(), if !drains => drains = true,
                () = tokio::time::sleep(Duration::from_millis(self.keeper.worker.lease.look_ms)) => {}
            }
            if drains && !says_so {
                let written = tokio::time::timeout(LOOK_TIMEOUT, connection.tell_draining()).await;
                says_so = matches!(written, Ok(Ok(())));
            }
            if renewed.elapsed() < renew && connection.is_locked() && self.is_alive(&mut connection).await {
                continue;
            }
            let why = match self.renew(&mut connection).await {
                Some(true) => {
                    renewed = Instant::now();
                    continue;
                }
                Some(false) => "the worker was taken for dead",
                None => "the lease expired",
            };
            tracing::error!(worker = %self.holder.worker, "{why}; continuing under a new id");
            return LeaseEnd::Lost;
        }
    }

    /// Whether the connection works and the worker was not reaped. A time-out counts as a broken connection. Does what
    /// operators want (drains the process, pauses lanes), and reports a neighbour that is gone.
    async fn is_alive(&self, connection: &mut LeaseConnection) -> bool {
        let look = tokio::time::timeout(LOOK_TIMEOUT, connection.look()).await;
        let Ok(Ok(Some(Look { is_asked_to_drain, paused_lanes, is_neighbour_gone }))) = look else {
            return false;
        };
        // What broke an earlier connection a moment ago may have broken the neighbour's.
        let settled = self.keeper.worker.lease.settled();
        if is_neighbour_gone && self.reconnected.get().is_none_or(|at| at.elapsed() >= settled) {
            self.keeper.neighbour_gone.notify_one();
        }
        // Of a lane that only a newer release has, this one takes no hints anyway.
        let is_paused = |lane: &Lane| paused_lanes.iter().any(|name| name == lane.as_str());
        let paused: Vec<Lane> = Lane::ALL.into_iter().filter(is_paused).collect();
        (self.keeper.pause_lanes)(&paused);
        if is_asked_to_drain && !self.keeper.drain.is_cancelled() {
            tracing::info!(worker = %self.holder.worker, "an operator asked the worker to drain");
            self.keeper.drain.cancel();
        }
        true
    }

    /// Connects and registers, with retries until the process is done.
    async fn register(&self) -> Option<LeaseConnection> {
        let mut has_warned = false;
        loop {
            let sent = boot_millis();
            let attempt = async {
                let mut connection = self.connect().await?;
                connection.register(self.keeper.description.clone()).await?;
                Ok::<_, houston_store::Error>(connection)
            };
            match attempt.await {
                Ok(connection) => {
                    self.renewed.store(sent, Ordering::Release);
                    self.measured.renewed();
                    return Some(connection);
                }
                Err(error) if std::mem::replace(&mut has_warned, true) => {
                    tracing::debug!(%error, "still could not register the worker");
                }
                Err(error) => tracing::warn!(%error, "could not register the worker; trying again"),
            }
            tokio::select! {
                () = self.keeper.done.cancelled() => return None,
                () = tokio::time::sleep(Duration::from_millis(500)) => {}
            }
        }
    }

    /// Renews the lease, over a new connection if necessary. `Some(false)`: the worker was reaped. `None`: the lease could not
    /// be renewed in time.
    async fn renew(&self, connection: &mut LeaseConnection) -> Option<bool> {
        while (self.holder.trusted)() {
            let sent = boot_millis();
            match tokio::time::timeout(ANSWER_TIMEOUT, connection.renew()).await {
                Ok(Ok(true)) => {
                    self.renewed.store(sent, Ordering::Release);
                    self.measured.renewed();
                    return Some(true);
                }
                Ok(Ok(false)) => return Some(false),
                Ok(Err(error)) => tracing::debug!(%error, "lease renewal failed; reconnecting"),
                Err(_) => tracing::debug!("lease renewal timed out; reconnecting"),
            }
            match tokio::time::timeout(ANSWER_TIMEOUT, self.connect()).await {
                Ok(Ok(new)) => {
                    *connection = new;
                    self.reconnected.set(Some(Instant::now()));
                }
                _ => tokio::time::sleep(Duration::from_millis(250)).await,
            }
        }
        None
    }
}
