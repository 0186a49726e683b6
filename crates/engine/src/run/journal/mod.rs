//! [`Journal`]: commits the steps of a run behind its fence, with retries until a step is committed or the lock is lost; and
//! what follows a commit: events to streams, and hints.

#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use futures_util::FutureExt as _;
use futures_util::future::OptionFuture;
use houston_domain::budget::{Budget, Spent};
use houston_domain::ensure;
use houston_domain::error_message::ErrorMessage;
use houston_domain::event::{Event, Live};
use houston_domain::frame::FrameMark;
use houston_domain::history::Role;
use houston_domain::id::{AgentableId, MessageId, QuestionId, RunId};
use houston_domain::message::{MessageType, Source};
use houston_domain::model::Usage;
use houston_domain::plan::PlanChanges;
use houston_domain::question::{NewQuestion, Question, QuestionKind};
use houston_domain::run::RunStatus;
use houston_domain::step::{Ending, ModelCall, NewMessage, RunTransition, Step};
use houston_llm::{Description, Ledger, Switch};
use houston_queue::{Hint, Lane};
use houston_spans::Span;
use houston_store::RunStore;
use houston_store::claim::{ClaimedRun, Fence};
use houston_store::context_cache::ContextCache;
use houston_store::cost::Cost;
use houston_store::record::Owner;
use houston_store::run_context::RunContext;
use houston_store::step::{Commit, CommittedStep};
use houston_store::sweep::Due;
use houston_store::workspace_file::CommandFiles;
use rust_decimal::Decimal;
use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

use crate::config::ContextConfig;
use crate::driver::Decision;
use crate::error::{Interrupted, Result};
use crate::holder::Holder;
use crate::run::services::Services;
use crate::run::signals::Signals;
use crate::run::storage::{RunStorage, RunTransaction};

/// The first pause before a request is sent again; each further one is twice as long, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The committed side of a claimed run: its fence, what is committed, and what the next step will report.
pub(crate) struct Journal<'e, S> {
    storage: &'e S,
    pub(crate) services: &'e Services,
    holder: &'e Holder,
    pub(crate) signals: Signals<'e>,
    fence: Fence,
    pub(crate) owner: Owner,
    parent: Option<AgentableId>,
    /// The lane of the run's hints.
    pub(crate) lane: Lane,
    /// The database's time at the claim.
    pub(crate) claimed_time: DateTime<Utc>,
    /// This machine's monotonic time when the response of the claim arrived.
    pub(crate) claimed_at: Instant,
    /// The mark of Houston's frames in this session.
    pub(crate) mark: FrameMark,
    /// The id that a message of the open iteration will have. Streams received it already.
    pub(crate) next_message: MessageId,
    /// The open iteration as streams count it, from 1.
    pub(crate) open_iteration: u32,
    /// Tokens of the run that are committed, over all attempts, and their cost as far as prices are known.
    usage: Usage,
    /// Model calls without a price.
    unpriced_calls: i32,
    /// Where the model calls of the run enter what they used when they end.
    pub(crate) ledger: Ledger,
    /// Model calls that have ended and that no step has recorded yet.
    unbooked: Mutex<Vec<ModelCall>>,
    /// The thread's error message for this run, until it is settled.
    pub(crate) error: Option<ErrorMessage>,
    /// The answer as a value, if a form was asked for.
    pub(crate) result: Option<Box<Value>>,
    /// Fallbacks to other models that no step has reported yet.
    pub(crate) switches: Vec<Switch>,
    /// Models that have let this run wait in vain, as `provider/model`: they are asked after all others.
    pub(crate) hung: Vec<String>,
    /// How long providers have had the run wait that no limit of its time counts yet.
    pub(crate) waited: Duration,
    /// That the focus is another than that of the last run, until a step has said so.
    pub(crate) shift: Option<Box<Event>>,
    /// That the message seems to need several operations, until a step has said so.
    pub(crate) analysed: Option<Box<Event>>,
    /// What the run's driver wants to be committed with the next step, and the metadata of its messages.
    pub(crate) driven: Option<Box<(Decision, Value)>>,
    /// What the next step changes in the plan whose run this is.
    pub(crate) plan: Option<Box<PlanChanges>>,
    /// The span of the agent in this attempt, and that of its iteration.
    pub(crate) span: Span,
    pub(crate) iteration: Span,
}

/// Rows that are committed with a step.
pub(crate) trait Rows<S: RunStorage>: Sync {
    /// Writes the rows into a new transaction. `None` if they no longer match the step.
    fn write(&self, journal: &Journal<'_, S>) -> impl Future<Output = Result<Option<S::Transaction>>> + Send;
}

impl<'e, S: RunStorage> Journal<'e, S> {
    /// A new id of something that belongs to the agentable.
    pub(crate) fn new_id<T: From<Uuid>>(&self) -> T {
        self.services.ids.beside(self.owner.agentable)
    }

    /// The journal of a run that was just claimed. Takes the error message out of `claimed`.
    pub(crate) fn new(
        storage: &'e S,
        services: &'e Services,
        holder: &'e Holder,
        signals: Signals<'e>,
        claimed: &mut ClaimedRun,
    ) -> Self {
        let ClaimedRun { fence, tenant, user, run, .. } = *claimed;
        Self {
            storage,
            services,
            holder,
            signals,
            fence,
            owner: Owner { tenant, user, agentable: fence.agentable, run, untrusted: false },
            parent: claimed.parent,
            lane: services.lane(&claimed.kind),
            claimed_time: claimed.event.at,
            claimed_at: Instant::now(),
            mark: FrameMark::default(),
            next_message: claimed.next_message,
            open_iteration: u32::try_from(claimed.iterations).unwrap_or(0) + 1,
            usage: claimed.usage,
            unpriced_calls: 0,
            ledger: Ledger::default(),
            unbooked: Mutex::default(),
            hung: claimed.error.as_ref().map(ErrorMessage::hung).unwrap_or_default(),
            error: claimed.error.take(),
            waited: Duration::ZERO,
            result: None,
            switches: Vec::new(),
            shift: None,
            analysed: None,
            driven: None,
            plan: None,
            span: Span::default(),
            iteration: Span::default(),
        }
    }

    /// When a question that is asked now expires.
    pub(crate) fn approvals_expire_at(&self) -> Option<DateTime<Utc>> {
        let after = i64::try_from(self.services.config.context.approvals.expire_after_s).ok()?;
        // As Postgres stores it, so that readers of the event now and later see the same.
        Some(self.now().checked_add_signed(TimeDelta::try_seconds(after)?)?.trunc_subsecs(6))
    }

    /// A question of this kind and nothing else.
    pub(crate) fn question(&self, kind: QuestionKind, text: String) -> NewQuestion {
        NewQuestion::new(self.new_id(), kind, text)
    }

    /// The agentable the run is for.
    pub(crate) fn agentable(&self) -> AgentableId {
        self.fence.agentable
    }

    /// The run.
    pub(crate) fn run(&self) -> RunId {
        self.owner.run
    }

    /// The database's time, computed from the time of the claim. Retries are due by the database's clock, and this
    /// machine's may be an hour off.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.claimed_time + self.claimed_at.elapsed()
    }

    /// Tokens and cost of the run so far, with the calls that no step has recorded yet. The cost is `None`, not 0, if no call has a
    /// known price.
    pub(crate) fn total_usage(&self) -> Usage {
        let (mut usage, mut unpriced_calls) = (self.usage, self.unpriced_calls);
        for call in &*self.settled() {
            usage += call.usage;
            unpriced_calls += i32::from(call.usage.cost.is_none());
        }
        let known = Cost::of(usage.cost, unpriced_calls).total;
        Usage { cost: known, ..usage }
    }

    /// The model calls that no step has recorded yet, with those that have ended by now.
    pub(super) fn settled(&self) -> MutexGuard<'_, Vec<ModelCall>> {
        let mut unbooked = self.unbooked.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = self.ledger.take();
        if !ended.is_empty() {
            let now = self.now();
            unbooked.extend(ended.into_iter().map(|used| used.call(self.open_iteration, now)));
        }
        unbooked
    }

    /// A provider has had the run wait for so long: that is no work.
    pub(crate) fn has_waited(&mut self, time: Duration) {
        self.waited += time;
        self.signals.watchdog += time;
    }

    /// Remembers that `model` let the run wait in vain.
    pub(crate) fn has_hung(&mut self, model: &Description) {
        let name = model.to_string();
        if !self.hung.contains(&name) {
            self.hung.push(name);
        }
    }

    #[cfg(test)]
    pub(crate) fn settled_calls(&self) -> Vec<ModelCall> {
        self.settled().clone()
    }

    /// How many model calls have ended that no step has recorded yet.
    pub(crate) fn owed(&self) -> usize {
        self.settled().len()
    }

    /// The cost of the model calls that were complete since `owed` of them had ended. `None`: it is not known.
    pub(crate) fn cost_since(&self, owed: usize) -> Option<Decimal> {
        let settled = self.settled();
        let complete = settled.iter().skip(owed).filter(|call| !call.estimated);
        complete.filter_map(|call| call.usage.cost).reduce(Decimal::saturating_add)
    }

    /// The calls of a step are recorded.
    fn booked(&mut self, step: &Step) {
        let calls: Vec<&ModelCall> =
            step.call.iter().chain(step.more_calls.iter().map(|(_, call)| call)).collect();
        let unbooked = self.unbooked.get_mut().unwrap_or_else(PoisonError::into_inner);
        unbooked.drain(..calls.len().min(unbooked.len()));
        for call in calls {
            self.usage += call.usage;
            self.unpriced_calls += i32::from(call.usage.cost.is_none());
        }
    }

    /// Sets the cost of the run so far to what Postgres has, which knows the calls of earlier attempts.
    pub(crate) fn set_cost(&mut self, cost: Cost) {
        (self.usage.cost, self.unpriced_calls) = (cost.total, cost.unpriced_calls);
    }

    /// Repeats a request to the storage while Postgres is unreachable and the lease is trusted.
    ///
    /// # Errors
    /// [`Interrupted::Lost`] when the lease is no longer trusted, [`Interrupted::Store`] when Postgres refuses the request.
    #[expect(
        clippy::manual_async_fn,
        reason = "the compiler cannot infer `Send` through the callers' closures"
    )]
    pub(crate) fn retrying<'j, T, F>(
        &'j self,
        ask: impl Fn(&'e S) -> F + Send + Sync + 'j,
    ) -> impl Future<Output = Result<T>> + Send
    where
        T: Send,
        F: Future<Output = houston_store::Result<T>> + Send,
    {
        async move {
            let mut pause = FIRST_PAUSE;
            loop {
                match ask(self.storage).await {
                    Ok(answer) => return Ok(answer),
                    Err(error) if error.is_transient() => self.wait_for_postgres(&error, &mut pause).await?,
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }

    /// As [`Self::retrying`], for what only Postgres has: in memory there is none of it.
    pub(crate) fn of_postgres<'j, T, F>(
        &'j self,
        ask: impl Fn(&'e RunStore) -> F + Send + Sync + 'j,
    ) -> impl Future<Output = Result<T>> + Send
    where
        T: Default + Send,
        F: Future<Output = houston_store::Result<T>> + Send,
    {
        self.retrying(move |storage| {
            let asked = OptionFuture::from(storage.postgres().map(&ask));
            asked.map(|answer| answer.unwrap_or_else(|| Ok(T::default())))
        })
    }

    /// Waits before the next attempt at a request.
    async fn wait_for_postgres(&self, error: &houston_store::Error, pause: &mut Duration) -> Result<()> {
        ensure!(!self.signals.is_lost(), Interrupted::Lost);
        tracing::debug!(%error, "postgres did not answer; trying again");
        tokio::select! {
            () = tokio::time::sleep(*pause) => {}
            () = self.signals.lost() => return Err(Interrupted::Lost),
        }
        *pause = (*pause * 2).min(MAX_PAUSE);
        Ok(())
    }

    /// What the run and others of its agentable have spent, if `budget` limits it.
    pub(crate) async fn spent(&self, budget: &Budget) -> Result<Spent> {
        if !budget.is_set() {
            return Ok(Spent::default());
        }
        let (agentable, run) = (self.agentable(), self.run());
        self.retrying(|storage| storage.spent(agentable, run)).await
    }

    /// What the run starts from; `known`: it was read with the claim.
    pub(crate) async fn run_context(&self, known: Option<Box<RunContext>>) -> Result<RunContext> {
        let (agentable, run) = (self.agentable(), self.run());
        let ContextConfig { notes, prompt, .. } = &self.services.config.context;
        match known {
            Some(context) => Ok(*context),
            None => self.retrying(|storage| storage.run_context(agentable, run, *notes, prompt)).await,
        }
    }

    /// The questions of the run, oldest first.
    pub(crate) async fn questions(&self) -> Result<Vec<Question>> {
        let (agentable, run) = (self.agentable(), self.run());
        self.retrying(|storage| storage.questions_of(agentable, run)).await
    }

    /// Whether the lock is still held under this fence.
    pub(crate) async fn is_held(&self) -> Result<bool> {
        let fence = &self.fence;
        self.retrying(|storage| storage.is_held(fence)).await
    }

    /// Begins a transaction behind the fence, for rows that are committed with a step.
    pub(crate) async fn begin(&self) -> houston_store::Result<S::Transaction> {
        self.storage.begin_fenced(&self.fence).await
    }

    /// What providers have answered; `None`: nothing is kept.
    pub(crate) fn context_cache(&self) -> Option<ContextCache> {
        self.storage.postgres().map(RunStore::context_cache)
    }

    /// The folder of the agentable's files; `None`: they are rows.
    pub(crate) fn command_files(&self) -> Option<CommandFiles> {
        self.storage.postgres()?.command_files(self.owner.tenant, self.agentable())
    }

    /// Commits a step, with retries while Postgres is unreachable: each sends the same step, which Postgres commits once.
    ///
    /// # Errors
    /// [`Interrupted::Landed`] when an earlier attempt had committed it, [`Interrupted::Lost`] when the lock or the lease is
    /// lost, [`Interrupted::Store`] when Postgres refuses.
    pub(crate) async fn commit(&mut self, mut step: Step) -> Result<CommittedStep> {
        self.complete(&mut step);
        let (fence, sent) = (&self.fence, &step);
        match self.retrying(|storage| storage.commit(fence, sent)).await? {
            Commit::Done(done) => Ok(self.committed(&step, done)),
            Commit::AlreadyCommitted => Err(self.landed(&step)),
        }
    }

    /// Commits a step in the transaction of its rows. When the connection breaks, the rows are written `again` into a new
    /// transaction, unless both were committed.
    ///
    /// # Errors
    /// As [`Self::commit`]. [`Interrupted::Store`] also when the rows no longer match: the run is released and continues from
    /// its last commit.
    pub(crate) async fn commit_with_rows(
        &mut self,
        rows: S::Transaction,
        mut step: Step,
        again: &impl Rows<S>,
    ) -> Result<CommittedStep> {
        self.complete(&mut step);
        let (mut open, mut pause) = (rows, FIRST_PAUSE);
        loop {
            houston_faults::fault!("C19")?;
            let broken = match open.commit(&step).await {
                Ok(Commit::Done(done)) => {
                    houston_faults::fault!("C20")?;
                    return Ok(self.committed(&step, done));
                }
                Ok(Commit::AlreadyCommitted) => return Err(self.landed(&step)),
                Err(error) => error,
            };
            ensure!(broken.is_transient(), broken.into());
            self.wait_for_postgres(&broken, &mut pause).await?;
            let (fence, write) = (&self.fence, step.write);
            if self.retrying(|storage| storage.was_committed(fence, write)).await? {
                return Err(self.landed(&step));
            }
            open = again.write(self).await?.ok_or(broken)?;
        }
    }

    /// An earlier attempt has committed the step, and only the response was lost: its calls are recorded, and streams read its events
    /// from Postgres.
    fn landed(&mut self, step: &Step) -> Interrupted {
        self.booked(step);
        self.services.bus.publish(self.agentable(), Live::Nudge);
        self.tell_parent(step);
        Interrupted::Landed
    }

    /// Handles a successful commit: publishes its events and sends hints.
    fn committed(&mut self, step: &Step, done: CommittedStep) -> CommittedStep {
        self.booked(step);
        let closed = match &step.transition {
            RunTransition::Continue { event, .. } => event.as_ref(),
            RunTransition::Complete { continue_event, .. } if done.continued => Some(continue_event),
            _ => None,
        };
        if let Some(Event::StepFinished { next_message_id, .. }) = closed {
            self.next_message = *next_message_id;
            self.open_iteration += 1;
        }
        if done.cancel_seq.is_some() {
            self.signals.cancel().cancel();
        }
        let agentable = self.agentable();
        self.services.bus.publish(agentable, Live::Committed(done.events.clone()));
        if done.opened || matches!(step.transition, RunTransition::Release { .. }) {
            self.services.hints.send(self.lane, Hint::run(agentable));
        }
        self.send_hints(&done.waiting);
        self.tell_parent(step);
        done
    }

    /// Wakes streams of the agentable that created this task, which read the events of its end from Postgres, and its agent,
    /// which reads the report of a plan.
    fn tell_parent(&self, step: &Step) {
        let Some(parent) = self.parent.filter(|_| ending_status(&step.transition).is_some()) else { return };
        self.services.bus.publish(parent, Live::Nudge);
        if step.plan.as_ref().is_some_and(|plan| plan.end.is_some()) {
            (self.holder.send_hint)(Lane::Interactive, Hint::run(parent));
        }
    }

    /// Sends hints for agentables that waited because their user had `fairness.max_running` runs.
    fn send_hints(&self, waiting: &[Due]) {
        for next in waiting {
            (self.holder.send_hint)(self.services.lane(&next.kind), Hint::run(next.agentable));
        }
    }
}

impl<S: RunStorage> Journal<'_, S> {
    /// A new step. It contains only the events of model fallbacks that no step has reported yet.
    pub(crate) fn step(&mut self, transition: RunTransition) -> Step {
        Step {
            write: self.new_id(),
            run: self.run(),
            entries: Vec::new(),
            frames: Vec::new(),
            events: std::mem::take(&mut self.switches).into_iter().map(fallback).collect(),
            messages: Vec::new(),
            intents: Vec::new(),
            responses: Vec::new(),
            cells: Vec::new(),
            pauses: Vec::new(),
            large_results: Vec::new(),
            questions: None,
            state: None,
            plan: None,
            iterations: self.open_iteration - 1,
            usage: Usage::default(),
            model: None,
            call: None,
            more_calls: Vec::new(),
            untrusted: self.owner.untrusted,
            transition,
        }
    }

    /// A new step after which the run continues.
    pub(crate) fn next_step(&mut self) -> Step {
        self.step(RunTransition::Continue { read: false, event: None })
    }

    /// Adds what only the journal knows, before a step is committed.
    fn complete(&mut self, step: &mut Step) {
        self.count_iteration(step);
        self.settle_error_message(step);
        self.report_message(step);
        self.book(step);
        step.plan = self.plan.take();
        if let Some(driven) = self.driven.take() {
            let (Decision { messages, questions, superseded, state, .. }, label) = *driven;
            for content in messages {
                add_message(step, self.new_id(), content, label.clone());
            }
            if !questions.is_empty() || !superseded.is_empty() {
                let of_step = step.questions.get_or_insert_default();
                of_step.asked.splice(..0, questions);
                of_step.superseded.extend(superseded);
            }
            step.state = state.map(Box::new);
        }
    }

    /// Adds the model calls that have ended, however they ended: each is counted once, in this commit.
    fn book(&self, step: &mut Step) {
        for call in &*self.settled() {
            step.usage += call.usage;
            // One that is complete is recorded as steps usually are.
            match &step.call {
                None if !call.estimated => step.call = Some(call.clone()),
                _ => step.more_calls.push((self.new_id(), call.clone())),
            }
        }
    }

    /// Sets the step's count of iterations: the open one counts if the step closes it.
    fn count_iteration(&self, step: &mut Step) {
        let closes = match &step.transition {
            RunTransition::Continue { event, .. } => event.is_some(),
            RunTransition::Complete { .. } | RunTransition::Terminate { .. } => true,
            RunTransition::Retry { .. } | RunTransition::Wait { .. } | RunTransition::Release { .. } => false,
        };
        step.iterations = self.open_iteration - u32::from(!closes);
    }

    /// Adds what was found out about the message to the first step with an answer, or to the end: an attempt that finds an answer
    /// knows that it was said.
    fn report_message(&mut self, step: &mut Step) {
        let answered = step.entries.iter().any(|entry| entry.role == Role::Assistant);
        if answered || ending_status(&step.transition).is_some() {
            let said: Vec<Event> =
                self.shift.take().into_iter().chain(self.analysed.take()).map(|event| *event).collect();
            // Messages name their events by index.
            step.messages.iter_mut().for_each(|message| message.event += said.len());
            step.events.splice(..0, said);
        }
    }

    /// Marks the run's error message as settled, once the model has answered again or the run ends. Does nothing if the run
    /// has no error message.
    fn settle_error_message(&mut self, step: &mut Step) {
        let ending = ending_status(&step.transition);
        let answered = step.entries.iter().any(|entry| entry.role == Role::Assistant);
        if matches!(ending, Some(RunStatus::Failed | RunStatus::DeadLettered))
            || !(answered || ending.is_some())
        {
            return;
        }
        if let Some(error) = self.error.take() {
            show_error(step, &error.settled(ending.is_none_or(RunStatus::answers)));
        }
    }

    /// The run waits, for these questions or a time. `open_calls`: see [`RunTransition::Wait`].
    pub(crate) fn waiting(
        &self,
        until: Option<DateTime<Utc>>,
        questions: Vec<QuestionId>,
        open_calls: Option<i32>,
    ) -> RunTransition {
        let event = Event::RunWaiting { until, iteration: self.open_iteration };
        RunTransition::Wait { event, until, questions, open_calls }
    }

    /// The event that closes the open iteration.
    pub(crate) fn step_finished(&self) -> Event {
        Event::StepFinished { iteration: self.open_iteration, next_message_id: self.new_id() }
    }

    /// The end of the run with `status`, and its event. A code and a message say `why`, if it failed.
    pub(crate) fn run_finished(&self, status: RunStatus, why: Option<(&str, String)>) -> (Event, Ending) {
        let (error_code, error_message) = why.map(|(code, message)| (code.to_owned(), message)).unzip();
        let notice = || status.notice().filter(|_| !status.answers()).map(str::to_owned);
        let event = Event::RunFinished {
            status,
            iteration: Some(self.open_iteration),
            usage: self.total_usage(),
            message: error_message.clone().or_else(notice),
            code: error_code.clone(),
            result: self.result.clone().filter(|_| status.answers()),
        };
        (event, Ending { status, error_code, error_message })
    }

    /// The end of a run that nothing continues. A code and a message say `why`, if it failed.
    pub(crate) fn terminated(&self, status: RunStatus, why: Option<(&str, String)>) -> RunTransition {
        let (event, ending) = self.run_finished(status, why);
        RunTransition::Terminate { event, ending }
    }
}

/// The status with which a step ends the run, if it ends it.
pub(crate) fn ending_status(transition: &RunTransition) -> Option<RunStatus> {
    match transition {
        RunTransition::Complete { ending, .. } | RunTransition::Terminate { ending, .. } => {
            Some(ending.status)
        }
        _ => None,
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

/// Adds the run's error message to a step, or changes it, with its event.
pub(crate) fn show_error(step: &mut Step, error: &ErrorMessage) {
    step.messages.push(NewMessage {
        id: error.id,
        event: step.events.len(),
        source: Source::Error,
        message_type: MessageType::Text,
        content: error.content.clone(),
        metadata: error.metadata.clone(),
    });
    step.events.push(error.event());
}
