//! Keeping the lease: an OS thread with a connection of its own, so that neither a blocked runtime nor a drained
//! pool can lose it, and a clock that goes on while the machine sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use houston_domain::id::{Ids, WorkerId};
use houston_engine::Holder;
use houston_queue::{Hint, Lane};
use houston_store::lease::LeaseConnection;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::LeaseConfig;

/// How long Postgres may take to answer before the connection counts as broken.
const WITHIN: Duration = Duration::from_secs(5);

/// Milliseconds since the machine started, sleep included.
fn boot_millis() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}

/// Who this process is just now: none between two incarnations.
pub(crate) type Current = watch::Receiver<Option<Holder>>;

/// What the thread needs.
pub(crate) struct Keeper {
    pub(crate) url: String,
    pub(crate) name: String,
    pub(crate) ids: Arc<Ids>,
    pub(crate) config: LeaseConfig,
    /// The process is stopping: hand over.
    pub(crate) drain: CancellationToken,
    /// Every run has ended or was cut off: give the lease back.
    pub(crate) done: CancellationToken,
    /// See [`Holder::ring`].
    pub(crate) ring: Arc<dyn Fn(Lane, Hint) + Send + Sync>,
}

/// The lease thread could not be started.
#[derive(Debug, thiserror::Error)]
#[error("the lease thread could not be started")]
pub struct LeaseThread(#[from] std::io::Error);

impl Keeper {
    /// Starts the thread. The receiver says who this process is; it closes when the lease was given back.
    pub(crate) fn start(self) -> Result<Current, LeaseThread> {
        let (sender, current) = watch::channel(None);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("houston-lease".to_owned()).spawn(move || {
            runtime.block_on(self.keep(&sender));
        })?;
        Ok(current)
    }

    /// One incarnation after the other, until the process is done.
    async fn keep(self, current: &watch::Sender<Option<Holder>>) {
        let mut former = Vec::new();
        while !self.done.is_cancelled() {
            let incarnation = Incarnation::new(&self);
            match incarnation.live(current, &mut former).await {
                End::Done(connection) => resign(connection).await,
                End::Lost => former.push(incarnation.holder.worker),
                End::Never => {}
            }
            current.send_replace(None);
            incarnation.holder.lost.cancel();
        }
    }
}

/// How a life ended.
enum End {
    /// The process is done.
    Done(LeaseConnection),
    /// The lease was lost while the process lives: only the process itself knows that it dropped its runs.
    Lost,
    /// The process was done before it had a lease.
    Never,
}

async fn resign(connection: LeaseConnection) {
    if let Err(error) = connection.deregister().await {
        tracing::warn!(%error, "could not give the lease back; it runs out by itself");
    }
}

/// Lets go of what this process held before it lost its lease; what does not work is tried again.
async fn settle(connection: &mut LeaseConnection, former: &mut Vec<WorkerId>) {
    while let Some(worker) = former.last() {
        match tokio::time::timeout(WITHIN, connection.release_locks(*worker)).await {
            Ok(Ok(())) => former.pop(),
            Ok(Err(error)) => return tracing::debug!(%error, "could not let go of earlier runs yet"),
            Err(_) => return tracing::debug!("no answer to letting go of earlier runs yet"),
        };
    }
}

/// Whether the connection works and the worker was not reaped. No answer counts as a broken connection.
async fn is_alive(connection: &mut LeaseConnection) -> bool {
    matches!(tokio::time::timeout(Duration::from_secs(1), connection.is_registered()).await, Ok(Ok(true)))
}

/// One life of the worker under one id.
struct Incarnation<'k> {
    keeper: &'k Keeper,
    holder: Holder,
    /// When the last good renewal was sent, in boot milliseconds.
    renewed: Arc<AtomicU64>,
}

impl<'k> Incarnation<'k> {
    fn new(keeper: &'k Keeper) -> Self {
        let renewed = Arc::new(AtomicU64::new(0));
        let trust = keeper.config.trust_s * 1000;
        let seen = Arc::clone(&renewed);
        let worker: WorkerId = keeper.ids.next();
        let holder = Holder {
            worker,
            lost: CancellationToken::new(),
            drain: keeper.drain.clone(),
            trusted: Arc::new(move || boot_millis().saturating_sub(seen.load(Ordering::Acquire)) < trust),
            send_hint: Arc::clone(&keeper.ring),
        };
        Self { keeper, holder, renewed }
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(self.keeper.config.ttl_s)
    }

    async fn connect(&self) -> houston_store::Result<LeaseConnection> {
        LeaseConnection::open(&self.keeper.url, self.holder.worker, self.ttl()).await
    }

    /// Registers, lets go of what this process held under `former` ids, renews, and ends when the lease is lost or no
    /// longer needed.
    async fn live(&self, current: &watch::Sender<Option<Holder>>, former: &mut Vec<WorkerId>) -> End {
        let Some(mut connection) = self.register().await else { return End::Never };
        tracing::info!(worker = %self.holder.worker, name = self.keeper.name, "worker registered");
        current.send_replace(Some(self.holder.clone()));
        let renew = Duration::from_secs(self.keeper.config.renew_s);
        let mut renewed = Instant::now();
        loop {
            settle(&mut connection, former).await;
            tokio::select! {
                () = self.keeper.done.cancelled() => return End::Done(connection),
                () = tokio::time::sleep(Duration::from_millis(self.keeper.config.look_ms)) => {}
            }
            if renewed.elapsed() < renew && connection.is_locked() && is_alive(&mut connection).await {
                continue;
            }
            match self.renew(&mut connection).await {
                Some(true) => renewed = Instant::now(),
                Some(false) => {
                    tracing::error!(worker = %self.holder.worker, "the worker was taken for dead, beginning anew");
                    return End::Lost;
                }
                None => {
                    tracing::error!(worker = %self.holder.worker, "the lease ran out, beginning anew");
                    return End::Lost;
                }
            }
        }
    }

    /// Connects and registers, trying until it works or the process is done.
    async fn register(&self) -> Option<LeaseConnection> {
        let mut is_told = false;
        loop {
            let sent = boot_millis();
            let attempt = async {
                let mut connection = self.connect().await?;
                connection.register(&self.keeper.name).await?;
                Ok::<_, houston_store::Error>(connection)
            };
            match attempt.await {
                Ok(connection) => {
                    self.renewed.store(sent, Ordering::Release);
                    return Some(connection);
                }
                Err(error) if std::mem::replace(&mut is_told, true) => {
                    tracing::debug!(%error, "still could not register the worker");
                }
                Err(error) => tracing::warn!(%error, "could not register the worker, trying again"),
            }
            tokio::select! {
                () = self.keeper.done.cancelled() => return None,
                () = tokio::time::sleep(Duration::from_millis(500)) => {}
            }
        }
    }

    /// Renews, over a new connection if need be. `None`: it could not be renewed in time.
    async fn renew(&self, connection: &mut LeaseConnection) -> Option<bool> {
        while (self.holder.trusted)() {
            let sent = boot_millis();
            match tokio::time::timeout(WITHIN, connection.renew()).await {
                Ok(Ok(true)) => {
                    self.renewed.store(sent, Ordering::Release);
                    return Some(true);
                }
                Ok(Ok(false)) => return Some(false),
                Ok(Err(error)) => tracing::debug!(%error, "lease renewal failed, connecting anew"),
                Err(_) => tracing::debug!("lease renewal got no answer, connecting anew"),
            }
            match tokio::time::timeout(WITHIN, self.connect()).await {
                Ok(Ok(fresh)) => *connection = fresh,
                _ => tokio::time::sleep(Duration::from_millis(250)).await,
            }
        }
        None
    }
}
