//! The parts, and their commands.

use super::{Part, Program};

/// All parts, in the order in which they run.
pub(crate) const PARTS: [Part; 26] = [
    harness(
        "chaos",
        "10 minutes of load while faults are injected everywhere",
        &["chaos", "--minutes", "10", "--seed", "2"],
        &["chaos", "--minutes", "0.5", "--seed", "2"],
    ),
    harness(
        "mutations",
        "chaos with a part of the protocol switched off, which it must detect",
        &["chaos", "--mutations"],
        &["chaos", "--mutation", "fence"],
    ),
    harness(
        "recovery",
        "200 workers killed and 50 asked to stop, with runs in flight",
        &["recovery"],
        &["recovery", "--kills", "3", "--stops", "2"],
    ),
    harness(
        "pooler",
        "PgBouncer killed and started again under load",
        &["failover", "pooler"],
        &["failover", "pooler", "--minutes", "0.5", "--quick"],
    ),
    harness(
        "standby",
        "the primary of Postgres lost for good under load, its synchronous standby promoted",
        &["failover", "standby"],
        &["failover", "standby", "--minutes", "0.5", "--quick"],
    ),
    harness(
        "sentinel",
        "the master of Redis lost for good under load, with sentinels",
        &["failover", "sentinel"],
        &["failover", "sentinel", "--minutes", "0.5", "--quick"],
    ),
    harness(
        "cluster",
        "the node of a Redis Cluster with Houston's keys lost for good under load",
        &["failover", "cluster"],
        &["failover", "cluster", "--minutes", "0.5", "--quick"],
    ),
    cargo(
        "crash-points",
        "33 crash points × kill, pause, error, delay",
        &["xtask", "test", "--crash-points"],
        &["xtask", "test", "--crash-points", "C10"],
    ),
    counted(
        "plans",
        "3,000 plans with 9,000 executors, while 500 workers are killed",
        ("HOUSTON_PLANS", "3000", "12"),
        &PLANS,
    ),
    counted(
        "equality",
        "100,000 random sequences of posts, claims, cancels and steps, in batches and by the functions: the same rows",
        ("HOUSTON_SEQUENCES", "100000", "50"),
        &EQUALITY,
    ),
    cargo(
        "protocol",
        "the protocol, model-checked in every order of events",
        &["test", "--quiet", "--workspace", "--test", "protocol", "--", "--nocapture"],
        &["test", "--quiet", "--workspace", "--test", "protocol"],
    ),
    cargo("fuzzing", "10 minutes of mutated streams through the decoders", &FUZZ_10_MINUTES, &FUZZ_3_SECONDS),
    harness(
        "providers",
        "messages answered through llmock and aimock, two independent fake providers",
        &["providers-test"],
        &["providers-test"],
    ),
    harness("bench", "latency, throughput, memory, storage", &["bench"], &["bench", "--quick"]),
    harness(
        "workers",
        "throughput with 1, 2 and 4 worker processes",
        &["bench", "--workers"],
        &["bench", "--workers", "--quick"],
    ),
    harness(
        "cells",
        "throughput of one process with 1, 2 and 4 cells, each with a Postgres and a Redis",
        &["bench", "--cells", "1,2,4"],
        &["bench", "--cells", "1,2", "--quick"],
    ),
    harness(
        "hints",
        "500,000 hints through Redis, and the pick-up of a hint by an idle worker",
        &["bench", "--hints"],
        &["bench", "--hints", "--quick"],
    ),
    harness(
        "streams",
        "10,000 idle event streams and 50,000 wrong keys: memory and processor time",
        &["bench", "--streams"],
        &["bench", "--streams", "--quick"],
    ),
    harness(
        "bus",
        "100,000 events through the readers of webhooks and triggers",
        &["bench", "--bus"],
        &["bench", "--bus", "--quick"],
    ),
    harness(
        "plan",
        "the same work by the loop, by a plan and by a plan of executors: time, tokens, statements",
        &["bench", "--plan"],
        &["bench", "--plan", "--quick"],
    ),
    harness(
        "conversation",
        "cost of a conversation of 500 turns, and turn latency after 10,000",
        &["bench", "--conversation"],
        &["bench", "--conversation", "--quick"],
    ),
    harness(
        "scale",
        "sweep and claim among 100,000 idle agentables",
        &["bench", "--scale"],
        &["bench", "--scale"],
    ),
    harness(
        "history",
        "search in 10,000 sessions with 1,000,000 entries",
        &["bench", "--history"],
        &["bench", "--history", "--quick"],
    ),
    harness(
        "console",
        "the pages of the console after 100,000 runs: p95 of each ≤ 200 ms",
        &["bench", "--console"],
        &["bench", "--console", "--quick"],
    ),
    counted(
        "workspaces",
        "100,000 rounds of reads and writes in a folder, while files and folders are exchanged for links and pipes",
        ("HOUSTON_RACES", "100000", "500"),
        &WORKSPACES,
    ),
    cargo(
        "catalogue",
        "25 servers of jobs/catalogue.toml, installed, started and asked for their tools",
        &CATALOGUE,
        &CATALOGUE,
    ),
];

/// A part that is a command of this harness.
const fn harness(
    name: &'static str,
    what: &'static str,
    whole: &'static [&'static str],
    quick: &'static [&'static str],
) -> Part {
    Part { name, what, program: Program::Harness, whole, quick }
}

/// A part that is a command of cargo.
const fn cargo(
    name: &'static str,
    what: &'static str,
    whole: &'static [&'static str],
    quick: &'static [&'static str],
) -> Part {
    Part { name, what, program: Program::Cargo, whole, quick }
}

/// A part that is a command of cargo, with a variable that says how much it does: its name, its value in full and in brief.
const fn counted(
    name: &'static str,
    what: &'static str,
    (variable, whole, brief): (&'static str, &'static str, &'static str),
    arguments: &'static [&'static str],
) -> Part {
    let program = Program::Counted(variable, whole, brief);
    Part { name, what, program, whole: arguments, quick: arguments }
}

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
