//! `cargo xtask <command>`: formats, lints, tests and measures Houston.

mod commands;

use std::process::ExitCode;

use clap::Parser;
use houston_xtask::signals::run_until_stopped;

/// Formats, lints, tests and measures Houston.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    run_until_stopped("xtask", Arguments::parse().command.run())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        super::Arguments::command().debug_assert();
    }
}
