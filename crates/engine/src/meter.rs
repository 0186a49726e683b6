//! Counts what becomes of runs on this worker ([`houston_metrics::runs`]), and makes the spans of their attempts.

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentableId, RunId};
use houston_metrics::Metrics;
use houston_metrics::runs::Attempt;
use houston_queue::Lane;
use houston_spans::queue::AttemptInfo;
use houston_spans::{Span, Spans, TraceParent};
use houston_store::claim::ClaimedRun;
use tokio::time::Instant;

use crate::run::driver::DriveOutcome;

/// One attempt of a run on this worker. It is small: each run that waits has one.
pub(crate) struct Meter {
    /// When the run was accepted, by the clock of this process.
    accepted: Instant,
    queue: Lane,
    span: Span,
}

impl Meter {
    /// The attempt begins.
    pub(crate) fn start(metrics: &Metrics, spans: &Spans, claimed: &ClaimedRun, queue: Lane) -> Self {
        // An id has the time at which it was made; the clocks of two machines may differ.
        let waited = (claimed.event.at - accepted(claimed.run).unwrap_or(claimed.event.at)).to_std();
        let waited = waited.unwrap_or_default();
        if claimed.attempt == 1 {
            metrics.runs.started(queue, waited);
        }
        let parent = claimed.traceparent.as_ref().filter(|_| spans.is_on());
        let parent: Option<TraceParent> = parent.and_then(|parent| parent.parse().ok());
        let attempt =
            AttemptInfo { queue: queue.as_str(), run: claimed.run, number: claimed.attempt, waited };
        let span = spans.attempt(attempt, parent.as_ref());
        let now = Instant::now();
        Self { accepted: now.checked_sub(waited).unwrap_or(now), queue, span }
    }

    /// The span of the agent in this attempt.
    pub(crate) fn agent(&self, claimed: &ClaimedRun) -> Span {
        self.span.agent(&claimed.kind, || claimed.fence.agentable.public_id(&claimed.kind))
    }

    /// The id of the trace, for logs.
    pub(crate) fn trace_id(&self) -> Option<String> {
        self.span.ids().map(|(trace, _)| trace)
    }

    /// The attempt ended.
    pub(crate) fn end(
        &self,
        metrics: &Metrics,
        agentable: AgentableId,
        outcome: Result<DriveOutcome, &houston_store::Error>,
    ) {
        let attempt = match outcome {
            Ok(DriveOutcome::NotClaimed | DriveOutcome::Accused) => return,
            Ok(DriveOutcome::Ended(_)) => Attempt::Ended,
            Ok(DriveOutcome::Retrying { .. }) => Attempt::Retrying,
            Ok(DriveOutcome::Waiting { .. }) => Attempt::Waiting,
            Ok(DriveOutcome::HandedOver) => Attempt::HandedOver,
            Ok(DriveOutcome::Lost | DriveOutcome::Panicked) => Attempt::Lost,
            Err(_) => Attempt::Error,
        };
        metrics.runs.attempted(self.queue, attempt);
        let mut name = attempt.as_str();
        if let Ok(DriveOutcome::Ended(status)) = outcome {
            metrics.runs.finished(self.queue, status, self.accepted.elapsed());
            name = status.as_str();
        }
        self.span.attempted(name);
        // Not at `info`: a line for each run would cost more than all other parts of this.
        tracing::debug!(%agentable, outcome = name, since_accepted = ?self.accepted.elapsed(), "an attempt ended");
    }
}

/// When a run was accepted.
fn accepted(run: RunId) -> Option<DateTime<Utc>> {
    let (seconds, nanos) = run.0.get_timestamp()?.to_unix();
    DateTime::from_timestamp(i64::try_from(seconds).ok()?, nanos)
}
