//! Shared by `cargo xtask` and `houston-harness`: paths of the repository, child processes, installation of missing
//! programs, and console output.
//!
//! # Invariants
//!
//! - A command does its own set-up and cleans up at its end, after a failure and on Ctrl-C.
//! - Results go to stdout, everything else to stderr.
//! - The repository is found at run time, not at build time: moved clones and shared target folders work.
//!
//! # Deliberately absent
//!
//! Imports of the crates it builds, tests and measures. It may import `embedded` and `testkit`. Tests under load and
//! faults, and measurements, are in `harness`, which `cargo xtask` starts as a process.
//!
//! # Recipe: add a command
//!
//! A file `commands/<command>.rs` with its arguments (a `clap::Args` whose first doc line is its help) and an async
//! `run`; a variant in `commands::Command`. Clean up in `Drop`: on Ctrl-C the command's future is dropped.

pub mod child;
pub mod console;
pub mod missing;
pub mod pgbouncer;
pub mod programs;
pub mod psql;
pub mod repository;
pub mod runner;
pub mod scratch;
pub mod signals;
