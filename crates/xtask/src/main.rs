//! `cargo xtask <command>`: formats, lints, tests and measures Houston.
//!
//! # Invariants
//!
//! - A command does its own set-up and cleans up at its end, after a failure and on Ctrl-C.
//! - Results go to stdout, everything else to stderr.
//! - The repository is found at run time, not at build time: moved clones and shared target folders work.
//!
//! # Deliberately absent
//!
//! Imports of the crates it builds, tests and measures. It may import `testkit`. Tests under load and faults, and
//! measurements of a running Houston, are in `harness`, which `cargo xtask` starts as a process.
//!
//! # Recipe: add a command
//!
//! A file `commands/<command>.rs` with its arguments (a `clap::Args` whose first doc line is its help) and an async
//! `run`; a variant in `commands::Command`. Clean up in `Drop`: on Ctrl-C the command's future is dropped.

mod commands;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};
use houston_testkit::signals::run_until_stopped;

/// Formats, lints, tests and measures Houston.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    let matches = commands::forward::add_to(Arguments::command()).get_matches();
    run_until_stopped("xtask", async {
        match commands::forward::run(&matches).await? {
            Some(code) => Ok(code),
            None => Arguments::from_arg_matches(&matches)?.command.run().await,
        }
    })
}
