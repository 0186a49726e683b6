//! Pauses: a run that seems to get nowhere, or whose budget is reached, waits until a person lets it go on or stops it.
//!
//! What the overseer finds follows from the history. The questions of a run are read only when a pause is due, and once
//! after a wait or a crash; the budget questions of an agentable only when a budget is exceeded.

use std::ops::ControlFlow;
use std::time::Duration;

use houston_domain::agent::Next as AgentNext;
use houston_domain::budget::Raises;
use houston_domain::budget::{OverBudget, WhenReached};
use houston_domain::id::QuestionId;
use houston_domain::overseer::{
    Finding, Level, Measured, OVERSEER_KILLED, OVERSEER_STOPPED, Signal, Unattended, note,
};
use houston_domain::question::budget;
use houston_domain::question::pause::{self, Pause, PauseState};
use houston_domain::question::{NewQuestion, QuestionChanges, QuestionKind, QuestionState};
use houston_domain::run::RunStatus;
use tokio::time::Instant;

use super::{DriveOutcome, Flow, RunDriver};
use crate::error::Result;
use crate::rates::REACH_OUTSIDE;
use crate::run::model_turn::{CheckedBudget, check_budget};
use crate::run::storage::RunStorage;

/// What an attempt has to look at besides the history.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Oversight {
    /// Whether the run may have a question that it waited for.
    pub(super) may_have_asked: bool,
    /// Whether the answers of people were taken into account since the history was read.
    pub(super) has_looked: bool,
    /// Whether the run has read a message since its last question.
    pub(super) has_read: bool,
    /// What people have added to budgets, as far as it was needed.
    pub(super) raises: Raises,
}

/// How a run goes on before its next model call.
enum Next {
    /// It calls the model.
    Proceed,
    /// It waits for this question, which is asked now.
    Ask(Box<NewQuestion>),
    /// It waits for this question.
    Wait(QuestionId),
    /// It ends with this error code.
    Stop(&'static str, String),
}

impl<S: RunStorage> RunDriver<'_, S> {
    /// What the overseer has found, if anything.
    fn finding(&self) -> Option<Finding> {
        self.run.finding(&self.measured())
    }

    /// What is counted besides the turns of the run, without a request to the storage.
    fn measured(&self) -> Measured {
        let usage = self.journal.total_usage();
        let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
        let mut measured = Measured { tokens, ..Measured::default() };
        if !self.journal.services.config.overseer.external_calls.is_off() {
            let (rates, user, now) = (&self.journal.services.rates, self.journal.owner.user, Instant::now());
            let since = match self.run.trace().anew(Signal::ExternalCalls) {
                0 => u64::MAX,
                anew => u64::try_from(self.journal.now().timestamp()).unwrap_or(0).saturating_sub(anew),
            };
            measured.external_calls = rates.count(user, REACH_OUTSIDE, now).into();
            let within = Duration::from_secs(since);
            measured.external_calls_anew = rates.count_within(user, REACH_OUTSIDE, within, now).into();
        }
        measured
    }

    /// Whether the limit that ends the run now may be lifted: people may have let it go on since, before this attempt.
    pub(super) fn may_be_lifted(&self, next: &AgentNext) -> bool {
        *next == AgentNext::Done(RunStatus::SameTool)
            && self.claimed.attempt > 1
            && !self.oversight.has_looked
    }

    /// Whether the overseer has found something that stops the run. Of what no turn shows the model is
    /// warned here.
    pub(super) fn needs_oversight(&mut self) -> bool {
        let Some(finding) = self.finding() else { return false };
        if finding.level == Level::Warn && !finding.signal.is_of_turns() {
            let threshold = self.journal.services.config.overseer.of(finding.signal).warn;
            self.run.warn(note::beyond(finding.signal, threshold));
        }
        finding.level >= Level::Pause
    }

    /// Pauses or ends the run if it seems to get nowhere; `None`: it calls the model.
    pub(super) async fn oversee(&mut self) -> Result<Option<ControlFlow<DriveOutcome>>> {
        let questions = self.journal.questions().await?;
        let (mut open, mut ended) = (Vec::new(), None);
        let newest = questions.iter().rfind(|of| Pause::of(of).is_some()).map(|of| of.asked.id);
        for (pause, question) in questions.iter().filter_map(|of| Some((Pause::of(of)?, of))) {
            let is_newest = newest == Some(question.asked.id);
            match pause.state {
                PauseState::Open => open.push((pause.signal, question.asked.id)),
                PauseState::Continued => self.run.start_anew(pause.signal, pause.at),
                PauseState::Stopped => ended = Some((question, "a person said stop")),
                PauseState::Expired if is_newest && !self.has_read_since(&pause) => {
                    ended = Some((question, "no answer came in time"));
                }
                // A message came instead of an answer, though perhaps too late to supersede the question.
                PauseState::Expired | PauseState::Superseded => {}
            }
        }
        (self.oversight.may_have_asked, self.oversight.has_looked) = (false, true);
        let next = match (ended, self.finding()) {
            (Some((question, why)), _) => {
                Next::Stop(OVERSEER_STOPPED, format!("{why}: {}", question.asked.text))
            }
            (None, Some(finding)) if finding.level == Level::Kill => {
                Next::Stop(OVERSEER_KILLED, note::seen(&finding))
            }
            (None, Some(finding)) if finding.level == Level::Pause => {
                match open.iter().find(|(signal, _)| *signal == finding.signal) {
                    Some((_, question)) => Next::Wait(*question),
                    None if self.stops_unattended() => {
                        Next::Stop(OVERSEER_STOPPED, format!("unattended: {}", note::seen(&finding)))
                    }
                    None => Next::Ask(Box::new(self.pause_question(&finding))),
                }
            }
            _ => Next::Proceed,
        };
        self.go_on(next, open.into_iter().map(|(_, question)| question).collect()).await
    }

    /// Whether the run has read a message since it paused.
    fn has_read_since(&self, pause: &Pause) -> bool {
        let is_forgotten = pause.signal.is_of_turns() && !self.run.trace().has_turn(pause.at);
        self.oversight.has_read || is_forgotten
    }

    /// The budget that the next call, which sends about `tokens`, might exceed. The model is warned of one that is nearly
    /// spent.
    pub(super) async fn exceeded_budget(&mut self, tokens: u64) -> Result<Option<OverBudget>> {
        let raises = &self.oversight.raises;
        let next = (tokens, self.setup.policy.limits.max_output_tokens);
        let CheckedBudget { over, nearly } = check_budget(&self.journal, &self.setup, next, raises).await?;
        if let (None, Some((scope, limit))) = (&over, nearly) {
            let percent = self.journal.services.config.overseer.budget.warn_percent;
            self.run.warn(note::budget(percent, scope, limit));
        }
        Ok(over)
    }

    /// What happens when the next call might exceed a budget.
    pub(super) async fn budget_reached(&mut self, over: &OverBudget) -> Flow {
        let asks = self.journal.services.config.budget.when_reached == WhenReached::Ask;
        if !asks || *over == OverBudget::Unpriced {
            return self.stop_for_budget(over).await;
        }
        let (agentable, run) = (self.journal.agentable(), self.journal.run());
        let questions = self.journal.retrying(|storage| storage.budget_questions(agentable)).await?;
        let raises = Raises::of(run, &questions);
        let of_run = || questions.iter().filter(|(of, _)| *of == run).map(|(_, question)| question);
        if raises != self.oversight.raises && !of_run().any(budget::ends_run) {
            // The budget is checked again, with these.
            self.tools.raises = raises;
            self.oversight.raises = raises;
            return Ok(ControlFlow::Continue(()));
        }
        let open: Vec<QuestionId> =
            of_run().filter(|of| of.state == QuestionState::Open).map(|of| of.asked.id).collect();
        let next = match open.last() {
            _ if of_run().any(budget::ends_run) => None,
            Some(question) if !self.oversight.has_read => Some(Next::Wait(*question)),
            None if self.stops_unattended() => None,
            _ => self.budget_question(over).map(|question| Next::Ask(Box::new(question))),
        };
        match next {
            None => self.stop_for_budget(over).await,
            Some(next) => Ok(self.go_on(next, open).await?.unwrap_or(ControlFlow::Continue(()))),
        }
    }

    /// Whether a run that would ask a person ends instead, because no person takes part.
    fn stops_unattended(&self) -> bool {
        !self.run.expects_reply() && self.journal.services.config.overseer.unattended == Unattended::Stop
    }

    fn pause_question(&self, finding: &Finding) -> NewQuestion {
        let (measured, now) = (self.measured(), self.journal.now());
        NewQuestion {
            subject: Some(pause::subject(finding, self.run.trace(), &measured, now)),
            schema: Some(pause::answer_schema()),
            expires_at: self.journal.approvals_expire_at(),
            ..self.journal.question(QuestionKind::Approval, pause::question_text(finding))
        }
    }

    fn budget_question(&self, over: &OverBudget) -> Option<NewQuestion> {
        let OverBudget::Exceeded { scope, .. } = over else { return None };
        Some(NewQuestion {
            subject: Some(budget::subject(*scope)),
            schema: Some(budget::answer_schema(over)),
            expires_at: self.journal.approvals_expire_at(),
            ..self.journal.question(QuestionKind::Budget, budget::question_text(over))
        })
    }

    /// Does what is next. Of the `open` questions only the one that the run waits for stays open.
    async fn go_on(
        &mut self,
        next: Next,
        mut open: Vec<QuestionId>,
    ) -> Result<Option<ControlFlow<DriveOutcome>>> {
        let (asked, waits_for) = match next {
            Next::Stop(code, text) => {
                tracing::info!(run = %self.journal.run(), code, text, "the overseer ends the run");
                return self.stop_with(code, text).await.map(Some);
            }
            Next::Proceed if open.is_empty() => return Ok(None),
            Next::Proceed => (Vec::new(), None),
            Next::Wait(question) => (Vec::new(), Some(question)),
            Next::Ask(question) => {
                tracing::info!(run = %self.journal.run(), question = question.text, "the run pauses");
                let id = question.id;
                (vec![*question], Some(id))
            }
        };
        open.retain(|question| Some(*question) != waits_for);
        let mut step = self.journal.next_step();
        let changes = QuestionChanges { asked, superseded: open };
        if !changes.is_empty() {
            step.questions = Some(Box::new(changes));
        }
        let Some(question) = waits_for else {
            // The user wrote a message instead of answering.
            self.commit(step).await?;
            return Ok(None);
        };
        step.transition = self.journal.waiting(None, vec![question], None);
        self.oversight = Oversight { may_have_asked: true, has_read: false, ..self.oversight };
        let done = self.commit(step).await?;
        Ok(Some(self.waits(&done, None)))
    }
}
