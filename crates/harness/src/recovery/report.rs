//! The measured times, compared with their targets.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::Plan;
use crate::spread::{rank, round};

/// The measured times for one signal.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// Per ended worker: the time until the last of its runs was claimed.
    pub(crate) slowest: Vec<Duration>,
    /// Per ended worker: the time until the model was asked again for all of its runs.
    pub(crate) asked: Vec<Duration>,
    /// Number of these runs.
    runs: usize,
    /// Time to exit, of terminated workers.
    pub(crate) exits: Vec<Duration>,
}

impl Times {
    /// Adds one worker with the recovery times of its runs.
    pub(crate) fn add(&mut self, runs: &[Duration]) {
        self.runs += runs.len();
        self.slowest.extend(runs.iter().max());
    }
}

/// Percentiles, in seconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Figures {
    count: usize,
    runs: usize,
    p50_s: f64,
    p99_s: f64,
    max_s: f64,
}

impl Figures {
    fn of(times: &[Duration], runs: usize) -> Self {
        let mut times = times.to_vec();
        times.sort_unstable();
        let at = |percent| round(rank(&times, percent).as_secs_f64());
        Self { count: times.len(), runs, p50_s: at(50), p99_s: at(99), max_s: at(100) }
    }

    fn within(&self, p50: f64, p99: f64, max: f64) -> bool {
        self.p50_s <= p50 && self.p99_s <= p99 && self.max_s <= max
    }
}

/// The report; as JSON:
///
/// ```json
/// {"workers": 4, "runs_in_flight": 12,
///  "recovery": {"count": 200, "runs": 610, "p50_s": 2.1, "p99_s": 6.3, "max_s": 7.0},
///  "hand_over": {…}, "exit": {…}, "met": true}
/// ```
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    workers: usize,
    runs_in_flight: usize,
    /// From SIGKILL until the last of the worker's runs was claimed by another worker.
    recovery: Figures,
    /// From SIGTERM until the last of the worker's runs was claimed by another worker.
    hand_over: Figures,
    /// From SIGTERM to the end of the process.
    exit: Figures,
    /// Whether every target was met.
    pub(crate) met: bool,
}

/// Targets (R7), in seconds: p50, p99 and maximum.
const RECOVERY: [f64; 3] = [5.0, 10.0, 35.0];
const HAND_OVER: f64 = 2.0;
const EXIT: f64 = 25.0;

impl Report {
    pub(crate) fn of(plan: Plan, kills: &Times, stops: &Times) -> Self {
        let recovery = Figures::of(&kills.slowest, kills.runs);
        let hand_over = Figures::of(&stops.slowest, stops.runs);
        let exit = Figures::of(&stops.exits, stops.runs);
        let met = recovery.within(RECOVERY[0], RECOVERY[1], RECOVERY[2])
            && hand_over.within(HAND_OVER, HAND_OVER, HAND_OVER)
            && exit.within(EXIT, EXIT, EXIT);
        Self { workers: plan.workers, runs_in_flight: plan.runs, recovery, hand_over, exit, met }
    }

    pub(crate) fn table(&self) -> String {
        let mut text =
            format!("{:<34}{:>6}{:>7}{:>8}{:>8}{:>8}   target\n", "", "count", "runs", "p50", "p99", "max");
        let rows = [
            ("kill -9 to the next claim, s", &self.recovery, "p50 ≤ 5, p99 ≤ 10, max ≤ 35"),
            ("SIGTERM to the next claim, s", &self.hand_over, "max ≤ 2"),
            ("SIGTERM to the end, s", &self.exit, "max ≤ 25"),
        ];
        for (what, figures, aim) in rows {
            let Figures { count, runs, p50_s, p99_s, max_s } = figures;
            let _ =
                writeln!(text, "{what:<34}{count:>6}{runs:>7}{p50_s:>8.2}{p99_s:>8.2}{max_s:>8.2}   {aim}");
        }
        let met = if self.met { "every target was met" } else { "A TARGET WAS MISSED" };
        let _ = write!(
            text,
            "{met}; {} workers, {} runs in flight; per worker, the run that waited longest",
            self.workers, self.runs_in_flight
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_target_is_reported() {
        let plan = Plan { kills: 100, stops: 1, workers: 2, runs: 1 };
        let report = |slow: u64, hand_over: u64| {
            let mut kills = Times::default();
            (0..99).for_each(|_| kills.add(&[Duration::from_secs(1), Duration::from_secs(2)]));
            kills.add(&[Duration::from_secs(slow)]);
            let mut stops = Times { exits: vec![Duration::from_secs(3)], ..Times::default() };
            stops.add(&[Duration::from_millis(hand_over)]);
            Report::of(plan, &kills, &stops)
        };
        let fine = report(34, 1900);
        assert!(fine.met, "one in a hundred may take long: {fine:?}");
        assert_eq!((fine.recovery.p50_s, fine.recovery.p99_s, fine.recovery.max_s), (2.0, 2.0, 34.0));
        assert_eq!(fine.recovery.runs, 199);
        assert!(!report(36, 1900).met);
        assert!(!report(34, 2100).met);
    }
}
