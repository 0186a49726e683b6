//! Ending a drive: the run finished, failed, was cancelled, or is handed over. Of a failure the user sees one error message per
//! run: it counts down to the next attempt, is marked as settled when that succeeds, or says that the run failed for good. A run
//! whose kind has no agent type in this process is ended, too.

use std::ops::ControlFlow;

use chrono::{DateTime, Utc};
use houston_domain::agent::{AgentRun, Next, Reply, RunPolicy};
use houston_domain::budget::{BUDGET_EXCEEDED, OverBudget};
use houston_domain::error_message::{CONTENT_FILTER, ErrorMessage, PendingRetry, user_text};
use houston_domain::event::Event;
use houston_domain::intervention::Intervention;
use houston_domain::model::ModelError;
use houston_domain::question::approval;
use houston_domain::retry::{FailedRun, PlannedRetry};
use houston_domain::run::RunStatus;
use houston_domain::step::{Ending, RunTransition, Step};
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use houston_store::run_context::RunContext;
use serde_json::json;

use super::{DriveOutcome, Flow, RunDriver, ended};
use crate::error::{Interrupted, Result};
use crate::run::journal::{Journal, add_message, show_error};
use crate::run::storage::RunStorage;
use crate::run::tool_runner::{OpenCalls, add_tool_result};

/// Error code of a run whose kind has no agent type in this process.
const UNKNOWN_KIND: &str = "UNKNOWN_KIND";

impl<S: RunStorage> RunDriver<'_, S> {
    /// Reads messages that arrived while no worker drove the run.
    pub(super) async fn read_messages(&mut self) -> Result<()> {
        let read = RunTransition::Continue { read: true, event: None };
        let step = self.journal.step(read);
        self.commit(step).await?;
        Ok(())
    }

    /// Ends a run that has nothing left to do. It continues if a new message arrived meanwhile.
    pub(super) async fn finish(&mut self, status: RunStatus) -> Flow {
        let mut step = self.journal.next_step();
        self.set_ending(&mut step, status);
        let done = self.commit(step).await?;
        if done.continued { Ok(ControlFlow::Continue(())) } else { ended(status) }
    }

    /// Makes `step` end the run with `status`. If a limit or a content filter ended it, a message says so.
    pub(super) fn set_ending(&mut self, step: &mut Step, status: RunStatus) {
        if status == RunStatus::Completed && self.run.was_declined() {
            return self.set_ending_declined(step);
        }
        if let Some(notice) = status.notice().filter(|_| self.run.expects_reply()) {
            let mut metadata = self.label();
            metadata["notice"] = json!(status);
            // A new id: text that the iteration streamed has the id `next_message`.
            add_message(step, self.journal.new_id(), notice.to_owned(), metadata);
        }
        step.transition = match status {
            RunStatus::Completed | RunStatus::MessageSent | RunStatus::MaxTokens => {
                self.completed(status, None)
            }
            // A limit ends the run even if new messages arrived; they open the next run.
            _ => self.journal.terminated(status, None),
        };
    }

    /// Makes `step` end a run whose last answer was stopped by a content filter: completed, with an error message.
    fn set_ending_declined(&mut self, step: &mut Step) {
        if self.run.expects_reply() {
            // A run has at most one error message; this replaces an earlier one.
            self.journal.error = None;
            show_error(step, &ErrorMessage::stopped(self.journal.run(), CONTENT_FILTER));
        }
        let message = "the provider's content filter stopped the answer, or the model refused to answer";
        let why = Some((CONTENT_FILTER, message.to_owned()));
        step.transition = self.completed(RunStatus::Completed, why);
    }

    pub(super) fn completed(&self, status: RunStatus, why: Option<(&str, String)>) -> RunTransition {
        let (event, ending) = self.journal.run_finished(status, why);
        RunTransition::Complete { event, continue_event: self.journal.step_finished(), ending }
    }

    /// Ends the run with `status` outside of a turn.
    pub(super) async fn end(&mut self, status: RunStatus) -> Flow {
        self.end_with(status, OpenCalls::default()).await
    }

    /// Ends the run and closes its open calls.
    pub(super) async fn end_with(&mut self, status: RunStatus, open: OpenCalls) -> Flow {
        let mut step = self.closing_step(status, open).await;
        self.set_ending(&mut step, status);
        self.commit(step).await?;
        ended(status)
    }

    /// The open calls of the run. Responses of calls that another worker started are kept.
    async fn open_calls(&self) -> Result<OpenCalls> {
        open_calls(&self.journal, &self.run).await
    }

    /// A step that closes the open calls of the run, which ends: what paused ones have begun elsewhere is ended, too.
    async fn closing_step(&mut self, status: RunStatus, mut open: OpenCalls) -> Step {
        if !open.paused.is_empty() {
            self.tools.give_up(std::mem::take(&mut open.paused)).await;
        }
        let mut step = self.journal.next_step();
        close_calls(&mut self.run, &mut step, status, open);
        step
    }

    /// Ends the run because of a cancel request, or an intervention of the health monitor.
    pub(super) async fn cancel(&mut self) -> Flow {
        let open = self.open_calls().await?;
        self.cancel_with(open).await
    }

    /// [`Self::cancel`] with the open calls.
    pub(super) async fn cancel_with(&mut self, open: OpenCalls) -> Flow {
        let run = self.journal.run();
        self.acquit_others().await?;
        match self.journal.of_postgres(|store| store.intervention(run)).await? {
            Some(intervention) => self.intervene(intervention, open).await,
            None => self.end_with(RunStatus::Cancelled, open).await,
        }
    }

    /// Before a run ends that may have killed its workers: the runs that died with it are not to blame, or it will
    /// never be known.
    pub(super) async fn acquit_others(&self) -> Result<()> {
        if self.claimed.deaths > 0 {
            let agentable = self.journal.agentable();
            self.journal.of_postgres(|store| store.acquit_others(agentable)).await?;
        }
        Ok(())
    }

    /// Ends the run as failed for the health monitor's reason.
    async fn intervene(&mut self, intervention: Intervention, open: OpenCalls) -> Flow {
        let run = self.journal.run();
        tracing::warn!(%run, reason = intervention.as_str(), "the health monitor ends a run");
        let step = self.closing_step(RunStatus::Failed, open).await;
        let (code, notice) = (intervention.code(), intervention.notice());
        self.terminate(step, code, notice, notice.to_owned()).await
    }

    /// Ends the run before a call that might exceed a budget. It is not retried, because the call would cost the same.
    pub(super) async fn stop_for_budget(&mut self, over: &OverBudget) -> Flow {
        tracing::info!(run = %self.journal.run(), %over, "the run ends: its budget is reached");
        self.stop_with(BUDGET_EXCEEDED, over.to_string()).await
    }

    /// Ends the run as failed, without a retry. `text` is the run's error for operators; the user reads [`user_text`].
    pub(super) async fn stop_with(&mut self, code: &str, text: String) -> Flow {
        let open = self.open_calls().await?;
        let step = self.closing_step(RunStatus::Failed, open).await;
        self.terminate(step, code, user_text(code), text).await
    }

    /// Commits `step` as the end of a failed run: the user reads `notice`, operators read `text`.
    pub(super) async fn terminate(&mut self, mut step: Step, code: &str, notice: &str, text: String) -> Flow {
        let status = RunStatus::Failed;
        show_error(&mut step, &ErrorMessage::permanent(self.journal.run(), code, notice));
        step.transition = self.journal.terminated(status, Some((code, text)));
        self.commit(step).await?;
        ended(status)
    }

    /// Releases the run. Another worker continues from what is committed.
    pub(super) async fn hand_over(&mut self) -> Flow {
        let event = Event::HandedOver { iteration: self.journal.open_iteration };
        let step = self.journal.step(RunTransition::Release { event });
        self.commit(step).await?;
        Ok(ControlFlow::Break(DriveOutcome::HandedOver))
    }
}

async fn open_calls<S: RunStorage>(journal: &Journal<'_, S>, run: &AgentRun) -> Result<OpenCalls> {
    match run.next(journal.now()) {
        Next::CallTools(calls) => OpenCalls::read(journal, &calls).await,
        _ => Ok(OpenCalls::default()),
    }
}

/// Gives every open call its result, in the history and in the thread: its response if there is one; else that it was cut
/// off, or not started because it waited for a person.
fn close_calls(run: &mut AgentRun, step: &mut Step, status: RunStatus, open: OpenCalls) {
    let OpenCalls { responses: mut known, cells, held, paused: _ } = open;
    let reason = cut_off(status);
    for (call, cell) in cells.iter().filter(|(call, _)| !known.iter().any(|(known, _)| known == call)) {
        add_tool_result(step, call, *cell, &reason);
    }
    for (call, cell) in held {
        let response = approval::never_decided();
        add_tool_result(step, &call, cell, &response);
        known.push((call, response));
    }
    step.entries.extend(run.on_end(status, known, &reason));
}

/// The tool result of calls that were cut off.
fn cut_off(status: RunStatus) -> ToolResponse {
    match status {
        RunStatus::Cancelled => ToolResponse::failure(
            ToolErrorCode::Unknown,
            "cancelled while this call ran. It may have happened: verify before you try again.",
        ),
        _ => ToolResponse::outcome_unknown(),
    }
}

impl<S: RunStorage> RunDriver<'_, S> {
    /// Handles a failed model call: schedules the next attempt, or ends the run if there is none.
    pub(super) async fn fail(&mut self, error: &ModelError) -> Flow {
        self.journal.span.failed(error.code.as_str());
        let (now, services) = (self.journal.now(), self.journal.services);
        let since = self.journal.error.as_ref().and_then(ErrorMessage::since).unwrap_or(now);
        let run = FailedRun { failed: self.claimed.failed_attempts, since, now };
        match services.config.delayed.next_attempt(error, &run, services.random_fraction()) {
            Some(planned) => self.wait(error, planned, since).await,
            None => {
                tracing::warn!(%error, "the model failed; no attempt is left");
                self.withdraw_submitted().await;
                self.stop_with(error.code.as_str(), error.message.clone()).await
            }
        }
    }

    /// Releases the run until its next attempt. The event makes streams take back the text of this attempt.
    async fn wait(
        &mut self,
        error: &ModelError,
        PlannedRetry { at, counts }: PlannedRetry,
        since: DateTime<Utc>,
    ) -> Flow {
        tracing::warn!(%error, retry_at = %at, counts, "the model failed; the run is retried later");
        let of = self.journal.services.config.delayed.attempts(error);
        // More failures than attempts are possible only while the breaker is open, which uses up none.
        let attempt = (self.claimed.failed_attempts + 1).min(of);
        let retry = PendingRetry { attempt, of, retry_at: at, since };
        let mut step = self.journal.next_step();
        show_error(&mut step, &ErrorMessage::waiting(self.journal.run(), error, &retry, &self.journal.hung));
        let event = Event::RetryScheduled {
            attempt,
            of,
            retry_at: at,
            code: error.code.as_str().to_owned(),
            message: error.message.clone(),
            iteration: self.journal.open_iteration,
        };
        let (status, message) = (RunStatus::Retrying, error.message.clone());
        let error_code = Some(error.code.as_str().to_owned());
        let ending = Ending { status, error_code, error_message: Some(message) };
        step.transition = RunTransition::Retry { event, at, counts, ending };
        let done = self.commit(step).await?;
        // A run that was cancelled meanwhile is due at once.
        let due = if done.cancel_seq.is_some() { self.journal.now() } else { at };
        let after = (due - self.journal.now()).to_std().unwrap_or_default();
        Ok(ControlFlow::Break(DriveOutcome::Retrying { after, lane: self.journal.lane }))
    }

    /// Gives up a message whose workers died too often: it becomes a dead letter.
    pub(super) async fn dead_letter(&mut self) -> Flow {
        let (deaths, claims) = (self.claimed.deaths, self.claimed.claims);
        tracing::error!(run = %self.journal.run(), deaths, claims, "message given up");
        self.journal.span.failed("DEAD_LETTERED");
        self.acquit_others().await?;
        self.withdraw_submitted().await;
        let open = self.open_calls().await?;
        let status = RunStatus::DeadLettered;
        let mut step = self.closing_step(status, open).await;
        let notice = status.notice().unwrap_or_default();
        show_error(&mut step, &ErrorMessage::permanent(self.journal.run(), "DEAD_LETTERED", notice));
        step.transition = self.journal.terminated(status, None);
        self.commit(step).await?;
        ended(status)
    }
}

/// Ends the run with an error message in its thread. Its open calls get their results: without them no model would take
/// the history when the kind is back.
pub(super) async fn refuse_unknown_kind<S: RunStorage>(
    mut journal: Journal<'_, S>,
    kind: &str,
    context: Option<Box<RunContext>>,
) -> Result<DriveOutcome> {
    tracing::error!(kind, "no agent type of this name: add jobs/agents/<kind>.toml");
    let text = format!("There is no agent type `{kind}`: its file is missing in jobs/agents.");
    let status = RunStatus::Failed;
    let mut run = history_of_unknown_kind(&journal, context).await?;
    let open = open_calls(&journal, &run).await?;
    let mut step = journal.next_step();
    close_calls(&mut run, &mut step, status, open);
    show_error(&mut step, &ErrorMessage::permanent(journal.run(), UNKNOWN_KIND, user_text(UNKNOWN_KIND)));
    step.transition = journal.terminated(status, Some((UNKNOWN_KIND, text)));
    match journal.commit(step).await {
        Err(Interrupted::Landed) | Ok(_) => Ok(DriveOutcome::Ended(status)),
        Err(error) => Err(error),
    }
}

/// The run with its history. The policy decides nothing here.
async fn history_of_unknown_kind<S: RunStorage>(
    journal: &Journal<'_, S>,
    context: Option<Box<RunContext>>,
) -> Result<AgentRun> {
    let context = journal.run_context(context).await?;
    let limits = journal.services.config.limits;
    let policy = RunPolicy { conversational: true, expects_reply: true, reply: Reply::Text, limits };
    Ok(AgentRun::resume(policy, context.history, context.run_entries, journal.now()))
}
