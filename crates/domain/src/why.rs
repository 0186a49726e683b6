//! Why an agentable does not go on, and what to do about it.
//!
//! The rule reads facts of one instant ([`Facts`]) and names every cause that holds, the one that decides first. A cause is named
//! only if the facts show it.

use chrono::{DateTime, Utc};

use crate::id::QuestionId;
use crate::question::QuestionKind;
use crate::run::RunStatus;
use crate::runtime_state::{LatestRun, RuntimeState};

/// Seconds without an event after which a run that a worker holds is called quiet.
const QUIET_S: i64 = 120;
/// Seconds after which an agentable that could be claimed should have been, hints lost or not: two sweeps.
const SWEPT_S: i64 = 15;

/// An open question of the agentable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenQuestion {
    /// The id that its answer names.
    pub id: QuestionId,
    /// What is asked for.
    pub kind: QuestionKind,
    /// Its text.
    pub text: String,
    /// When it is closed without an answer.
    pub expires_at: Option<DateTime<Utc>>,
}

/// The facts about an agentable at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its lock, its run, its last failure.
    pub state: RuntimeState,
    /// Its open questions, the oldest first.
    pub questions: Vec<OpenQuestion>,
    /// Whether it is archived.
    pub is_archived: bool,
    /// Whether it is a plan that a person has paused.
    pub is_paused: bool,
    /// Whether an operator has paused the lane of its hints.
    pub is_lane_paused: bool,
    /// Tasks whose end it waits for.
    pub open_tasks: i32,
    /// Runs of its user that workers hold.
    pub held_of_user: i64,
    /// The most runs of a user that are held at once.
    pub max_running: i64,
    /// Living workers that claim runs.
    pub claiming_workers: i64,
    /// Living workers that drain.
    pub draining_workers: i64,
}

/// A cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Nothing is to be done: no run is open.
    Idle,
    /// It is archived.
    Archived,
    /// Its latest run failed.
    Failed,
    /// Its latest run was given up, because workers died with it.
    DeadLettered,
    /// Its latest run was cancelled.
    Cancelled,
    /// The open run is to be cancelled.
    Cancelling,
    /// A worker runs it.
    Running,
    /// A worker runs it, but has committed nothing for long.
    Quiet,
    /// The worker that holds the lock is dead.
    HolderDead,
    /// It waits for an answer of a person.
    Question,
    /// A budget is reached, and a person may raise it.
    Budget,
    /// A person has paused it.
    Paused,
    /// It waits for the end of its tasks.
    Tasks,
    /// It waits for a message or a time.
    Waiting,
    /// An attempt failed, and the next is not due yet.
    Retry,
    /// The tokens of its user are used up.
    RateLimit,
    /// An operator has paused its lane.
    LanePaused,
    /// Its user has as many runs as may be held at once.
    Fairness,
    /// No worker is alive.
    NoWorker,
    /// All living workers drain.
    Draining,
    /// It could be claimed: the hint is on its way, or all slots are in use.
    Queued,
    /// It has waited for longer than a lost hint can explain: the slots are in use.
    SlotsFull,
    /// Its run is open, but nothing would find it.
    Forgotten,
    /// Workers died while they ran it.
    Suspect,
}

impl Cause {
    /// Its name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Archived => "archived",
            Self::Failed => "failed",
            Self::DeadLettered => "dead_lettered",
            Self::Cancelled => "cancelled",
            Self::Cancelling => "cancelling",
            Self::Running => "running",
            Self::Quiet => "quiet",
            Self::HolderDead => "holder_dead",
            Self::Question => "question",
            Self::Budget => "budget",
            Self::Paused => "paused",
            Self::Tasks => "tasks",
            Self::Waiting => "waiting",
            Self::Retry => "retry",
            Self::RateLimit => "rate_limit",
            Self::LanePaused => "lane_paused",
            Self::Fairness => "fairness",
            Self::NoWorker => "no_worker",
            Self::Draining => "draining",
            Self::Queued => "queued",
            Self::SlotsFull => "slots_full",
            Self::Forgotten => "forgotten",
            Self::Suspect => "suspect",
        }
    }

    /// Whether it passes by itself, without a person.
    #[must_use]
    pub const fn passes(self) -> bool {
        matches!(
            self,
            Self::Cancelling
                | Self::Running
                | Self::HolderDead
                | Self::Tasks
                | Self::Retry
                | Self::RateLimit
                | Self::Fairness
                | Self::Queued
                | Self::Forgotten
        )
    }
}

/// One reason why it does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The cause.
    pub cause: Cause,
    /// What is so.
    pub text: String,
    /// What to do; `None`: nothing, but wait.
    pub todo: Option<String>,
    /// The question to be answered.
    pub question: Option<QuestionId>,
    /// When it passes by itself.
    pub until: Option<DateTime<Utc>>,
}

impl Reason {
    fn new(cause: Cause, text: impl Into<String>, todo: Option<&str>) -> Self {
        Self { cause, text: text.into(), todo: todo.map(str::to_owned), question: None, until: None }
    }

    fn until(self, until: Option<DateTime<Utc>>) -> Self {
        Self { until, ..self }
    }
}

impl Facts {
    /// All reasons that hold, the one that decides first.
    #[must_use]
    pub fn reasons(&self) -> Vec<Reason> {
        let open = self.state.run.filter(|run| run.open);
        let mut reasons = match open {
            None => vec![self.ended()],
            Some(run) => self.open(run),
        };
        if self.is_archived {
            let todo = "POST …/unarchive, if it should be used again.";
            reasons.insert(0, Reason::new(Cause::Archived, "It is archived.", Some(todo)));
        }
        if self.state.deaths > 0 {
            let text = format!("{} workers died while they ran it, since its last step.", self.state.deaths);
            let todo = "Look at the logs of those workers: a tool or a message may kill them.";
            reasons.push(Reason::new(Cause::Suspect, text, Some(todo)));
        }
        reasons
    }

    fn ended(&self) -> Reason {
        let Some(run) = self.state.run else {
            return Reason::new(Cause::Idle, "It has never run.", Some("Post a message."));
        };
        let error = self.state.last_error.as_ref().filter(|error| error.run == run.id);
        let why = error.map_or_else(String::new, |error| format!(": {}: {}", error.code, error.message));
        match run.status {
            RunStatus::Failed => {
                let todo = "Mend the cause, then `POST /v1/runs/retry`.";
                Reason::new(Cause::Failed, format!("Its latest run failed{why}"), Some(todo))
            }
            RunStatus::DeadLettered => {
                let todo = "Look at the logs of the workers that died, then `POST /v1/runs/retry`.";
                Reason::new(Cause::DeadLettered, "Its latest run was given up: its workers died.", Some(todo))
            }
            RunStatus::Cancelled => Reason::new(Cause::Cancelled, "Its latest run was cancelled.", None),
            status => {
                let text =
                    format!("Nothing is to be done: its latest run ended with status `{}`.", status.as_str());
                Reason::new(Cause::Idle, text, None)
            }
        }
    }

    /// The reasons of an open run.
    fn open(&self, run: LatestRun) -> Vec<Reason> {
        let mut reasons = Vec::new();
        if run.cancel_requested {
            let text = "It is to be cancelled: the worker that holds it, or claims it next, ends it.";
            reasons.push(Reason::new(Cause::Cancelling, text, None));
        }
        if self.state.holder.is_some() {
            reasons.push(self.held());
            return reasons;
        }
        if run.status == RunStatus::Waiting && !self.state.wake {
            reasons.extend(self.waiting());
            return reasons;
        }
        reasons.extend(self.not_claimed(run));
        reasons
    }

    fn held(&self) -> Reason {
        if !self.state.holder_is_alive() {
            let text = "The worker that holds it is dead: another takes it over within seconds.";
            let todo = "`houston monitor --now` does it at once.";
            return Reason::new(Cause::HolderDead, text, Some(todo));
        }
        let quiet = self.state.last_event_at.map_or(0, |last| (self.state.at - last).num_seconds());
        if quiet < QUIET_S {
            return Reason::new(Cause::Running, "A worker runs it.", None);
        }
        let text = format!(
            "A worker runs it, but has committed nothing for {quiet} s: a model or a tool takes long."
        );
        Reason::new(Cause::Quiet, text, Some("Wait for its time limit, or cancel the run."))
    }

    /// What a run waits for that has let go.
    fn waiting(&self) -> Vec<Reason> {
        let mut reasons: Vec<Reason> = Vec::new();
        if self.is_paused {
            let todo = "`POST /v1/plans/{id}/resume`.";
            reasons.push(Reason::new(Cause::Paused, "The plan is paused.", Some(todo)));
        }
        reasons.extend(self.questions.iter().map(|question| {
            let (cause, todo) = match question.kind {
                QuestionKind::Budget => (Cause::Budget, "Raise the budget or reject: `houston approvals`."),
                QuestionKind::Approval => (Cause::Question, "Approve or reject: `houston approvals`."),
                QuestionKind::Input => (Cause::Question, "Answer it: `POST /v1/questions/{id}/answer`."),
            };
            let text = format!("It waits for an answer of a person: {}", question.text);
            let reason = Reason::new(cause, text, Some(todo)).until(question.expires_at);
            Reason { question: Some(question.id), ..reason }
        }));
        if self.open_tasks > 0 {
            let text = format!("It waits for the end of {} tasks.", self.open_tasks);
            reasons.push(Reason::new(Cause::Tasks, text, Some("Ask the same of each: `GET …/tasks`.")));
        }
        if reasons.is_empty() {
            let until = self.state.next_attempt_at;
            let text = match until {
                Some(_) => "It waits for a message, and goes on by itself at a time.",
                None => "It waits for a message.",
            };
            reasons.push(Reason::new(Cause::Waiting, text, None).until(until));
        }
        reasons
    }

    /// Why no worker has claimed it.
    fn not_claimed(&self, run: LatestRun) -> Vec<Reason> {
        let mut reasons = Vec::new();
        let state = &self.state;
        let waited = (state.at - state.waiting_since.unwrap_or(run.queued_at)).num_seconds().max(0);
        match state.next_attempt_at.filter(|next| *next > state.at) {
            Some(next) if state.failed_attempts > 0 => {
                let last = state.last_error.as_ref().filter(|error| error.run == run.id);
                let why =
                    last.map_or_else(String::new, |error| format!(": {}: {}", error.code, error.message));
                let text = format!("Attempt {} failed{why}", state.failed_attempts);
                let todo = "`POST /v1/runs/retry` tries it at once.";
                reasons.push(Reason::new(Cause::Retry, text, Some(todo)).until(Some(next)));
            }
            Some(next) => {
                let text = "The tokens of its user are used up: it begins when its turn comes.";
                let todo = "`rates.tokens` of jobs/orchestrator.toml is the limit.";
                reasons.push(Reason::new(Cause::RateLimit, text, Some(todo)).until(Some(next)));
            }
            None => {}
        }
        let is_due = reasons.is_empty();
        if self.is_lane_paused {
            let todo = "`POST /v1/queues/{lane}/resume`, or `houston queues resume <lane>`.";
            reasons.push(Reason::new(Cause::LanePaused, "An operator has paused its lane.", Some(todo)));
            return reasons;
        }
        if self.claiming_workers == 0 {
            reasons.push(if self.draining_workers > 0 {
                let todo = "Start another one: `houston work`.";
                Reason::new(Cause::Draining, "All living workers drain.", Some(todo))
            } else {
                Reason::new(Cause::NoWorker, "No worker is alive.", Some("Start one: `houston work`."))
            });
            return reasons;
        }
        if !is_due {
            return reasons;
        }
        reasons.push(self.due(waited));
        reasons
    }

    /// Why one that is due has not been claimed, though workers live.
    fn due(&self, waited: i64) -> Reason {
        if !self.state.wake {
            let text = "Its run is open, but no sweep would find it.";
            return Reason::new(Cause::Forgotten, text, Some("`houston monitor --now` wakes it."));
        }
        if self.held_of_user >= self.max_running {
            let text = format!("Its user has {} runs at once, as many as may be.", self.held_of_user);
            let todo = "It is next when one of them ends; `fairness.max_running` is the limit.";
            return Reason::new(Cause::Fairness, text, Some(todo));
        }
        if waited < SWEPT_S {
            let text = format!("It has waited for a worker for {waited} s: a hint may be on its way.");
            return Reason::new(Cause::Queued, text, None);
        }
        let text = format!("It has waited for a worker for {waited} s: all slots are in use.");
        let todo = "`GET /v1/queues` says how much waits; start more workers, or give them more slots (`worker.slots`).";
        Reason::new(Cause::SlotsFull, text, Some(todo))
    }
}

#[cfg(test)]
mod tests;
