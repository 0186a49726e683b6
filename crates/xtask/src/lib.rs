//! What `cargo xtask` and `houston-harness` share: where the repository is, running other programs, installing
//! missing ones, and talking to a person.
//!
//! # Invariants
//!
//! - A command does its own set-up, and leaves nothing behind: not at its end, not after a failure, not on Ctrl-C.
//! - Results go to stdout, everything else to stderr.
//! - The repository is found when a program runs, not when it is built: a moved clone or a shared target folder works.
//!
//! # Deliberately absent
//!
//! Imports of the crates it builds, tests and measures: `embedded` and `testkit` are all it may have. What takes
//! load, faults or judges is in `harness`, which `cargo xtask` starts as a process.
//!
//! # Recipe: add a command
//!
//! A file `commands/<command>.rs` with its arguments (a `clap::Args` whose first doc line is its help) and an async
//! `run`; a variant in `commands::Command`. Values whose `Drop` cleans up do so on Ctrl-C too: the command's
//! future is dropped.

pub mod child;
pub mod console;
pub mod programs;
pub mod psql;
pub mod repository;
pub mod runner;
pub mod scratch;
pub mod signals;
