//! The report: a JSON object for programs, a table for people.

use std::fmt::Write as _;

use anyhow::Result;
use houston_testkit::servers::TestServers;
use serde::Serialize;

use super::cancel::Cancel;
use super::conversation::{Conversation, Flat};
use super::flood::Flood;
use super::held::Held;
use super::hints::Hints;
use super::idle::Idle;
use super::installation::Rest;
use super::saturated::{Saturated, Shares};
use super::scale::Scale;
use super::spread::{Spread, round};
use super::tokens::Tokens;
use super::{Size, database, machine, workload};

/// The JSON object: headline figures, settings, and under `more` every measurement.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    post_to_start_ms: Spread,
    first_event_ms: Spread,
    done_ms: Spread,
    runs_per_second: f64,
    cpu_ms_per_run: Shares,
    rss_mb: Memory,
    commits_per_run: f64,
    bytes_per_turn: f64,
    settings: Settings,
    more: Parts,
}

/// Resident memory, in MB.
#[derive(Debug, Clone, Copy, Serialize)]
struct Memory {
    rest: f64,
    /// Per 1,000 runs that wait for the model.
    per_1000_held: f64,
    /// The same, with a client that reads the stream of each run.
    per_1000_streamed: f64,
}

/// Machine and settings of the measurement.
#[derive(Debug, Serialize)]
pub(crate) struct Settings {
    processor: String,
    cores: usize,
    postgres: String,
    fsync: String,
    concurrency: usize,
    idle_runs: usize,
    pieces: usize,
    message_bytes: usize,
    answer_bytes: usize,
}

impl Settings {
    pub(crate) fn of(size: Size, servers: &TestServers) -> Result<Self> {
        Ok(Self {
            processor: machine::processor(),
            cores: machine::cores(),
            postgres: database::query(servers, "show server_version")?,
            fsync: database::query(servers, "show fsync")?,
            concurrency: size.concurrency,
            idle_runs: size.idle_runs,
            pieces: workload::PIECES,
            message_bytes: workload::BYTES,
            answer_bytes: workload::BYTES,
        })
    }
}

/// The results of all measurements.
#[derive(Debug)]
pub(crate) struct Measurements {
    pub(crate) rest: Rest,
    pub(crate) idle: Idle,
    pub(crate) saturated: Saturated,
    pub(crate) held: Vec<Held>,
    pub(crate) with_tool: Saturated,
    pub(crate) cancel: Cancel,
    pub(crate) scale: Option<Scale>,
    pub(crate) flood: Flood,
    pub(crate) tokens: Tokens,
    pub(crate) hints: Hints,
}

#[derive(Debug, Serialize)]
struct Parts {
    cpu_ms_per_second_at_rest: f64,
    commits_per_second_at_rest: f64,
    idle: Idle,
    saturated: Saturated,
    held: Vec<Held>,
    /// The same load with the answer sent by the tool `send_message`.
    saturated_with_send_message: Saturated,
    cancel: Cancel,
    idle_scale: Option<Scale>,
    flood: Flood,
    tokens: Tokens,
    hints: Hints,
}

/// Converts bytes to MB.
pub(crate) fn megabytes(bytes: u64) -> f64 {
    round(bytes as f64 / 1e6)
}

impl Report {
    pub(crate) fn of(settings: Settings, more: Measurements) -> Self {
        let Measurements { rest, idle, saturated, held, with_tool, cancel, flood, scale, tokens, hints } =
            more;
        let most_memory = |streamed: bool| {
            held.iter()
                .filter(|held| held.streamed == streamed)
                .map(|held| held.kb_per_run)
                .fold(0.0, f64::max)
        };
        let memory = Memory {
            rest: megabytes(rest.rss),
            per_1000_held: most_memory(false),
            per_1000_streamed: most_memory(true),
        };
        Self {
            post_to_start_ms: idle.post_to_start_ms,
            first_event_ms: idle.first_event_ms,
            done_ms: idle.done_ms,
            runs_per_second: saturated.runs_per_second,
            cpu_ms_per_run: saturated.cpu_ms_per_run,
            rss_mb: memory,
            commits_per_run: saturated.commits_per_run,
            bytes_per_turn: saturated.bytes_per_turn,
            settings,
            more: Parts {
                cpu_ms_per_second_at_rest: round(rest.cpu_ms_per_second),
                commits_per_second_at_rest: round(rest.commits_per_second),
                idle,
                saturated,
                held,
                saturated_with_send_message: with_tool,
                cancel,
                idle_scale: scale,
                flood,
                tokens,
                hints,
            },
        }
    }

    /// The table: measured value, target, whether it is met, and the best figure of comparable systems.
    pub(crate) fn table(&self) -> String {
        let more = &self.more;
        let mut rows =
            [&self.rows()[..], &cancel_rows(&more.cancel), &flood_rows(more.flood), &token_rows(more.tokens)]
                .concat();
        let lines = more.idle_scale.iter().flat_map(Scale::lines).chain(more.hints.lines());
        rows.extend(lines.map(|[what, measured, target, met]| [what, measured, target, met, String::new()]));
        let mut text = render(&rows);
        let settings = &self.settings;
        let _ = write!(
            text,
            "\n{} cores ({}), PostgreSQL {}, fsync {}; concurrency {}, {} pieces, {} bytes in and out; the load and \
             the model run on the same cores ({:.2} ms per run).",
            settings.cores,
            settings.processor,
            settings.postgres,
            settings.fsync,
            settings.concurrency,
            settings.pieces,
            settings.message_bytes,
            more.saturated.load_cpu_ms_per_run,
        );
        text
    }

    fn rows(&self) -> Vec<[String; 5]> {
        let more = &self.more;
        let spread = |spread: Spread| format!("{:.1} / {:.1}", spread.p50, spread.p99);
        let at_most = |value: f64, most: f64| if value <= most { "yes" } else { "NO" };
        let at_least = |value: f64, least: f64| if value >= least { "yes" } else { "NO" };
        let share = self.cpu_ms_per_run;
        let shares = format!("{:.2} + {:.2} + {:.2}", share.houston, share.postgres, share.redis);
        let (start, first, done) = (self.post_to_start_ms, self.first_event_ms, self.done_ms);
        let memory = self.rss_mb;
        let tool = &more.saturated_with_send_message;
        vec![
            ["", "measured", "target", "met", "best other"].map(str::to_owned),
            row("idle: POST to start, ms p50 / p99", spread(start), "≤ 3", at_most(start.p50, 3.0), ""),
            row("idle: first event, ms p50 / p99", spread(first), "≤ 3", at_most(first.p50, 3.0), "10 / 20"),
            row("idle: done, ms p50 / p99", spread(done), "≤ 7", at_most(done.p50, 7.0), "16 / 37"),
            row(
                "streamed durable runs/s",
                format!("{:.0}", self.runs_per_second),
                "≥ 1200",
                at_least(self.runs_per_second, 1200.0),
                "347 (no tokens)",
            ),
            row("  with send_message, runs/s", format!("{:.0}", tool.runs_per_second), "", "", ""),
            row("CPU per run, ms", format!("{:.2}", share.sum()), "≤ 1.4", at_most(share.sum(), 1.4), "3.0"),
            row("  Houston + Postgres + Redis", shares, "", "", ""),
            row("RSS at rest, MB", format!("{:.1}", memory.rest), "≤ 20", at_most(memory.rest, 20.0), "12"),
            row(
                "RSS per held run, KB",
                format!("{:.1}", memory.per_1000_held),
                "≤ 30",
                at_most(memory.per_1000_held, 30.0),
                "235",
            ),
            row(
                "  with a client's stream each",
                format!("{:.1}", memory.per_1000_streamed),
                "≤ 60",
                at_most(memory.per_1000_streamed, 60.0),
                "",
            ),
            row("commits per run", format!("{:.2}", self.commits_per_run), "", "", ""),
            row(
                "stored bytes per turn",
                format!("{:.0}", self.bytes_per_turn),
                "≤ 2662",
                at_most(self.bytes_per_turn, 2662.0),
                "2,000 (120 KiB / 60)",
            ),
        ]
    }
}

/// The target applies to p99: a user is waiting for the run to stop.
fn cancel_rows(cancel: &Cancel) -> [[String; 5]; 2] {
    [
        ("cancel to model connection closed, ms p50 / p99", cancel.with_redis_ms),
        ("  without Redis", cancel.without_redis_ms),
    ]
    .map(|(what, spread)| {
        let met = if spread.p99 <= 100.0 { "yes" } else { "NO" };
        row(what, format!("{:.1} / {:.1}", spread.p50, spread.p99), "≤ 100", met, "")
    })
}

/// How long a user's messages wait while another user floods.
fn flood_rows(flood: Flood) -> [[String; 5]; 2] {
    let spread = |spread: Spread| format!("{:.1} / {:.1}", spread.p50, spread.p99);
    let (before, meanwhile) = (flood.start_before_ms, flood.start_meanwhile_ms);
    let met = if meanwhile.p99 <= 1000.0 { "yes" } else { "NO" };
    let flooded = format!("  while another floods ({} wait)", flood.waiting);
    [
        row("message to start, ms p50 / p99", spread(before), "", "", ""),
        row(&flooded, spread(meanwhile), "p99 ≤ 1000", met, ""),
    ]
}

/// Latency and processor time per token.
fn token_rows(tokens: Tokens) -> [[String; 5]; 2] {
    let (overhead, rate) = (tokens.overhead_ms, tokens.tokens_per_second);
    [
        row(
            &format!("token, socket to SSE frame, ms p50 / p99 ({rate:.0}/s)"),
            format!("{:.2} / {:.2}", overhead.p50, overhead.p99),
            "",
            "",
            "",
        ),
        row("  CPU of Houston per token, µs", format!("{:.1}", tokens.cpu_us_per_token), "", "", ""),
    ]
}

fn row(what: &str, measured: String, target: &str, met: &str, other: &str) -> [String; 5] {
    [what.to_owned(), measured, target.to_owned(), met.to_owned(), other.to_owned()]
}

/// A table of rows with name, measured value, target, and whether it is met.
pub(crate) fn targets_table(rows: &[[String; 4]]) -> String {
    render(&[&[["", "measured", "target", "met"].map(str::to_owned)][..], rows].concat())
}

/// The table of `--conversation`.
pub(crate) fn conversation_table(conversation: &Conversation) -> String {
    let head =
        ["", "tokens per turn", "at the end", "cached", "model calls", "US dollars"].map(str::to_owned);
    let mut rows = vec![head];
    for way in &conversation.ways {
        rows.push([
            way.way.to_owned(),
            format!("{:.0}", way.tokens_per_turn),
            format!("{:.0}", way.tokens_per_turn_at_the_end),
            format!("{:.0} %", way.cached * 100.0),
            way.model_calls.to_string(),
            way.cost.chars().take(7).collect(),
        ]);
    }
    let Flat { turns, new_ms, old_ms, ratio } = conversation.flat;
    render(&rows)
        + &format!(
            "\n{} turns; a turn after {turns} others takes {:.1} ms (p99 {:.1}), a turn of a new agentable {:.1} ({:.1}): ratio {ratio:.2}\n",
            conversation.turns, old_ms.p50, old_ms.p99, new_ms.p50, new_ms.p99
        )
}

/// Formats rows with columns as wide as their widest field.
fn render<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let mut text = String::new();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    for row in rows {
        let mut line = String::new();
        for (column, field) in row.iter().enumerate() {
            let padding = width(column) - field.chars().count();
            // The first column is left-aligned, the others right-aligned.
            let (before, after) = if column == 0 { (0, padding) } else { (padding, 0) };
            let _ = write!(line, "{}{field}{}  ", " ".repeat(before), " ".repeat(after));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
