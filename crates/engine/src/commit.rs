//! Committing steps, with retries until a step is committed or the lock is lost, and sending the hints and events that
//! follow a commit.

use std::time::Duration;

use houston_domain::event::{Event, Live};
use houston_domain::id::{CheckInId, MessageId};
use houston_domain::message::{MessageType, Source};
use houston_domain::model::Usage;
use houston_domain::step::{NewMessage, RunTransition, Step};
use houston_domain::tool_call::{Record, ToolResponse};
use houston_llm::Switch;
use houston_queue::{Hint, Lane};
use houston_store::record::{FencedTx, Owner};
use houston_store::step::{Commit, CommittedStep};
use houston_store::sweep::Due;
use houston_store::task::NewTask;
use serde_json::Value;
use uuid::Uuid;

use crate::engine::Engine;
use crate::error::Interrupted;
use crate::holder::Holder;
use crate::run_driver::RunDriver;

/// A tool call that writes a row of Houston's own tables, before the row is written.
#[derive(Debug, Clone)]
pub(crate) struct PendingRecord {
    /// The id of the tool call.
    pub(crate) call: String,
    /// The id the row will have.
    pub(crate) id: Uuid,
    pub(crate) record: Record,
    /// The task that `record` asks for, if it asks for one.
    pub(crate) task: Option<NewTask>,
}

impl RunDriver<'_> {
    /// A new step. It contains only the events of model fallbacks that no step has reported yet.
    pub(crate) fn step(&mut self, usage: Usage, then: RunTransition) -> Step {
        Step {
            write: self.engine.ids.next(),
            run: self.claimed.run,
            entries: Vec::new(),
            events: std::mem::take(&mut self.switches).into_iter().map(fallback).collect(),
            messages: Vec::new(),
            intents: Vec::new(),
            responses: Vec::new(),
            cells: Vec::new(),
            large_results: Vec::new(),
            iterations: self.open_step - 1,
            usage,
            model: (usage != Usage::default()).then(|| self.answering.to_string()),
            call: None,
            transition: then,
        }
    }

    /// Commits a step, with retries while Postgres is unreachable.
    ///
    /// # Errors
    /// [`Interrupted::Landed`] when an earlier attempt had committed it, [`Interrupted::Lost`] when the lock or the lease is
    /// lost, [`Interrupted::Store`] when Postgres refuses.
    pub(crate) async fn commit(&mut self, mut step: Step) -> Result<CommittedStep, Interrupted> {
        self.count_iteration(&mut step);
        self.settle_error_message(&mut step);
        step.call = self.call.take();
        let mut pause = Duration::from_millis(20);
        loop {
            match self.engine.store.commit(&self.claimed.fence, &step).await {
                Ok(Commit::Done(done)) => return Ok(self.committed(&step, done)),
                Ok(Commit::AlreadyCommitted) => return Err(Interrupted::Landed),
                Err(error) if error.is_transient() => self.wait_for_postgres(&error, &mut pause).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes the records in a transaction behind the fence. Returns the open transaction, and the tool result of each call.
    pub(crate) async fn record(
        &self,
        records: &[PendingRecord],
    ) -> Result<(FencedTx, Vec<(String, ToolResponse)>), Interrupted> {
        let mut pause = Duration::from_millis(20);
        loop {
            match self.try_record(records).await {
                Ok(recorded) => return Ok(recorded),
                Err(error) if error.is_transient() => self.wait_for_postgres(&error, &mut pause).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn try_record(
        &self,
        records: &[PendingRecord],
    ) -> houston_store::Result<(FencedTx, Vec<(String, ToolResponse)>)> {
        let claimed = &self.claimed;
        let owner = Owner {
            tenant: claimed.tenant,
            user: claimed.user,
            agentable: claimed.fence.agentable,
            run: claimed.run,
        };
        let mut tx = self.engine.store.begin_fenced(&claimed.fence).await?;
        let mut responses = Vec::with_capacity(records.len());
        for PendingRecord { call, id, record, task } in records {
            let response = match (record, task) {
                (_, Some(task)) => tx.create_task(owner, task, &self.engine.config.tasks).await?,
                (Record::ScheduleCheckIn(wanted), _) => {
                    let limits = &self.engine.config.check_ins;
                    tx.schedule_check_in(owner, CheckInId(*id), wanted, limits).await?
                }
                (record, None) => tx.record(owner, *id, record).await?,
            };
            responses.push((call.clone(), self.cut(response)));
        }
        Ok((tx, responses))
    }

    /// Commits a step in the transaction of its records. When the connection breaks, writes the records and commits again,
    /// unless both were committed. The step's entries and events contain the results of the records, so a repetition with
    /// other results than `succeeded_before` is an error: the run is released and continues from its last commit.
    pub(crate) async fn commit_recorded(
        &mut self,
        tx: FencedTx,
        records: &[PendingRecord],
        succeeded_before: &[bool],
        mut step: Step,
    ) -> Result<CommittedStep, Interrupted> {
        self.count_iteration(&mut step);
        self.settle_error_message(&mut step);
        step.call = self.call.take();
        let (mut open, mut pause) = (tx, Duration::from_millis(20));
        loop {
            houston_faults::fault!("C19")?;
            let broken = match open.commit(&step).await {
                Ok(Commit::Done(done)) => {
                    houston_faults::fault!("C20")?;
                    self.send_task_hints(&step, records);
                    return Ok(self.committed(&step, done));
                }
                Ok(Commit::AlreadyCommitted) => return Err(Interrupted::Landed),
                Err(error) => error,
            };
            if !broken.is_transient() {
                return Err(broken.into());
            }
            self.wait_for_postgres(&broken, &mut pause).await?;
            let (fence, write) = (self.claimed.fence, step.write);
            if self
                .retrying(|store| Box::pin(async move { store.was_committed(&fence, write).await }))
                .await?
            {
                return Err(Interrupted::Landed);
            }
            let (again, responses) = self.record(records).await?;
            if succeeded(&responses) != succeeded_before {
                return Err(broken.into());
            }
            open = again;
        }
    }

    /// Sets the step's count of iterations: the open one counts if the step closes it.
    pub(crate) fn count_iteration(&self, step: &mut Step) {
        let closes = match &step.transition {
            RunTransition::Continue { event, .. } => event.is_some(),
            RunTransition::Complete { .. } | RunTransition::Terminate { .. } => true,
            RunTransition::Retry { .. } | RunTransition::Release { .. } => false,
        };
        step.iterations = self.open_step - u32::from(!closes);
    }

    /// Handles a successful commit: publishes its events, sends hints, and passes the messages it read to the state machine.
    pub(crate) fn committed(&mut self, step: &Step, done: CommittedStep) -> CommittedStep {
        let agentable = self.claimed.fence.agentable;
        let closed = match &step.transition {
            RunTransition::Continue { event, .. } => event.as_ref(),
            RunTransition::Complete { continue_event, .. } if done.continued => Some(continue_event),
            _ => None,
        };
        if let Some(Event::StepFinished { next_message_id, .. }) = closed {
            self.next_message = *next_message_id;
            self.open_step += 1;
        }
        if done.cancel_seq.is_some() {
            self.registration.live.cancel.cancel();
        }
        self.engine.bus.publish(agentable, Live::Committed(done.events.clone()));
        if done.opened || matches!(step.transition, RunTransition::Release { .. }) {
            self.engine.hints.send(self.lane(), Hint::run(agentable));
        }
        self.engine.send_hints(self.holder, &done.waiting);
        self.nudge_parent(step);
        if !done.read.is_empty() {
            self.run.on_messages(done.read.iter().map(|read| read.clone().signed(&self.mark)).collect());
        }
        done
    }

    /// The lane of the run's hints.
    pub(crate) fn lane(&self) -> Lane {
        self.setup.agent_type.urgency.into()
    }
}

/// For each response, whether the call succeeded.
pub(crate) fn succeeded(responses: &[(String, ToolResponse)]) -> Vec<bool> {
    responses.iter().map(|(_, response)| matches!(response, ToolResponse::Success { .. })).collect()
}

impl Engine {
    /// Sends hints for agentables that waited because their user had `fairness.max_running` runs.
    pub(crate) fn send_hints(&self, holder: &Holder, waiting: &[Due]) {
        for next in waiting {
            let urgency = self.setup(&next.kind).map(|setup| setup.agent_type.urgency).unwrap_or_default();
            (holder.send_hint)(urgency.into(), Hint::run(next.agentable));
        }
    }
}

fn fallback(Switch { from, to, code, message }: Switch) -> Event {
    let code = code.as_str().to_owned();
    Event::ModelFallback { from: from.to_string(), to: to.to_string(), code, message }
}

/// Adds an agent's message and its event to a step.
pub(crate) fn add_message(step: &mut Step, id: MessageId, content: String, metadata: Value) {
    step.messages.push(NewMessage {
        id,
        event: step.events.len(),
        source: Source::Agent,
        message_type: MessageType::Text,
        content,
        metadata,
    });
    step.events.push(Event::MessageSent { message_id: id });
}
