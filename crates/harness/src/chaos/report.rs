//! The report.

use std::fmt::Write as _;

use super::checker::Finding;
use super::evidence::Evidence;
use super::message_script::POISON;
use super::nemesis::Count;

/// A run counts only if at least this share of the planned faults was injected.
const MIN_INJECTED_PERCENT: usize = 90;
/// For how many seconds after a loss pauses count as its outage. Messages are posted for as long, in a brief run too.
const AFTER_LOSS: f64 = 15.0;

/// The result.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) seconds: f64,
    /// From the last fault until no run was open.
    pub(crate) quiet_seconds: f64,
    /// What had not ended after the quiet phase, one line each.
    pub(crate) not_ended: Vec<String>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) evidence: Evidence,
    /// How many processes were started, and how many of them ended without having been killed.
    pub(crate) processes: (usize, usize),
    /// Of the engine that was tested, if one was.
    pub(crate) engine_note: String,
    /// Hints that the Redis got which replaced the lost one.
    pub(crate) hints_after: Option<u64>,
}

/// The longest time between two commits of which the first was at most [`AFTER_LOSS`] after the loss, and the second after it.
fn outage(lost_at: f64, commits: impl Iterator<Item = f64>) -> f64 {
    let mut commits: Vec<f64> = commits.collect();
    commits.sort_by(f64::total_cmp);
    let after = commits.windows(2).filter(|pair| pair[1] >= lost_at && pair[0] <= lost_at + AFTER_LOSS);
    after.map(|pair| pair[1] - pair[0]).fold(0.0, f64::max)
}

impl Report {
    pub(crate) fn messages_accepted(&self) -> usize {
        self.evidence.posts.iter().filter(|post| post.accepted.is_some()).count()
    }

    /// How often a poisoned message killed its process: those ended by themselves too.
    pub(crate) fn poisonings(&self) -> usize {
        self.evidence.ledgers.get(POISON).map_or(0, Vec::len)
    }

    /// The longest time without a commit after the server was lost, in seconds.
    pub(crate) fn outage(&self) -> f64 {
        let commits = self.evidence.rows.events.iter().map(|event| event.at);
        self.evidence.faults.lost_at.map_or(0.0, |lost_at| outage(lost_at, commits))
    }

    /// Accepted messages that were lost.
    pub(crate) fn lost(&self) -> usize {
        self.findings.iter().filter(|finding| finding.rule == "R1").map(|finding| finding.count).sum()
    }

    pub(crate) fn violations(&self) -> usize {
        self.findings.iter().map(|finding| finding.count).sum()
    }

    /// Its name, and the exit code.
    pub(crate) fn verdict(&self) -> (&'static str, u8) {
        if self.violations() > 0 {
            // An invariant was violated.
            ("violated", 1)
        } else if self.evidence.faults.injected() * 100
            < self.evidence.faults.planned() * MIN_INJECTED_PERCENT
            || self.messages_accepted() == 0
        {
            // Too few faults were injected for the counts to mean anything.
            ("invalid", 3)
        } else {
            ("clean", 0)
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
        for not_ended in &self.not_ended {
            let _ = writeln!(table, "  not ended: {not_ended}");
        }
        let _ = writeln!(table, "\n{:<24} {:>8} {:>8}", "fault", "planned", "injected");
        for (kind, Count { planned, injected }) in &self.evidence.faults.faults {
            let _ = writeln!(table, "{kind:<24} {planned:>8} {injected:>8}");
        }
        for failure in self.evidence.faults.not_injected.iter().take(10) {
            let _ = writeln!(table, "  not injected: {failure}");
        }
        let posts = &self.evidence.posts;
        let streams = || self.evidence.streams.iter().map(|(_, received)| received);
        let _ = writeln!(
            table,
            "\n{} messages posted, {} accepted, {} posts tried again, {} runs cancelled; {} events read over {} \
             connections; {} processes started, {} ended by themselves, {} \
             of them poisoned; quiet after {:.1} s",
            posts.len(),
            self.messages_accepted(),
            posts.iter().filter(|post| post.tries > 1).count(),
            self.evidence.cancels,
            streams().map(|received| received.events).sum::<usize>(),
            streams().map(|received| received.connections).sum::<usize>(),
            self.processes.0,
            self.processes.1,
            self.poisonings(),
            self.quiet_seconds
        );
        let _ = write!(
            table,
            "chaos: {} — {} violations, {} messages, {} of {} faults, {:.0} s, seed {}",
            self.verdict().0,
            self.violations(),
            self.messages_accepted(),
            self.evidence.faults.injected(),
            self.evidence.faults.planned(),
            self.seconds,
            self.seed
        );
        table
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
