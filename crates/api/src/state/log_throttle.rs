//! Limits log lines about frequent events: one line per interval, with the number of events.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Minimum time between two log lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// Counts events between two log lines.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle(Mutex<(u64, Option<Instant>)>);

impl LogThrottle {
    /// Counts one event. If a log line is due, returns the number of events since the last line.
    pub(crate) fn count(&self) -> Option<u64> {
        let now = Instant::now();
        let mut state = self.0.lock();
        state.0 += 1;
        let is_due = state.1.is_none_or(|last| now >= last + INTERVAL);
        is_due.then(|| {
            state.1 = Some(now);
            std::mem::take(&mut state.0)
        })
    }
}
