//! Forwards commands to `houston-harness`, which is built on demand: `cargo xtask check` and `test` do not wait for that.

use std::process::{Command, ExitCode, Output};

use anyhow::Result;
use clap::{Arg, ArgMatches};
use houston_testkit::{child, repository};

/// Its commands. All arguments are passed on unchanged.
const COMMANDS: [(&str, &str); 10] = [
    ("prices", "Update prices, limits and capabilities of models"),
    ("prices-test", "Compare computed costs with those of the Python package genai-prices"),
    ("bench", "Measure latency, throughput, memory and storage on real servers"),
    ("chaos", "Inject faults under load, and count violations of Houston's invariants"),
    ("contract", "Lint the OpenAPI document, and fuzz Houston with valid and invalid requests"),
    ("providers-test", "Test Houston against two independent fake providers"),
    ("real-model", "Run conversations with a small real model over three wires"),
    ("failover", "Lose a pooler, the primary of Postgres or the master of Redis for good, under load"),
    ("loud", "Measure what twenty tenants see of one that does everything at once"),
    ("evidence", "Run the long tests and measurements, and record what they print"),
];

/// Adds these commands to those of xtask.
pub(crate) fn add_to(xtask: clap::Command) -> clap::Command {
    let arguments = Arg::new("arguments").value_name("ARGUMENTS").num_args(0..);
    let arguments = arguments.trailing_var_arg(true).allow_hyphen_values(true);
    let arguments = arguments.help("Options of the command; `--help` lists them");
    let command =
        |(name, about)| clap::Command::new(name).about(about).disable_help_flag(true).arg(&arguments);
    xtask.subcommands(COMMANDS.map(command))
}

/// Runs one of these commands, if it was given.
pub(crate) async fn run(matches: &ArgMatches) -> Result<Option<ExitCode>> {
    let Some((name, rest)) = matches.subcommand() else { return Ok(None) };
    let Ok(arguments) = rest.try_get_many::<String>("arguments") else { return Ok(None) };
    let mut harness = harness().await?;
    harness.arg(name).args(arguments.into_iter().flatten());
    Ok(Some(child::code(child::run(harness).await?)))
}

/// Compares computed prices, and returns the output.
pub(crate) async fn compare_prices(if_possible: bool) -> Result<Output> {
    let mut harness = harness().await?;
    harness.arg("prices-test").args(if_possible.then_some("--if-possible"));
    child::capture(harness).await
}

async fn harness() -> Result<Command> {
    child::succeed(repository::cargo_build_like_tests(&["--bin", "houston-harness"])).await?;
    Ok(Command::new(repository::target().join("debug/houston-harness")))
}
