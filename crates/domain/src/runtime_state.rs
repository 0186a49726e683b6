//! How an agentable stands at one instant, and what that means: the first thing to look at when one is stuck.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::id::{AgentableId, RunId, WorkerId};
use crate::run::RunStatus;

/// An iteration takes seconds; without any event for so long, a run that is driven is worth a look.
const QUIET_S: i64 = 120;

/// How an agentable stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuntimeState {
    /// When this was so, by the database's clock.
    pub at: DateTime<Utc>,
    /// Counts the claims of its lock.
    pub epoch: i64,
    /// Who holds the lock.
    pub holder: Option<Holder>,
    /// The open run, or the latest one.
    pub run: Option<OpenRun>,
    /// How the latest of its last 20 runs that failed did.
    pub last_error: Option<Failure>,
    /// Whether somebody must look: the sweep finds it by this.
    pub wake: bool,
    /// Since when, if so.
    pub waiting_since: Option<DateTime<Utc>>,
    /// When the next attempt is due, of a run that waits for it.
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// Messages nobody has read.
    pub unread: i32,
    /// Attempts of the open run that failed.
    pub failed_attempts: i32,
    /// Claims in a row without a committed step.
    pub claims_without_progress: i32,
    /// Workers that died with the run since its last committed step.
    pub deaths: i32,
    /// Whether any worker lives at all.
    pub workers_alive: bool,
    /// The open session.
    pub session: Session,
    /// The position of the newest event.
    pub last_seq: i64,
    /// When that was committed.
    pub last_event_at: Option<DateTime<Utc>>,
    /// Of which conversation of its kind it is a copy.
    #[serde(skip)]
    pub forked_from: Option<AgentableId>,
}

/// The same for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuntimeStateView<'s> {
    /// Whose state it is, as shown.
    pub id: String,
    /// How it stands, by its kind.
    pub status: Option<String>,
    /// See [`RuntimeState::diagnosis`].
    pub diagnosis: Vec<String>,
    /// Of which conversation it is a copy.
    pub forked_from: Option<String>,
    /// The rest.
    #[serde(flatten)]
    pub state: &'s RuntimeState,
}

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Which worker.
    pub worker: WorkerId,
    /// Its name; none of one whose row is gone: it is dead.
    pub name: Option<String>,
    /// How long its lease lasts.
    pub alive_until: Option<DateTime<Utc>>,
}

/// A run as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OpenRun {
    /// Its id.
    pub id: RunId,
    /// Whether it is open.
    pub open: bool,
    /// How it stands or ended.
    pub status: RunStatus,
    /// How often a worker has taken it.
    pub attempt: i32,
    /// Model calls.
    pub iterations: i32,
    /// Whether somebody asked to cancel it.
    pub cancel_requested: bool,
    /// When it was accepted.
    pub queued_at: DateTime<Utc>,
    /// When a worker first took it.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
}

/// How a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Which run.
    pub run: RunId,
    /// Which error.
    pub code: String,
    /// The same for a person.
    pub message: String,
    /// When it ended; none while it is tried again.
    pub at: Option<DateTime<Utc>>,
}

/// The open session of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Session {
    /// Positions of the history that a model is sent; what was rolled back is among them.
    pub entries: i64,
    /// Positions that belong to closed sessions.
    pub closed_entries: i64,
}

impl RuntimeState {
    /// The state of `id`, an agentable of `kind`, for people.
    #[must_use]
    pub fn shown(&self, kind: &str, id: AgentableId, status: Option<String>) -> RuntimeStateView<'_> {
        RuntimeStateView {
            id: id.shown(kind),
            status,
            diagnosis: self.diagnosis(),
            forked_from: self.forked_from.map(|origin| origin.shown(kind)),
            state: self,
        }
    }

    /// Whether the holder's lease still runs.
    #[must_use]
    pub fn holder_lives(&self) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.alive_until.is_some_and(|until| until > self.at))
    }

    /// What this means, and what to do about it, in a sentence each; the first says most.
    #[must_use]
    pub fn diagnosis(&self) -> Vec<String> {
        let mut told = Vec::new();
        let Some(run) = self.run.filter(|run| run.open) else {
            told.push(match self.run {
                None => "Nothing has happened yet: it runs when a message comes.".to_owned(),
                Some(run) => format!("Idle: its last run ended as {}.", run.status.as_str()),
            });
            return told;
        };
        if run.cancel_requested {
            told.push("Somebody asked to cancel its run; whoever holds it ends it.".to_owned());
        }
        if self.holder.is_some() {
            told.push(self.driven());
        } else {
            told.push(self.waits(run));
        }
        if self.deaths > 0 {
            let deaths = self.deaths;
            told.push(format!("{deaths} workers died with it since its last step: look at their logs."));
        }
        told
    }

    fn driven(&self) -> String {
        if !self.holder_lives() {
            return "Its worker is dead: the sweep gives the run to another within seconds; `houston monitor --now` does \
                    it at once."
                .to_owned();
        }
        let quiet = self.last_event_at.map_or(0, |last| (self.at - last).num_seconds());
        if quiet < QUIET_S {
            return "A worker drives it.".to_owned();
        }
        format!(
            "A worker drives it, and nothing was committed for {quiet} s: a long call of a model or tool. Cancel the run, \
             or wait for its time-out."
        )
    }

    fn waits(&self, run: OpenRun) -> String {
        match self.next_attempt_at {
            Some(next) if next > self.at => {
                let seconds = (next - self.at).num_seconds();
                format!(
                    "It failed {} times and is tried again in {seconds} s, see its last error.",
                    self.failed_attempts
                )
            }
            _ if !self.workers_alive => {
                "It waits for a worker, and none lives: start one with `houston work`.".to_owned()
            }
            _ if !self.wake => {
                "Its run is open, nobody holds it and nobody is told to look: `houston monitor --now` wakes it."
                    .to_owned()
            }
            _ => {
                let seconds = (self.at - self.waiting_since.unwrap_or(run.queued_at)).num_seconds();
                format!(
                    "It has waited for a worker for {seconds} s: other runs of its user, or all slots, may come first."
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
            run: Some(OpenRun {
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
    fn each_way_to_be_stuck_is_told_with_what_to_do() {
        let holder = |until| Some(Holder { worker: WorkerId(Uuid::nil()), name: None, alive_until: until });
        let held = RuntimeState { holder: holder(Some(at(1_010))), ..state() };
        for (state, words) in [
            (state(), "waited for a worker for 10 s"),
            (RuntimeState { workers_alive: false, ..state() }, "houston work"),
            (RuntimeState { wake: false, ..state() }, "houston monitor --now"),
            (
                RuntimeState { next_attempt_at: Some(at(1_030)), failed_attempts: 2, ..state() },
                "again in 30 s",
            ),
            (held.clone(), "A worker drives it."),
            (RuntimeState { last_event_at: Some(at(700)), ..held.clone() }, "for 300 s"),
            (RuntimeState { holder: holder(Some(at(990))), ..held.clone() }, "worker is dead"),
            (RuntimeState { holder: holder(None), ..held }, "worker is dead"),
            (RuntimeState { run: None, ..state() }, "when a message comes"),
        ] {
            let told = state.diagnosis().join(" ");
            assert!(told.contains(words), "`{told}` does not say `{words}`");
        }
        let dying = RuntimeState { deaths: 2, ..state() };
        assert!(dying.diagnosis()[1].contains("2 workers died"));
    }
}
