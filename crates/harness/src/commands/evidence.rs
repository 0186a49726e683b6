//! `cargo xtask evidence`: runs the long tests and measurements one after the other and writes a table of results.

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::{Args, Subcommand as _};
use houston_testkit::child::{self, output};
use houston_testkit::console::print_status;
use houston_testkit::repository;

use crate::evidence::{Evidence, Outcome, PARTS, Part, closing_line};

/// Run the long tests and measurements, and write a table of their results.
///
/// The table is updated after each part. A full run writes `crates/harness/EVIDENCE.md`; with `--only` or `--quick` the
/// table goes to `target/evidence/`. The output of each part is in that folder too.
#[derive(Debug, Args)]
pub(crate) struct EvidenceOf {
    /// Run these parts only, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "PARTS")]
    only: Vec<String>,
    /// Run each part briefly: to see that the parts work, not for figures
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
                "there is no part `{name}`; the parts are {}",
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
            print_status(&format!("── {} ({} of {}): {}", part.name, at + 1, PARTS.len(), part.what));
            evidence.set(at, self.measure(part, &folder).await?);
            std::fs::write(&output, evidence.table())?;
        }
        print_status(&format!("── written to {}", output.display()));
        Ok(if evidence.failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// The file of the table: only a full run replaces the committed one.
    fn output(&self, folder: &std::path::Path) -> PathBuf {
        let is_whole = self.only.is_empty() && !self.quick;
        let committed = || repository::root().join("crates/harness/EVIDENCE.md");
        self.output.clone().unwrap_or_else(|| if is_whole { committed() } else { folder.join("EVIDENCE.md") })
    }

    /// Runs one part as a process; its stdout goes to a file, its stderr to the terminal.
    async fn measure(&self, part: &Part, folder: &std::path::Path) -> Result<Outcome> {
        let log = folder.join(format!("{}.txt", part.name));
        let mut command = part.command(self.quick, &std::env::current_exe()?, super::Command::has_subcommand);
        command.stdout(Stdio::from(std::fs::File::create(&log)?));
        let began = Instant::now();
        let status = child::run(command).await?;
        let printed = std::fs::read_to_string(&log)?;
        print_status(printed.trim_end());
        Ok(Outcome::Ended {
            passed: status.success(),
            seconds: began.elapsed().as_secs(),
            closing: closing_line(&printed).to_owned(),
            printed,
        })
    }
}

/// The commit that is measured, and whether there are uncommitted changes.
fn commit() -> Result<String> {
    let git =
        |arguments: &[&str]| output(Command::new("git").args(arguments).current_dir(repository::root()));
    let head = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
    let with = if changes.trim().is_empty() { "" } else { ", with uncommitted changes" };
    Ok(format!("{}{with}", head.trim()))
}

fn date(format: &str) -> Result<String> {
    Ok(output(Command::new("date").args(["-u", format]))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::commands::Command;

    #[test]
    fn commands_are_split_into_words() {
        let command = |name: &str, quick| {
            let part = PARTS.iter().find(|part| part.name == name).unwrap();
            let command = part.command(quick, Path::new("harness"), Command::has_subcommand);
            let words = std::iter::once(command.get_program()).chain(command.get_args());
            words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(command("recovery", true), "harness recovery --kills 3 --stops 2");
        assert!(command("crash-points", false).ends_with("cargo xtask test --crash-points"));
        assert!(
            command("hints", true).ends_with("cargo bench --quiet -p houston-queue --bench hints -- --test")
        );
        let plans = PARTS.iter().find(|part| part.name == "plans").unwrap();
        let plans = plans.command(false, Path::new("harness"), Command::has_subcommand);
        assert!(
            plans.get_envs().any(|variable| variable == ("HOUSTON_PLANS".as_ref(), Some("3000".as_ref())))
        );
    }
}
