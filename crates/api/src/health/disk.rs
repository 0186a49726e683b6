//! Whether Postgres can write. On a full disk reads still succeed, so a probe that only reads would not notice.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use houston_store::ApiStore;
use tokio::time::Instant;

/// Minimum time between two checks, for any number of probes.
const LOOKS_EVERY: Duration = Duration::from_secs(5);

/// The result of the latest check.
#[derive(Debug, Default)]
pub(crate) struct Disk(Mutex<Look>);

#[derive(Debug, Default)]
struct Look {
    at: Option<Instant>,
    is_full: bool,
}

impl Disk {
    /// Whether Postgres had no space to write at the latest check. An unreachable Postgres leaves the result unchanged:
    /// another check reports that.
    pub(crate) async fn is_full(&self, store: &ApiStore) -> bool {
        let before = {
            let mut look = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            if look.at.is_some_and(|at| now < at + LOOKS_EVERY) {
                return look.is_full;
            }
            look.at = Some(now);
            look.is_full
        };
        // A check that is given up has found nothing: the next probe checks.
        let mut check = Check { disk: self, has_ended: false };
        let found = store.check_disk_space().await;
        check.has_ended = true;
        let is_full = match found {
            Ok(()) => false,
            Err(error) if error.is_out_of_resources() => {
                tracing::warn!(%error, "postgres has no space left to write");
                true
            }
            Err(_) => before,
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_full = is_full;
        is_full
    }
}

struct Check<'d> {
    disk: &'d Disk,
    has_ended: bool,
}

impl Drop for Check<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.disk.0.lock().unwrap_or_else(PoisonError::into_inner).at = None;
        }
    }
}
