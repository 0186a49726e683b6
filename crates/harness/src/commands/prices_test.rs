//! `cargo xtask prices-test`: compares costs computed by Houston with those of the package the prices come from.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::Args;

use super::prices::{PriceData, environment, folder, script};
use houston_testkit::console::print_status;
use houston_testkit::scratch::Scratch;
use houston_testkit::{child, repository};

/// Compare computed costs with those of the Python package genai-prices, in the vendored version.
#[derive(Debug, Args)]
pub(crate) struct PricesTest {
    /// Further response bodies: a file in the format of genai-prices' tests/dataset/usages.json
    #[arg(long)]
    dataset: Option<PathBuf>,
    /// Print a line and succeed if the package cannot be installed
    #[arg(long)]
    if_possible: bool,
}

impl PricesTest {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        match install().await {
            Ok(python) => compare(&python, self.dataset.as_deref()).await,
            Err(error) if self.if_possible => {
                print_status(&format!("costs are not compared with genai-prices: {error:#}"));
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => Err(error),
        }
    }
}

/// Installs the package in the vendored version; returns the virtual environment.
async fn install() -> Result<PathBuf> {
    let data = PriceData::read(&folder().join("prices.json"))?;
    data.warn_of_age();
    let wanted = format!("genai-prices=={}", data.source.version);
    environment("prices-test", &[&wanted]).await
}

async fn compare(python: &Path, dataset: Option<&Path>) -> Result<ExitCode> {
    let scratch = Scratch::new()?;
    let cases = scratch.path().join("cases.jsonl");
    let recordings = repository::recordings();
    let mut write = Command::new(python.join("bin/python"));
    write.arg("-W").arg("ignore").arg(script("price_cases.py")).arg(&cases);
    if recordings.is_dir() {
        write.arg("--recordings").arg(recordings);
    }
    if let Some(dataset) = dataset {
        write.arg("--dataset").arg(dataset);
    }
    child::succeed(write).await?;
    print_status("comparing costs with those of genai-prices");
    let mut cargo = repository::cargo();
    // Of the whole workspace, since its crates are compiled already: alone, `houston-llm` needs others with fewer features.
    cargo.args(["test", "--quiet", "--workspace", "--lib", "--", "--ignored", "--nocapture"]);
    cargo.arg("price::tests::oracle::").env("HOUSTON_PRICE_CASES", &cases);
    Ok(child::code(child::run(cargo).await?))
}
