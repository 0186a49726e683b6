//! The time limit of a request, which holds even if Postgres hangs.
//!
//! When it is exceeded, the request's future is dropped with its queries: sqlx waits for the end of a query that was
//! sent before it reuses the connection, and rolls back an open transaction. A commit that was sent may have happened.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

/// The time limit of one request. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Deadline {
    pub(crate) within: Duration,
    at: Arc<Mutex<Instant>>,
}

impl Deadline {
    /// A deadline `within` from now.
    pub(crate) fn new(within: Duration) -> Self {
        Self { within, at: Arc::new(Mutex::new(Instant::now() + within)) }
    }

    /// Restarts the deadline, `pause` from now. The pause is the time the client has to send its body.
    pub(crate) fn restart_after(&self, pause: Duration) {
        *self.at.lock() = Instant::now() + pause + self.within;
    }

    /// Runs `work` until the deadline; then drops it and returns `None`.
    pub(crate) async fn enforce<F: Future>(&self, work: F) -> Option<F::Output> {
        let mut work = pin!(work);
        loop {
            let at = *self.at.lock();
            match timeout_at(at, work.as_mut()).await {
                Ok(done) => return Some(done),
                Err(_) if *self.at.lock() <= at => return None,
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn deadline_starts_when_the_body_has_arrived() {
        let deadline = Deadline::new(Duration::from_secs(10));
        let work = async {
            deadline.restart_after(Duration::from_secs(30));
            tokio::time::sleep(Duration::from_secs(29)).await;
            deadline.restart_after(Duration::ZERO);
            tokio::time::sleep(Duration::from_secs(9)).await;
        };
        assert_eq!(deadline.enforce(work).await, Some(()));
        deadline.restart_after(Duration::ZERO);
        let began = Instant::now();
        assert_eq!(deadline.enforce(std::future::pending::<()>()).await, None);
        assert_eq!(began.elapsed().as_secs(), 10);
    }
}
