//! The parts of `cargo xtask evidence`, and the table of their results.

mod parts;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use houston_xtask::repository;

pub(crate) use self::parts::PARTS;

/// A long-running test or measurement: its command, in full and in brief.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    program: Program,
    whole: &'static [&'static str],
    quick: &'static [&'static str],
}

/// The program that runs a part.
#[derive(Debug)]
enum Program {
    /// A command of this harness.
    Harness,
    /// Cargo, in the root of the repository.
    Cargo,
    /// Cargo, with a variable that says how much a test does: its name, its value in full and in brief.
    Counted(&'static str, &'static str, &'static str),
}

impl Part {
    pub(crate) fn command(&self, quick: bool, harness: &Path) -> Command {
        let mut command = match self.program {
            Program::Harness => Command::new(harness),
            Program::Cargo => repository::cargo(),
            Program::Counted(variable, whole, brief) => {
                let mut cargo = repository::cargo();
                cargo.env(variable, if quick { brief } else { whole });
                cargo
            }
        };
        command.args(self.arguments(quick));
        command
    }

    fn arguments(&self, quick: bool) -> &'static [&'static str] {
        if quick { self.quick } else { self.whole }
    }

    /// The command as a person would type it.
    fn command_line(&self, quick: bool) -> String {
        let start = match self.program {
            Program::Harness => "cargo xtask",
            Program::Cargo => "cargo",
            Program::Counted(variable, whole, _) if !quick => {
                return format!("{variable}={whole} cargo {}", self.whole.join(" "));
            }
            Program::Counted(..) => "cargo",
        };
        format!("{start} {}", self.arguments(quick).join(" "))
    }
}

/// The outcome of a part.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    NotRun,
    /// It has begun; the table is also written before a part runs.
    Unfinished,
    Ended {
        passed: bool,
        seconds: u64,
        /// The last line it printed: a summary of its figures.
        closing: String,
        printed: String,
    },
}

/// The last line that a part printed, without what the test runner adds.
pub(crate) fn closing_line(printed: &str) -> &str {
    let is_of_runner = |line: &&str| line.starts_with("test ") || line.chars().all(|c| c == '.');
    printed.lines().rev().map(str::trim).find(|line| !is_of_runner(line)).unwrap_or("printed nothing")
}

/// The outcomes of one `cargo xtask evidence`.
#[derive(Debug)]
pub(crate) struct Evidence {
    quick: bool,
    commit: String,
    date: String,
    outcomes: Vec<Outcome>,
}

impl Evidence {
    pub(crate) fn begin(quick: bool, commit: String, date: String) -> Self {
        Self { quick, commit, date, outcomes: vec![Outcome::NotRun; PARTS.len()] }
    }

    pub(crate) fn set(&mut self, part: usize, outcome: Outcome) {
        if let Some(slot) = self.outcomes.get_mut(part) {
            *slot = outcome;
        }
    }

    pub(crate) fn failed(&self) -> bool {
        self.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Ended { passed: false, .. }))
    }

    /// The table in Markdown, then the output of each part.
    pub(crate) fn table(&self) -> String {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let kind = if self.quick {
            " A brief run (`--quick`): it shows that the parts work; its figures mean nothing."
        } else {
            ""
        };
        let mut text = format!(
            "# Evidence\n\nWritten by `cargo xtask evidence`: commit {}, begun {}, {cores} cores.{kind}\n\n\
             | part | what | outcome | time | figures |\n|---|---|---|---|---|\n",
            self.commit, self.date
        );
        for (part, outcome) in PARTS.iter().zip(&self.outcomes) {
            let (word, time, figures) = match outcome {
                Outcome::NotRun => ("not run", String::new(), String::new()),
                Outcome::Unfinished => ("not finished", String::new(), String::new()),
                Outcome::Ended { passed, seconds, closing, .. } => {
                    let word = if *passed { "passed" } else { "**failed**" };
                    (word, format!("{seconds} s"), closing.replace('|', "\\|"))
                }
            };
            let _ = writeln!(text, "| {} | {} | {word} | {time} | {figures} |", part.name, part.what);
        }
        for (part, outcome) in PARTS.iter().zip(&self.outcomes) {
            if let Outcome::Ended { printed, .. } = outcome {
                let _ = write!(text, "\n## {}\n\n`{}`\n\n", part.name, part.command_line(self.quick));
                let _ = writeln!(text, "```text\n{}\n```", printed.trim_end());
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_line_is_not_that_of_the_test_runner() {
        let printed = "running 1 test\n500 sequences, no difference\n.\ntest result: ok. 1 passed\n\n";
        assert_eq!(closing_line(printed), "500 sequences, no difference");
        assert_eq!(closing_line("\n"), "printed nothing");
    }

    #[test]
    fn table_names_parts_not_run_and_not_finished() {
        let mut evidence = Evidence::begin(false, "abc".to_owned(), "2026-11-22".to_owned());
        evidence.set(1, Outcome::Unfinished);
        let closing = "200 of 200 | p99 1 s".to_owned();
        evidence
            .set(2, Outcome::Ended { passed: true, seconds: 7, printed: format!("a\n{closing}\n"), closing });
        assert!(!evidence.failed());
        let table = evidence.table();
        assert!(table.contains("commit abc, begun 2026-11-22"), "{table}");
        assert!(
            table.contains(
                "| chaos | 10 minutes of load while faults are injected everywhere | not run |  |  |"
            ),
            "{table}"
        );
        assert!(table.contains("it must detect | not finished |  |  |"), "{table}");
        assert!(table.contains("in flight | passed | 7 s | 200 of 200 \\| p99 1 s |"), "{table}");
        assert!(
            table.contains("## recovery\n\n`cargo xtask recovery`\n\n```text\na\n200 of 200 | p99 1 s\n```"),
            "{table}"
        );
        assert!(!table.contains("## chaos"), "{table}");
        evidence.set(
            0,
            Outcome::Ended { passed: false, seconds: 1, closing: String::new(), printed: String::new() },
        );
        assert!(evidence.failed());
    }
}
