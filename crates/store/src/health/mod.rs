//! The queries of the health monitor, one file for each subject.
//!
//! Each sweep here is one statement (or one short transaction) that locks at most a batch of rows with `skip
//! locked` and changes them only if they still meet its condition. So it may be repeated, run from any number of
//! monitors at once, or be killed in the middle. None writes history: a run that is to end is marked, and the
//! engine ends it.
//!
//! Ages are measured from `now()`, the start of the transaction: `clock_timestamp()` is volatile, and no index
//! supports a comparison with it.

pub mod check;
pub mod finished;
pub mod history;
pub mod intervention;
pub mod lease;
pub mod outcome;
pub mod plan;
pub mod queues;
pub mod reach;
pub mod request;
pub mod retention;
pub mod server;
pub mod stale;
pub mod stuck;
pub mod tick;
pub mod unsummarised;
pub mod waiting;
pub mod zombie;

use std::time::Duration;

/// A duration as an argument of `make_interval(secs => …)`.
fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}
