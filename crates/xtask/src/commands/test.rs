//! `cargo xtask test`: runs all tests, or those of some crates.

use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Result, ensure};
use clap::Args;
use houston_testkit::console::print_status;
use houston_testkit::scratch::Scratch;
use houston_testkit::{child, programs, repository};

use super::previous::Previous;
use super::{clients, forward, nextest, package_name};

/// Run all tests, or those of some crates, on throw-away servers
#[derive(Debug, Args)]
pub(crate) struct Test {
    /// Build and test this crate only, `store` or `houston-store`; may be given several times
    #[arg(short, long = "package", value_name = "CRATE")]
    packages: Vec<String>,
    /// Run each test this many times
    #[arg(long, value_name = "TIMES")]
    stress: Option<u32>,
    /// Skip tests that need npm or pip packages: real clients, and the comparison with genai-prices
    #[arg(long)]
    no_clients: bool,
    /// Run the tests of the whole service against an installation of this many cells, each with a database and a Redis of
    /// its own; tests of one crate's parts are not run
    #[arg(long, value_name = "CELLS", value_parser = clap::value_parser!(u32).range(2..=16))]
    cells: Option<u32>,
    /// Run only the 132 cases at crash points; the filter then names points, faults or cases: `C7`, `error`, `C10-kill`
    #[arg(long)]
    crash_points: bool,
    /// Run only the tests that take too long for every change: those that are `#[ignore]`d with a reason that names this option
    #[arg(long, conflicts_with_all = ["crash_points", "cells"])]
    long: bool,
    #[command(flatten)]
    previous: Previous,
    /// Go on without programs that are missing and cannot be installed; say what is skipped
    #[arg(long)]
    skip_missing: bool,
    /// Parts of test names, and options of cargo-nextest: `cargo xtask test -p store step`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    filter: Vec<String>,
}

/// The faults at crash points that are injected beside all tests: those that leave a process behind. What is left out, a
/// statement that fails or takes long, rarely breaks alone, and is a part of `cargo xtask evidence`.
const FAULTS: &str = "kill pause";
/// Ignored tests that have commands of their own: `cargo xtask prices-test`, and the part `catalogue` of `cargo xtask evidence`.
const OTHERWISE_RUN: [&str; 2] = ["price::tests::oracle::", "catalogue::"];
/// Name prefixes of tests that need packages from npm and PyPI.
const CLIENTS: [&str; 2] = ["npm::", "pip::"];
/// Name prefix of tests that need recorded exchanges.
const RECORDED: &str = "tests::recordings::";

/// Tests that `--cells` leaves out: they are about the servers, the report or the log of one cell.
const ONE_CELL: [&str; 10] = [
    "backups::dump_under_load_restores_to_a_working_installation",
    "cancel::cancelled_run_closes_the_model_connection",
    "monitor::monitor_reports_and_repairs_overdue_summaries",
    "monitor::monitor_reports_missing_workers",
    "operator::doctor_reports_what_is_missing_and_what_to_do",
    "outage::missing_redis_at_start_is_logged_once_and_runs_finish",
    "outage::postgres_outage_and_recovery_are_logged_once",
    "outage::redis_outage_is_logged_once_by_each_process",
    "outage::unknown_hints_of_a_newer_release_only_cost_a_sweep",
    "upgrades::release_before_and_this_one_run_side_by_side",
];

impl Test {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        // Dropped after the tests have ended.
        let scratch = Scratch::new()?;
        if self.crash_points {
            let cases = crash_points(&scratch, &self.filter.join(" "));
            return Ok(child::code(child::run(cases).await?));
        }
        // Installs missing servers. The first test starts the shared Postgres.
        drop(programs::servers(|_| {})?);
        // The others take longer, so the last lines are their summary.
        let (beside, status) = tokio::join!(self.separate_tests(&scratch), self.others(&scratch));
        let (failed, status) = (beside?, status?);
        if failed.is_some() {
            print_status("the cases at crash points or the comparison of prices failed: see above");
        }
        let failed = Some(status).filter(|status| !status.success()).or(failed);
        Ok(failed.map_or(ExitCode::SUCCESS, child::code))
    }

    /// Runs all tests that need no runner of their own.
    async fn others(&self, scratch: &Scratch) -> Result<ExitStatus> {
        if self.has(&["sandbox"]) {
            let bubblewrap = programs::packages(&[("bwrap", "bubblewrap")]).await;
            programs::or_skip(self.skip_missing, "commands under bwrap", bubblewrap)?;
        }
        let mut nextest = self.nextest().await?;
        nextest.env("TMPDIR", scratch.path());
        if self.needs_clients() {
            nextest.envs(clients::install(self.skip_missing).await?);
        }
        nextest.envs(self.cells.map(|count| ("XTASK_CELLS", count.to_string())));
        let has_upgrades = self.has(&["cli"]) && self.cells.is_none() && self.filter.is_empty();
        nextest.envs(self.previous.binary(has_upgrades).await?.map(|path| ("XTASK_PREVIOUS", path)));
        nextest.envs(self.skip_missing.then_some(("XTASK_SKIP_MISSING", "1")));
        child::run(nextest).await
    }

    /// Of all tests, runs those that have a runner of their own, beside the others: the crash points, which mostly wait, and the
    /// comparison of prices. Their output is printed when they have ended. Returns what failed, if something did.
    async fn separate_tests(&self, scratch: &Scratch) -> Result<Option<ExitStatus>> {
        let Self { packages, filter, stress, cells, long, .. } = self;
        if !packages.is_empty() || !filter.is_empty() || stress.is_some() || cells.is_some() || *long {
            return Ok(None);
        }
        let prices = async {
            match self.no_clients {
                true => Ok(None),
                false => forward::compare_prices(self.skip_missing).await.map(Some),
            }
        };
        let (crash_points, prices) = tokio::join!(child::capture(crash_points(scratch, FAULTS)), prices);
        let mut statuses = Vec::new();
        for output in std::iter::once(crash_points?).chain(prices?) {
            print_status(&child::text(&output));
            statuses.push(output.status);
        }
        Ok(statuses.into_iter().find(|status| !status.success()))
    }

    /// Whether one of these crates is tested.
    fn has(&self, crates: &[&str]) -> bool {
        let is_among = |name: &String| crates.iter().any(|one| package_name(one) == package_name(name));
        self.packages.is_empty() || self.packages.iter().any(is_among)
    }

    /// Whether tests with npm and pip packages are run: they are tests of `cli` and `mcp`.
    fn needs_clients(&self) -> bool {
        !self.no_clients && self.cells.is_none() && self.has(&["cli", "mcp"])
    }

    /// Name prefixes of the tests to skip.
    fn skipped(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        if self.cells.is_some() {
            names.extend(ONE_CELL);
        }
        if !self.needs_clients() {
            names.extend(CLIENTS);
        }
        let (folder, count) = (repository::recordings(), repository::recorded_exchanges());
        let (is_there, folder) = (folder.is_dir(), folder.display());
        let found =
            if is_there { format!("{count} are replayed, of") } else { "skipped, there is no".to_owned() };
        print_status(&format!("recorded exchanges with providers: {found} {folder}"));
        names.extend((!is_there).then_some(RECORDED));
        if self.long {
            names.extend(OTHERWISE_RUN);
        }
        names
    }

    async fn nextest(&self) -> Result<Command> {
        let mut nextest = nextest().await?;
        // With cells, the tests of the whole service. `--test it` alone would not build the examples that they run.
        let cli = ["cli".to_owned()];
        let packages = if self.cells.is_some() { &cli[..] } else { &self.packages[..] };
        nextest.args(packages.is_empty().then_some("--workspace"));
        nextest.args(packages.iter().flat_map(|name| ["--package".to_owned(), package_name(name)]));
        if let Some(times) = self.stress {
            ensure!(times > 0, "--stress must be at least 1");
            nextest.args(["--stress-count", &times.to_string(), "--no-fail-fast"]);
        }
        if self.long {
            nextest.args(["--run-ignored", "only"]);
        }
        nextest.args(&self.filter);
        // Not as a filterset: cargo-nextest runs the tests that any one of several filtersets names.
        if !self.filter.iter().any(|argument| argument == "--") {
            nextest.arg("--");
        }
        nextest.args(self.skipped().iter().flat_map(|name| ["--skip", name]));
        Ok(nextest)
    }
}

/// The command for the cases at crash points that `only` names, which have their own servers and runner.
fn crash_points(scratch: &Scratch, only: &str) -> Command {
    print_status(&format!("running the cases at crash points {only}"));
    let mut cargo = repository::cargo();
    cargo.args(["test", "--quiet", "--workspace", "--test", "crash_points"]);
    cargo.env("TMPDIR", scratch.path()).env("CRASH_POINTS", only);
    cargo
}
