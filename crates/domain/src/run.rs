//! Runs: one execution for an agentable, across crashes and hand-overs.

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use crate::id::{AgentId, RunId, UserId};
use crate::model::Usage;
use crate::owner::Owner;
use crate::time::Time;

names! {
    /// The status of a run. Each stop rule has its own.
    #[derive(Hash)]
    pub enum RunStatus {
        /// Accepted; no worker has claimed it yet.
        Queued = "queued",
        /// A worker holds its lock.
        Running = "running",
        /// It waits for its next attempt.
        Retrying = "retrying",
        /// It waits for an answer, a message or a time, and no worker holds it.
        Waiting = "waiting",
        /// The model answered without asking for tools.
        Completed = "completed",
        /// A conversational agent sent its message.
        MessageSent = "message_sent",
        /// It reached `limits.max_iterations` (20 by default).
        MaxIterations = "max_iterations",
        /// It used the same tool `limits.max_same_tool` times in a row (5 by default).
        SameTool = "same_tool",
        /// It reached `limits.max_duration_s` (10 minutes by default).
        MaxDuration = "max_duration",
        /// The history reached `limits.max_history_entries`, which tasks set.
        HistoryFull = "history_full",
        /// The model's answer was cut at `limits.max_output_tokens`.
        MaxTokens = "max_tokens",
        /// It was cancelled.
        Cancelled = "cancelled",
        /// The model could not be reached, or its answer could not be used.
        Failed = "failed",
        /// Its workers died repeatedly, so it was given up.
        DeadLettered = "dead_lettered",
    }
}

impl RunStatus {
    /// Whether the run has ended.
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Queued | Self::Running | Self::Retrying | Self::Waiting)
    }

    /// Whether the messages it read count as answered.
    pub fn answers(self) -> bool {
        matches!(
            self,
            Self::Completed
                | Self::MessageSent
                | Self::MaxIterations
                | Self::SameTool
                | Self::MaxDuration
                | Self::HistoryFull
                | Self::MaxTokens
        )
    }

    /// Why a run that ended with this status was cut off; `code` is its error code (for a cancelled run: who
    /// requested it). `None` for an open run, or one whose agent had finished.
    pub fn stop_reason(self, code: Option<&str>) -> Option<String> {
        match (self, code) {
            (status, _) if !status.is_terminal() => None,
            (Self::Cancelled, code) => Some(code.unwrap_or("user").to_owned()),
            (_, Some(code)) => Some(code.to_lowercase()),
            (Self::Completed | Self::MessageSent, None) => None,
            (status, None) => Some(status.as_str().to_owned()),
        }
    }

    /// As [`stop_reason`](Self::stop_reason), from what is stored about a run. `cancelled_by`: who or what requested
    /// its cancellation; `None`: the user.
    pub fn stopped_by(self, error_code: Option<&str>, cancelled_by: Option<&str>) -> Option<String> {
        self.stop_reason(if self == Self::Cancelled { cancelled_by } else { error_code })
    }

    /// The message to the user when the run ends with this status without having sent one; `None` for no
    /// message.
    pub fn notice(self) -> Option<&'static str> {
        match self {
            Self::MaxIterations => {
                Some("I stopped: this took more steps than one run may take. Ask me to go on.")
            }
            Self::SameTool => Some("I stopped: I kept using the same tool without getting further."),
            Self::MaxDuration => Some("I stopped: this took longer than one run may take. Ask me to go on."),
            Self::HistoryFull => Some("This task stopped: its history reached its limit."),
            Self::DeadLettered => Some(
                "This message could not be processed: it stopped its worker three times. It will not be tried again.",
            ),
            _ => None,
        }
    }
}

/// A run.
///
/// ```json
/// {"id": "run_0190…", "goal_id": "goal_0190…", "status": "message_sent", "attempt": 1, "iterations": 2,
///  "usage": {"input_tokens": 900, "output_tokens": 40}, "cost": "0.0012", "unpriced_calls": 0, "model": "openai/gpt-5",
///  "error": null, "stop_reason": null, "cancel_requested": false, "cancelled_by": null, "retry_at": null, "waits_until": null,
///  "created_at": "2026-11-22T09:00:00.000Z", "started_at": "2026-11-22T09:00:00.020Z", "ended_at": "2026-11-22T09:00:07.120Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RunResponse))]
pub struct Run {
    pub id: RunId,
    /// The `seq` of its first event: later runs have higher ones. On the server only.
    #[serde(skip)]
    pub first_seq: i64,
    #[serde(flatten)]
    // Null is allowed for the nullable fields that lists of runs add.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, Option<String>>))]
    pub owner: Owner,
    pub status: RunStatus,
    /// Number of the attempt, from 1.
    pub attempt: i32,
    /// Number of model calls.
    pub iterations: i32,
    /// Tokens of its model calls.
    pub usage: Usage,
    /// Known cost of its model calls, in US dollars; null if no cost is known, which is not 0.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Decimal>))]
    pub cost: Option<Decimal>,
    /// Model calls whose cost is unknown.
    pub unpriced_calls: i32,
    /// The model that answered last, as `provider/model`.
    pub model: Option<String>,
    /// Why it failed or is retried.
    pub error: Option<RunError>,
    /// What stopped the run, once it has ended; null if its agent had finished.
    pub stop_reason: Option<String>,
    /// Whether its cancellation was requested.
    pub cancel_requested: bool,
    /// `user`, `interrupt`, `rollback`, or what else ended the run.
    pub cancelled_by: Option<String>,
    /// When the next attempt is due.
    pub retry_at: Option<Time>,
    /// When a run that waits for something else goes on by itself; null: it does not.
    pub waits_until: Option<Time>,
    pub created_at: Time,
    /// When a worker first claimed it.
    pub started_at: Option<Time>,
    pub ended_at: Option<Time>,
}

impl Run {
    /// Why it failed or is retried: a model error code, as in `RATE_LIMITED`.
    pub fn error_code(&self) -> Option<&str> {
        self.error.as_ref().map(|error| error.code.as_str())
    }

    /// The same for people.
    pub fn error_message(&self) -> Option<&str> {
        self.error.as_ref()?.message.as_deref()
    }

    /// The run that opens under this id when this one has ended.
    #[must_use]
    pub fn followed_by(self, id: RunId) -> Self {
        Self {
            id,
            status: RunStatus::Queued,
            attempt: 0,
            iterations: 0,
            usage: Usage::default(),
            cost: Some(Decimal::ZERO),
            unpriced_calls: 0,
            model: None,
            error: None,
            stop_reason: None,
            cancel_requested: false,
            cancelled_by: None,
            retry_at: None,
            waits_until: None,
            started_at: None,
            ended_at: None,
            ..self
        }
    }
}

/// Why a run failed: `{"code": "RATE_LIMITED", "message": "openai: slow down (HTTP 429)"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunError {
    /// A model error code, as in `RATE_LIMITED`.
    pub code: String,
    /// The error for people.
    pub message: Option<String>,
}

/// A run whose cancellation was requested: `{"run_id": "run_0190…", "goal_id": "goal_0190…"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CancelledRunResponse))]
pub struct CancelledRun {
    pub run_id: RunId,
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub owner: Owner,
}

/// A run of the list of all runs: the fields of the run, and what it belongs to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ListedRunResponse))]
pub struct ListedRun {
    #[serde(flatten)]
    pub run: Run,
    /// The kind of its agentable.
    pub kind: String,
    /// The title of its agentable.
    pub title: String,
    pub user_id: UserId,
    /// The agent of its agentable; null: the default agent of the kind, or a team.
    pub agent_id: Option<AgentId>,
}

/// Which runs; what is left out matches any.
///
/// ```json
/// {"status": ["failed"], "kind": "goal", "error_code": "AUTHENTICATION_ERROR", "since": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RunsFilter))]
#[serde(deny_unknown_fields)]
pub struct RunFilter {
    /// With one of these statuses.
    pub status: Option<Vec<RunStatus>>,
    /// Of agentables of this kind.
    pub kind: Option<String>,
    /// Of agentables that this agent answers for.
    pub agent_id: Option<AgentId>,
    /// Of agentables of this user.
    pub user_id: Option<UserId>,
    /// With this error code.
    pub error_code: Option<String>,
    /// Of the group of errors with this fingerprint, as `GET /v1/errors` names it.
    pub fingerprint: Option<String>,
    /// Accepted at this time or later.
    pub since: Option<Time>,
    /// Accepted before this time.
    pub until: Option<Time>,
    /// Whether those to be cancelled are left out. Not for clients.
    #[serde(skip)]
    pub is_not_cancelled: bool,
}
