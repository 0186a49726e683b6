//! [`Submission`]: a model call whose provider has its answer ready later, for less; the run waits for it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::client_offer::ClientOffer;
use crate::model::Tier;

/// A model call that a provider has accepted and answers later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmittedCall {
    /// The model that was asked, as `provider/model`.
    pub model: String,
    /// The provider's id of the call.
    pub id: String,
    /// What the answer is priced by.
    pub tier: Tier,
}

/// What a run remembers of such a call. Stored with it, as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Submission {
    /// The call.
    #[serde(flatten)]
    pub call: SubmittedCall,
    /// When the provider accepted it.
    pub at: DateTime<Utc>,
    /// Estimated tokens of the request.
    pub input_tokens: u64,
    /// How many entries of the history the run had written. It has more as soon as the answer is committed: then this is no call
    /// that is waited for.
    pub entries: usize,
    /// What the client had offered the run when it was made: the answer fits that, whatever later messages offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<Box<ClientOffer>>,
}

/// The shortest and the longest time between two looks.
const LOOKS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(600));

/// Longer than any provider takes: OpenAI's windows are of 8 hours, and Anthropic's batches expire after 24.
const LONGEST: chrono::TimeDelta = chrono::TimeDelta::hours(26);

impl Submission {
    /// When to ask for the answer again: after an eighth of the time that it has taken, so that no answer is noticed much later than
    /// it is ready, and one that takes a day is asked for less than two hundred times.
    pub fn look_at(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        let waited = (now - self.at).to_std().unwrap_or_default();
        now + (waited / 8).clamp(LOOKS.0, LOOKS.1)
    }

    /// Whether no answer is to be expected any more.
    pub fn is_overdue(&self, now: DateTime<Utc>) -> bool {
        now - self.at > LONGEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rarer_and_a_day_needs_few() {
        let at = "2026-11-29T00:00:00Z".parse().unwrap();
        let submission = Submission {
            call: SubmittedCall {
                model: "anthropic/claude-sonnet-5.5".into(),
                id: "msgbatch_1".into(),
                tier: Tier::Batch,
            },
            at,
            input_tokens: 1,
            entries: 1,
            offer: None,
        };
        let (mut now, mut looks, mut pause) = (at, 0, Duration::ZERO);
        while !submission.is_overdue(now) {
            let next = submission.look_at(now);
            let longer = (next - now).to_std().unwrap();
            assert!(longer >= pause && longer <= LOOKS.1, "{longer:?} after {pause:?}");
            (now, looks, pause) = (next, looks + 1, longer);
        }
        assert!((100..220).contains(&looks), "{looks}");
    }
}
