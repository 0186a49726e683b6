//! The report: a JSON object for programs, a table for people.

use std::fmt::Write as _;

use anyhow::Result;
use houston_testkit::servers::TestServers;
use serde::Serialize;

use super::cancel::Cancel;
use super::flood::Flood;
use super::held::Held;
use super::idle::Idle;
use super::saturated::{Saturated, Shares};
use super::setup::Rest;
use super::spread::{Spread, round};
use super::tokens::Tokens;
use super::{Size, machine, workload};

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
            postgres: servers.sql("show server_version")?,
            fsync: servers.sql("show fsync")?,
            concurrency: size.concurrency,
            idle_runs: size.idle_runs,
            pieces: workload::PIECES,
            message_bytes: workload::BYTES,
            answer_bytes: workload::BYTES,
        })
    }
}

/// Every measurement.
#[derive(Debug, Serialize)]
pub(crate) struct Parts {
    #[serde(flatten)]
    pub(crate) rest: Rest,
    pub(crate) idle: Idle,
    pub(crate) saturated: Saturated,
    pub(crate) held: Vec<Held>,
    /// The same load with the answer sent by the tool `send_message`.
    pub(crate) saturated_with_send_message: Saturated,
    pub(crate) cancel: Cancel,
    pub(crate) flood: Flood,
    pub(crate) tokens: Tokens,
}

/// Converts bytes to MB.
pub(crate) fn megabytes(bytes: u64) -> f64 {
    round(bytes as f64 / 1e6)
}

impl Report {
    pub(crate) fn of(settings: Settings, more: Parts) -> Self {
        let most_memory = |streamed: bool| {
            let held = more.held.iter().filter(|held| held.streamed == streamed);
            held.map(|held| held.kb_per_run).fold(0.0, f64::max)
        };
        let rss_mb = Memory {
            rest: more.rest.rss_mb,
            per_1000_held: most_memory(false),
            per_1000_streamed: most_memory(true),
        };
        Self {
            post_to_start_ms: more.idle.post_to_start_ms,
            first_event_ms: more.idle.first_event_ms,
            done_ms: more.idle.done_ms,
            runs_per_second: more.saturated.runs_per_second,
            cpu_ms_per_run: more.saturated.cpu_ms_per_run,
            rss_mb,
            commits_per_run: more.saturated.commits_per_run,
            bytes_per_turn: more.saturated.bytes_per_turn,
            settings,
            more,
        }
    }

    /// The table: measured value, target, whether it is met, and the best figure of comparable systems.
    pub(crate) fn table(&self) -> String {
        let Parts { rest, idle, cancel, flood, tokens, .. } = &self.more;
        let mut rows = idle.rows();
        rows.extend(self.load());
        rows.push(rest.row());
        rows.extend(self.memory_and_storage());
        rows.extend(cancel.rows());
        rows.extend(flood.rows());
        rows.extend(tokens.rows());
        let settings = &self.settings;
        format!(
            "{}\n{} cores ({}), PostgreSQL {}, fsync {}; concurrency {}, {} pieces, {} bytes in and out; the load and \
             the model run on the same cores ({:.2} ms per run).",
            table(&rows),
            settings.cores,
            settings.processor,
            settings.postgres,
            settings.fsync,
            settings.concurrency,
            settings.pieces,
            settings.message_bytes,
            self.more.saturated.load_cpu_ms_per_run,
        )
    }

    fn load(&self) -> [Row; 4] {
        let cpu = self.cpu_ms_per_run;
        let with_tool = self.more.saturated_with_send_message.runs_per_second;
        let rate = self.runs_per_second;
        [
            Row::of("streamed durable runs/s", format!("{rate:.0}"))
                .at_least(rate, 1200.0)
                .best_other("347 (no tokens)"),
            Row::of("  with send_message, runs/s", format!("{with_tool:.0}")),
            Row::of("CPU per run, ms", format!("{:.2}", cpu.sum())).at_most(cpu.sum(), 1.4).best_other("3.0"),
            Row::of(
                "  Houston + Postgres + Redis",
                format!("{:.2} + {:.2} + {:.2}", cpu.houston, cpu.postgres, cpu.redis),
            ),
        ]
    }

    fn memory_and_storage(&self) -> [Row; 4] {
        let Memory { per_1000_held: held, per_1000_streamed: streamed, .. } = self.rss_mb;
        let bytes = self.bytes_per_turn;
        [
            Row::of("RSS per held run, KB", format!("{held:.1}")).at_most(held, 30.0).best_other("235"),
            Row::of("  with a client's stream each", format!("{streamed:.1}")).at_most(streamed, 60.0),
            Row::of("commits per run", format!("{:.2}", self.commits_per_run)),
            Row::of("stored bytes per turn", format!("{bytes:.0}"))
                .at_most(bytes, 2662.0)
                .best_other("2,000 (120 KiB / 60)"),
        ]
    }
}

/// A row of a table: what was measured, the figure, and its target if it has one.
#[derive(Debug, Clone)]
pub(crate) struct Row([String; 5]);

impl Row {
    pub(crate) fn of(what: impl Into<String>, measured: impl Into<String>) -> Self {
        Self([what.into(), measured.into(), String::new(), String::new(), String::new()])
    }

    /// The target is at most `most`.
    pub(crate) fn at_most(self, value: f64, most: f64) -> Self {
        self.target(&format!("≤ {most}"), value <= most)
    }

    /// The target is at least `least`.
    pub(crate) fn at_least(self, value: f64, least: f64) -> Self {
        self.target(&format!("≥ {least}"), value >= least)
    }

    pub(crate) fn target(mut self, target: &str, is_met: bool) -> Self {
        self.0[2] = target.to_owned();
        self.0[3] = if is_met { "yes" } else { "NO" }.to_owned();
        self
    }

    /// The best figure of comparable systems.
    pub(crate) fn best_other(mut self, other: &str) -> Self {
        self.0[4] = other.to_owned();
        self
    }
}

/// The rows under a heading, with columns as wide as their widest field.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut heading = Row(["", "measured", "target", "met", ""].map(str::to_owned));
    if rows.iter().any(|row| !row.0[4].is_empty()) {
        heading = heading.best_other("best other");
    }
    let rows: Vec<&Row> = std::iter::once(&heading).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row.0[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut text = String::new();
    for Row([what, figures @ ..]) in rows {
        let mut line = format!("{what:<0$}", widths[0]);
        for (figure, width) in figures.iter().zip(&widths[1..]) {
            let _ = write!(line, "  {figure:>width$}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_targets_are_marked() {
        let rows = [
            Row::of("runs/s", "1100").at_least(1100.0, 1200.0),
            Row::of("done, ms", "4.0 / 9.0").at_most(4.0, 7.0),
            Row::of("commits", "2"),
        ];
        let expected = "           measured  target  met\n\
                        runs/s         1100  ≥ 1200   NO\n\
                        done, ms  4.0 / 9.0     ≤ 7  yes\n\
                        commits           2\n";
        assert_eq!(table(&rows), expected);
    }
}
