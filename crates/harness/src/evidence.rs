//! The parts of `cargo xtask evidence`, and the table of their results.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use houston_testkit::repository;

/// A long-running test or measurement, and its command, in full and in brief, as a person would type it.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    whole: &'static str,
    quick: &'static str,
}

/// All parts, in the order in which they run.
pub(crate) const PARTS: [Part; 24] = [
    Part {
        name: "chaos",
        what: "10 minutes of load while faults are injected everywhere",
        whole: "cargo xtask chaos --minutes 10 --seed 2",
        quick: "cargo xtask chaos --minutes 0.5 --seed 2",
    },
    Part {
        name: "mutations",
        what: "chaos with a part of the protocol switched off, which it must detect",
        whole: "cargo xtask chaos --mutations",
        quick: "cargo xtask chaos --mutation fence",
    },
    Part {
        name: "recovery",
        what: "200 workers killed and 50 asked to stop, with runs in flight",
        whole: "cargo xtask recovery",
        quick: "cargo xtask recovery --kills 3 --stops 2",
    },
    Part {
        name: "loud",
        what: "twenty tenants beside one that does everything at once, for ten minutes",
        whole: "cargo xtask loud",
        quick: "cargo xtask loud --minutes 0.5",
    },
    Part {
        name: "pooler",
        what: "PgBouncer killed and started again under load",
        whole: "cargo xtask failover pooler",
        quick: "cargo xtask failover pooler --minutes 0.5 --quick",
    },
    Part {
        name: "standby",
        what: "the primary of Postgres lost for good under load, its synchronous standby promoted",
        whole: "cargo xtask failover standby",
        quick: "cargo xtask failover standby --minutes 0.5 --quick",
    },
    Part {
        name: "sentinel",
        what: "the master of Redis lost for good under load, with sentinels",
        whole: "cargo xtask failover sentinel",
        quick: "cargo xtask failover sentinel --minutes 0.5 --quick",
    },
    Part {
        name: "cluster",
        what: "the node of a Redis Cluster with Houston's keys lost for good under load",
        whole: "cargo xtask failover cluster",
        quick: "cargo xtask failover cluster --minutes 0.5 --quick",
    },
    Part {
        name: "crash-points",
        what: "33 crash points × kill, pause, error, delay",
        whole: "cargo xtask test --crash-points",
        quick: "cargo xtask test --crash-points C10",
    },
    Part {
        name: "scale",
        what: "the blocks and rows that each hot statement touches do not grow with the data",
        whole: "cargo test --quiet --workspace --test scale",
        quick: "cargo test --quiet --workspace --test scale triggers",
    },
    Part {
        name: "long",
        what: "tests that take too long for every change: a browser in each page of the console, a dead cell, hostile pages",
        whole: "cargo xtask test --long",
        quick: "cargo xtask test --long -p store",
    },
    Part {
        name: "plans",
        what: "3,000 plans with 9,000 executors, while 500 workers are killed",
        whole: "HOUSTON_PLANS=3000 cargo test --quiet -p houston-worker --test it plans::plans_end_once -- --nocapture",
        quick: "HOUSTON_PLANS=12 cargo test --quiet -p houston-worker --test it plans::plans_end_once -- --nocapture",
    },
    // Compiled with optimisations: a third of the time is the test's own.
    Part {
        name: "equality",
        what: "100,000 random sequences of posts, claims, cancels and steps, in batches and each by itself: the same rows",
        whole: "HOUSTON_SEQUENCES=100000 cargo test --release --quiet -p houston-store --test it equality:: -- --nocapture",
        quick: "HOUSTON_SEQUENCES=50 cargo test --release --quiet -p houston-store --test it equality:: -- --nocapture",
    },
    Part {
        name: "protocol",
        what: "the protocol, model-checked in every order of events",
        whole: "cargo test --quiet --workspace --test protocol -- --nocapture",
        quick: "cargo test --quiet --workspace --test protocol",
    },
    Part {
        name: "fuzzing",
        what: "10 minutes of mutated streams through the decoders",
        whole: "cargo run --release --quiet -p houston-llm --features fuzzing --example=fuzz -- --minutes 10",
        quick: "cargo run --release --quiet -p houston-llm --features fuzzing --example=fuzz -- --minutes 0.05",
    },
    Part {
        name: "providers",
        what: "messages answered through llmock and aimock, two independent fake providers",
        whole: "cargo xtask providers-test",
        quick: "cargo xtask providers-test",
    },
    Part {
        name: "bench",
        what: "throughput, latency, loops, plans, takeover, crowds, streams, memory, tenants",
        whole: "cargo xtask bench",
        quick: "cargo xtask bench --quick",
    },
    Part {
        name: "workers",
        what: "throughput with 1, 2 and 4 worker processes",
        whole: "cargo xtask bench workers",
        quick: "cargo xtask bench workers --quick",
    },
    Part {
        name: "cells",
        what: "throughput of one process with 1, 2 and 4 cells, each with a Postgres and a Redis",
        whole: "cargo xtask bench --cells 1,2,4",
        quick: "cargo xtask bench --cells 1,2 --quick",
    },
    Part {
        name: "hints",
        what: "hints through Redis: as fast as possible, and one to an idle worker",
        whole: "cargo bench --quiet -p houston-queue --bench hints",
        quick: "cargo bench --quiet -p houston-queue --bench hints -- --test",
    },
    Part {
        name: "soak",
        what: "1,000,000 messages in one go, compared by tenths",
        whole: "cargo xtask bench soak",
        quick: "cargo xtask bench soak --quick",
    },
    Part {
        name: "workspaces",
        what: "100,000 rounds of reads and writes in a folder, while files and folders are exchanged for links and pipes",
        whole: "HOUSTON_RACES=100000 cargo test --quiet -p houston-folder --test it race:: -- --nocapture",
        quick: "HOUSTON_RACES=500 cargo test --quiet -p houston-folder --test it race:: -- --nocapture",
    },
    // With `--nocapture`, for the table of the servers.
    Part {
        name: "catalogue",
        what: "25 servers of jobs/catalogue.toml, installed, started and asked for their tools",
        whole: "cargo test --quiet -p houston-mcp --test it -- --ignored --nocapture servers_of_the_catalogue_list_their_tools",
        quick: "cargo test --quiet -p houston-mcp --test it -- --ignored --nocapture servers_of_the_catalogue_list_their_tools",
    },
    Part {
        name: "check",
        what: "the static checks, with what every change passes without: documentation, and lints of benchmarks",
        whole: "cargo xtask check",
        quick: "cargo xtask check",
    },
];

impl Part {
    fn line(&self, quick: bool) -> &'static str {
        if quick { self.quick } else { self.whole }
    }

    /// Its command. One of this harness, which `is_own` tells by its name, is carried out by `harness`.
    pub(crate) fn command(&self, quick: bool, harness: &Path, is_own: impl Fn(&str) -> bool) -> Command {
        let words: Vec<&str> = self.line(quick).split(' ').collect();
        let (variable, words) = match words[0].split_once('=') {
            Some(variable) => (Some(variable), &words[1..]),
            None => (None, &words[..]),
        };
        let mut command = match words {
            ["cargo", "xtask", name, rest @ ..] if is_own(name) => {
                let mut command = Command::new(harness);
                command.arg(name).args(rest);
                command
            }
            words => {
                let mut command = repository::cargo();
                command.args(&words[1..]);
                command
            }
        };
        command.envs(variable);
        command
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
                let _ = write!(text, "\n## {}\n\n`{}`\n\n", part.name, part.line(self.quick));
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
