//! Work that takes more than a few ms runs on threads of its own, few at once: on the runtime's, it would hold up the
//! requests of all tenants.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, spawn_blocking};
use tokio_util::sync::CancellationToken;

use crate::error::ApiError;

/// Pieces of either kind of work that run at once; others wait their turn.
const AT_ONCE: usize = 4;

/// Threads for long work.
#[derive(Debug)]
pub(crate) struct Offload {
    computing: Arc<Semaphore>,
    driving: Arc<Semaphore>,
}

impl Default for Offload {
    fn default() -> Self {
        Self { computing: Arc::new(Semaphore::new(AT_ONCE)), driving: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Offload {
    /// Computes something that waits for nothing: parsing, compiling, checking. It runs to its end, also when nobody
    /// waits for it any more.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let turn = turn(&self.computing).await;
        let done = spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        done.await.map_err(broken)
    }

    /// Polls `work` on a thread of its own: queries whose rows take long to encode or decode, and what is computed
    /// between them. It ends when the caller is dropped.
    pub(crate) async fn drive<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, ApiError>> + Send + 'static,
    ) -> Result<T, ApiError> {
        let turn = turn(&self.driving).await;
        let abandoned = CancellationToken::new();
        let _guard = abandoned.clone().drop_guard();
        let runtime = Handle::current();
        let done = spawn_blocking(move || {
            let _turn = turn;
            runtime.block_on(abandoned.run_until_cancelled_owned(work))
        });
        // Nobody cancels it while this waits.
        done.await.map_err(broken)?.unwrap_or(Err(ApiError::Unavailable(None)))
    }
}

/// It is never closed.
async fn turn(turns: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    Arc::clone(turns).acquire_owned().await.ok()
}

/// A panic goes on where it would have been; a runtime that ends answers nobody.
fn broken(error: JoinError) -> ApiError {
    match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => ApiError::Unavailable(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_of_a_caller_who_left_is_dropped() {
        let offload = Offload::default();
        let (held, dropped) = tokio::sync::oneshot::channel::<()>();
        let driving = offload.drive::<()>(async move {
            let _held = held;
            std::future::pending().await
        });
        assert!(tokio::time::timeout(std::time::Duration::from_millis(10), driving).await.is_err());
        assert!(dropped.await.is_err(), "the work still runs");
    }
}
