//! The intake of a worker: whether it accepts hints, and its free slots. Slots of runs: the permits a hint holds until
//! its handler has ended.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::hint::{Hint, Lane};

/// A hint with the slot it runs in.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) hint: Hint,
    pub(crate) slot: Slot,
}

/// Controls the hints a [`crate::HintBackend`] accepts; cheap to clone, outlives the backend.
#[derive(Debug, Clone)]
pub struct Intake {
    /// Cancelled when no hints are accepted any more.
    pub(crate) closed: CancellationToken,
    /// Which lanes an operator has paused.
    paused: Arc<watch::Sender<[bool; 3]>>,
    slots: Arc<[Arc<Semaphore>; 3]>,
}

impl Intake {
    pub(crate) fn new(slots: &Slots) -> Self {
        Self { closed: CancellationToken::new(), paused: Arc::default(), slots: Arc::clone(&slots.of_lanes) }
    }

    /// Accepts no hints of these lanes, and those of all others. Running handlers continue; hints stay in Redis, and the sweep finds
    /// what was to be delivered.
    pub fn pause_lanes(&self, lanes: &[Lane]) {
        let paused = Lane::ALL.map(|lane| lanes.contains(&lane));
        self.paused.send_if_modified(|now| std::mem::replace(now, paused) != paused);
    }

    /// Whether hints of the lane are not accepted.
    pub fn is_lane_paused(&self, lane: Lane) -> bool {
        self.paused.borrow()[lane as usize]
    }

    /// Whether hints are accepted.
    pub fn is_open(&self) -> bool {
        !self.closed.is_cancelled()
    }

    /// Stops accepting hints for good.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    /// Waits for a free slot without taking it. Returns the number of free slots.
    pub(crate) async fn free_slots(&self) -> usize {
        // The semaphore is never closed. Waiting in its queue keeps the order fair.
        let _ = self.slots[0].acquire().await;
        self.slots[0].available_permits().max(1)
    }

    /// The lanes that have a free slot and may be read now, the most urgent first; and whether others will have one.
    pub(crate) fn open_lanes(&self) -> (Vec<Lane>, bool) {
        let closed = self.slots.iter().skip(1).position(|slots| slots.available_permits() == 0);
        let free = closed.map_or(Lane::ALL.len(), |below| below + 1);
        let open = Lane::ALL.into_iter().take(free).filter(|lane| !self.is_lane_paused(*lane));
        (open.collect(), free < Lane::ALL.len())
    }

    /// Takes a slot for a hint of `lane`; waits until one is free.
    pub(crate) async fn slot(&self, lane: Lane) -> Option<Slot> {
        let mut permits = Vec::with_capacity(1 + lane as usize);
        // The scarcest slots first: waiting for them must not hold slots of other lanes.
        for slots in self.slots[..=lane as usize].iter().rev() {
            permits.push(Arc::clone(slots).acquire_owned().await.ok()?);
        }
        Some(Slot { _permits: Arc::new(permits) })
    }

    /// Takes a slot for work of `lane` without a hint, if hints are accepted and a slot is free.
    pub fn try_slot(&self, lane: Lane) -> Option<Slot> {
        if self.is_open() { self.slot_now(lane) } else { None }
    }

    /// Takes a slot for a hint of `lane` if one is free and the lane is not paused.
    pub(crate) fn slot_now(&self, lane: Lane) -> Option<Slot> {
        if self.is_lane_paused(lane) {
            return None;
        }
        let slots = self.slots[..=lane as usize].iter();
        let permits: Option<Vec<_>> = slots.map(|slots| Arc::clone(slots).try_acquire_owned().ok()).collect();
        Some(Slot { _permits: Arc::new(permits?) })
    }

    /// Delivers `hint` to the worker; `false` if the worker accepts none any more.
    pub(crate) fn deliver(&self, hint: Hint, slot: Slot, worker: &mpsc::Sender<Delivery>) -> bool {
        // The channel's capacity is the number of slots, so it is never full.
        worker.try_send(Delivery { hint, slot }).is_ok()
    }
}

/// Closes the intake when the task that owns it ends for any reason; that ends the worker, which would otherwise run
/// without getting hints.
pub(crate) struct CloseIntakeOnDrop(pub(crate) Intake);

impl Drop for CloseIntakeOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// How many hints a worker handles at once, e.g. 16 slots, of which 12 may run background hints:
///
/// ```
/// # use houston_queue::HintSettings;
/// let settings = HintSettings { max_in_flight: 16, background: 12, maintenance: 2, max_batch: 8 };
/// ```
#[derive(Debug, Clone, Copy)]
pub struct HintSettings {
    /// Maximum number of handlers that run at once, at least 1.
    pub max_in_flight: usize,
    /// How many of those may run hints of the lanes below the interactive one, at least 1. The rest is reserved for
    /// interactive hints.
    pub background: usize,
    /// How many of those may run hints of the maintenance lane, at least 1.
    pub maintenance: usize,
    /// Maximum number of hints per round trip, at least 1; small enough that idle workers share a burst.
    pub max_batch: usize,
}

/// The slots of a process. Its backends share them when it takes hints of several cells; cheap to clone.
#[derive(Debug, Clone)]
pub struct Slots {
    /// Slots for all lanes, for the lanes below the interactive one, and for maintenance. A hint takes one of each that
    /// applies to its lane.
    pub(crate) of_lanes: Arc<[Arc<Semaphore>; 3]>,
    pub(crate) settings: HintSettings,
}

impl Slots {
    /// How many runs the process drives at once.
    pub fn total(&self) -> usize {
        self.settings.max_in_flight
    }

    /// How many of those may be below the interactive lane.
    pub fn background(&self) -> usize {
        self.settings.background.clamp(1, self.settings.max_in_flight)
    }

    /// Slots that are used now, and those that are free.
    pub fn in_use(&self) -> (usize, usize) {
        let free = self.of_lanes[0].available_permits();
        (self.settings.max_in_flight.saturating_sub(free), free)
    }
}

impl From<HintSettings> for Slots {
    fn from(settings: HintSettings) -> Self {
        let max_in_flight = settings.max_in_flight.clamp(1, Semaphore::MAX_PERMITS);
        let background = settings.background.clamp(1, max_in_flight);
        let maintenance = settings.maintenance.clamp(1, background);
        let of_lanes = [max_in_flight, background, maintenance].map(|slots| Arc::new(Semaphore::new(slots)));
        Self { of_lanes: Arc::new(of_lanes), settings: HintSettings { max_in_flight, ..settings } }
    }
}

/// A run slot that is in use, with a permit for every reserve the hint's lane counts against. Released when the last
/// clone is dropped.
#[derive(Debug, Clone)]
pub struct Slot {
    _permits: Arc<Vec<OwnedSemaphorePermit>>,
}
