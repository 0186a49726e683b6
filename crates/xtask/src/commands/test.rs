//! `cargo xtask test`: every test, on servers of its own.

use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::Args;

use crate::console::tell;
use crate::scratch::Scratch;
use crate::{child, programs, repository};

/// Run all tests on a Postgres and a Redis of their own.
#[derive(Debug, Args)]
pub(crate) struct Test {
    /// Leave out what needs Node and npm packages: the tests with real stream clients
    #[arg(long)]
    no_clients: bool,
    /// For the test runner: parts of the names of tests, and its own options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    filter: Vec<String>,
}

/// Many tests share one Postgres, each with a pool of its own.
const CONNECTIONS: u16 = 200;
/// Recorded exchanges with providers, beside the project.
const RECORDINGS: &str = "../shared/fixtures/llm";
/// How the names of the tests begin that need npm.
const NPM: &str = "npm::";

impl Test {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        // Before the servers, so that it is removed after they have stopped.
        let scratch = Scratch::new()?;
        let servers = programs::servers(|config| config.max_connections = CONNECTIONS)?;
        let mut runner = self.runner().await;
        if !self.no_clients
            && let Some(folder) = super::clients::install().await?
        {
            runner.env("XTASK_CLIENTS", folder);
        }
        runner
            .env("TMPDIR", scratch.path())
            .env("DATABASE_URL", servers.database_url())
            .env("HOUSTON_TEST_DATABASE_URL", servers.database_url())
            .env("HOUSTON_TEST_REDIS_URL", servers.redis_url());
        // Its closing line stays the last one.
        let status = child::run(runner).await?;
        drop(servers);
        Ok(child::code(status))
    }

    /// What is left out, by the beginning of its tests' names.
    fn left_out(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        if self.no_clients {
            names.push(NPM);
        }
        // Elsewhere than in CI a clone without them is no failure; in CI the tests themselves say so.
        if !repository::root().join(RECORDINGS).is_dir() && std::env::var_os("CI").is_none() {
            tell(&format!("{RECORDINGS} is not here: recorded exchanges with providers are not replayed"));
            names.push("recordings::");
        }
        names
    }

    async fn runner(&self) -> Command {
        let left_out = self.left_out();
        let mut runner = repository::cargo();
        if let Some(nextest) = programs::wheel("cargo-nextest", "0.9.148").await {
            runner = repository::beside_cargo(&nextest);
            runner.args(["nextest", "run", "--workspace"]);
            if !left_out.is_empty() {
                let not: Vec<String> = left_out.iter().map(|name| format!("not test(/^{name}/)")).collect();
                runner.args(["--filterset", &not.join(" and ")]);
            }
            runner.args(&self.filter);
        } else {
            tell("cargo-nextest is not here: cargo's own runner does, one test after the other");
            runner.args([
                "test",
                "--workspace",
                "--lib",
                "--bins",
                "--tests",
                "--examples",
                "--no-fail-fast",
            ]);
            runner.args(["--", "--test-threads=1"]);
            for name in left_out {
                runner.args(["--skip", name]);
            }
            runner.args(&self.filter);
        }
        runner
    }
}
