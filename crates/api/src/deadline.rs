//! The time within which a request is answered, whatever Postgres does.
//!
//! A request that runs into it is dropped where it waits. Its queries are, too: sqlx finishes what was sent before the
//! connection serves others, and rolls back what was begun and not committed. A commit that was sent may have happened.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

/// When a request must be answered.
#[derive(Debug, Clone)]
pub(crate) struct Deadline {
    pub(crate) within: Duration,
    at: Arc<Mutex<Instant>>,
}

impl Deadline {
    /// `within` from now.
    pub(crate) fn new(within: Duration) -> Self {
        Self { within, at: Arc::new(Mutex::new(Instant::now() + within)) }
    }

    /// Begins anew, `pause` from now: that long the client has to send its body.
    pub(crate) fn begin_after(&self, pause: Duration) {
        *self.lock() = Instant::now() + pause + self.within;
    }

    /// Waits for `work` until the deadline; then drops it and returns `None`.
    pub(crate) async fn enforce<F: Future>(&self, work: F) -> Option<F::Output> {
        let mut work = pin!(work);
        loop {
            let at = *self.lock();
            match timeout_at(at, work.as_mut()).await {
                Ok(done) => return Some(done),
                Err(_) if *self.lock() <= at => return None,
                Err(_) => {}
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Instant> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_deadline_begins_when_the_body_is_there() {
        let deadline = Deadline::new(Duration::from_secs(10));
        let work = async {
            deadline.begin_after(Duration::from_secs(30));
            tokio::time::sleep(Duration::from_secs(29)).await;
            deadline.begin_after(Duration::ZERO);
            tokio::time::sleep(Duration::from_secs(9)).await;
        };
        assert_eq!(deadline.enforce(work).await, Some(()));
        deadline.begin_after(Duration::ZERO);
        let began = Instant::now();
        assert_eq!(deadline.enforce(std::future::pending::<()>()).await, None);
        assert_eq!(began.elapsed().as_secs(), 10);
    }
}
