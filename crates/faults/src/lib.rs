//! Crash points: named positions in the code where a test can make this process die, freeze, fail or wait; and
//! [weakened protocols](mutation), which prove that a test notices when a part of the protocol is missing.
//!
//! ```ignore
//! houston_faults::fault!("C10").map_err(houston_store::Error::from)?;
//! ```
//!
//! A test starts the process with, for example, `FAILPOINTS='C10=1*return(kill)'`.
//!
//! # Invariants
//!
//! - Crash points exist only in builds with debug assertions: what `cargo run` and the tests share. A release build has
//!   none: there [`fault!`] is `Ok(())`, and [`mutation::is`] is `false`.
//! - Nothing happens unless the environment of the process asks for it.
//!
//! # Deliberately absent
//!
//! Faults of the network, of Postgres and of Redis: `testkit` has a fault proxy, and servers that can be killed.
//!
//! # Add a crash point
//!
//! 1. Call `fault!` with the next free name (`C34`).
//! 2. Add a case to `crates/cli/tests/crash_points`: which process reaches it, and what must hold afterwards.
//!
//! An architecture test fails if a crash point of the code has no case.

#[cfg(debug_assertions)]
mod armed;
pub mod mutation;

#[cfg(debug_assertions)]
pub use armed::inject;

/// The error of a crash point that simulates a broken connection to Postgres. Convert it into the error of
/// such a failure.
#[derive(Debug, thiserror::Error)]
#[error("connection reset by a crash point")]
pub struct ConnectionBroken;

/// Whether this build has crash points.
pub const ARMED: bool = cfg!(debug_assertions);

/// Marks a crash point. Evaluates to a `Result<(), ConnectionBroken>`; must be used in an async function.
///
/// ```ignore
/// houston_faults::fault!("C10")?;
/// ```
#[macro_export]
macro_rules! fault {
    ($point:literal) => {
        $crate::inject($point).await
    };
}

/// Does nothing: this build has no crash points.
///
/// # Errors
/// Never.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub async fn inject(_point: &str) -> Result<(), ConnectionBroken> {
    Ok(())
}
