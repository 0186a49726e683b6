//! Why an agentable does not go on.

use houston_domain::id::QuestionId;
use houston_domain::why::Reason;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// Why an agentable, or a run of it, does not go on.
///
/// ```json
/// {"id": "goal_0190…", "passes": false, "reasons": [{"cause": "question", "text": "It waits for an answer of a person: May I?",
///  "todo": "Approve or reject: `houston approvals`.", "question_id": "question_0190…", "until": null}]}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WhyResponse {
    /// The agentable.
    #[cfg_attr(feature = "openapi", schema(value_type = houston_domain::id::AgentableId))]
    pub id: String,
    /// Whether it goes on by itself, without a person.
    pub passes: bool,
    /// All reasons that hold, the one that decides first.
    pub reasons: Vec<WhyReason>,
}

/// One reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WhyReason {
    /// `archived`, `breaker_open`, `budget`, `cancelled`, `cancelling`, `dead_lettered`, `draining`, `failed`, `fairness`,
    /// `forgotten`, `health`, `holder_dead`, `idle`, `lane_paused`, `no_worker`, `paused`, `question`, `queued`, `quiet`,
    /// `rate_limit`, `redis_away`, `retry`, `running`, `slots_full`, `suspect`, `tasks` or `waiting`.
    pub cause: String,
    /// What is so.
    pub text: String,
    /// What to do; null: nothing, but wait.
    pub todo: Option<String>,
    /// The question to be answered.
    pub question_id: Option<QuestionId>,
    /// When it passes by itself.
    pub until: Option<Time>,
}

impl WhyResponse {
    /// The response with these reasons for the agentable with this public id.
    pub fn new(id: String, reasons: Vec<Reason>) -> Self {
        let passes = reasons.iter().all(|reason| reason.cause.passes() || reason.until.is_some());
        Self { id, passes, reasons: reasons.into_iter().map(WhyReason::from).collect() }
    }
}

impl From<Reason> for WhyReason {
    fn from(reason: Reason) -> Self {
        Self {
            cause: reason.cause.as_str().to_owned(),
            text: reason.text,
            todo: Some(reason.todo),
            question_id: reason.question,
            until: reason.until.map(Time),
        }
    }
}
