//! Run slots: the permits a hint holds until its handler has ended.

use std::sync::Arc;
use std::task::{Context, Poll};

use apalis::prelude::Task;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::{Layer, Service};

use crate::hint::Hint;

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

impl HintSettings {
    /// Settings without reserved slots: hints of every lane may use all of them.
    #[must_use]
    pub fn unreserved(max_in_flight: usize, max_batch: usize) -> Self {
        Self { max_in_flight, background: max_in_flight, maintenance: max_in_flight, max_batch }
    }
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
    #[must_use]
    pub fn total(&self) -> usize {
        self.settings.max_in_flight
    }

    /// How many of those may be below the interactive lane.
    #[must_use]
    pub fn background(&self) -> usize {
        self.settings.background.clamp(1, self.settings.max_in_flight)
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

impl Slots {
    /// Slots that are used now, and those that are free.
    #[must_use]
    pub fn in_use(&self) -> (usize, usize) {
        let free = self.of_lanes[0].available_permits();
        (self.settings.max_in_flight.saturating_sub(free), free)
    }
}

/// A run slot that is in use, with a permit for every reserve the hint's lane counts against. Released when the last
/// clone is dropped.
#[derive(Debug, Clone)]
pub struct Slot {
    _permits: Arc<Vec<OwnedSemaphorePermit>>,
}

impl From<Vec<OwnedSemaphorePermit>> for Slot {
    fn from(permits: Vec<OwnedSemaphorePermit>) -> Self {
        Self { _permits: Arc::new(permits) }
    }
}

/// The backend's middleware: keeps a task's slot for as long as its handler runs, whatever its result.
#[derive(Debug, Clone, Copy)]
pub struct SlotLayer(pub(crate) ());

impl<S> Layer<S> for SlotLayer {
    type Service = SlotService<S>;

    fn layer(&self, handler: S) -> SlotService<S> {
        SlotService { handler }
    }
}

/// A handler under [`SlotLayer`].
#[derive(Debug, Clone)]
pub struct SlotService<S> {
    handler: S,
}

impl<S> Service<Task<Hint>> for SlotService<S>
where
    S: Service<Task<Hint>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.handler.poll_ready(cx)
    }

    fn call(&mut self, task: Task<Hint>) -> Self::Future {
        let slot = task.data().get::<Slot>().cloned();
        self.handler.call(task).inspect(move |_| drop(slot)).boxed()
    }
}
