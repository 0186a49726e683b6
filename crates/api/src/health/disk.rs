//! Whether Postgres has room to write. Reads go on when its disk is full, and so would a probe that only reads.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use houston_store::Store;
use tokio::time::Instant;

/// From one look to the next, however many probes come.
const LOOKS_EVERY: Duration = Duration::from_secs(5);

/// What the latest look said.
#[derive(Debug, Default)]
pub(crate) struct Disk(Mutex<Look>);

#[derive(Debug, Default)]
struct Look {
    at: Option<Instant>,
    is_full: bool,
}

impl Disk {
    /// Whether Postgres could not write a moment ago. A Postgres that cannot be asked is another check's business.
    pub(crate) async fn is_full(&self, store: &Store) -> bool {
        let before = {
            let mut look = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            if look.at.is_some_and(|at| now < at + LOOKS_EVERY) {
                return look.is_full;
            }
            look.at = Some(now);
            look.is_full
        };
        let is_full = match store.check_room().await {
            Ok(()) => false,
            Err(error) if error.is_out_of_resources() => {
                tracing::warn!(%error, "postgres has no room to write");
                true
            }
            Err(_) => before,
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_full = is_full;
        is_full
    }
}
