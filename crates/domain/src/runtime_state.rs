//! The runtime state of an agentable at one instant, with a diagnosis. Start here when one is stuck.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::id::{AgentableId, RunId, WorkerId};
use crate::run::RunStatus;

/// Seconds without an event after which a run that a worker holds is reported. An iteration usually takes seconds.
const QUIET_S: i64 = 120;

/// The runtime state of an agentable at one instant: its lock, its run and what it waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeState {
    /// When the state was read, by the database's clock.
    pub at: DateTime<Utc>,
    /// Number of claims of its lock.
    pub epoch: i64,
    /// The worker that holds the lock.
    pub holder: Option<Holder>,
    /// The open run, or the latest one.
    pub run: Option<LatestRun>,
    /// The latest failure among its last 20 runs.
    pub last_error: Option<Failure>,
    /// Whether it has a reason to run; the sweep finds it by this column.
    pub wake: bool,
    /// Since when `wake` is set.
    pub waiting_since: Option<DateTime<Utc>>,
    /// When the next attempt is due, if the run waits for one.
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// Number of messages that no run has read.
    pub unread: i32,
    /// Failed attempts of the open run.
    pub failed_attempts: i32,
    /// Consecutive claims without a committed step.
    pub claims_without_progress: i32,
    /// Workers that died while they held the run, since its last committed step.
    pub deaths: i32,
    /// Whether any worker is alive.
    pub workers_alive: bool,
    /// The open session.
    pub session: Session,
    /// The `seq` of the newest event.
    pub last_seq: i64,
    /// When the newest event was committed.
    pub last_event_at: Option<DateTime<Utc>>,
    /// The conversation this one was forked from; of the same kind.
    #[serde(skip)]
    pub forked_from: Option<AgentableId>,
}

/// The runtime state as the API and the CLI return it: the fields of [`RuntimeState`] and these.
///
/// ```json
/// {"id": "goal_0192a3b4c5d67e8f9a0b1c2d3e4f5061", "status": "working", "diagnosis": ["A worker is running it."],
///  "forked_from": null, "epoch": 3, "wake": false, "unread": 0, "workers_alive": true, "last_seq": 12, …}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeStateView {
    /// The public id of the agentable, as in `goal_<32 hex digits>`.
    pub id: String,
    /// Its status; `None` if its kind has no statuses.
    pub status: Option<String>,
    /// See [`RuntimeState::diagnosis`].
    pub diagnosis: Vec<String>,
    /// The public id of the conversation it was forked from.
    pub forked_from: Option<String>,
    /// The runtime state.
    #[serde(flatten)]
    pub state: RuntimeState,
}

/// The worker that holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The id of the worker.
    pub worker: WorkerId,
    /// The name of the worker; `None` when its row is gone, which means that it is dead.
    pub name: Option<String>,
    /// When its lease expires.
    pub alive_until: Option<DateTime<Utc>>,
    /// When it renewed its lease last.
    #[serde(skip)]
    pub heard_at: Option<DateTime<Utc>>,
}

impl Holder {
    /// For how many seconds nothing was heard of it, if it should have renewed its lease twice meanwhile: maybe it is dead, which
    /// is certain when the lease is over.
    pub fn silent_s(&self, now: DateTime<Utc>) -> Option<i64> {
        let (heard, until) = (self.heard_at?, self.alive_until?);
        let silent = now - heard;
        // It renews six times within the length of a lease.
        (silent * 5 > (until - heard) * 2).then(|| silent.num_seconds())
    }
}

/// The open or latest run of an agentable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatestRun {
    /// The id of the run.
    pub id: RunId,
    /// Whether it is open.
    pub open: bool,
    /// Its status.
    pub status: RunStatus,
    /// Number of times a worker has claimed it.
    pub attempt: i32,
    /// Model calls so far.
    pub iterations: i32,
    /// Whether its cancellation was requested.
    pub cancel_requested: bool,
    /// When it was accepted.
    pub queued_at: DateTime<Utc>,
    /// When a worker first claimed it.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
}

/// How a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The id of the run.
    pub run: RunId,
    /// The error code.
    pub code: String,
    /// The error for people.
    pub message: String,
    /// When the run ended; `None` while it is retried.
    pub at: Option<DateTime<Utc>>,
}

/// The open session of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Positions of the history in the open session, including those of rolled-back runs.
    pub entries: i64,
    /// Positions of the history that belong to closed sessions.
    pub closed_entries: i64,
}

impl RuntimeState {
    /// The state of the agentable `id` of kind `kind`, as the API and the CLI return it.
    pub fn view(self, kind: &str, id: AgentableId, status: Option<String>) -> RuntimeStateView {
        RuntimeStateView {
            id: id.public_id(kind),
            status,
            diagnosis: self.diagnosis(),
            forked_from: self.forked_from.map(|origin| origin.public_id(kind)),
            state: self,
        }
    }

    /// Whether the lease of the holder has not expired.
    pub fn holder_is_alive(&self) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.alive_until.is_some_and(|until| until > self.at))
    }

    /// What the state means and what to do about it: one sentence each, the most important first.
    pub fn diagnosis(&self) -> Vec<String> {
        let Some(run) = self.run.filter(|run| run.open) else {
            return vec![match self.run {
                None => "It has never run: its first run starts when a message arrives.".to_owned(),
                Some(run) => format!("It is idle: its last run ended with status `{}`.", run.status),
            }];
        };
        let mut diagnosis = Vec::new();
        if run.cancel_requested {
            diagnosis.push(
                "The run is to be cancelled: the worker that holds it, or claims it next, ends it."
                    .to_owned(),
            );
        }
        diagnosis.push(match self.holder {
            Some(_) => self.held_diagnosis(),
            None => self.waiting_diagnosis(run),
        });
        if self.deaths > 0 {
            let deaths = self.deaths;
            diagnosis.push(format!(
                "{deaths} workers died while they ran it since its last step: check their logs."
            ));
        }
        diagnosis
    }

    fn held_diagnosis(&self) -> String {
        if !self.holder_is_alive() && !self.workers_alive {
            return "Its worker is dead, and no worker is alive to take the run over: start one with `houston work`."
                .to_owned();
        }
        if !self.holder_is_alive() {
            return "Its worker is dead: the sweep hands the run to another worker within seconds; \
                    `houston monitor --now` does it at once."
                .to_owned();
        }
        let quiet = self.last_event_at.map_or(0, |last| (self.at - last).num_seconds());
        if quiet < QUIET_S {
            return "A worker is running it.".to_owned();
        }
        format!(
            "A worker is running it, but has committed nothing for {quiet} s: a model or tool call takes long. Wait for \
             its timeout, or cancel the run."
        )
    }

    fn waiting_diagnosis(&self, run: LatestRun) -> String {
        let seconds_to = |at: DateTime<Utc>| (at - self.at).num_seconds();
        match self.next_attempt_at {
            until if run.status == RunStatus::Waiting && !self.wake && until.is_none_or(|at| at > self.at) => {
                let until =
                    until.map_or_else(String::new, |at| format!(", at the latest in {} s", seconds_to(at)));
                format!(
                    "It waits for something from outside: an answer to a question, or a message. It goes on then{until}."
                )
            }
            // Attempts that met an open circuit breaker do not count as failed.
            Some(next) if next > self.at && self.failed_attempts == 0 => format!(
                "It goes on in {} s: the tokens of its user are used up, its model is not called for a while, or its \
                 worker may be dead; `houston why` says which.",
                seconds_to(next)
            ),
            Some(next) if next > self.at => {
                let (times, seconds) = (self.failed_attempts, seconds_to(next));
                format!("It failed {times} times and is retried in {seconds} s: see its last error.")
            }
            _ if !self.workers_alive => {
                "It waits for a worker, but no worker is alive: start one with `houston work`.".to_owned()
            }
            _ if !self.wake => {
                "Its run is open, but no worker holds it and `wake` is not set: `houston monitor --now` wakes it."
                    .to_owned()
            }
            _ => {
                let seconds = (self.at - self.waiting_since.unwrap_or(run.queued_at)).num_seconds();
                format!(
                    "It has waited for a worker for {seconds} s: all slots may be busy, or its user may have too many runs \
                     at once."
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use uuid::Uuid;

    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(second)
    }

    fn state() -> RuntimeState {
        RuntimeState {
            at: at(1_000),
            epoch: 1,
            holder: None,
            run: Some(LatestRun {
                id: RunId(Uuid::nil()),
                open: true,
                status: RunStatus::Running,
                attempt: 1,
                iterations: 1,
                cancel_requested: false,
                queued_at: at(900),
                started_at: None,
                ended_at: None,
            }),
            last_error: None,
            wake: true,
            waiting_since: Some(at(990)),
            next_attempt_at: None,
            unread: 1,
            failed_attempts: 0,
            claims_without_progress: 0,
            deaths: 0,
            workers_alive: true,
            session: Session { entries: 1, closed_entries: 0 },
            last_seq: 2,
            last_event_at: Some(at(995)),
            forked_from: None,
        }
    }

    #[test]
    fn diagnosis_names_each_cause_and_its_remedy() {
        let holder = |until| {
            Some(Holder { worker: WorkerId(Uuid::nil()), name: None, alive_until: until, heard_at: None })
        };
        let held = RuntimeState { holder: holder(Some(at(1_010))), ..state() };
        for (state, words) in [
            (state(), "waited for a worker for 10 s"),
            (RuntimeState { workers_alive: false, ..state() }, "houston work"),
            (RuntimeState { wake: false, ..state() }, "houston monitor --now"),
            (
                RuntimeState { next_attempt_at: Some(at(1_030)), failed_attempts: 2, ..state() },
                "retried in 30 s",
            ),
            (RuntimeState { next_attempt_at: Some(at(1_030)), ..state() }, "houston why"),
            (held.clone(), "A worker is running it."),
            (RuntimeState { last_event_at: Some(at(700)), ..held.clone() }, "for 300 s"),
            (RuntimeState { holder: holder(Some(at(990))), ..held.clone() }, "another worker within seconds"),
            (
                RuntimeState { holder: holder(Some(at(990))), workers_alive: false, ..held.clone() },
                "start one with `houston work`",
            ),
            (RuntimeState { holder: holder(None), ..held }, "worker is dead"),
            (RuntimeState { run: None, ..state() }, "when a message arrives"),
        ] {
            let diagnosis = state.diagnosis().join(" ");
            assert!(diagnosis.contains(words), "`{diagnosis}` does not contain `{words}`");
        }
        let dying = RuntimeState { deaths: 2, ..state() };
        assert!(dying.diagnosis()[1].contains("2 workers died"));
    }
}
