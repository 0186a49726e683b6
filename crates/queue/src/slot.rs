//! Run slots: the permits a hint holds until its handler has ended.

use std::sync::Arc;
use std::task::{Context, Poll};

use apalis::prelude::Task;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::{Layer, Service};

use crate::backend::HintSettings;
use crate::hint::Hint;

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
