//! Runs cargo-nextest and lists the slowest tests at the end.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result};
use houston_testkit::child::Running;
use houston_testkit::console::print_status;
use houston_testkit::programs;
use tokio::io::{AsyncBufReadExt, BufReader};

/// Number of slowest tests listed.
const SLOWEST: usize = 10;

/// The results of a test run.
#[derive(Debug, Default)]
struct TestRun {
    /// Seconds and name of each test.
    tests: Vec<(f64, String)>,
    /// The closing lines of nextest: the summary and the failed tests.
    summary: Vec<String>,
}

/// The path of cargo-nextest.
///
/// # Errors
/// If it is missing and cannot be installed.
pub(crate) async fn program() -> Result<PathBuf> {
    let found = programs::wheel("cargo-nextest", "0.9.148").await;
    found.context(
        "cargo-nextest is missing and could not be installed: `cargo install cargo-nextest` does that",
    )
}

/// Runs `nextest`, passes its output on, then lists the slowest tests, followed by nextest's summary.
///
/// # Errors
/// If it cannot be started.
pub(crate) async fn run(mut nextest: Command) -> Result<ExitStatus> {
    if std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        nextest.args(["--color", "always"]);
    }
    nextest.stderr(Stdio::piped());
    let child = tokio::process::Command::from(nextest).spawn();
    let mut child = Running(child.context("cargo-nextest cannot be started")?);
    let mut test_run = TestRun::default();
    if let Some(stderr) = child.0.stderr.take() {
        let mut lines = BufReader::new(stderr).lines();
        while let Some(line) = lines.next_line().await? {
            test_run.read(&line);
            print_status(&line);
        }
    }
    let status = child.0.wait().await?;
    for line in test_run.closing_lines() {
        print_status(&line);
    }
    Ok(status)
}

impl TestRun {
    fn read(&mut self, line: &str) {
        let plain = without_colours(line);
        let words = plain.trim_start();
        if words.starts_with("Summary [") {
            self.summary = vec![line.to_owned()];
        } else if !self.summary.is_empty() && !words.starts_with("error:") {
            // Only failed tests follow the summary; they are repeated after the table.
            self.summary.push(line.to_owned());
        } else if let Some(test) = ended(words) {
            self.tests.push(test);
        }
    }

    /// The slowest tests, then the summary.
    fn closing_lines(mut self) -> Vec<String> {
        if self.summary.is_empty() || self.tests.is_empty() {
            return Vec::new();
        }
        self.tests.sort_by(|a, b| b.0.total_cmp(&a.0));
        let slowest = self.tests.iter().take(SLOWEST);
        let mut lines = vec!["slowest tests:".to_owned()];
        lines.extend(slowest.map(|(seconds, name)| format!("{seconds:>9.3} s  {name}")));
        lines.extend(self.summary);
        lines
    }
}

/// Seconds and name from a line such as `PASS [   0.312s] (3/3) houston-api events::replays`; with `--stress` the count
/// is preceded by `[1/20]`.
fn ended(line: &str) -> Option<(f64, String)> {
    let (status, rest) = line.split_once(" [")?;
    if !["PASS", "FAIL", "SIGNAL", "TIMEOUT", "LEAK", "SLOW+PASS"].iter().any(|word| status.starts_with(word))
    {
        return None;
    }
    let (seconds, rest) = rest.split_once("s] ")?;
    let is_count = |word: &&str| word.starts_with(['[', '(']) || word.ends_with([']', ')']);
    let name: Vec<&str> = rest.split_whitespace().skip_while(is_count).collect();
    (!name.is_empty()).then_some((seconds.trim().parse().ok()?, name.join(" ")))
}

fn without_colours(line: &str) -> String {
    let mut plain = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain += before;
        rest = after.split_once('m').map_or("", |(_, after)| after);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowest_tests_come_before_the_summary() {
        let mut test_run = TestRun::default();
        for line in [
            "    Starting 3 tests across 1 binary",
            "        PASS [   0.011s] (1/3) nt a",
            "        FAIL [   0.185s] [ 1/20] ( 2/3) nt c",
            "  \u{1b}[32m      PASS\u{1b}[0m [   0.312s] (3/3) nt::it b",
            "     Summary [   0.313s] 3 tests run: 2 passed, 1 failed, 0 skipped",
            "        FAIL [   0.185s] (2/3) nt c",
            "error: test run failed",
        ] {
            test_run.read(line);
        }
        assert_eq!(
            test_run.closing_lines(),
            [
                "slowest tests:",
                "    0.312 s  nt::it b",
                "    0.185 s  nt c",
                "    0.011 s  nt a",
                "     Summary [   0.313s] 3 tests run: 2 passed, 1 failed, 0 skipped",
                "        FAIL [   0.185s] (2/3) nt c",
            ]
        );
        let mut failed = TestRun::default();
        failed.read("error: could not compile `houston-api`");
        assert!(failed.closing_lines().is_empty());
    }
}
