//! `cargo xtask quick`: checks a change within a minute.
//!
//! It runs the unit tests in `src/`, which use no servers (an architecture test checks that), and the architecture tests.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Args;
use houston_testkit::console::print_status;
use houston_testkit::{child, repository};

use crate::runner;

use super::changed::{changed, package, packages};
use super::prepare::clippy;
use super::{check, steps::Steps};

/// Check format and lints, and run the tests without servers of crates changed since `main`.
#[derive(Debug, Args)]
pub(crate) struct Quick {
    /// Test these crates, `store` or `houston-store`, instead of the changed ones
    crates: Vec<String>,
}

impl Quick {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let tested = self.tested()?;
        let mut steps = Steps::default();
        steps.run("format", check::format()).await;
        // Cargo rechecks only changed crates and their dependants.
        steps.run("lints", child::succeed(clippy())).await;
        steps.run("tests without servers", test(tested)).await;
        Ok(steps.end("quick: all passed"))
    }

    fn tested(&self) -> Result<BTreeSet<String>> {
        if self.crates.is_empty() {
            return changed();
        }
        let (named, all) = (self.crates.iter().map(|name| package(name)), packages()?);
        let named: BTreeSet<String> = named.collect();
        let unknown: Vec<&String> = named.difference(&all).collect();
        ensure!(unknown.is_empty(), "no such crate: {unknown:?}; the crates are {all:?}");
        Ok(named)
    }
}

async fn test(mut packages: BTreeSet<String>) -> Result<()> {
    // The architecture tests are in xtask.
    packages.insert(package("xtask"));
    print_status(&format!("   of {}", packages.iter().cloned().collect::<Vec<_>>().join(", ")));
    let mut nextest = repository::command_like_cargo(&runner::program().await?);
    // Built for the whole workspace: a selection of crates would build their dependencies again, with other features.
    nextest.args(["nextest", "run", "--workspace", "--lib", "--bins", "--test", "architecture"]);
    let names: Vec<String> = packages.iter().map(|name| format!("package({name})")).collect();
    let recorded = if repository::recordings().is_dir() { "" } else { " and not test(/^recordings::/)" };
    nextest.args(["--filterset", &format!("({}){recorded}", names.join(" or "))]);
    nextest.args(["--cargo-quiet", "--status-level", "fail"]);
    let status = runner::run(nextest).await?;
    ensure!(status.success(), "tests failed");
    Ok(())
}
