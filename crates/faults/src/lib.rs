//! Crash points: named places in the code where a test lets this process die, freeze, fail or go on late; and
//! [weakened protocols](mutation), which show that a test would notice if a part of the protocol were missing.
//!
//! ```ignore
//! houston_faults::fault!("C10").map_err(houston_store::Error::from)?;
//! ```
//!
//! # Invariants
//!
//! - They exist only with the feature `armed` and debug assertions. Tests turn the feature on, as a dev-dependency:
//!   whatever is built together with tests has them. A release has neither: there [`fault!`] is `Ok(())`, and
//!   [`mutation::is`] is `false`.
//! - Nothing happens unless the process's environment asks for it.
//!
//! # Deliberately absent
//!
//! Faults of the network, of Postgres and of Redis: `testkit` has a proxy that breaks, and servers that can be killed.
//!
//! # Recipe: add a crash point
//!
//! Mark the place with the next free name (`C21`), say in `crates/cli/tests/crash_points` which process reaches it and
//! what must hold afterwards. An architecture test fails if a place is marked in the code and has no cases.

#[cfg(all(feature = "armed", debug_assertions))]
mod armed;
pub mod mutation;

/// The connection to Postgres broke, says a crash point; convert it into the error of such a failure.
#[derive(Debug, thiserror::Error)]
#[error("connection reset by a crash point")]
pub struct Broken;

/// Whether this build has crash points.
pub const ARMED: bool = cfg!(all(feature = "armed", debug_assertions));

/// Marks a place where a test may let the process break down: a `Result<(), Broken>`.
#[macro_export]
macro_rules! fault {
    ($place:literal) => {
        $crate::strike($place).await
    };
}

/// Does what the environment asks for at `place`; `fault!` calls it.
///
/// # Errors
/// [`Broken`], if the environment asks for it.
#[cfg(all(feature = "armed", debug_assertions))]
pub async fn strike(place: &str) -> Result<(), Broken> {
    armed::strike(place).await
}

/// Does nothing: this build has no crash points.
///
/// # Errors
/// None.
#[cfg(not(all(feature = "armed", debug_assertions)))]
#[inline(always)]
pub async fn strike(_place: &str) -> Result<(), Broken> {
    Ok(())
}
