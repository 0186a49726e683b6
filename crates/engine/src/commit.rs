//! Committing steps: until they are in, or the lock is lost.

use std::time::Duration;

use houston_domain::event::{Event, Live};
use houston_domain::id::{CheckInId, MessageId};
use houston_domain::message::{MessageType, Source};
use houston_domain::model::Usage;
use houston_domain::tool_call::{Record, ToolResponse};
use houston_llm::Switch;
use houston_queue::{Hint, Lane};
use houston_store::record::{FencedTx, Owner};
use houston_store::step::{Commit, Done, NewMessage, Step, RunTransition};
use houston_store::sweep::Due;
use houston_store::task::NewTask;
use serde_json::Value;
use uuid::Uuid;

use crate::context::RunDriver;
use crate::engine::Engine;
use crate::error::Interrupted;
use crate::holder::Holder;

/// A record of a call, with the id its row will have.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub(crate) call: String,
    pub(crate) id: Uuid,
    pub(crate) record: Record,
    /// What `record` asks for, when it is a task.
    pub(crate) task: Option<NewTask>,
}

impl RunDriver<'_> {
    /// A step with nothing in it yet but the changes of model that nobody was told of.
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

    /// Commits a step, however often the connection breaks.
    pub(crate) async fn commit(&mut self, mut step: Step) -> Result<Done, Interrupted> {
        self.count_iteration(&mut step);
        self.settle_error(&mut step);
        step.call = self.call.take();
        let mut pause = Duration::from_millis(20);
        loop {
            match self.engine.store.commit(&self.claimed.fence, &step).await {
                Ok(Commit::Done(done)) => return Ok(self.committed(&step, done)),
                Ok(Commit::Landed) => return Err(Interrupted::Landed),
                Err(error) if error.is_transient() => self.wait_for_postgres(&error, &mut pause).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes the records in a transaction under the fence and returns it open, with what the model reads.
    pub(crate) async fn record(
        &self,
        records: &[Recorded],
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
        records: &[Recorded],
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
        for Recorded { call, id, record, task } in records {
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

    /// Commits a step in the transaction of its records; when that breaks, does both again unless they are in. The step
    /// tells what came of the records: when something else comes of them then, it is given up, and another attempt begins
    /// where this one did.
    pub(crate) async fn commit_recorded(
        &mut self,
        tx: FencedTx,
        records: &[Recorded],
        recorded: &[bool],
        mut step: Step,
    ) -> Result<Done, Interrupted> {
        self.count_iteration(&mut step);
        self.settle_error(&mut step);
        step.call = self.call.take();
        let (mut open, mut pause) = (tx, Duration::from_millis(20));
        loop {
            houston_faults::fault!("C19")?;
            let broken = match open.commit(&step).await {
                Ok(Commit::Done(done)) => {
                    houston_faults::fault!("C20")?;
                    self.ring_tasks(&step, records);
                    return Ok(self.committed(&step, done));
                }
                Ok(Commit::Landed) => return Err(Interrupted::Landed),
                Err(error) => error,
            };
            if !broken.is_transient() {
                return Err(broken.into());
            }
            self.wait_for_postgres(&broken, &mut pause).await?;
            let (fence, write) = (self.claimed.fence, step.write);
            if self.retrying(|store| Box::pin(async move { store.has_landed(&fence, write).await })).await? {
                return Err(Interrupted::Landed);
            }
            let (again, responses) = self.record(records).await?;
            if succeeded(&responses) != recorded {
                return Err(broken.into());
            }
            open = again;
        }
    }

    /// An iteration counts when the step closes it.
    pub(crate) fn count_iteration(&self, step: &mut Step) {
        let closes = match &step.transition {
            RunTransition::Continue { event, .. } => event.is_some(),
            RunTransition::Complete { .. } | RunTransition::Terminate { .. } => true,
            RunTransition::Retry { .. } | RunTransition::Release { .. } => false,
        };
        step.iterations = self.open_step - u32::from(!closes);
    }

    /// Tells streams and the state machine what was committed.
    pub(crate) fn committed(&mut self, step: &Step, done: Done) -> Done {
        let agentable = self.claimed.fence.agentable;
        let closed = match &step.transition {
            RunTransition::Continue { event, .. } => event.as_ref(),
            RunTransition::Complete { go_on, .. } if done.went_on => Some(go_on),
            _ => None,
        };
        if let Some(Event::StepFinished { next_message_id, .. }) = closed {
            self.next_message = *next_message_id;
            self.open_step += 1;
        }
        if done.cancel_seq.is_some() {
            self.entered.live.cancel.cancel();
        }
        self.engine.bus.publish(agentable, Live::Committed(done.events.clone()));
        if done.opened || matches!(step.transition, RunTransition::Release { .. }) {
            self.engine.hints.send(self.lane(), Hint::run(agentable));
        }
        self.engine.ring_next(self.holder, &done.waiting);
        self.nudge_parent(step);
        if !done.read.is_empty() {
            self.run.on_messages(done.read.iter().map(|read| read.clone().signed(&self.mark)).collect());
        }
        done
    }

    pub(crate) fn lane(&self) -> Lane {
        self.setup.agent_type.urgency.into()
    }
}

/// Which of the records were made.
pub(crate) fn succeeded(responses: &[(String, ToolResponse)]) -> Vec<bool> {
    responses.iter().map(|(_, response)| matches!(response, ToolResponse::Success { .. })).collect()
}

impl Engine {
    /// Rings for those who have waited for a place of their user's.
    pub(crate) fn ring_next(&self, holder: &Holder, waiting: &[Due]) {
        for next in waiting {
            let urgency = self.setup(&next.kind).map(|setup| setup.agent_type.urgency).unwrap_or_default();
            (holder.ring)(urgency.into(), Hint::run(next.agentable));
        }
    }
}

fn fallback(Switch { from, to, code, message }: Switch) -> Event {
    let code = code.as_str().to_owned();
    Event::ModelFallback { from: from.to_string(), to: to.to_string(), code, message }
}

/// Adds the event that a message was sent, and the message.
pub(crate) fn send(step: &mut Step, id: MessageId, content: String, metadata: Value) {
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
