//! The steps of a run that a [`Driver`] drives.

use std::ops::ControlFlow;
use std::pin::pin;

use chrono::{DateTime, Utc};
use houston_domain::agent::Next;
use houston_domain::error_message::user_text;
use houston_domain::history::Block;
use houston_domain::id::QuestionId;
use houston_domain::model::{ModelAnswer, StopReason, Usage};
use houston_domain::run::RunStatus;
use houston_domain::storable::{storable, storable_value};
use houston_store::step::CommittedStep;
use serde_json::Value;

use super::{DriveOutcome, Flow, RunDriver};
use crate::driver::{Decision, DrivenRun, Driver, Then};
use crate::error::Result;
use crate::live::Streamed;
use crate::run::signals::Stop;
use crate::run::storage::RunStorage;

impl<S: RunStorage> RunDriver<'_, S> {
    /// The step that the driver asks for, after open tool calls have their results.
    pub(super) async fn driven_step(&mut self, driver: &dyn Driver) -> Flow {
        let agent = self.run.next(self.journal.now());
        if let Next::CallTools(calls) = agent {
            return self.resume_tools(calls).await;
        }
        if self.journal.signals.is_draining() {
            return self.hand_over().await;
        }
        match self.ask(driver, &agent).await? {
            Ok((decision, open)) => self.carry_out(decision, open).await,
            Err(Stop::Cancelled) => self.cancel().await,
            Err(Stop::Drained) => self.hand_over().await,
            Err(Stop::OutOfTime) => self.end(RunStatus::MaxDuration).await,
        }
    }

    /// Asks the driver. Returns its decision and the questions that stay open, without those it asks now.
    async fn ask(
        &self,
        driver: &dyn Driver,
        agent: &Next,
    ) -> Result<Result<(Decision, Vec<QuestionId>), Stop>> {
        let (agentable, run) = (self.journal.agentable(), self.journal.run());
        let (state, mut questions) = self.journal.retrying(|storage| storage.driven(agentable, run)).await?;
        // Approvals of tool calls, pauses and budget questions are Houston's, not the driver's.
        questions.retain(|question| question.asked.approval.is_none() && !question.asked.is_own());
        let (journal, owner) = (&self.journal, self.journal.owner);
        let view = DrivenRun {
            tenant: owner.tenant,
            user: owner.user,
            agentable,
            run,
            attempt: self.claimed.attempt,
            now: journal.now(),
            history: self.run.history(),
            own_entries: self.run.own_entries(),
            questions: &questions,
            state: state.as_ref(),
            agent,
            ids: &journal.services.ids,
        };
        let decision = match journal.signals.until_stopped(pin!(driver.next(view))).await? {
            Ok(decision) => decision,
            Err(stop) => return Ok(Err(stop)),
        };
        let open = view.open_questions().filter(|id| !decision.superseded.contains(id)).collect();
        Ok(Ok((decision, open)))
    }

    /// Commits what the driver decided. `open`: see [`Self::ask`].
    async fn carry_out(&mut self, mut decision: Decision, open: Vec<QuestionId>) -> Flow {
        decision.messages.iter_mut().for_each(storable);
        decision.state.iter_mut().for_each(storable_value);
        for question in &mut decision.questions {
            storable(&mut question.text);
            question.subject.iter_mut().for_each(storable);
            question.schema.iter_mut().chain(&mut question.default_value).for_each(storable_value);
        }
        let then = std::mem::replace(&mut decision.then, Then::Continue);
        self.journal.driven = Some(Box::new((decision, self.label())));
        match then {
            Then::Continue => {
                self.read_messages().await?;
                Ok(ControlFlow::Continue(()))
            }
            Then::Wait { until } => self.wait_for(until, open).await,
            Then::CallTools(calls) => self.call_tools(calls).await,
            Then::Agent => self.agent_step().await,
            Then::Finish => self.finish(RunStatus::Completed).await,
            Then::Fail { code, message } => {
                let step = self.journal.next_step();
                self.terminate(step, &code, user_text(&code), message).await
            }
        }
    }

    /// Waits again if the run waits for plans that it has made, and nothing has arrived.
    pub(super) async fn wait_for_plans(&mut self) -> Flow {
        let run = self.journal.run();
        let has_read = self.oversight.has_read;
        if has_read || !self.journal.of_postgres(|store| store.has_attached_plans(run)).await? {
            return Ok(ControlFlow::Continue(()));
        }
        self.wait_for(None, Vec::new()).await
    }

    /// Releases the run until something arrives, or goes on with what has arrived.
    pub(super) async fn wait_for(
        &mut self,
        until: Option<DateTime<Utc>>,
        questions: Vec<QuestionId>,
    ) -> Flow {
        let mut step = self.journal.next_step();
        step.transition = self.journal.waiting(until, questions, None);
        let done = self.commit(step).await?;
        Ok(self.waits(&done, until))
    }

    /// What follows a step after which the run waits until this time, unless something has arrived.
    pub(super) fn waits(
        &self,
        done: &CommittedStep,
        until: Option<DateTime<Utc>>,
    ) -> ControlFlow<DriveOutcome> {
        if done.continued {
            return ControlFlow::Continue(());
        }
        let after = until.map(|until| (until - self.journal.now()).to_std().unwrap_or_default());
        ControlFlow::Break(DriveOutcome::Waiting { after, lane: self.journal.lane })
    }

    /// Calls tools as if the model had asked for them.
    async fn call_tools(&mut self, calls: Vec<(String, Value)>) -> Flow {
        let call = |(name, input)| Block::ToolUse { id: String::new(), name, input, raw: None };
        let answer = ModelAnswer {
            content: calls.into_iter().map(call).collect(),
            malformed: Vec::new(),
            stop: StopReason::ToolUse,
            usage: Usage::default(),
        };
        let turn = self.answered(answer, Usage::default(), Streamed::default()).await?;
        self.finish_turn(turn).await
    }
}

#[cfg(test)]
mod tests;
