//! Direct starts: the worker of the process, which has a slot for a goal when a test says so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use houston_domain::id::AgentableId;
use houston_domain::knowledge::PromptLimits;
use houston_store::RunStore;
use houston_store::claim::{ClaimRequest, ClaimedRun, Trial};
use houston_store::direct_start::{DirectSlot, DirectWorker};
use houston_store::run_context::ContextLimits;
use sqlx::PgPool;

use super::Scene;
use super::claim::crashes;
use super::twin::Twin;

/// The slots of a worker that drives nothing.
#[derive(Default)]
pub(super) struct Slots {
    /// The claims that it makes, if a message is posted.
    offered: Mutex<HashMap<AgentableId, ClaimRequest>>,
    /// The runs that were started.
    started: Mutex<HashMap<AgentableId, ClaimedRun>>,
}

/// A slot that was taken.
struct Slot {
    slots: Arc<Slots>,
    request: ClaimRequest,
}

/// As the store sees it.
struct Worker(Arc<Slots>);

impl Slots {
    /// Lets a store ask for slots, for as long as the process lives.
    pub(super) fn serve(self: Arc<Self>, runs: &RunStore) {
        let worker: Arc<dyn DirectWorker> = Arc::new(Worker(self));
        runs.start_directly(Arc::downgrade(&worker));
        // The store keeps no reference.
        std::mem::forget(worker);
    }

    /// The run that was started.
    pub(super) fn take(&self, agentable: AgentableId) -> Option<ClaimedRun> {
        self.offered.lock().unwrap().remove(&agentable);
        self.started.lock().unwrap().remove(&agentable)
    }
}

impl DirectWorker for Worker {
    fn slot(&self, agentable: AgentableId) -> Option<Box<dyn DirectSlot>> {
        let request = self.0.offered.lock().unwrap().remove(&agentable)?;
        Some(Box::new(Slot { slots: Arc::clone(&self.0), request }))
    }
}

impl DirectSlot for Slot {
    fn request(&self) -> ClaimRequest {
        self.request
    }

    fn start(self: Box<Self>, run: ClaimedRun) {
        self.slots.started.lock().unwrap().insert(self.request.agentable, run);
    }

    fn claim(self: Box<Self>) {}

    fn abandon(self: Box<Self>) {}
}

impl Scene<'_> {
    /// Offers a slot to the next message of a goal.
    pub(super) fn offer(&self, twin: &Twin, agentable: AgentableId) {
        let context = ContextLimits { notes: 10, prompt: PromptLimits::default() };
        let request = ClaimRequest {
            agentable,
            worker: twin.worker,
            token: self.ids().next(),
            next_message: self.ids().beside(agentable),
            crashes: crashes(),
            trial: Trial::None,
            context: Some(context),
        };
        self.side.slots.offered.lock().unwrap().insert(agentable, request);
    }
}

/// Whether a message may start its run at once: none is open, nothing of the user waits, and a slot is free.
pub(super) async fn may_start(pool: &PgPool, agentable: AgentableId, max_running: u16) -> bool {
    let may = "select not k.run_open and houston.free_slots(k.user_id, k.agentable_id, $2) > 0
                      and not exists (select from houston.run_locks o where o.user_id = k.user_id and o.wake)
                 from houston.run_locks k where k.agentable_id = $1";
    let may = sqlx::query_scalar(may).bind(agentable.0).bind(i32::from(max_running));
    may.fetch_one(pool).await.unwrap()
}
