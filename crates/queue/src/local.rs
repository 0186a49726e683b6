//! Hints from inside the process: agentables the worker found in Postgres itself, with or without Redis.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, mpsc};

use crate::hint::Hint;
use crate::intake::{ClosesIntake, Delivery, Intake};
use crate::lanes::Lane;

/// How many hints of one lane may wait for a slot. The sweep finds the others again later.
const WAITING: usize = 1_024;

/// Why a hint was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too many wait for a slot.
    #[error("too many hints wait for a free slot")]
    Full,
    /// The intake is paused or closed.
    #[error("the worker takes no hints now")]
    Shut,
}

/// Hands hints to the worker of this process, through the same slots as those from Redis; cheap to clone.
#[derive(Debug, Clone)]
pub struct LocalHints {
    line: Arc<WaitingLine>,
    intake: Intake,
}

#[derive(Debug, Default)]
struct WaitingLine {
    hints: Mutex<Waiting>,
    changed: Notify,
}

/// Hints in the order they were sent. A hint that already waits is not added again.
#[derive(Debug, Default)]
struct Waiting {
    lanes: [VecDeque<Hint>; 3],
    known: HashSet<Hint>,
}

impl LocalHints {
    pub(crate) fn new(intake: Intake) -> Self {
        Self { line: Arc::default(), intake }
    }

    /// Queues `hint` in `lane`. Succeeds also when an equal hint already waits.
    ///
    /// # Errors
    /// [`Refused`]: try again later, or let another process find it.
    pub fn try_send(&self, lane: Lane, hint: Hint) -> Result<(), Refused> {
        if !self.intake.is_open() {
            return Err(Refused::Shut);
        }
        let mut waiting = self.line.lock();
        if waiting.known.contains(&hint) {
            return Ok(());
        }
        if waiting.lanes[lane.index()].len() >= WAITING {
            return Err(Refused::Full);
        }
        waiting.known.insert(hint);
        waiting.lanes[lane.index()].push_back(hint);
        drop(waiting);
        self.line.changed.notify_one();
        Ok(())
    }

    /// How many wait for a slot.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.line.lock().known.len()
    }

    /// Feeds the worker until the intake closes.
    pub(crate) async fn feed(self, worker: mpsc::Sender<Delivery>) {
        let _ends_worker = ClosesIntake(self.intake.clone());
        while self.intake.opened().await {
            tokio::select! {
                () = self.feed_one(&worker) => {}
                () = self.intake.shut() => {}
            }
        }
    }

    async fn feed_one(&self, worker: &mpsc::Sender<Delivery>) {
        let Some(lane) = self.line.lock().most_urgent() else { return self.line.changed.notified().await };
        tokio::select! {
            slot = self.intake.slot(lane) => {
                let next = self.line.lock().take(lane);
                if let Some((hint, slot)) = next.zip(slot) {
                    self.intake.deliver(hint, slot, worker);
                }
            }
            // A more urgent hint may have arrived, for which there is a slot.
            () = self.line.changed.notified(), if lane != Lane::Interactive => {}
        }
    }
}

impl WaitingLine {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn most_urgent(&self) -> Option<Lane> {
        Lane::ALL.into_iter().find(|lane| !self.lanes[lane.index()].is_empty())
    }

    fn take(&mut self, lane: Lane) -> Option<Hint> {
        let hint = self.lanes[lane.index()].pop_front()?;
        self.known.remove(&hint);
        Some(hint)
    }
}
