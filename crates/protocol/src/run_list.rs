//! Runs of all agentables of a tenant, and what operators do with many of them.

use houston_domain::id::RunId;
pub use houston_domain::run::{ListedRun as ListedRunResponse, RunFilter as RunsFilter};
use serde::{Deserialize, Serialize};

/// Runs to be cancelled or tried again: by their ids, or those that a filter matches.
///
/// ```json
/// {"filter": {"status": ["failed"], "error_code": "AUTHENTICATION_ERROR"}, "dry_run": true}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ChangeRuns {
    /// The runs; at most 100.
    pub ids: Option<Vec<RunId>>,
    /// Instead of `ids`: the runs that match, the newest first, 100 in a request.
    pub filter: Option<RunsFilter>,
    /// Where the request before this one ended: its `next_cursor`.
    pub cursor: Option<String>,
    /// Only count what would be changed.
    #[serde(default)]
    pub dry_run: bool,
}

/// What was done with many runs.
///
/// ```json
/// {"dry_run": false, "matched": 3, "changed": 2, "skipped": [{"run_id": "run_0190…", "reason": "superseded"}],
///  "next_cursor": null}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangedRunsResponse {
    pub dry_run: bool,
    /// How many runs were looked at; of a dry run, how many match, at most 10,000.
    pub matched: u64,
    /// How many of them were changed; 0 of a dry run.
    pub changed: u64,
    /// Those that were not, and why.
    pub skipped: Vec<SkippedRun>,
    /// Further runs match, or may: repeat the request with this `cursor`. Null: these were all.
    pub next_cursor: Option<String>,
}

/// A run that was not changed: `{"run_id": "run_0190…", "reason": "superseded"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SkippedRun {
    pub run_id: RunId,
    /// `not_found`; to be cancelled: `ended`; to be tried again: `not_failed`, `superseded` (its agentable has run since),
    /// `no_message` (no message of a user began it), `not_conversational`, `refused` (the message is not accepted now).
    pub reason: String,
}
