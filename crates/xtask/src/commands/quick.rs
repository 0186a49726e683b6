//! `cargo xtask quick`: what can be known about a change within a minute.
//!
//! A test needs no server if it is in `src/`: the architecture tests keep servers out of there. So the tests that run
//! are the unit tests of the crates, and the architecture tests.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Args;
use houston_xtask::console::tell;
use houston_xtask::{child, programs, repository, runner};

use super::changed::{changed, package, packages};
use super::prepare::clippy;
use super::{check, steps::Steps};

/// Check format, lints and the tests that need no servers, of what has changed since `main`.
#[derive(Debug, Args)]
pub(crate) struct Quick {
    /// Test these crates, `store` or `houston-store`, instead of those that have changed
    crates: Vec<String>,
}

impl Quick {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let tested = self.tested()?;
        let mut steps = Steps::default();
        steps.take("format", check::format()).await;
        // Cargo looks again only at crates that have changed, and at those that depend on them.
        steps.take("lints", child::succeed(clippy())).await;
        steps.take("tests without servers", test(tested)).await;
        Ok(steps.end("quick: all passed"))
    }

    fn tested(&self) -> Result<BTreeSet<String>> {
        if self.crates.is_empty() {
            return changed();
        }
        let (asked, all) = (self.crates.iter().map(|name| package(name)), packages()?);
        let asked: BTreeSet<String> = asked.collect();
        let unknown: Vec<&String> = asked.difference(&all).collect();
        ensure!(unknown.is_empty(), "no such crate: {unknown:?}; there are {all:?}");
        Ok(asked)
    }
}

async fn test(mut packages: BTreeSet<String>) -> Result<()> {
    // The architecture tests look at all crates, and are there.
    packages.insert(package("xtask"));
    tell(&format!("   of {}", packages.iter().cloned().collect::<Vec<_>>().join(", ")));
    let status = match programs::wheel("cargo-nextest", "0.9.148").await {
        Some(nextest) => {
            let mut nextest = repository::beside_cargo(&nextest);
            // Built like all tests, whichever crates are asked for: a selection of its own would build the crates
            // behind it with other features, once more.
            nextest.args(["nextest", "run", "--workspace", "--lib", "--bins", "--test", "architecture"]);
            let names: Vec<String> = packages.iter().map(|name| format!("package({name})")).collect();
            let recorded =
                if repository::recordings().is_dir() { "" } else { " and not test(/^recordings::/)" };
            nextest.args(["--filterset", &format!("({}){recorded}", names.join(" or "))]);
            nextest.args(["--cargo-quiet", "--status-level", "fail"]);
            runner::run(nextest).await?
        }
        None => {
            let mut cargo = repository::cargo();
            cargo.args(["test", "--quiet", "--lib", "--bins"]);
            cargo.args(packages.iter().flat_map(|name| ["--package", name]));
            child::run(cargo).await?
        }
    };
    ensure!(status.success(), "tests failed");
    Ok(())
}
