//! What the quiet tenants saw of the loud one.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::Phase;
use crate::spread::Spread;

/// How much later than alone the first event of a quiet tenant may come: the 99th percentile, as a ratio.
const RATIO: f64 = 1.5;
/// Milliseconds that `GET /livez` may take.
const LIVEZ_MS: f64 = 50.0;
/// Seconds within which the process ends after SIGTERM.
const STOP_S: f64 = 30.0;
/// Seconds within which a service that starts with stored poisons answers others.
const FIRST_ANSWER_S: f64 = 5.0;
/// Megabytes of memory that the process may have.
const MEMORY_MB: f64 = 500.0;

/// The end of a trial.
pub(super) struct Ending {
    pub(super) rest_mb: f64,
    pub(super) after: u64,
    pub(super) stop: Duration,
    pub(super) died: Vec<String>,
    pub(super) actions: u64,
    /// A start with stored poisons → the first answer of a quiet tenant.
    pub(super) first_answer: Option<Duration>,
    /// What failed there.
    pub(super) failed: Vec<String>,
    /// Whether times do not count.
    pub(super) without_times: bool,
}

/// The result.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// POST sent → first event, of twenty tenants.
    alone_ms: Spread,
    /// The same beside a loud tenant.
    beside_ms: Spread,
    ratio_p99: f64,
    messages: usize,
    /// Requests of quiet tenants that failed.
    failed: Vec<String>,
    /// Requests of the loud tenant that were answered.
    loud_requests: u64,
    livez_ms: f64,
    memory_mb: Memory,
    stop_s: f64,
    first_answer_s: Option<f64>,
    died: Vec<String>,
    pub(crate) met: bool,
}

#[derive(Debug, Serialize)]
struct Memory {
    rest: f64,
    most: f64,
    after: f64,
}

impl Report {
    pub(super) fn new(alone: &Phase, beside: &Phase, ending: Ending) -> Self {
        let spread = |phase: &Phase| Spread::of(phase.first_events.iter().copied());
        let (alone_ms, beside_ms) = (spread(alone), spread(beside));
        let mb = |bytes: u64| bytes as f64 / 1_048_576.0;
        let memory_mb =
            Memory { rest: ending.rest_mb, most: mb(beside.most_memory), after: mb(ending.after) };
        let failed: Vec<String> =
            alone.failed.iter().chain(&beside.failed).chain(&ending.failed).cloned().collect();
        let mut report = Self {
            ratio_p99: beside_ms.p99 / alone_ms.p99.max(0.1),
            alone_ms,
            beside_ms,
            messages: beside.first_events.len(),
            failed,
            loud_requests: ending.actions,
            livez_ms: beside.longest_livez.as_secs_f64() * 1000.0,
            memory_mb,
            stop_s: ending.stop.as_secs_f64(),
            first_answer_s: ending.first_answer.map(|took| took.as_secs_f64()),
            died: ending.died,
            met: false,
        };
        let is_in_time = report.ratio_p99 <= RATIO
            && report.livez_ms <= LIVEZ_MS
            && report.stop_s <= STOP_S
            && report.first_answer_s.is_some_and(|took| took <= FIRST_ANSWER_S);
        report.met = (is_in_time || ending.without_times)
            && report.first_answer_s.is_some()
            && report.failed.is_empty()
            && report.memory_mb.most <= MEMORY_MB
            && report.died.is_empty();
        report
    }

    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        let mut row = |what: &str, found: String, target: &str| {
            let _ = writeln!(text, "{what:<52} {found:>16}  {target}");
        };
        row("first event, twenty tenants alone, ms p50 / p99", self.alone_ms.to_string(), "");
        row("first event beside a loud tenant, ms p50 / p99", self.beside_ms.to_string(), "");
        row("ratio of the p99", format!("{:.2}", self.ratio_p99), &format!("at most {RATIO}"));
        row("messages of quiet tenants", self.messages.to_string(), "");
        row("of these failed", self.failed.len().to_string(), "0");
        row("requests of the loud tenant", self.loud_requests.to_string(), "");
        row("longest GET /livez, ms", format!("{:.1}", self.livez_ms), &format!("at most {LIVEZ_MS}"));
        let Memory { rest, most, after } = &self.memory_mb;
        row(
            "memory at rest / most / after, MB",
            format!("{rest:.0} / {most:.0} / {after:.0}"),
            &format!("most {MEMORY_MB}"),
        );
        row("SIGTERM → end, s", format!("{:.1}", self.stop_s), &format!("at most {STOP_S}"));
        let first_answer = self.first_answer_s.map_or("none".to_owned(), |took| format!("{took:.1}"));
        row(
            "start with stored poisons → first answer, s",
            first_answer,
            &format!("at most {FIRST_ANSWER_S}"),
        );
        row("deaths", self.died.len().to_string(), "0");
        for reason in self.failed.iter().take(5).chain(&self.died) {
            let _ = writeln!(text, "  {reason}");
        }
        let _ = write!(text, "{}", if self.met { "met" } else { "NOT MET" });
        text
    }
}
