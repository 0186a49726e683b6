//! The intake of a worker: whether it takes hints, how many slots are free, and counts of what it took.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::{Semaphore, mpsc, watch};

use crate::backend::HintSettings;
use crate::hint::Hint;
use crate::lanes::Lane;
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

/// Controls and counts what a [`crate::HintBackend`] takes; cheap to clone, outlives the backend.
#[derive(Debug, Clone)]
pub struct Intake {
    gate: Arc<watch::Sender<Gate>>,
    /// Slots of all lanes, of all but the interactive one, and of maintenance alone. A hint takes one of each that
    /// applies to its lane.
    slots: Arc<[Arc<Semaphore>; 3]>,
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
    /// Taken but neither delivered nor put back; the sweep finds their agentables.
    pub lost: u64,
    /// Handlers that panicked.
    pub panicked: u64,
}

impl Intake {
    pub(crate) fn new(settings: HintSettings) -> Self {
        let max_in_flight = settings.max_in_flight.clamp(1, Semaphore::MAX_PERMITS);
        let background = settings.background.clamp(1, max_in_flight);
        let maintenance = settings.maintenance.clamp(1, background);
        let slots = [max_in_flight, background, maintenance].map(|slots| Arc::new(Semaphore::new(slots)));
        Self {
            gate: Arc::new(watch::Sender::new(Gate::Open)),
            slots: Arc::new(slots),
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
        self.max_in_flight.saturating_sub(self.slots[0].available_permits())
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
        let _ = self.slots[0].acquire().await;
        self.slots[0].available_permits().max(1)
    }

    /// How many lanes may be read now, the most urgent first: the slots that are left may be none of theirs.
    pub(crate) fn open_lanes(&self) -> usize {
        let closed = self.slots.iter().skip(1).position(|slots| slots.available_permits() == 0);
        closed.map_or(Lane::ALL.len(), |below| below + 1)
    }

    /// Waits for a slot for a hint of `lane` and takes it.
    pub(crate) async fn slot(&self, lane: Lane) -> Option<Slot> {
        let mut permits = Vec::with_capacity(1 + lane.index());
        // The scarcest slots first, so that waiting for those blocks none of the others.
        for slots in self.slots[..=lane.index()].iter().rev() {
            permits.push(Arc::clone(slots).acquire_owned().await.ok()?);
        }
        Some(permits.into())
    }

    /// Takes a slot for a hint of `lane` if one is free.
    pub(crate) fn slot_now(&self, lane: Lane) -> Option<Slot> {
        let slots = self.slots[..=lane.index()].iter();
        let permits: Option<Vec<_>> = slots.map(|slots| Arc::clone(slots).try_acquire_owned().ok()).collect();
        permits.map(Slot::from)
    }

    /// Hands `hint` to the worker; `false` when it takes none any more.
    pub(crate) fn deliver(&self, hint: Hint, slot: Slot, worker: &mpsc::Sender<Delivery>) -> bool {
        // The channel holds as many as there are slots, so it is never full.
        let delivered = worker.try_send(Delivery { hint, slot }).is_ok();
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

/// Ends the worker when the task that holds it ends, for whatever reason: otherwise the worker would go on without
/// taking hints.
pub(crate) struct ClosesIntake(pub(crate) Intake);

impl Drop for ClosesIntake {
    fn drop(&mut self) {
        self.0.close();
    }
}
