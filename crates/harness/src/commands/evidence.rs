//! `cargo xtask evidence`: everything that takes long, one part after the other, and one table of what it found.

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use houston_xtask::child::{self, quietly};
use houston_xtask::console::tell;
use houston_xtask::repository;

use crate::evidence::{Evidence, Outcome, PARTS, Part};

/// Run everything that takes long, and write what it found into one table.
///
/// The table is written anew after each part. That of a whole run goes to `crates/harness/EVIDENCE.md`; that of
/// `--only` or `--quick` to `target/evidence/`, beside what each part has printed.
#[derive(Debug, Args)]
pub(crate) struct EvidenceOf {
    /// Run these parts only, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "PARTS")]
    only: Vec<String>,
    /// Run each part briefly: to see that it works, not for figures
    #[arg(long)]
    quick: bool,
    /// Write the table here instead
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl EvidenceOf {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        for name in &self.only {
            let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
            ensure!(
                names.contains(&name.as_str()),
                "no part is called `{name}`; there are {}",
                names.join(", ")
            );
        }
        let folder = repository::target().join("evidence");
        std::fs::create_dir_all(&folder)?;
        let output = self.output(&folder);
        let mut evidence = Evidence::begin(self.quick, commit()?, date("+%Y-%m-%d %H:%M UTC")?);
        for (at, part) in PARTS.iter().enumerate() {
            if !self.only.is_empty() && !self.only.iter().any(|name| name == part.name) {
                continue;
            }
            evidence.set(at, Outcome::Unfinished);
            std::fs::write(&output, evidence.table())?;
            tell(&format!("── {} ({} of {}): {}", part.name, at + 1, PARTS.len(), part.what));
            evidence.set(at, self.measure(part, &folder).await?);
            std::fs::write(&output, evidence.table())?;
        }
        tell(&format!("── written to {}", output.display()));
        Ok(if evidence.failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Only a whole run replaces the table that is kept.
    fn output(&self, folder: &std::path::Path) -> PathBuf {
        let is_whole = self.only.is_empty() && !self.quick;
        let kept = || repository::root().join("crates/harness/EVIDENCE.md");
        self.output.clone().unwrap_or_else(|| if is_whole { kept() } else { folder.join("EVIDENCE.md") })
    }

    /// Runs one part as a process; what it prints goes to a file, what it says is passed on.
    async fn measure(&self, part: &Part, folder: &std::path::Path) -> Result<Outcome> {
        let log = folder.join(format!("{}.txt", part.name));
        let mut command = part.command(self.quick, &std::env::current_exe()?);
        command.stdout(Stdio::from(std::fs::File::create(&log)?));
        let began = Instant::now();
        let status = child::run(command).await?;
        let printed = std::fs::read_to_string(&log)?;
        tell(printed.trim_end());
        let closing = printed.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("printed nothing");
        Ok(Outcome::Ended {
            passed: status.success(),
            seconds: began.elapsed().as_secs(),
            closing: closing.trim().to_owned(),
            printed,
        })
    }
}

/// The commit that is measured, and whether something is not in it.
fn commit() -> Result<String> {
    let git =
        |arguments: &[&str]| quietly(Command::new("git").args(arguments).current_dir(repository::root()));
    let head = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
    let with = if changes.trim().is_empty() { "" } else { ", with changes that are not committed" };
    Ok(format!("{}{with}", head.trim()))
}

fn date(format: &str) -> Result<String> {
    Ok(quietly(Command::new("date").args(["-u", format]))?.trim().to_owned())
}
