//! Hints from inside the process: what the worker finds in Postgres itself, with or without Redis.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, mpsc};

use crate::hint::Hint;
use crate::intake::{ClosesIntake, Delivery, Intake};

/// How many hints may wait for a slot. Who finds more in Postgres will find them again.
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
    bell: Notify,
}

/// In order, and each once however often it is sent.
#[derive(Debug, Default)]
struct Waiting {
    order: VecDeque<Hint>,
    known: HashSet<Hint>,
}

impl LocalHints {
    pub(crate) fn new(intake: Intake) -> Self {
        Self { line: Arc::default(), intake }
    }

    /// Hands in `hint`; well done, too, when an equal one waits already.
    ///
    /// # Errors
    /// [`Refused`]: try again later, or let another process find it.
    pub fn try_send(&self, hint: Hint) -> Result<(), Refused> {
        if !self.intake.is_open() {
            return Err(Refused::Shut);
        }
        let mut waiting = self.line.lock();
        if waiting.known.contains(&hint) {
            return Ok(());
        }
        if waiting.order.len() >= WAITING {
            return Err(Refused::Full);
        }
        waiting.known.insert(hint);
        waiting.order.push_back(hint);
        drop(waiting);
        self.line.bell.notify_one();
        Ok(())
    }

    /// How many wait for a slot.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.line.lock().order.len()
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
        while self.waiting() == 0 {
            self.line.bell.notified().await;
        }
        let Some(permit) = self.intake.slot().await else { return };
        let next = self.line.lock().take();
        if let Some(hint) = next {
            self.intake.deliver(hint, permit, worker);
        }
    }
}

impl WaitingLine {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn take(&mut self) -> Option<Hint> {
        let hint = self.order.pop_front()?;
        self.known.remove(&hint);
        Some(hint)
    }
}
