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
    /// Leave out what needs packages of npm and pip: real stream clients, and genai-prices' own costs
    #[arg(long)]
    no_clients: bool,
    /// Play the crash points alone; then the filter names places or cases: `C7`, `C10-kill`
    #[arg(long)]
    crash_points: bool,
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
        // First, so that the closing line is that of all the other tests.
        let mut before = ExitCode::SUCCESS;
        if self.crash_points || self.filter.is_empty() {
            before = child::code(child::run(self.crash_points(&scratch)).await?);
        }
        if self.crash_points {
            return Ok(before);
        }
        if self.filter.is_empty() && !self.no_clients {
            let compared = super::prices_test::compare_if_possible().await?;
            before = if before == ExitCode::SUCCESS { compared } else { before };
        }
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
        Ok(if status.success() { before } else { child::code(status) })
    }

    /// The cases that need crash points in the binary: a build of its own, which no other test sees. They bring their
    /// own servers and their own runner.
    fn crash_points(&self, scratch: &Scratch) -> Command {
        tell("the 80 crash points");
        let mut cargo = repository::cargo();
        cargo.args(["test", "--quiet", "--workspace", "--features", "houston-cli/fault-injection"]);
        cargo.args(["--test", "crash_points"]);
        cargo.env("TMPDIR", scratch.path()).env("CRASH_POINTS", self.filter.join(" "));
        cargo
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
