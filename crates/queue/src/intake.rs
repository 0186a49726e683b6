//! The intake of a worker: open, paused or closed, and what came in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use crate::hint::Hint;
use crate::slot::Slot;

/// A hint and the slot it will run in.
pub(crate) struct Delivery {
    pub(crate) hint: Hint,
    pub(crate) slot: Slot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    Paused,
    Closed,
}

/// Steers and watches what a [`crate::HintBackend`] takes in; cheap to clone, outlives the backend.
#[derive(Debug, Clone)]
pub struct Intake {
    gate: Arc<watch::Sender<Gate>>,
    slots: Arc<Semaphore>,
    max_in_flight: usize,
    pub(crate) counts: Arc<Counts>,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) delivered: AtomicU64,
    pub(crate) undecodable: AtomicU64,
    pub(crate) given_back: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) panicked: AtomicU64,
}

/// What became of the hints a worker took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IntakeCounts {
    /// Handed to a handler.
    pub delivered: u64,
    /// Members of a lane that were no hint for this build; dropped.
    pub undecodable: u64,
    /// Taken from Redis but put back, since the intake had closed or the slots had gone meanwhile.
    pub given_back: u64,
    /// Taken but neither handed over nor put back; the sweep finds them.
    pub lost: u64,
    /// Handlers that panicked.
    pub panicked: u64,
}

impl Intake {
    pub(crate) fn new(max_in_flight: usize) -> Self {
        let max_in_flight = max_in_flight.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            gate: Arc::new(watch::Sender::new(Gate::Open)),
            slots: Arc::new(Semaphore::new(max_in_flight)),
            max_in_flight,
            counts: Arc::default(),
        }
    }

    /// Takes no more hints; handlers in flight go on. A hint Redis hands out at this very moment is put back.
    pub fn pause(&self) {
        self.turn(Gate::Open, Gate::Paused);
    }

    /// Takes hints again, unless the worker is stopping.
    pub fn resume(&self) {
        self.turn(Gate::Paused, Gate::Open);
    }

    /// Whether hints are taken.
    #[must_use]
    pub fn is_open(&self) -> bool {
        *self.gate.borrow() == Gate::Open
    }

    /// How many handlers run, a hint on its way to one included.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.max_in_flight.saturating_sub(self.slots.available_permits())
    }

    /// How many may run at once.
    #[must_use]
    pub fn max_in_flight(&self) -> usize {
        self.max_in_flight
    }

    /// What came in so far.
    #[must_use]
    pub fn counts(&self) -> IntakeCounts {
        let counts = &self.counts;
        IntakeCounts {
            delivered: counts.delivered.load(Relaxed),
            undecodable: counts.undecodable.load(Relaxed),
            given_back: counts.given_back.load(Relaxed),
            lost: counts.lost.load(Relaxed),
            panicked: counts.panicked.load(Relaxed),
        }
    }

    /// Takes no hint ever again.
    pub(crate) fn close(&self) {
        self.gate.send_replace(Gate::Closed);
    }

    /// Waits until hints may be taken; `false` when they never may again.
    pub(crate) async fn opened(&self) -> bool {
        let mut gate = self.gate.subscribe();
        gate.wait_for(|gate| *gate != Gate::Paused).await.is_ok_and(|gate| *gate == Gate::Open)
    }

    /// Waits until hints may not be taken.
    pub(crate) async fn shut(&self) {
        let mut gate = self.gate.subscribe();
        // The sender is ours, so it cannot have gone.
        let _ = gate.wait_for(|gate| *gate != Gate::Open).await;
    }

    /// Waits until hints may never be taken again.
    pub(crate) async fn closed(&self) {
        let mut gate = self.gate.subscribe();
        let _ = gate.wait_for(|gate| *gate == Gate::Closed).await;
    }

    /// Waits for a free slot without taking it, and says how many are free.
    pub(crate) async fn free_slots(&self) -> usize {
        // The semaphore is never closed. To wait in its queue keeps the turns fair.
        let _ = self.slots.acquire().await;
        self.slots.available_permits().max(1)
    }

    /// Waits for a slot and takes it.
    pub(crate) async fn slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.slots).acquire_owned().await.ok()
    }

    /// Takes a slot if one is free.
    pub(crate) fn slot_now(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.slots).try_acquire_owned().ok()
    }

    /// Hands `hint` to the worker; `false` when it takes none any more.
    pub(crate) fn deliver(
        &self,
        hint: Hint,
        permit: OwnedSemaphorePermit,
        worker: &mpsc::Sender<Delivery>,
    ) -> bool {
        // The channel holds as many as there are slots, so it is never full.
        let delivered = worker.try_send(Delivery { hint, slot: permit.into() }).is_ok();
        if delivered {
            self.counts.delivered.fetch_add(1, Relaxed);
        }
        delivered
    }

    fn turn(&self, from: Gate, to: Gate) {
        self.gate.send_if_modified(|gate| {
            let turns = *gate == from;
            if turns {
                *gate = to;
            }
            turns
        });
    }
}

/// Ends the worker when the task that holds it ends, for whatever reason: a worker must not live on deaf.
pub(crate) struct ClosesIntake(pub(crate) Intake);

impl Drop for ClosesIntake {
    fn drop(&mut self) {
        self.0.close();
    }
}
