//! Runs the apalis worker. Each handler runs on its own task; a worker that ends without having been stopped is an
//! error.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use apalis::prelude::{ParallelizeExt, WorkerBuilder, WorkerError};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::backend::HintBackend;
use crate::error::{Error, panic_message};
use crate::hint::Hint;

/// Runs an apalis worker called `name` over `backend` until `stop` is cancelled and every handler has ended; the caller
/// limits that wait. Each `handler` runs on its own task, on the tracker the backend was started with. A handler that
/// panics is counted and logged, and its slot is released.
///
/// # Errors
/// [`Error::WorkerEnded`] when the worker ends although `stop` was not cancelled, [`Error::WorkerPanicked`] when it
/// panics. The process must then exit, because it gets no more hints.
pub async fn run_worker<H>(
    name: &str,
    mut backend: HintBackend,
    handler: H,
    stop: CancellationToken,
) -> Result<(), Error>
where
    H: Fn(Hint) -> BoxFuture<'static, ()> + Send + Sync + 'static,
{
    backend.stop_on(stop.clone());
    let (tracker, intake) = (backend.tracker(), backend.intake());
    let handler = Arc::new(handler);
    let guarded = move |hint: Hint| {
        let (handler, counts) = (Arc::clone(&handler), Arc::clone(&intake.counts));
        async move {
            // Called inside the async block, so that a panic before the first await is caught, too.
            let run = AssertUnwindSafe(async { handler(hint).await }).catch_unwind();
            if let Err(panic) = run.await {
                counts.panicked.fetch_add(1, Relaxed);
                let (agentable, panic) = (hint.agentable(), panic_message(&*panic));
                tracing::error!(%agentable, panic, "a hint's handler panicked");
            }
        }
    };
    let worker =
        WorkerBuilder::new(name).backend(backend).parallelize(move |run| tracker.spawn(run)).build(guarded);
    // Boxed, because the compiler cannot prove that the unboxed future is `Send`.
    let ended: BoxFuture<'static, Result<(), WorkerError>> = Box::pin(worker.run());
    match AssertUnwindSafe(ended).catch_unwind().await {
        Ok(Ok(())) if stop.is_cancelled() => Ok(()),
        Ok(ended) => Err(Error::WorkerEnded { name: name.to_owned(), source: ended.err() }),
        Err(panic) => Err(Error::WorkerPanicked { name: name.to_owned(), panic: panic_message(&*panic) }),
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::slot::HintSettings;

    #[tokio::test]
    async fn worker_that_ends_by_itself_is_an_error() {
        let settings = HintSettings::unreserved(2, 2);
        let backend = HintBackend::start(None, settings, &TaskTracker::new());
        // Simulates that a task that feeds the worker has died.
        backend.intake().close();
        let ended = run_worker("alone", backend, |_| Box::pin(async {}), CancellationToken::new()).await;
        assert!(matches!(ended, Err(Error::WorkerEnded { name, source: None }) if name == "alone"));
    }
}
