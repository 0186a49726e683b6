//! [`Count`]: what the counts of this crate are made of.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only rises.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// The number so far.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Returns the number with `more`.
    pub(crate) fn add(&self, more: u64) -> u64 {
        self.0.fetch_add(more, Relaxed) + more
    }
}
