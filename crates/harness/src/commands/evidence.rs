//! `cargo xtask evidence`: runs the long tests and measurements one after the other and records what they print.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand as _};
use houston_testkit::child::{self, output};
use houston_testkit::console::{print, print_status};
use houston_testkit::evidence::{QUOTING, RECORD, Section, documents, parse};
use houston_testkit::repository;

/// What is run, in this order: name and description of each part, then its command, in full and in brief.
const PARTS: &str = include_str!("../../evidence/parts.txt");
/// What a part may exit with that has nothing to run on, and said so.
const SKIPPED: i32 = 77;

/// Run the long tests and measurements, and record what they print.
///
/// Each part is recorded in `crates/harness/evidence/record.txt` as soon as it has ended, and not run again as long as nothing
/// has changed since its commit: a call that was stopped goes on where it was. At the end the documents are written that quote
/// the record. With `--quick` everything goes to `target/evidence/`.
#[derive(Debug, Args)]
pub(crate) struct Evidence {
    /// Run these parts only, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "PARTS")]
    only: Vec<String>,
    /// Run each part briefly: to see that the parts work, not for figures
    #[arg(long)]
    quick: bool,
    /// Run what has passed at this commit, too
    #[arg(long)]
    again: bool,
    /// Run nothing: write the documents that quote the record
    #[arg(long)]
    quote: bool,
}

impl Evidence {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let (parts, folder) = (parts(), repository::target().join("evidence"));
        let names: Vec<&str> = parts.iter().map(|part| part.name).collect();
        for name in &self.only {
            ensure!(
                names.contains(&name.as_str()),
                "there is no part `{name}`; the parts are {}",
                names.join(", ")
            );
        }
        fs::create_dir_all(&folder)?;
        let record = if self.quick { folder.join("record.txt") } else { repository::root().join(RECORD) };
        let mut sections = parse(&fs::read_to_string(&record).unwrap_or_default())?;
        let is_wanted = |part: &&Part| {
            !self.quote && (self.only.is_empty() || self.only.iter().any(|name| name == part.name))
        };
        for part in parts.iter().filter(is_wanted) {
            let found = sections.iter().position(|section| section.part == part.name);
            if found.is_some_and(|at| !self.quick && !self.again && is_current(&sections[at])) {
                print_status(&format!("── {}: has passed at this commit", part.name));
                continue;
            }
            // What is recorded while it runs, or after it was stopped, has no older outcome of it.
            if let Some(at) = found {
                sections.remove(at);
                write(&record, &names, &mut sections)?;
            }
            print_status(&format!("── {}: {}", part.name, part.what));
            sections.extend(self.measure(part, &folder).await?);
            write(&record, &names, &mut sections)?;
        }
        if !self.quick {
            for (path, _, should) in documents()? {
                fs::write(repository::root().join(path), should)?;
            }
        }
        for Section { part, passed, commit, ended, printed, .. } in &sections {
            let outcome = if *passed { "passed" } else { "FAILED" };
            print(&format!("{part:<12} {outcome} {ended} {commit}  {}", closing_line(printed)))?;
        }
        let has_failed = sections.iter().any(|section| !section.passed);
        Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Runs one part as a process; its stdout goes to a file, its stderr to the terminal. `None`: it has nothing to run on.
    async fn measure(&self, part: &Part, folder: &Path) -> Result<Option<Section>> {
        let log = folder.join(format!("{}.txt", part.name));
        let line = if self.quick { part.quick } else { part.whole };
        let mut command = command(line, &std::env::current_exe()?, super::Command::has_subcommand);
        command.stdout(Stdio::from(fs::File::create(&log)?));
        let commit = commit()?;
        let status = child::run(command).await?;
        let printed = fs::read_to_string(&log)?;
        print_status(printed.trim_end());
        let section = Section {
            part: part.name.to_owned(),
            passed: status.success(),
            commit,
            ended: output(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"]))?.trim().to_owned(),
            command: line.to_owned(),
            printed,
        };
        Ok((status.code() != Some(SKIPPED)).then_some(section))
    }
}

/// A long-running test or measurement, with its command as a person would type it.
#[derive(Debug)]
struct Part {
    name: &'static str,
    what: &'static str,
    whole: &'static str,
    quick: &'static str,
}

fn parts() -> Vec<Part> {
    let lines: Vec<&str> = PARTS.lines().map(str::trim).collect();
    let part = |lines: &[&'static str]| match *lines {
        [head, whole, quick] => head.split_once(": ").map(|(name, what)| Part { name, what, whole, quick }),
        _ => None,
    };
    lines.chunks(3).filter_map(part).collect()
}

/// A command of this harness, which `is_own` tells by its name, is carried out by `harness`.
fn command(line: &str, harness: &Path, is_own: impl Fn(&str) -> bool) -> Command {
    let words: Vec<&str> = line.split(' ').collect();
    let (variable, words) = match words[0].split_once('=') {
        Some(variable) => (Some(variable), &words[1..]),
        None => (None, &words[..]),
    };
    let (mut command, arguments) = match words {
        ["cargo", "xtask", name, ..] if is_own(name) => (Command::new(harness), &words[2..]),
        ["cargo", rest @ ..] => (repository::cargo(), rest),
        _ => (Command::new(repository::root().join(words[0])), &words[1..]),
    };
    command.args(arguments).envs(variable);
    command
}

fn write(record: &Path, order: &[&str], sections: &mut Vec<Section>) -> Result<()> {
    sections.retain(|section| order.contains(&section.part.as_str()));
    sections.sort_by_key(|section| order.iter().position(|name| *name == section.part));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let head = format!("What `cargo xtask evidence` has recorded, on {cores} cores.\n\n");
    let text: String = sections.iter().map(Section::to_string).collect();
    fs::write(record, head + text.trim_end() + "\n").with_context(|| format!("writing {}", record.display()))
}

/// Whether it has passed, and nothing has changed since but what this command writes.
fn is_current(section: &Section) -> bool {
    let difference = changed_since(&section.commit);
    section.passed && difference.is_ok_and(|difference| difference.is_empty())
}

fn changed_since(commit: &str) -> Result<String> {
    let written = QUOTING.iter().map(|(path, _)| *path).chain(["crates/harness/evidence"]);
    let mut git = Command::new("git");
    git.args(["diff", "--name-only", commit, "--", "."]).args(written.map(|path| format!(":!{path}")));
    output(git.current_dir(repository::root()))
}

/// The commit that is measured, and whether there are uncommitted changes.
fn commit() -> Result<String> {
    let mut git = Command::new("git");
    let head = output(git.args(["rev-parse", "--short=12", "HEAD"]).current_dir(repository::root()))?;
    let with = if changed_since("HEAD")?.is_empty() { "" } else { " with changes" };
    Ok(format!("{}{with}", head.trim()))
}

/// The last line that a part printed, without what the test runner adds.
fn closing_line(printed: &str) -> &str {
    let is_of_runner = |line: &&str| line.starts_with("test ") || line.chars().all(|c| c == '.');
    printed.lines().rev().map(str::trim).find(|line| !is_of_runner(line)).unwrap_or("printed nothing")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Command as Own;

    #[test]
    fn commands_are_split_into_words() {
        let parts = parts();
        assert_eq!(parts.len() * 3, PARTS.lines().count());
        let part = |name: &str| parts.iter().find(|part| part.name == name).unwrap();
        let command = |line: &str| command(line, Path::new("harness"), Own::has_subcommand);
        let words = |line: &str| {
            let command = command(line);
            let words = std::iter::once(command.get_program()).chain(command.get_args());
            words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words(part("takeover").quick), "harness bench takeover --quick");
        assert!(words(part("crash-points").whole).ends_with("cargo xtask test --crash-points"));
        assert!(
            words(part("hints").quick)
                .ends_with("cargo bench --quiet -p houston-queue --bench hints -- --test")
        );
        assert!(words(part("citus").quick).starts_with(&repository::root().display().to_string()));
        let plans = command(part("plans").whole);
        assert!(
            plans.get_envs().any(|variable| variable == ("HOUSTON_PLANS".as_ref(), Some("3000".as_ref())))
        );
    }

    #[test]
    fn closing_line_is_not_that_of_the_test_runner() {
        let printed = "running 1 test\n500 sequences, no difference\n.\ntest result: ok. 1 passed\n\n";
        assert_eq!(closing_line(printed), "500 sequences, no difference");
        assert_eq!(closing_line("\n"), "printed nothing");
    }
}
