//! The lanes in which agentables wait for a worker.

use serde::{Deserialize, Serialize};

/// All lanes: `{"data": [{"lane": "interactive", …}, {"lane": "background", …}]}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueuesResponse {
    pub data: Vec<QueueResponse>,
}

/// The work of one lane, counted in Postgres.
///
/// ```json
/// {"lane": "interactive", "of": "installation", "depth": 12, "oldest_age_s": 3, "running": 40, "orphaned": 0,
///  "retrying": 2, "put_off": 0, "waiting": 1, "slots": 64, "paused": false, "capped": false,
///  "scaling": {"pending_slots": 9, "wanted_slots": 49}}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueueResponse {
    /// `interactive`: a user waits; `background`: no user does.
    pub lane: String,
    /// Whose work was counted: `installation` for keys with that scope, else `tenant`.
    pub of: String,
    /// Agentables that could be claimed now, if a worker and their user have a free slot.
    pub depth: i64,
    /// Seconds for which the oldest of them has waited; 0 if there is none.
    pub oldest_age_s: i64,
    /// Runs that workers hold.
    pub running: i64,
    /// Those of them whose worker is dead: they are not at work until another one takes them over.
    pub orphaned: i64,
    /// Agentables whose next attempt is due later, after a failure.
    pub retrying: i64,
    /// Agentables that wait because the tokens of their user are used up.
    pub put_off: i64,
    /// Agentables that wait for an answer of a person.
    pub waiting: i64,
    /// Runs that the living workers that do not drain can drive at once; null for keys of a tenant.
    pub slots: Option<i64>,
    /// Whether an operator has paused it: workers claim nothing new of it.
    pub paused: bool,
    /// Whether more waits than was counted: at most 20,000 agentables are.
    pub capped: bool,
    pub scaling: Scaling,
}

/// What an autoscaler needs: `{"pending_slots": 9, "wanted_slots": 49}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Scaling {
    /// More slots that would be taken at once; 0 while the lane is paused. Agentables of users who have as many runs as they may
    /// are not counted: more workers would not help them.
    pub pending_slots: i64,
    /// Slots in use and pending ones: divided by the slots of a worker, the number of workers to have.
    pub wanted_slots: i64,
}
