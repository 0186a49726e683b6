//! Why an agentable does not go on, and what to do about it.
//!
//! The rule reads facts of one instant ([`Facts`]) and names every cause that holds, the one that decides first. A cause is named
//! only if the facts show it.

use chrono::{DateTime, Utc};

use crate::health::{Check, HealthStatus};
use crate::id::{QuestionId, RunId};
use crate::model::ModelError;
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
    /// Whether its latest run, if it has failed, can be tried again: a message of a user began it, or it is of a plan.
    pub has_retry: bool,
    /// Whether it is a plan that a person has paused.
    pub is_paused: bool,
    /// Whether an operator has paused the lane of its hints.
    pub is_lane_paused: bool,
    /// Tasks and plans whose end it waits for.
    pub open_tasks: i32,
    /// Steps of the plan that it is, which agents of their own work on.
    pub open_steps: i64,
    /// Runs of its user that workers hold.
    pub held_of_user: i64,
    /// The most runs of a user that are held at once.
    pub max_running: i64,
    /// Living workers that claim runs.
    pub claiming_workers: i64,
    /// Living workers that drain.
    pub draining_workers: i64,
    /// The health of the installation.
    pub health: HealthFacts,
}

/// One reason why it does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The cause.
    pub cause: Cause,
    /// What is so.
    pub text: String,
    /// What to do.
    pub todo: String,
    /// The question to be answered.
    pub question: Option<QuestionId>,
    /// When it passes by itself.
    pub until: Option<DateTime<Utc>>,
}

impl Reason {
    fn new(cause: Cause, text: impl Into<String>, todo: &str) -> Self {
        Self { cause, text: text.into(), todo: todo.to_owned(), question: None, until: None }
    }

    fn until(self, until: Option<DateTime<Utc>>) -> Self {
        Self { until, ..self }
    }
}

impl Facts {
    /// All reasons that hold, the one that decides first.
    pub fn reasons(&self) -> Vec<Reason> {
        let open = self.state.run.filter(|run| run.open);
        let mut reasons = open.map_or_else(|| vec![self.ended()], |run| self.open(run));
        if self.is_archived {
            let todo = "POST …/unarchive, if it should be used again.";
            reasons.insert(0, Reason::new(Cause::Archived, "It is archived.", todo));
        }
        if self.state.deaths > 0 {
            let text = format!("{} workers died while they ran it, since its last step.", self.state.deaths);
            let todo = "Look at the logs of those workers: a tool or a message may kill them. After three deaths it is tried in a process of its \
                        own, and given up if that dies, too.";
            reasons.push(Reason::new(Cause::Suspect, text, todo));
        }
        let explained = self.health.reasons(&reasons);
        reasons.extend(explained);
        reasons
    }

    /// The reasons of one run of the agentable: all of them if it is the newest one, else how it ended. `error`: its code and its
    /// message.
    pub fn reasons_of(&self, run: RunId, status: RunStatus, error: Option<(&str, &str)>) -> Vec<Reason> {
        if !status.is_terminal() || self.state.run.is_none_or(|newest| newest.id == run) {
            return self.reasons();
        }
        let todo = "Newer runs came after it: post its message again, if it is still wanted.";
        vec![ended("This run", status, error, todo)]
    }

    fn ended(&self) -> Reason {
        let Some(run) = self.state.run else {
            return Reason::new(Cause::Idle, "It has never run.", "Post a message.");
        };
        let todo = match run.status {
            RunStatus::Failed | RunStatus::DeadLettered if !self.has_retry => {
                "Mend the cause. No message of a user began it, so it cannot be tried again: what began it must do so anew, such as the \
                 agent that created the task."
            }
            RunStatus::Failed => "Mend the cause, then `POST /v1/runs/retry`.",
            RunStatus::DeadLettered => {
                "Look at the logs of the workers that died, then `POST /v1/runs/retry`."
            }
            _ => "Post a message, if it should go on.",
        };
        ended("Its latest run", run.status, self.error_of(run), todo)
    }

    /// The code and the message of the failure of the run.
    fn error_of(&self, run: LatestRun) -> Option<(&str, &str)> {
        let error = self.state.last_error.as_ref().filter(|error| error.run == run.id);
        error.map(|error| (error.code.as_str(), error.message.as_str()))
    }

    /// The reasons of an open run.
    fn open(&self, run: LatestRun) -> Vec<Reason> {
        let mut reasons = Vec::new();
        if run.cancel_requested {
            let text = "It is to be cancelled: the worker that holds it, or claims it next, ends it.";
            let todo = "Wait some seconds; `houston monitor --now` ends a run that hangs.";
            reasons.push(Reason::new(Cause::Cancelling, text, todo));
        }
        reasons.extend(match run.status {
            _ if self.state.holder.is_some() => self.held(),
            RunStatus::Waiting if !self.state.wake => self.waiting(),
            _ => self.not_claimed(run),
        });
        reasons
    }

    fn held(&self) -> Vec<Reason> {
        if !self.state.holder_is_alive() {
            let Some(unclaimed) = self.unclaimed_lane() else {
                let text = "The worker that holds it is dead: another takes it over within seconds.";
                let todo = "`houston monitor --now` does it at once.";
                return vec![Reason::new(Cause::HolderDead, text, todo)];
            };
            let text = "The worker that holds it is dead.";
            let todo = "Another takes it over once one claims runs.";
            return vec![Reason::new(Cause::HolderDead, text, todo), unclaimed];
        }
        if let Some(holder) = &self.state.holder
            && let Some(silent) = holder.silent_s(self.state.at)
        {
            let text = format!(
                "The worker that holds it has not been heard of for {silent} s: it may be dead. Another takes the run over \
                 when its lease is over."
            );
            let todo = match self.claiming_workers {
                0 | 1 => "If no other worker runs, start one: `houston work`.",
                _ => "Wait for the end of its lease.",
            };
            return vec![Reason::new(Cause::HolderDead, text, todo).until(holder.alive_until)];
        }
        let quiet = self.state.last_event_at.map_or(0, |last| (self.state.at - last).num_seconds());
        if quiet < QUIET_S {
            let todo = "`houston trace run_…` shows its steps so far.";
            return vec![Reason::new(Cause::Running, "A worker runs it.", todo)];
        }
        let text = format!(
            "A worker runs it, but has committed nothing for {quiet} s: a model or a tool takes long."
        );
        vec![Reason::new(Cause::Quiet, text, "Wait for its time limit, or cancel the run.")]
    }

    /// What a run waits for that has let go.
    fn waiting(&self) -> Vec<Reason> {
        let mut reasons: Vec<Reason> = Vec::new();
        if self.is_paused {
            let todo = "`POST /v1/plans/{id}/resume`.";
            reasons.push(Reason::new(Cause::Paused, "The plan is paused.", todo));
        }
        reasons.extend(self.questions.iter().map(|question| {
            let (cause, todo) = match question.kind {
                QuestionKind::Budget => (Cause::Budget, "Raise the budget or reject: `houston approvals`."),
                QuestionKind::Approval => (Cause::Question, "Approve or reject: `houston approvals`."),
                QuestionKind::Input => (Cause::Question, "Answer it: `POST /v1/questions/{id}/answer`."),
            };
            let text = format!("It waits for an answer of a person: {}", question.text);
            let reason = Reason::new(cause, text, todo).until(question.expires_at);
            Reason { question: Some(question.id), ..reason }
        }));
        if self.open_tasks > 0 {
            let text = format!("It waits for tasks or plans that have not ended: {}.", self.open_tasks);
            let todo = "Ask the same of each: `GET …/tasks`, then `houston why task_…`.";
            reasons.push(Reason::new(Cause::Tasks, text, todo));
        }
        if self.open_steps > 0 {
            let text = format!("Agents work on steps of the plan: {}.", self.open_steps);
            let todo = "`houston plan show plan_…` has the steps; ask the same of their agents.";
            reasons.push(Reason::new(Cause::Tasks, text, todo));
        }
        if reasons.is_empty() {
            let until = self.state.next_attempt_at;
            let text = match until {
                Some(_) => "It waits for a message, and goes on by itself at a time.",
                None => "It waits for a message.",
            };
            reasons.push(Reason::new(Cause::Waiting, text, "Post a message, or wait.").until(until));
        }
        reasons
    }

    /// Why no worker has claimed it.
    fn not_claimed(&self, run: LatestRun) -> Vec<Reason> {
        let next = self.state.next_attempt_at.filter(|next| *next > self.state.at);
        let (later, unclaimed) = (next.map(|next| self.later(run, next)), self.unclaimed_lane());
        let due = (later.is_none() && unclaimed.is_none()).then(|| self.due(run));
        [later, unclaimed, due].into_iter().flatten().collect()
    }

    /// Why no worker claims any run of its lane, if so.
    fn unclaimed_lane(&self) -> Option<Reason> {
        if self.is_lane_paused {
            let todo = "`POST /v1/queues/{lane}/resume`, or `houston queues resume <lane>`.";
            return Some(Reason::new(Cause::LanePaused, "An operator has paused its lane.", todo));
        }
        if self.claiming_workers > 0 {
            return None;
        }
        Some(if self.draining_workers > 0 {
            let todo = "Start another one: `houston work`.";
            Reason::new(Cause::Draining, "All living workers drain.", todo)
        } else {
            Reason::new(Cause::NoWorker, "No worker is alive.", "Start one: `houston work`.")
        })
    }

    /// Why its next attempt is not due yet.
    fn later(&self, run: LatestRun, next: DateTime<Utc>) -> Reason {
        let failed = self.state.failed_attempts;
        // A claim that doubts the death of the holder leaves the status, and the attempts that failed before, as they were.
        let reason = if run.status != RunStatus::Retrying && self.state.deaths > 0 {
            let text = "The worker that held it seems to be dead: another takes it over.";
            let todo = match self.unclaimed_lane() {
                None => "Wait: it is taken over within half a minute.",
                Some(_) => "Another takes it over once one claims runs.",
            };
            Reason::new(Cause::HolderDead, text, todo)
        } else if run.status == RunStatus::Retrying || failed > 0 {
            let error = self.error_of(run);
            let why = described(error);
            // An attempt that met an open breaker does not count as failed.
            if failed == 0 || error.is_some_and(|(_, message)| ModelError::none_was_called(message)) {
                let text = format!(
                    "Its model is not called for a while, because calls failed (circuit breaker){why}"
                );
                let todo = "Look at the provider's status and at the key (`houston doctor`); a second model in \
                            jobs/models.toml takes over meanwhile.";
                Reason::new(Cause::BreakerOpen, text, todo)
            } else {
                let text = format!("Attempt {failed} failed{why}");
                Reason::new(Cause::Retry, text, "`POST /v1/runs/retry` tries it at once.")
            }
        } else {
            let text = "The tokens of its user are used up: it begins when its turn comes.";
            let todo = "`tokens.quota` of jobs/rates.toml is the limit.";
            Reason::new(Cause::RateLimit, text, todo)
        };
        reason.until(Some(next))
    }

    /// Why one that is due has not been claimed, though workers live.
    fn due(&self, run: LatestRun) -> Reason {
        let waiting_since = self.state.waiting_since.unwrap_or(run.queued_at);
        let waited = (self.state.at - waiting_since).num_seconds().max(0);
        if !self.state.wake {
            let text = "Its run is open, but no sweep would find it.";
            return Reason::new(Cause::Forgotten, text, "`houston monitor --now` wakes it.");
        }
        if self.held_of_user >= self.max_running {
            let text = format!("Its user has {} runs at once, as many as may be.", self.held_of_user);
            let todo = "It is next when one of them ends; `fairness.max_running` of jobs/orchestrator.toml is the limit.";
            return Reason::new(Cause::Fairness, text, todo);
        }
        if waited < SWEPT_S && self.health.redis_is_away(self.state.at) {
            let text = "Redis is away or takes no writes, so hints are not delivered: workers look into Postgres each \
                        second, and take it if a slot is free.";
            let todo = "Start Redis again, empty if need be, or make room in it; `houston doctor` says what it refuses.";
            return Reason::new(Cause::RedisAway, text, todo);
        }
        if waited < SWEPT_S {
            let text = format!("It has waited for a worker for {waited} s: a hint may be on its way.");
            let todo = "Wait: the sweep finds it within some seconds, should its hint be lost.";
            return Reason::new(Cause::Queued, text, todo);
        }
        let text = format!("It has waited for a worker for {waited} s: all slots are in use.");
        let todo = "`GET /v1/queues` says how much waits; start more workers, or give them more slots (`worker.slots`).";
        Reason::new(Cause::SlotsFull, text, todo)
    }
}

/// How `which` run ended.
fn ended(which: &str, status: RunStatus, error: Option<(&str, &str)>, todo: &str) -> Reason {
    let (cause, text) = match status {
        RunStatus::Failed => (Cause::Failed, format!("{which} failed{}", described(error))),
        RunStatus::DeadLettered => (Cause::DeadLettered, format!("{which} was given up: its workers died.")),
        RunStatus::Cancelled => (Cause::Cancelled, format!("{which} was cancelled.")),
        status => (Cause::Idle, format!("{which} ended as `{}`.", status.as_str())),
    };
    Reason::new(cause, text, todo)
}

/// The error in a sentence, after what happened.
fn described(error: Option<(&str, &str)>) -> String {
    error.map_or_else(String::new, |(code, message)| format!(": {code}: {message}"))
}

names! {
    /// A cause.
    #[derive(Hash)]
    pub enum Cause {
        /// Nothing is to be done: no run is open.
        Idle = "idle",
        /// It is archived.
        Archived = "archived",
        /// Its latest run failed.
        Failed = "failed",
        /// Its latest run was given up, because workers died with it.
        DeadLettered = "dead_lettered",
        /// Its latest run was cancelled.
        Cancelled = "cancelled",
        /// The open run is to be cancelled.
        Cancelling = "cancelling",
        /// A worker runs it.
        Running = "running",
        /// A worker runs it, but has committed nothing for long.
        Quiet = "quiet",
        /// The worker that holds the lock is dead.
        HolderDead = "holder_dead",
        /// It waits for an answer of a person.
        Question = "question",
        /// A budget is reached, and a person may raise it.
        Budget = "budget",
        /// A person has paused it.
        Paused = "paused",
        /// It waits for the end of its tasks.
        Tasks = "tasks",
        /// It waits for a message or a time.
        Waiting = "waiting",
        /// An attempt failed, and the next is not due yet.
        Retry = "retry",
        /// The tokens of its user are used up.
        RateLimit = "rate_limit",
        /// An operator has paused its lane.
        LanePaused = "lane_paused",
        /// Its model is not called for a while: a circuit breaker is open.
        BreakerOpen = "breaker_open",
        /// Its user has as many runs as may be held at once.
        Fairness = "fairness",
        /// No worker is alive.
        NoWorker = "no_worker",
        /// All living workers drain.
        Draining = "draining",
        /// It could be claimed: the hint is on its way, or all slots are in use.
        Queued = "queued",
        /// It could be claimed, and Redis, which delivers hints, is away.
        RedisAway = "redis_away",
        /// It has waited for longer than a lost hint can explain: the slots are in use.
        SlotsFull = "slots_full",
        /// Its run is open, but nothing would find it.
        Forgotten = "forgotten",
        /// Workers died while they ran it.
        Suspect = "suspect",
        /// A check of the installation failed that explains the causes before it.
        Health = "health",
    }
}

impl Cause {
    /// Whether it passes by itself, without a person. [`Self::Health`] holds nothing up: the causes before it do.
    pub const fn passes(self) -> bool {
        matches!(
            self,
            Self::Cancelling
                | Self::Running
                | Self::HolderDead
                | Self::Tasks
                | Self::Retry
                | Self::RateLimit
                | Self::BreakerOpen
                | Self::Fairness
                | Self::Queued
                | Self::RedisAway
                | Self::Forgotten
                | Self::Health
        )
    }
}

// What the health of the installation explains. A failed check holds nothing up by itself: it says why something that does
// takes long.

/// Seconds for which Redis is away before it is named: a connection that is made anew takes less.
const REDIS_S: i64 = 5;

/// The check that says whether Redis is reachable.
const REDIS: &str = "redis";

/// The health of the installation: results of checks, and what the process that is asked sees itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HealthFacts {
    /// The checks that found something, if their results are new enough.
    pub failing: Vec<Check>,
    /// When the checks were made last, if that is too long ago.
    pub silent_since: Option<DateTime<Utc>>,
    /// Since when the process that is asked does not reach Redis.
    pub redis_down_since: Option<DateTime<Utc>>,
}

/// A check, and the causes that it explains.
struct Explanation {
    check: &'static str,
    /// How bad its result is at least.
    least: HealthStatus,
    causes: &'static [Cause],
    text: &'static str,
    todo: &'static str,
}

/// One row for each check that explains a cause. What passes within seconds is left out where it is usual.
const EXPLANATIONS: [Explanation; 5] = [
    Explanation {
        check: "schema",
        least: HealthStatus::Red,
        // Workers that live have checked it when they started.
        causes: &[Cause::NoWorker, Cause::Draining],
        text: "The schema of Postgres is not that of this release: no worker of it starts.",
        todo: "`houston migrate`.",
    },
    Explanation {
        check: "connections",
        least: HealthStatus::Red,
        causes: &[Cause::SlotsFull, Cause::HolderDead, Cause::NoWorker, Cause::Draining],
        text: "Almost all connections of Postgres are in use: a worker may wait for one.",
        todo: "Raise max_connections of Postgres, or lower `worker.database_connections`.",
    },
    Explanation {
        check: "dead_leases",
        least: HealthStatus::Red,
        causes: &[Cause::HolderDead],
        text: "The health monitor found leases of dead workers that no living worker had released.",
        todo: "`houston monitor --now` releases them; read the logs of the workers that live.",
    },
    Explanation {
        check: "overdue_work",
        least: HealthStatus::Red,
        causes: &[Cause::SlotsFull],
        text: "The health monitor found work that waits for long: there are too few slots, or workers do not take what waits.",
        todo: "See whether slots are free (`houston workers`): start more workers if not, else read the logs of those that live.",
    },
    Explanation {
        check: "failed_runs",
        least: HealthStatus::Warn,
        // Not of a run that failed: that may be long ago.
        causes: &[Cause::Retry, Cause::BreakerOpen],
        text: "Many of the latest runs of the installation failed, too.",
        todo: "`houston monitor` says how many, and *Errors* in the console groups them by their cause.",
    },
];

/// Causes that a health monitor mends or reports, if one works.
const MONITORED: &[Cause] = &[Cause::Forgotten, Cause::HolderDead, Cause::SlotsFull];

impl HealthFacts {
    /// Forgets that the monitor did not reach Redis: the process that is asked has reached it since.
    pub fn forget_redis(&mut self) {
        self.failing.retain(|check| check.id != REDIS);
    }

    /// Whether hints are not delivered at the moment.
    fn redis_is_away(&self, now: DateTime<Utc>) -> bool {
        let checked = self.failing.iter().find(|check| check.id == REDIS).map(|check| check.since);
        self.redis_down_since.or(checked).is_some_and(|since| (now - since).num_seconds() >= REDIS_S)
    }

    /// What explains the reasons that were `found`.
    fn reasons(&self, found: &[Reason]) -> Vec<Reason> {
        let holds = |causes: &[Cause]| found.iter().any(|reason| causes.contains(&reason.cause));
        let failed = |id: &str, least: HealthStatus| {
            self.failing.iter().any(|check| check.id == id && check.status >= least)
        };
        let mut reasons: Vec<Reason> = EXPLANATIONS
            .iter()
            .filter(|of| holds(of.causes) && failed(of.check, of.least))
            .map(|of| Reason::new(Cause::Health, of.text, of.todo))
            .collect();
        if let Some(since) = self.silent_since.filter(|_| holds(MONITORED)) {
            let since = since.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
            let text = format!("The health monitor has not run since {since}: what it mends stays as it is.");
            let todo = "`houston monitor --now` runs it; the workers should, so read their logs.";
            reasons.push(Reason::new(Cause::Health, text, todo));
        }
        reasons
    }
}

#[cfg(test)]
mod tests;
