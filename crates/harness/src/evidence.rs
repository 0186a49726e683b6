//! The parts of `cargo xtask evidence`, and the table of their results.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use houston_xtask::repository;

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

/// All parts, in the order in which they run.
pub(crate) const PARTS: [Part; 23] = [
    Part {
        name: "chaos",
        what: "10 minutes of load while faults are injected everywhere",
        program: Program::Harness,
        whole: &["chaos", "--minutes", "10", "--seed", "2"],
        quick: &["chaos", "--minutes", "0.5", "--seed", "2"],
    },
    Part {
        name: "mutations",
        what: "chaos with a part of the protocol switched off, which it must detect",
        program: Program::Harness,
        whole: &["chaos", "--mutations"],
        quick: &["chaos", "--mutation", "fence"],
    },
    Part {
        name: "recovery",
        what: "200 workers killed and 50 asked to stop, with runs in flight",
        program: Program::Harness,
        whole: &["recovery"],
        quick: &["recovery", "--kills", "3", "--stops", "2"],
    },
    Part {
        name: "pooler",
        what: "PgBouncer killed and started again under load",
        program: Program::Harness,
        whole: &["failover", "pooler"],
        quick: &["failover", "pooler", "--minutes", "0.5", "--quick"],
    },
    Part {
        name: "standby",
        what: "the primary of Postgres lost for good under load, its synchronous standby promoted",
        program: Program::Harness,
        whole: &["failover", "standby"],
        quick: &["failover", "standby", "--minutes", "0.5", "--quick"],
    },
    Part {
        name: "sentinel",
        what: "the master of Redis lost for good under load, with sentinels",
        program: Program::Harness,
        whole: &["failover", "sentinel"],
        quick: &["failover", "sentinel", "--minutes", "0.5", "--quick"],
    },
    Part {
        name: "cluster",
        what: "the node of a Redis Cluster with Houston's keys lost for good under load",
        program: Program::Harness,
        whole: &["failover", "cluster"],
        quick: &["failover", "cluster", "--minutes", "0.5", "--quick"],
    },
    Part {
        name: "crash-points",
        what: "33 crash points × kill, pause, error, delay",
        program: Program::Cargo,
        whole: &["xtask", "test", "--crash-points"],
        quick: &["xtask", "test", "--crash-points", "C10"],
    },
    Part {
        name: "plans",
        what: "3,000 plans with 9,000 executors, while 500 workers are killed",
        program: Program::Counted("HOUSTON_PLANS", "3000", "12"),
        whole: &PLANS,
        quick: &PLANS,
    },
    Part {
        name: "equality",
        what: "100,000 random sequences of posts, claims, cancels and steps, in batches and by the functions: the same rows",
        program: Program::Counted("HOUSTON_SEQUENCES", "100000", "50"),
        whole: &EQUALITY,
        quick: &EQUALITY,
    },
    Part {
        name: "protocol",
        what: "the protocol, model-checked in every order of events",
        program: Program::Cargo,
        whole: &["test", "--quiet", "--workspace", "--test", "protocol", "--", "--nocapture"],
        quick: &["test", "--quiet", "--workspace", "--test", "protocol"],
    },
    Part {
        name: "fuzzing",
        what: "10 minutes of mutated streams through the decoders",
        program: Program::Cargo,
        whole: &FUZZ_10_MINUTES,
        quick: &FUZZ_3_SECONDS,
    },
    Part {
        name: "providers",
        what: "messages answered through llmock and aimock, two independent fake providers",
        program: Program::Harness,
        whole: &["providers-test"],
        quick: &["providers-test"],
    },
    Part {
        name: "bench",
        what: "latency, throughput, memory, storage",
        program: Program::Harness,
        whole: &["bench"],
        quick: &["bench", "--quick"],
    },
    Part {
        name: "workers",
        what: "throughput with 1, 2 and 4 worker processes",
        program: Program::Harness,
        whole: &["bench", "--workers"],
        quick: &["bench", "--workers", "--quick"],
    },
    Part {
        name: "hints",
        what: "500,000 hints through Redis, and the pick-up of a hint by an idle worker",
        program: Program::Harness,
        whole: &["bench", "--hints"],
        quick: &["bench", "--hints", "--quick"],
    },
    Part {
        name: "bus",
        what: "100,000 events through the readers of webhooks and triggers",
        program: Program::Harness,
        whole: &["bench", "--bus"],
        quick: &["bench", "--bus", "--quick"],
    },
    Part {
        name: "plan",
        what: "the same work by the loop, by a plan and by a plan of executors: time, tokens, statements",
        program: Program::Harness,
        whole: &["bench", "--plan"],
        quick: &["bench", "--plan", "--quick"],
    },
    Part {
        name: "conversation",
        what: "cost of a conversation of 500 turns, and turn latency after 10,000",
        program: Program::Harness,
        whole: &["bench", "--conversation"],
        quick: &["bench", "--conversation", "--quick"],
    },
    Part {
        name: "scale",
        what: "sweep and claim among 100,000 idle agentables",
        program: Program::Harness,
        whole: &["bench", "--scale"],
        quick: &["bench", "--scale"],
    },
    Part {
        name: "history",
        what: "search in 10,000 sessions with 1,000,000 entries",
        program: Program::Harness,
        whole: &["bench", "--history"],
        quick: &["bench", "--history", "--quick"],
    },
    Part {
        name: "workspaces",
        what: "100,000 rounds of reads and writes in a folder, while files and folders are exchanged for links and pipes",
        program: Program::Counted("HOUSTON_RACES", "100000", "500"),
        whole: &WORKSPACES,
        quick: &WORKSPACES,
    },
    Part {
        name: "catalogue",
        what: "25 servers of jobs/catalogue.toml, installed, started and asked for their tools",
        program: Program::Cargo,
        whole: &CATALOGUE,
        quick: &CATALOGUE,
    },
];

/// With `--nocapture`, for the table of the servers.
const CATALOGUE: [&str; 10] = [
    "test",
    "--quiet",
    "-p",
    "houston-mcp",
    "--test",
    "it",
    "--",
    "--ignored",
    "--nocapture",
    "servers_of_the_catalogue_list_their_tools",
];

/// The number of sequences is in `HOUSTON_SEQUENCES`. Compiled with optimisations: a third of the time is the test's own.
const EQUALITY: [&str; 10] = [
    "test",
    "--release",
    "--quiet",
    "-p",
    "houston-store",
    "--test",
    "it",
    "equality::",
    "--",
    "--nocapture",
];
/// The number of plans is in `HOUSTON_PLANS`.
const PLANS: [&str; 9] =
    ["test", "--quiet", "-p", "houston-worker", "--test", "it", "plans::plans_end_once", "--", "--nocapture"];
/// The number of rounds is in `HOUSTON_RACES`.
const WORKSPACES: [&str; 9] =
    ["test", "--quiet", "-p", "houston-folder", "--test", "it", "race::", "--", "--nocapture"];
const FUZZ_10_MINUTES: [&str; 11] = fuzz("10");
const FUZZ_3_SECONDS: [&str; 11] = fuzz("0.05");

const fn fuzz(minutes: &'static str) -> [&'static str; 11] {
    let (package, features) = ("houston-llm", "fuzzing");
    [
        "run",
        "--release",
        "--quiet",
        "-p",
        package,
        "--features",
        features,
        "--example=fuzz",
        "--",
        "--minutes",
        minutes,
    ]
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
