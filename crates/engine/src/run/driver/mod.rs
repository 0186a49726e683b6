//! [`RunDriver`]: the loop that drives one claimed run. [`AgentRun`] says what is next; [`ModelTurn`] and [`ToolRunner`] do
//! it, and the [`Journal`] commits it.

mod compression;
mod driven;
mod ending;
mod load;
mod oversight;
mod plan;
mod routing;
mod skills;
#[cfg(test)]
mod tests;
mod turn;
mod typed;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use houston_domain::agent::{AgentRun, Next};
use houston_domain::ensure;
use houston_domain::event::Event;
use houston_domain::run::RunStatus;
use houston_domain::step::Step;
use houston_queue::Lane;
use houston_spans::Span;
use houston_store::claim::ClaimedRun;
use houston_store::step::CommittedStep;

use self::compression::Sizes;
use self::oversight::Oversight;
use self::routing::AnsweringAgent;
use crate::config::Config;
use crate::error::{Interrupted, Result};
use crate::holder::Holder;
use crate::live::Registration;
use crate::observer::Observed;
use crate::run::journal::Journal;
use crate::run::model_turn::ModelTurn;
use crate::run::services::Services;
use crate::run::signals::Signals;
use crate::run::storage::RunStorage;
use crate::run::tool_runner::ToolRunner;
use crate::setup::{Drive, Setup};

/// How a drive ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriveOutcome {
    /// There was nothing to claim: another worker has the lock, no run is open, or its retry is not due.
    NotClaimed,
    /// It was not claimed: so many workers died with it that a process must try it alone.
    Accused,
    /// The run ended with this status.
    Ended(RunStatus),
    /// The run failed and has another attempt.
    Retrying {
        /// The time until that attempt is due, by the database's clock.
        after: Duration,
        /// The lane of the agentable's kind.
        lane: Lane,
    },
    /// The run waits for something from outside, or, without having been claimed, because workers died with it.
    Waiting {
        /// The time until it goes on by itself, by the database's clock; `None`: it does not.
        after: Option<Duration>,
        /// The lane of the agentable's kind.
        lane: Lane,
    },
    /// The run was released; another worker continues it.
    HandedOver,
    /// The lock was lost; the worker that has it continues the run.
    Lost,
    /// Driving it panicked. That counts like the death of a worker.
    Panicked,
}

/// Error code of a run that no agent may answer.
const AGENT_UNAVAILABLE: &str = "AGENT_UNAVAILABLE";

/// Whether the drive goes on, or how it ended.
type Flow = Result<ControlFlow<DriveOutcome>>;

/// The drive ends, and so does the run.
fn ended(status: RunStatus) -> Flow {
    Ok(ControlFlow::Break(DriveOutcome::Ended(status)))
}

/// Whether the message is to be given up: the run kills its workers, or too many of them lost it.
fn must_be_given_up(claimed: &ClaimedRun, config: &Config) -> bool {
    claimed.is_given_up || claimed.claims > config.max_claims
}

/// One claimed run while this worker drives it.
pub(crate) struct RunDriver<'e, S> {
    journal: Journal<'e, S>,
    model: ModelTurn,
    tools: Box<ToolRunner>,
    run: AgentRun,
    /// Boxed: it is read at the beginning and the end, and the future of the run waits in between.
    claimed: Box<ClaimedRun>,
    registration: Registration,
    /// The setup of the agent that answers, limited to what this run may do.
    setup: Arc<Setup>,
    answered_by: AnsweringAgent,
    /// Estimated tokens of the history, entry by entry.
    sizes: Sizes,
    oversight: Oversight,
    /// Whether a title is requested for the agentable.
    wants_title: bool,
    /// Whether a plan was made that the run waits for.
    waits_for_plan: bool,
}

/// Drives a claimed run to its end, its next attempt, or a hand-over. The future of what precedes the first step is freed before
/// that: a run that waits should hold its own state, not the size of its deepest call. `span`: that of the agent.
///
/// # Errors
/// [`Interrupted::Lost`] when the lock is lost, [`Interrupted::Store`] when Postgres refuses a statement. The caller releases
/// the lock.
pub(crate) fn drive_claimed<'d, S: RunStorage>(
    storage: &'d S,
    services: &'d Services,
    holder: &'d Holder,
    claimed: ClaimedRun,
    span: Span,
) -> impl Future<Output = Result<DriveOutcome>> + 'd {
    let start = Box::pin(start(storage, services, holder, claimed, span));
    async move {
        let mut driver = match start.await? {
            Ok(driver) => driver,
            Err(refused) => return Ok(refused),
        };
        let mut first = true;
        loop {
            match driver.drive_until_end(first).await {
                Err(Interrupted::Landed) => {
                    if !Box::pin(driver.journal.is_held()).await? {
                        return Ok(DriveOutcome::HandedOver);
                    }
                    Box::pin(driver.reload()).await?;
                }
                Ok(DriveOutcome::Ended(status)) => {
                    driver.observe_end(status);
                    if driver.wants_title {
                        // Nobody hears it if the process ends: a job of another worker looks for the title.
                        let _ = services.titles.send(driver.journal.agentable());
                    }
                    return Ok(DriveOutcome::Ended(status));
                }
                other => return other,
            }
            first = false;
        }
    }
}

/// A claimed run before its first step; or how it has ended, because no agent type says how to drive it.
async fn start<'e, S: RunStorage>(
    storage: &'e S,
    services: &'e Services,
    holder: &'e Holder,
    mut claimed: ClaimedRun,
    span: Span,
) -> Result<Result<RunDriver<'e, S>, DriveOutcome>> {
    houston_faults::fault!("C6")?;
    let registration = services.live.register(claimed.fence.agentable, claimed.run, services.bus.clone());
    let cancel = registration.live.cancel.clone();
    if claimed.cancel_seq.is_some() {
        cancel.cancel();
    }
    let signals = Signals::new(holder, cancel, &services.config);
    let mut journal = Journal::new(storage, services, holder, signals, &mut claimed);
    journal.span = span;
    let context = claimed.context.take();
    match services.setup(&claimed.kind).cloned() {
        Some(kind) => RunDriver::load(journal, Box::new(claimed), registration, kind, context).await.map(Ok),
        None => ending::refuse_unknown_kind(journal, &claimed.kind, context).await.map(Err),
    }
}

impl<S: RunStorage> RunDriver<'_, S> {
    /// Executes steps until the run ends, waits for a retry, or is released. `first` is false when
    /// it is called again after a reload.
    async fn drive_until_end(&mut self, first: bool) -> Result<DriveOutcome> {
        if first && let ControlFlow::Break(outcome) = Box::pin(self.begin()).await? {
            return Ok(outcome);
        }
        loop {
            ensure!(!self.journal.signals.is_lost(), Interrupted::Lost);
            let flow = if self.journal.signals.is_cancelled() {
                Box::pin(self.cancelled()).await?
            } else {
                self.step().await?
            };
            if let ControlFlow::Break(outcome) = flow {
                return Ok(outcome);
            }
        }
    }

    /// The next step.
    async fn step(&mut self) -> Flow {
        match self.setup.drive.clone() {
            Drive::ModelLoop => self.agent_step().await,
            Drive::PlanGraph => Box::pin(self.plan_step()).await,
            Drive::Custom(driver) => Box::pin(self.driven_step(&*driver)).await,
        }
    }

    /// Ends a cancelled run. Its calls that did not return may have changed something.
    async fn cancelled(&mut self) -> Flow {
        // A plan says first what becomes of its steps.
        if let Drive::PlanGraph = self.setup.drive {
            return self.plan_step().await;
        }
        self.withdraw_submitted().await;
        let ended = self.cancel().await?;
        self.void_written().await?;
        Ok(ended)
    }

    /// Ends a run that kills its workers.
    async fn give_up(&mut self) -> Flow {
        match self.setup.drive {
            Drive::PlanGraph => self.give_up_plan().await,
            Drive::ModelLoop | Drive::Custom(_) => self.dead_letter().await,
        }
    }

    /// The step that the state machine of the agent asks for.
    async fn agent_step(&mut self) -> Flow {
        let mut next = self.run.next(self.journal.now());
        if next == Next::CallModel && self.oversight.may_have_asked || self.may_be_lifted(&next) {
            if let Some(flow) = Box::pin(self.oversee()).await? {
                return Ok(flow);
            }
            next = self.run.next(self.journal.now());
        }
        match next {
            Next::CallModel if self.journal.signals.is_draining() => Box::pin(self.hand_over()).await,
            Next::CallModel => self.model_step().await,
            Next::CallTools(calls) => Box::pin(self.resume_tools(calls)).await,
            Next::Done(status) => {
                Box::pin(self.withdraw_submitted()).await;
                Box::pin(self.finish(status)).await
            }
        }
    }

    /// What precedes the first step of an attempt.
    async fn begin(&mut self) -> Flow {
        self.book_lost_calls();
        if must_be_given_up(&self.claimed, &self.journal.services.config) {
            return self.give_up().await;
        }
        if let Some(reason) = self.answered_by.unavailable.take() {
            tracing::info!(run = %self.journal.run(), reason, "no agent may answer");
            return self.stop_with(AGENT_UNAVAILABLE, reason).await;
        }
        if let Drive::PlanGraph = self.setup.drive {
            return Ok(ControlFlow::Continue(()));
        }
        // Messages posted after a cancel request are for the next run.
        let reads = self.claimed.attempt > 1 && !self.journal.signals.is_cancelled();
        if !matches!(self.run.next(self.journal.now()), Next::CallTools(_)) {
            // A run with open calls waited for those, if it waited.
            let was_left = matches!(self.claimed.event.event,
                Event::AttemptStarted { takeover, resumed, .. } if takeover || resumed);
            self.oversight.may_have_asked = was_left;
            if self.model.frame.submission.is_some() {
                return Ok(ControlFlow::Continue(()));
            }
            if reads {
                self.read_messages().await?;
            }
            if was_left {
                return self.wait_for_plans().await;
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Attempts that ended since the last committed step without one of their own: their workers died, or lost the run.
    fn lost_attempts(&self) -> i32 {
        self.claimed.deaths.max(self.claimed.claims - 1)
    }

    /// Workers have lost the run since the last commit while the model was to be called: its provider may have begun to answer each of
    /// them, and how much it wrote is not known. The next commit counts what they have sent. Those that asked for an answer which
    /// comes later have sent nothing.
    fn book_lost_calls(&mut self) {
        let lost = self.lost_attempts();
        if lost == 0 || self.model.frame.submission.is_some() || !matches!(self.setup.drive, Drive::ModelLoop)
        {
            return;
        }
        if self.run.next(self.journal.now()) != Next::CallModel {
            return;
        }
        let tokens = self.model.estimate(self.run.history(), self.tools.offer());
        for _ in 0..lost {
            self.journal.ledger.enter_lost(self.setup.model.description(), tokens);
        }
    }

    /// Commits a step and passes the messages it read to the state machine.
    async fn commit(&mut self, step: Step) -> Result<CommittedStep> {
        let done = self.journal.commit(step).await?;
        self.read(&done);
        Ok(done)
    }

    /// Calls the observers for the end of the run.
    fn observe_end(&self, status: RunStatus) {
        let journal = &self.journal;
        let usage = journal.total_usage();
        let ended = Observed::RunEnded { status, usage: &usage };
        journal.services.observers.notify(&journal.owner, &tracing::Span::current(), ended);
    }

    fn read(&mut self, done: &CommittedStep) {
        if !done.read.is_empty() {
            self.oversight.has_read = true;
            let mark = &self.journal.mark;
            done.read.iter().for_each(|read| self.tools.taint.add_message(&read.text));
            self.run.on_messages(done.read.iter().map(|read| read.clone().signed(mark)).collect());
        }
    }
}
