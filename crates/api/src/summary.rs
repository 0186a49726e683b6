//! What happens often is said in the log now and then, with how often it happened.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// From one line to the next.
const EVERY: Duration = Duration::from_secs(10);

/// Counts what happens between two lines of the log.
#[derive(Debug, Default)]
pub(crate) struct Summary(Mutex<(u64, Option<Instant>)>);

impl Summary {
    /// Counts one more. Returns how many there were since the line before, when it is time for another.
    pub(crate) fn note(&self) -> Option<u64> {
        let now = Instant::now();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += 1;
        let is_due = state.1.is_none_or(|last| now >= last + EVERY);
        is_due.then(|| {
            state.1 = Some(now);
            std::mem::take(&mut state.0)
        })
    }
}
