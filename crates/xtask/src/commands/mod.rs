//! The commands, one file each.

mod bench;
mod chaos;
mod check;
mod clients;
mod prepare;
mod prices;
mod prices_test;
mod providers_test;
mod real_model;
mod recovery;
mod test;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use tokio::signal::unix::{SignalKind, signal};

use crate::console::tell;

/// What xtask can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run all tests on a Postgres and a Redis of their own
    Test(test::Test),
    /// Check format, lints, architecture, prepared queries and dependencies
    Check(check::Check),
    /// Refresh the prepared queries in crates/store/.sqlx
    Prepare(prepare::Prepare),
    /// Fetch prices, limits and capabilities of models anew
    Prices(prices::Prices),
    /// Compare costs with those of genai-prices' Python package
    PricesTest(prices_test::PricesTest),
    /// Measure latency, throughput, memory and storage on real servers
    Bench(bench::Bench),
    /// Make everything go wrong at once, and count what was lost, doubled or out of order
    Chaos(chaos::Chaos),
    /// Let two independent fake providers judge Houston
    ProvidersTest(providers_test::ProvidersTest),
    /// Talk with a small real model over three wires
    RealModel(real_model::RealModel),
    /// Kill and stop workers with runs in flight, and measure how soon others go on
    Recovery(recovery::Recovery),
    /// Install the npm packages of the client tests
    Clients(clients::Clients),
}

/// Runs a command to its end, or to the first signal that asks for it.
pub(crate) fn run(command: Command) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            result = Box::pin(command.run()) => result,
            _ = interrupt.recv() => Ok(stopped(130)),
            _ = terminate.recv() => Ok(stopped(143)),
        }
    })
}

fn stopped(code: u8) -> ExitCode {
    tell("xtask: stopped; everything it had started is gone");
    ExitCode::from(code)
}

impl Command {
    async fn run(self) -> Result<ExitCode> {
        match self {
            Self::Test(command) => command.run().await,
            Self::Check(command) => command.run().await,
            Self::Prepare(command) => command.run().await,
            Self::Prices(command) => command.run().await,
            Self::PricesTest(command) => command.run().await,
            Self::Bench(command) => command.run().await,
            Self::Chaos(command) => command.run().await,
            Self::ProvidersTest(command) => command.run().await,
            Self::RealModel(command) => command.run().await,
            Self::Recovery(command) => command.run().await,
            Self::Clients(command) => command.run().await,
        }
    }
}
