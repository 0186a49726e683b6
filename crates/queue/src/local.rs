//! Local hints: for agentables that the worker itself found in Postgres, with or without Redis.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, mpsc};

use crate::hint::{Hint, Lane};
use crate::intake::{CloseIntakeOnDrop, Delivery, Intake};

/// Maximum number of hints of one lane that wait for a slot. The sweep finds the others again later.
const MAX_WAITING: usize = 1_024;

/// Sends hints to the worker of this process, through the same slots as hints from Redis; cheap to clone.
#[derive(Debug, Clone)]
pub struct LocalHints {
    queue: Arc<SharedQueue>,
    intake: Intake,
}

#[derive(Debug, Default)]
struct SharedQueue {
    hints: Mutex<Queue>,
    changed: Notify,
}

/// Hints in the order they were sent. A hint that already waits is not added again.
#[derive(Debug, Default)]
struct Queue {
    lanes: [VecDeque<Hint>; 3],
    queued: HashSet<Hint>,
}

impl LocalHints {
    pub(crate) fn new(intake: Intake) -> Self {
        Self { queue: Arc::default(), intake }
    }

    /// Queues `hint` in `lane`; says whether it, or an equal one, is queued now. It is not when the lane is paused or has 1,024
    /// hints, or when the intake has closed: a later sweep, here or in another process, finds the agentable again.
    pub fn try_send(&self, lane: Lane, hint: Hint) -> bool {
        if !self.intake.is_open() || self.intake.is_lane_paused(lane) {
            return false;
        }
        let mut queue = self.queue.lock();
        if queue.queued.contains(&hint) {
            return true;
        }
        if queue.lanes[lane as usize].len() >= MAX_WAITING {
            return false;
        }
        queue.queued.insert(hint);
        queue.lanes[lane as usize].push_back(hint);
        drop(queue);
        self.queue.changed.notify_one();
        true
    }

    /// Number of hints that wait for a slot.
    pub fn waiting(&self) -> usize {
        self.queue.lock().queued.len()
    }

    /// Delivers hints to the worker until the intake closes.
    pub(crate) async fn deliver_all(self, worker: mpsc::Sender<Delivery>) {
        let _close_on_end = CloseIntakeOnDrop(self.intake.clone());
        while self.intake.is_open() {
            tokio::select! {
                () = self.deliver_next(&worker) => {}
                () = self.intake.closed.cancelled() => {}
            }
        }
    }

    async fn deliver_next(&self, worker: &mpsc::Sender<Delivery>) {
        let found = {
            let mut queue = self.queue.lock();
            // The sweep finds these again when the lane goes on.
            for lane in Lane::ALL.into_iter().filter(|lane| self.intake.is_lane_paused(*lane)) {
                queue.forget(lane);
            }
            queue.most_urgent()
        };
        let Some(lane) = found else { return self.queue.changed.notified().await };
        tokio::select! {
            slot = self.intake.slot(lane) => {
                // An operator may have paused it meanwhile.
                let next = if self.intake.is_lane_paused(lane) { None } else { self.queue.lock().take(lane) };
                if let Some((hint, slot)) = next.zip(slot) {
                    self.intake.deliver(hint, slot, worker);
                }
            }
            // A more urgent hint may have arrived that has a free slot.
            () = self.queue.changed.notified(), if lane != Lane::Interactive => {}
        }
    }
}

impl SharedQueue {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn most_urgent(&self) -> Option<Lane> {
        Lane::ALL.into_iter().find(|lane| !self.lanes[*lane as usize].is_empty())
    }

    fn forget(&mut self, lane: Lane) {
        while self.take(lane).is_some() {}
    }

    fn take(&mut self, lane: Lane) -> Option<Hint> {
        let hint = self.lanes[lane as usize].pop_front()?;
        self.queued.remove(&hint);
        Some(hint)
    }
}
