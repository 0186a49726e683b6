//! `houston-harness`: tests and measures a running Houston under load and injected faults. `cargo xtask <command>`
//! builds and starts it.
//!
//! # Invariants
//!
//! - The harness uses the service from outside only: as a process, over HTTP, and through the counters of Postgres and
//!   the kernel.
//! - A command does its own set-up and cleans up at its end, after a failure and on Ctrl-C.
//! - Results go to stdout, everything else to stderr.
//!
//! # Deliberately absent
//!
//! Imports of the crates it measures. It may import `embedded`, `protocol`, `testkit`, and `faults` for the names of
//! mutations.
//!
//! # Recipe: add a command
//!
//! A file `commands/<command>.rs`, or the module of its work, with its arguments (a `clap::Args` whose first doc line is its
//! help) and an async `run`; a variant in `commands::Command`; a row in `xtask`'s `commands::forward::COMMANDS`. Clean up in
//! `Drop`: on Ctrl-C the command's future is dropped.

mod bench;
mod chaos;
mod commands;
mod http;
mod loud;
mod pgbouncer;
mod proc;
mod providers;
mod service;
mod spread;
mod wait;

use std::process::ExitCode;

use clap::Parser;
use houston_testkit::signals::run_until_stopped;

/// Tests and measures Houston under load and faults.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    run_until_stopped("harness", Arguments::parse().command.run())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        super::Arguments::command().debug_assert();
    }
}
