//! What the health monitor asks and mends, one noun a file.
//!
//! Every sweep here is one statement (or one short transaction) that locks the rows it changes with `skip locked`,
//! at most a batch of them, and changes them only while they are as it found them: safe to repeat, from any number
//! of monitors at once, and to be killed in the middle. None writes history; a run that is to end is marked, and
//! the engine ends it.
//!
//! Ages are measured from `now()`, the time of the statement: `clock_timestamp()` is volatile, and no index serves a
//! comparison with it.

pub mod check;
pub mod finished;
pub mod intervention;
pub mod lease;
pub mod outcome;
pub mod request;
pub mod server;
pub mod stale;
pub mod stuck;
pub mod tick;
pub mod unsummarised;
pub mod waiting;
pub mod zombie;

use std::time::Duration;

/// As Postgres takes intervals.
fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}
