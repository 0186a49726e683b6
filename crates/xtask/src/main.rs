//! `cargo xtask <command>`: formats, lints, tests and measures Houston.

mod commands;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};
use houston_xtask::signals::run_until_stopped;

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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        super::commands::forward::add_to(super::Arguments::command()).debug_assert();
    }
}
