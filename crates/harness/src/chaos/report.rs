//! The report: a table for people and a JSON object for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::checker::Finding;
use super::evidence::Evidence;
use super::nemesis::FaultLog;

/// A run counts only if at least this share of the planned faults was injected.
const MIN_INJECTED_PERCENT: usize = 90;
/// For how many seconds after a loss pauses count as its outage. Messages are posted for as long, in a brief run too.
const AFTER_LOSS: f64 = 15.0;

/// The result of a chaos run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Clean,
    /// An invariant was violated.
    Violated,
    /// Too few faults were injected for the counts to mean anything.
    Invalid,
}

impl Verdict {
    /// The exit code.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::Violated => 1,
            Self::Invalid => 3,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Violated => "violated",
            Self::Invalid => "invalid",
        }
    }
}

pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) seconds: f64,
    /// From the last fault until no run was open.
    pub(crate) quiet_seconds: f64,
    /// What had not ended after the quiet phase, one line each.
    pub(crate) unended: Vec<String>,
    pub(crate) mutation: Option<String>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) fault_log: FaultLog,
    pub(crate) posted: usize,
    pub(crate) accepted: usize,
    pub(crate) retried: usize,
    pub(crate) cancels: usize,
    pub(crate) events_read: usize,
    pub(crate) connections: usize,
    /// Processes started, and processes that ended without having been killed.
    pub(crate) starts: u32,
    pub(crate) ends: u32,
    /// How often a poisoned message killed its process: those ended by themselves too.
    pub(crate) poisonings: usize,
    /// Of the engine that was tested, if one was.
    pub(crate) engine_note: String,
    /// Hints that the Redis got which replaced the lost one.
    pub(crate) hints_after: Option<u64>,
    /// The longest time without a commit after the server was lost, in seconds.
    pub(crate) outage: f64,
}

/// The longest time between two commits of which the first was at most [`AFTER_LOSS`] after the loss, and the second after it.
fn outage(lost_at: f64, commits: impl Iterator<Item = f64>) -> f64 {
    let mut commits: Vec<f64> = commits.collect();
    commits.sort_by(f64::total_cmp);
    let after = commits.windows(2).filter(|pair| pair[1] >= lost_at && pair[0] <= lost_at + AFTER_LOSS);
    after.map(|pair| pair[1] - pair[0]).fold(0.0, f64::max)
}

impl Report {
    /// `times`: the duration of the run, and of its quiet phase, in seconds.
    pub(crate) fn new(
        (seed, mutation): (u64, Option<String>),
        times: (f64, f64),
        findings: Vec<Finding>,
        fault_log: FaultLog,
        evidence: &Evidence,
    ) -> Self {
        let posts = &evidence.posts;
        let commits = evidence.rows.events.iter().map(|event| event.at);
        let outage = fault_log.lost_at.map_or(0.0, |lost_at| outage(lost_at, commits));
        Self {
            seed,
            mutation,
            seconds: times.0,
            quiet_seconds: times.1,
            unended: Vec::new(),
            findings,
            fault_log,
            posted: posts.len(),
            accepted: posts.iter().filter(|post| post.accepted.is_some()).count(),
            retried: posts.iter().filter(|post| post.tries > 1).count(),
            events_read: evidence.streams.iter().map(|(_, received)| received.events).sum(),
            connections: evidence.streams.iter().map(|(_, received)| received.connections).sum(),
            cancels: 0,
            starts: 0,
            ends: 0,
            poisonings: 0,
            engine_note: String::new(),
            hints_after: None,
            outage,
        }
    }

    /// Accepted messages that were lost.
    pub(crate) fn lost(&self) -> usize {
        self.findings.iter().filter(|finding| finding.rule == "R1").map(|finding| finding.count).sum()
    }

    pub(crate) fn violations(&self) -> usize {
        self.findings.iter().map(|finding| finding.count).sum()
    }

    pub(crate) fn verdict(&self) -> Verdict {
        if self.violations() > 0 {
            Verdict::Violated
        } else if self.fault_log.injected() * 100 < self.fault_log.planned() * MIN_INJECTED_PERCENT
            || self.accepted == 0
        {
            Verdict::Invalid
        } else {
            Verdict::Clean
        }
    }

    pub(crate) fn table(&self) -> String {
        let mut table = format!(
            "{:<4} {:<42} {:>10} {:>8} {:>6}  {}\n",
            "", "invariant", "of", "found", "target", "figures"
        );
        for finding in &self.findings {
            let Finding { rule, what, of, count, note, .. } = finding;
            let _ = writeln!(table, "{rule:<4} {what:<42} {of:>10} {count:>8} {:>6}  {note}", 0);
        }
        for finding in self.findings.iter().filter(|finding| finding.count > 0) {
            for example in &finding.examples {
                let _ = writeln!(table, "  {}: {example}", finding.rule);
            }
        }
        for unended in &self.unended {
            let _ = writeln!(table, "  not ended: {unended}");
        }
        let _ = writeln!(table, "\n{:<24} {:>8} {:>8}", "fault", "planned", "injected");
        for (kind, (planned, injected)) in &self.fault_log.counts {
            let _ = writeln!(table, "{kind:<24} {planned:>8} {injected:>8}");
        }
        for failure in self.fault_log.failures.iter().take(10) {
            let _ = writeln!(table, "  not injected: {failure}");
        }
        let _ = writeln!(
            table,
            "\n{} messages posted, {} accepted, {} posts tried again, {} runs cancelled; {} events read over {} \
             connections; {} processes started, {} ended by themselves, {} \
             of them poisoned; quiet after {:.1} s",
            self.posted,
            self.accepted,
            self.retried,
            self.cancels,
            self.events_read,
            self.connections,
            self.starts,
            self.ends,
            self.poisonings,
            self.quiet_seconds
        );
        table + &self.line()
    }

    /// The closing line: verdict, violations, messages, faults, duration, seed.
    pub(crate) fn line(&self) -> String {
        format!(
            "chaos: {} — {} violations, {} messages, {} of {} faults, {:.0} s, seed {}",
            self.verdict().as_str(),
            self.violations(),
            self.accepted,
            self.fault_log.injected(),
            self.fault_log.planned(),
            self.seconds,
            self.seed
        )
    }

    pub(crate) fn json(&self) -> Value {
        let findings = self.findings.iter().map(|finding| {
            json!({
                "rule": finding.rule, "what": finding.what, "of": finding.of, "found": finding.count, "target": 0,
                "note": finding.note, "examples": finding.examples,
            })
        });
        let faults = self.fault_log.counts.iter().map(|(kind, (planned, injected))| {
            ((*kind).to_owned(), json!({"planned": planned, "injected": injected}))
        });
        json!({
            "verdict": self.verdict().as_str(), "seed": self.seed, "seconds": self.seconds,
            "quiet_seconds": self.quiet_seconds, "not_ended": self.unended, "mutation": self.mutation,
            "invariants": findings.collect::<Vec<_>>(),
            "faults": faults.collect::<serde_json::Map<_, _>>(),
            "faults_planned": self.fault_log.planned(), "faults_injected": self.fault_log.injected(),
            "not_injected": self.fault_log.failures,
            "messages_posted": self.posted, "messages_accepted": self.accepted, "posts_retried": self.retried,
            "cancels": self.cancels, "events_read": self.events_read, "connections": self.connections,
            "processes_started": self.starts, "processes_ended_by_themselves": self.ends, "poisonings": self.poisonings,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outage_is_the_longest_pause_around_the_loss() {
        let outage = |commits: &[f64]| format!("{:.1}", outage(100.0, commits.iter().copied()));
        let commits = [0.0, 50.0, 99.0, 103.5, 104.0, 110.0, 200.0];
        assert_eq!(outage(&commits), "90.0", "work that does not go on again counts too");
        assert_eq!(outage(&commits[..6]), "6.0");
        assert_eq!(outage(&commits[..5]), "4.5", "it is spanned by the commits before and after it");
        assert_eq!(outage(&commits[..2]), "0.0");
    }
}
