//! Runs that are tried alone. All runs of a process die with it, so its death says little about each of them. A run that enough
//! workers died with is driven by a process that drives nothing else, a child of the worker's: if it dies and its parent lives, the
//! run is the cause, and is given up. Whatever else kills workers, an innocent run is not.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backon::{ConstantBuilder, Retryable as _};
use houston_domain::death::{Shown, Verdict, verdict};
use houston_domain::id::{AgentableId, WorkerId};
use houston_engine::DriveOutcome;
use houston_store::claim::Trial;
use houston_store::lease::WorkerDescription;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::lease::{Current, LeaseKeeper, LeaseThread, resigned};
use crate::worker::{Tried, TryAlone, Worker};
use crate::{listen, reaper};

/// How often giving a run up is tried again while another worker takes the lock for a moment, and the pause between two tries.
const RETRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(500);

/// The trials of a worker.
pub(crate) struct Trials {
    pub(crate) worker: Arc<Worker>,
    pub(crate) current: Current,
    pub(crate) alone: TryAlone,
    /// The runs that are tried.
    pub(crate) open: Mutex<HashSet<AgentableId>>,
}

impl Trials {
    /// Tries the run, and gives it up if it kills its process.
    pub(crate) async fn hold(&self, agentable: AgentableId) -> houston_store::Result<DriveOutcome> {
        let holder = self.current.borrow().clone();
        let Some(holder) = holder.filter(|_| self.open().insert(agentable)) else {
            return Ok(DriveOutcome::NotClaimed);
        };
        let _ended = Ended { trials: self, agentable };
        tracing::info!(%agentable, "workers died with a run; it is tried in a process of its own");
        let Tried { shown, how, worker } = (self.alone)(agentable, holder.drain.clone()).await;
        let Some(verdict) = verdict(shown) else { return Ok(DriveOutcome::NotClaimed) };
        if shown == Shown::Kills {
            tracing::error!(%agentable, how, "a run ended the process that drove it alone");
        } else {
            tracing::warn!(%agentable, how, "a run could not be tried in a process of its own; it waits");
        }
        if let Some(worker) = worker {
            self.worker.store.bury(worker).await?;
        }
        // `Err(None)`: another worker holds the lock, or the run must wait.
        let end = || async {
            // This worker may have another lease by now.
            let holder = self.current.borrow().clone();
            let Some(holder) = holder else { return Ok(DriveOutcome::NotClaimed) };
            match self.worker.engine.drive_on_trial(agentable, &holder, Trial::Shown(verdict)).await {
                Ok(DriveOutcome::NotClaimed | DriveOutcome::Waiting { .. }) if shown == Shown::Kills => {
                    Err(None)
                }
                outcome => outcome.map_err(Some),
            }
        };
        let retries = ConstantBuilder::new().with_delay(PAUSE).with_max_times(RETRIES);
        let ended = end.retry(retries).when(Option::is_none).await;
        ended.or_else(|error| error.map_or(Ok(DriveOutcome::NotClaimed), Err))
    }

    fn open(&self) -> MutexGuard<'_, HashSet<AgentableId>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets a trial when it is dropped.
struct Ended<'t> {
    trials: &'t Trials,
    agentable: AgentableId,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.trials.open().remove(&self.agentable);
    }
}

impl Worker {
    /// Drives the run until it rests, or `stop` asks to hand it over, and does nothing else. `begins` is called before it is
    /// claimed.
    ///
    /// # Errors
    /// [`LeaseThread`] when the lease thread cannot be started, before `begins` is called.
    pub async fn drive_alone(
        self,
        agentable: AgentableId,
        tracker: &TaskTracker,
        stop: CancellationToken,
        begins: impl FnOnce(WorkerId),
    ) -> Result<houston_store::Result<DriveOutcome>, LeaseThread> {
        let (done, hints, worker) = (CancellationToken::new(), self.hints.clone(), Arc::new(self));
        let neighbour_gone = Arc::new(Notify::new());
        let keeper = LeaseKeeper {
            worker: Arc::clone(&worker),
            description: WorkerDescription { slots: Some(1), ..worker.description.clone() },
            drain: stop.clone(),
            done: done.clone(),
            // It takes no hints.
            pause_lanes: Arc::new(|_| {}),
            neighbour_gone: Arc::clone(&neighbour_gone),
            send_hint: Arc::new(move |lane, hint| hints.send(lane, hint)),
        };
        let current = keeper.start()?;
        let reaper = reaper::Reaper {
            worker: Arc::clone(&worker),
            current: current.clone(),
            neighbour_gone,
            sweep: Arc::default(),
            stop: done.clone(),
        };
        tracker.spawn(reaper.run());
        tracker.spawn(listen::control(Arc::clone(&worker), done.clone()));
        let holder = tokio::select! {
            holder = held(current.clone()) => holder,
            () = stop.cancelled() => None,
        };
        let driven = match holder {
            Some(holder) => {
                begins(holder.worker);
                worker.engine.drive_on_trial(agentable, &holder, Trial::Shown(Verdict::Try)).await
            }
            None => Ok(DriveOutcome::NotClaimed),
        };
        done.cancel();
        resigned(current).await;
        Ok(driven)
    }
}

/// The first lease.
async fn held(mut current: Current) -> Option<houston_engine::Holder> {
    current.wait_for(Option::is_some).await.ok().and_then(|holder| holder.clone())
}
