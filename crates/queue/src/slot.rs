//! Run slots: the permits a hint holds until its handler has ended.

use std::sync::Arc;
use std::task::{Context, Poll};

use apalis::prelude::Task;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::OwnedSemaphorePermit;
use tower::{Layer, Service};

use crate::hint::Hint;

/// A run slot that is in use, with a permit for every reserve the hint's lane counts against. Released when the last
/// clone is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
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
