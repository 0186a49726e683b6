//! Claiming a run.

use std::time::Duration;

use houston_domain::id::AgentableId;
use houston_domain::knowledge::PromptLimits;
use houston_store::claim::{ClaimedRun, CrashPolicy};

use super::Scene;
use super::counted::Counted;
use super::rows::without_ids;
use super::sequence::Claim;
use super::twin::Twin;
use crate::test_store::ClaimRun as _;

/// A death is doubted no longer than the claim takes.
pub(super) fn crashes() -> CrashPolicy {
    CrashPolicy { grace: Duration::ZERO, ..CrashPolicy::default() }
}

impl Scene<'_> {
    /// Claims the open run.
    pub(super) async fn claim(&self, twin: &mut Twin, agentable: AgentableId, how: &Claim) -> String {
        let (token, message) = (self.ids().next(), self.ids().next());
        let worker = if how.is_dead { self.ids().next() } else { twin.worker };
        let claimed = self.store.runs().claim_run(agentable, worker, token, message, crashes()).await;
        match claimed.unwrap() {
            Some(claimed) => self.claimed(twin, claimed, how.reads).await,
            None => "not claimed".into(),
        }
    }

    /// What the worker learns; `reads`: the run's context and the published event, too.
    pub(super) async fn claimed(&self, twin: &mut Twin, claimed: ClaimedRun, reads: bool) -> String {
        let mut seen = format!(
            "{} {} {} {:?} {:?} {:?}",
            claimed.fence.epoch,
            claimed.kind,
            claimed.title,
            (claimed.attempt, claimed.iterations, claimed.deaths, claimed.claims, claimed.is_given_up),
            (claimed.failed_attempts, claimed.cancel_seq, claimed.usage, claimed.error.is_some()),
            claimed.event.seq
        );
        twin.counted = Some(Counted::of(twin.counted, &claimed));
        if reads {
            let agentable = claimed.fence.agentable;
            self.assert_read(agentable, std::slice::from_ref(&claimed.event)).await;
            let runs = self.store.runs();
            let read;
            let context = match claimed.context.as_deref() {
                Some(context) => context,
                None => {
                    let limits = PromptLimits::default();
                    read = runs.run_context(agentable, claimed.run, 10, &limits).await.unwrap();
                    &read
                }
            };
            seen =
                format!("{seen} {} {}", without_ids(&format!("{:?}", context.history)), context.run_entries);
        }
        twin.earlier = twin.claimed.replace(claimed).map(|earlier| earlier.fence);
        twin.open_calls.clear();
        seen
    }
}
