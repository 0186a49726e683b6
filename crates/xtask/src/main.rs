//! `cargo xtask <command>`: what CI and people call.
//!
//! # Invariants
//!
//! - A command does its own set-up, and leaves nothing behind: not at its end, not after a failure, not on Ctrl-C.
//! - Data goes to stdout, talk to stderr; with `--json`, stdout is exactly one object.
//! - It knows the service from outside only: as a process, over HTTP, and by what Postgres and the kernel count.
//!
//! # Deliberately absent
//!
//! Imports of the crates it builds, tests and measures: `embedded` and `testkit` are all it may have.
//!
//! # Recipe: add a command
//!
//! A file `commands/<command>.rs` with its arguments (a `clap::Args` whose first doc line is its help) and an async
//! `run`; a variant in [`commands::Command`]. Values whose `Drop` cleans up do so on Ctrl-C too: the command's
//! future is dropped.

mod bench;
mod chaos;
mod child;
mod commands;
mod console;
mod http;
mod installation;
mod price_data;
mod proc;
mod programs;
mod providers;
mod psql;
mod recovery;
mod repository;
mod scratch;
mod sse;

use std::process::ExitCode;

use clap::Parser;

/// Tests, checks and measures Houston.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match commands::run(arguments.command) {
        Ok(code) => code,
        Err(error) => {
            console::tell(&format!("xtask: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Arguments::command().debug_assert();
    }
}
