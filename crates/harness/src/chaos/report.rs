//! What came of it: one table for people, one object for machines.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::checker::Finding;
use super::nemesis::Deeds;
use super::witness::Evidence;

/// Of planned faults, so many of a hundred must have happened: else nothing was shown.
const ENOUGH: usize = 90;

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Clean,
    /// Something that must not happen did.
    Violated,
    /// Too little went wrong for the counts to mean anything.
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
    /// How long it took until nothing was open any more.
    pub(crate) quiet_seconds: f64,
    pub(crate) mutation: Option<String>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) deeds: Deeds,
    pub(crate) posted: usize,
    pub(crate) accepted: usize,
    pub(crate) retried: usize,
    pub(crate) cancels: usize,
    pub(crate) events_read: usize,
    pub(crate) connections: usize,
    /// Processes started, and ended by themselves.
    pub(crate) starts: u32,
    pub(crate) ends: u32,
}

impl Report {
    /// `times`: how long it took, and of that until nothing was open any more, in seconds.
    pub(crate) fn new(
        (seed, mutation): (u64, Option<String>),
        times: (f64, f64),
        findings: Vec<Finding>,
        deeds: Deeds,
        evidence: &Evidence,
    ) -> Self {
        let posts = &evidence.posts;
        Self {
            seed,
            mutation,
            seconds: times.0,
            quiet_seconds: times.1,
            findings,
            deeds,
            posted: posts.len(),
            accepted: posts.iter().filter(|post| post.accepted.is_some()).count(),
            retried: posts.iter().filter(|post| post.tries > 1).count(),
            events_read: evidence.seen.iter().map(|(_, seen)| seen.events).sum(),
            connections: evidence.seen.iter().map(|(_, seen)| seen.connections).sum(),
            cancels: 0,
            starts: 0,
            ends: 0,
        }
    }

    pub(crate) fn violations(&self) -> usize {
        self.findings.iter().map(|finding| finding.count).sum()
    }

    pub(crate) fn verdict(&self) -> Verdict {
        if self.violations() > 0 {
            Verdict::Violated
        } else if self.deeds.injected() * 100 < self.deeds.planned() * ENOUGH || self.accepted == 0 {
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
        let _ = writeln!(table, "\n{:<24} {:>8} {:>8}", "fault", "planned", "injected");
        for (kind, (planned, injected)) in &self.deeds.counts {
            let _ = writeln!(table, "{kind:<24} {planned:>8} {injected:>8}");
        }
        for failure in self.deeds.failures.iter().take(10) {
            let _ = writeln!(table, "  not injected: {failure}");
        }
        let _ = writeln!(
            table,
            "\n{} messages posted, {} accepted, {} posts tried again, {} runs cancelled; {} events read over {} \
             connections; {} processes started, {} ended by themselves; quiet after {:.1} s",
            self.posted,
            self.accepted,
            self.retried,
            self.cancels,
            self.events_read,
            self.connections,
            self.starts,
            self.ends,
            self.quiet_seconds
        );
        table + &self.line()
    }

    /// The closing line.
    pub(crate) fn line(&self) -> String {
        format!(
            "chaos: {} — {} violations, {} messages, {} of {} faults, {:.0} s, seed {}",
            self.verdict().as_str(),
            self.violations(),
            self.accepted,
            self.deeds.injected(),
            self.deeds.planned(),
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
        let faults = self.deeds.counts.iter().map(|(kind, (planned, injected))| {
            ((*kind).to_owned(), json!({"planned": planned, "injected": injected}))
        });
        json!({
            "verdict": self.verdict().as_str(), "seed": self.seed, "seconds": self.seconds,
            "quiet_seconds": self.quiet_seconds, "mutation": self.mutation,
            "invariants": findings.collect::<Vec<_>>(),
            "faults": faults.collect::<serde_json::Map<_, _>>(),
            "faults_planned": self.deeds.planned(), "faults_injected": self.deeds.injected(),
            "not_injected": self.deeds.failures,
            "messages_posted": self.posted, "messages_accepted": self.accepted, "posts_retried": self.retried,
            "cancels": self.cancels, "events_read": self.events_read, "connections": self.connections,
            "processes_started": self.starts, "processes_ended_by_themselves": self.ends,
        })
    }
}
