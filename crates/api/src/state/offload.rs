//! Runs work that takes more than a few ms on threads of lower priority, a few at once; on the runtime's threads it would
//! delay the requests of all tenants.

use std::sync::Arc;

use houston_meter::{Stopped, Turns, yielding};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::admission;
use crate::error::{ApiError, Result};

/// How many futures run at once, of which a tenant has half beside others, and leaves one alone; others wait.
const MAX_CONCURRENT: usize = 4;

/// Runs long work on blocking threads.
#[derive(Debug)]
pub(crate) struct Offload {
    driving: Arc<Turns>,
}

impl Default for Offload {
    fn default() -> Self {
        Self { driving: Turns::new(MAX_CONCURRENT, MAX_CONCURRENT / 2, MAX_CONCURRENT - 1) }
    }
}

impl Offload {
    /// Runs a computation without I/O: parsing, compiling, validating. It runs to its end even if the caller is
    /// dropped.
    ///
    /// # Errors
    /// [`ApiError::Unavailable`] when the runtime shuts down.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let computed = admission::computed(houston_meter::compute(tenant(), work)).await;
        computed.map_err(|Stopped| ApiError::Unavailable(None))
    }

    /// Drives a future on a blocking thread: queries whose rows take long to encode or decode, and computations between
    /// them. The future is dropped when the caller is.
    ///
    /// # Errors
    /// The errors of `work`; [`ApiError::Unavailable`] when the runtime shuts down.
    pub(crate) fn drive<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> impl Future<Output = Result<T>> + Send {
        let (work, tenant) = (Box::pin(work), tenant());
        let driven = async move {
            let turn = self.driving.take(tenant).await;
            let abandoned = CancellationToken::new();
            let _guard = abandoned.clone().drop_guard();
            let runtime = Handle::current();
            let done = spawn_blocking(move || {
                let _turn = turn;
                yielding(|| runtime.block_on(abandoned.run_until_cancelled_owned(work)))
            });
            let done = done.await.unwrap_or_else(|error| match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime shuts down.
                Err(_) => None,
            });
            // The token is cancelled only when this future is dropped.
            done.unwrap_or(Err(ApiError::Unavailable(None)))
        };
        // A conversation of 100,000 entries takes longer than a request may otherwise.
        admission::computed(driven)
    }
}

/// Whose computation it is.
fn tenant() -> Uuid {
    admission::tenant().map_or(Uuid::nil(), |tenant| tenant.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_dropped_with_its_caller() {
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
