//! One turn: a model call, its history entry, the user's messages, and its tool calls; what a kind bounds besides the stop rules;
//! and model calls that their provider answers later.

use std::ops::ControlFlow;
use std::time::Duration;

use houston_domain::agent::{Next, TurnOutcome};
use houston_domain::compression::CompressionReason;
use houston_domain::error_message::ErrorMessage;
use houston_domain::event::Event;
use houston_domain::frame::MessageBlock;
use houston_domain::history::Entry;
use houston_domain::message::RESULT;
use houston_domain::model::{ModelAnswer as Answer, ModelError, ModelErrorCode, Usage};
use houston_domain::run::RunStatus;
use houston_domain::step::{RunTransition, Step};
use houston_domain::submission::{Submission, SubmittedCall};
use houston_domain::tool_call::ToolCall;
use serde_json::{Value, json};
use tokio::time::timeout;
use uuid::Uuid;

use super::typed::Judged;
use super::{DriveOutcome, Flow, RunDriver};
use crate::error::Result;
use crate::live::Streamed;
use crate::prompt::analysis::forced_tool;
use crate::run::journal::{add_message, ending_status, show_error};
use crate::run::model_turn::ModelOutcome;
use crate::run::signals::Stop;
use crate::run::storage::RunStorage;
use crate::run::tool_runner::{
    Held, Prepared, Responses, StepRows, ToolsOutcome, WrittenRecords, commit_with,
};
use crate::setup::Drive;
use crate::setup::guards::noted;

/// How long a run that ends waits for its provider to hear of it: an opinion.
const WITHDRAWING: Duration = Duration::from_secs(5);

/// Error code of a run that asked for more tool calls than its kind allows.
const TOOL_CALL_LIMIT: &str = "TOOL_CALL_LIMIT";
/// Error code of a run or a step whose request is larger than its kind allows.
const REQUEST_TOO_LARGE: &str = "REQUEST_TOO_LARGE";

/// A turn whose first step is committed.
pub(super) enum Turn {
    /// All calls of the turn have their results.
    Closed(ControlFlow<DriveOutcome>),
    /// Calls are to be executed; others wait for a person, or have responses.
    Executing(Prepared),
}

impl<S: RunStorage> RunDriver<'_, S> {
    /// Calls the model and commits its answer. What precedes and follows the call is boxed, so that a run that waits for its
    /// model does not hold the memory for it.
    pub(super) async fn model_step(&mut self) -> Flow {
        if std::mem::take(&mut self.waits_for_plan) {
            return Box::pin(self.wait_for(None, Vec::new())).await;
        }
        // What was submitted is fetched, whatever the request would be now.
        let tokens = match &self.model.frame.submission {
            Some(submission) => submission.input_tokens,
            None => match Box::pin(self.before_call()).await? {
                Ok(tokens) => tokens,
                Err(flow) => return Ok(flow),
            },
        };
        self.force_call();
        self.model.inert = self.tools.taint.must_be_inert();
        // Text in place of a call that the client demands is void.
        self.model.is_answered_by_text = self.run.is_answered_by_text() && self.must_call().is_empty();
        self.model.frame.raises = self.oversight.raises;
        let outcome =
            self.model.call(&mut self.journal, self.run.history(), self.tools.offer(), tokens).await?;
        self.run.has_waited(std::mem::take(&mut self.journal.waited));
        match outcome {
            ModelOutcome::Answered { answer, usage, streamed } => {
                let turn = Box::pin(self.answered(*answer, usage, streamed)).await?;
                let flow = self.finish_turn(turn).await?;
                if flow.is_continue() && self.model.frame.has_fetched {
                    // What was read after the answer may have an offer of its own.
                    Box::pin(self.reload()).await?;
                }
                Ok(flow)
            }
            ModelOutcome::Failed { error, streamed } => {
                Box::pin(self.model_failed(error, streamed, tokens)).await
            }
            ModelOutcome::Submitted(Some(call)) => Box::pin(self.wait_for_submitted(*call, tokens)).await,
            ModelOutcome::Submitted(None) => self.ask_without_submitting(),
            ModelOutcome::Stopped(Stop::Cancelled) => Box::pin(self.cancelled()).await,
            ModelOutcome::Stopped(Stop::Drained) => Box::pin(self.hand_over()).await,
            ModelOutcome::Stopped(Stop::OutOfTime) => {
                Box::pin(self.withdraw_submitted()).await;
                Box::pin(self.end(RunStatus::MaxDuration)).await
            }
        }
    }

    /// What precedes a model call: oversight, the files and the size of the request, and what may be spent. Returns the estimated
    /// tokens of the request; inside `Err`: what becomes of the run instead.
    async fn before_call(&mut self) -> Result<Result<u64, ControlFlow<DriveOutcome>>> {
        if self.needs_oversight()
            && let Some(flow) = Box::pin(self.oversee()).await?
        {
            return Ok(Err(flow));
        }
        if self.tools.skills.is_some() {
            Box::pin(self.disclose_skills()).await?;
        }
        if self.model.must_read_files(self.run.history()) {
            Box::pin(self.model.read_files(&self.journal)).await?;
        }
        if let Some((code, text)) = self.too_many_calls() {
            return Box::pin(self.stop_with(code, text)).await.map(Err);
        }
        // What the model has read now, it may repeat in the report of its task.
        self.journal.owner.untrusted = self.tools.taint.untrusted;
        let tokens = self.model.estimate(self.run.history(), self.tools.offer());
        if self.exceeds_token_budget(tokens)
            && Box::pin(self.compress(CompressionReason::Budget, tokens)).await?
        {
            return Ok(Err(ControlFlow::Continue(())));
        }
        if let Some((code, text)) = self.too_large(tokens) {
            return Box::pin(self.stop_with(code, text)).await.map(Err);
        }
        if self.journal.services.config.budget.is_set()
            && let Some(over) = Box::pin(self.exceeded_budget(tokens)).await?
        {
            return Box::pin(self.budget_reached(&over)).await.map(Err);
        }
        Ok(Ok(tokens))
    }

    /// Lets the next answer be a call of the tool that it must call, such as a plan.
    fn force_call(&mut self) {
        let own = self.run.own_history();
        let forced = forced_tool(&self.setup, own, &self.journal.mark).or(match self.must_call() {
            [only] => Some(only.as_str()),
            _ => None,
        });
        self.model.frame.forced = forced.map(|tool| self.tools.offer().limited_to(&[tool.to_owned()]));
    }

    pub(super) async fn answered(
        &mut self,
        mut answer: Answer,
        usage: Usage,
        streamed: Streamed,
    ) -> Result<Turn> {
        self.sizes.was_refused = false;
        let stop = answer.stop;
        self.keep_one_call(&mut answer);
        let answered = self.run.on_model(answer);
        self.model.reported(&usage, self.run.history().len());
        match answered {
            Ok(mut turn) => match self.judge(&mut turn, stop) {
                Judged::Kept => self.commit_turn(turn, usage, streamed, None).await,
                Judged::Mend(frame) => {
                    turn.reply = None;
                    self.run.on_mismatch(frame.clone().signed(&self.journal.mark));
                    self.commit_turn(turn, usage, streamed, Some(frame)).await
                }
                Judged::Wrong(reason) => Box::pin(self.end_mismatched(turn, reason)).await.map(Turn::Closed),
            },
            Err(empty) => {
                let error = ModelError::new(ModelErrorCode::InvalidResponse, empty.to_string());
                Box::pin(self.fail(&error)).await.map(Turn::Closed)
            }
        }
    }

    /// Executes the open calls of a turn.
    pub(super) async fn finish_turn(&mut self, turn: Turn) -> Flow {
        match turn {
            Turn::Closed(flow) => Ok(flow),
            Turn::Executing(prepared) => Box::pin(self.execute(prepared)).await,
        }
    }

    /// A history that the model refuses as too long is compressed, once in a row.
    async fn model_failed(&mut self, error: ModelError, streamed: bool, tokens: u64) -> Flow {
        let too_long = error.code == ModelErrorCode::ContextLengthExceeded && !streamed;
        if too_long && !std::mem::replace(&mut self.sizes.was_refused, true) {
            tracing::warn!(run = %self.journal.run(), %error, "the conversation is too long for the model");
            if self.compress(CompressionReason::ContextLength, tokens).await? {
                return Ok(ControlFlow::Continue(()));
            }
        }
        if !streamed && let Some((files, why)) = self.model.leave_out(&error, self.run.history()) {
            return Box::pin(self.go_on_without(files, why)).await;
        }
        self.fail(&error).await
    }

    /// Remembers that a provider refused files, and tells the user that the run goes on without them.
    async fn go_on_without(&mut self, files: Vec<Uuid>, why: String) -> Flow {
        tracing::warn!(run = %self.journal.run(), ?files, why, "a provider refused files: they are left out");
        let tenant = self.journal.owner.tenant;
        self.journal.of_postgres(|store| store.tenant(tenant).refuse_files(&files, &why)).await?;
        let mut step = self.journal.next_step();
        show_error(&mut step, &ErrorMessage::left_out(self.journal.run(), files.len()));
        self.commit(step).await?;
        Ok(ControlFlow::Continue(()))
    }

    /// Commits a turn together with its tool calls that need only Postgres, and the intents of the others.
    async fn commit_turn(
        &mut self,
        turn: TurnOutcome,
        usage: Usage,
        streamed: Streamed,
        mend: Option<MessageBlock>,
    ) -> Result<Turn> {
        let Streamed { reasoning, message: streamed, withdrawn_at } = streamed;
        let mut step = self.journal.next_step();
        step.frames.extend(mend);
        step.model = (usage != Usage::default()).then(|| self.model.answering.to_string());
        step.entries.extend(turn.entry);
        if !reasoning.trim().is_empty() {
            step.events.push(Event::Thought { text: reasoning, withdrawn_at });
        }
        let said = step.entries.iter().map(Entry::text).collect::<String>();
        let left = self.calls_left(turn.calls.len());
        let history = self.run.history();
        let plans = self.tools.plan_turn(&self.journal, turn.calls, (&said, left), history).await?;
        if let Some(reply) = turn.reply {
            // The user has read the streamed text, so exactly that text is stored, with a note if it is not what was written.
            let shown = self.model.shown(&reply);
            let was_read = !streamed.trim().is_empty() && self.setup.wanted.output.is_none();
            let content = if was_read { noted(streamed.clone(), shown != reply) } else { shown };
            let mut metadata = self.label();
            if self.journal.result.is_some() {
                metadata[RESULT] = json!(true);
            }
            if self.run.next(self.journal.now()) == Next::Done(RunStatus::MaxTokens) {
                metadata["truncated"] = json!(true);
            }
            add_message(&mut step, self.journal.next_message, content, metadata);
        }
        for (nth, content) in plans.messages.iter().enumerate() {
            let content = self.model.shown(content);
            // The first has the id of the streamed message, if it begins with the streamed text and nothing was withdrawn.
            let is_streamed = nth == 0 && withdrawn_at.is_none() && content.starts_with(&streamed);
            let id = if is_streamed { self.journal.next_message } else { self.journal.new_id() };
            add_message(&mut step, id, content, self.label());
        }
        let (prepared, records) = self.tools.prepare(&self.journal, &mut step, plans).await?;
        self.commit_prepared(step, prepared, records).await
    }

    /// Commits a step with what was prepared of its calls.
    async fn commit_prepared(
        &mut self,
        step: Step,
        prepared: Prepared,
        records: StepRows<S>,
    ) -> Result<Turn> {
        if !prepared.external.is_empty() {
            Box::pin(commit_with(&mut self.journal, step, records)).await?;
            houston_faults::fault!("C9")?;
            return Ok(Turn::Executing(prepared));
        }
        let Prepared { responses, held, .. } = prepared;
        if held.is_open() {
            return Box::pin(self.await_answers(step, held, records)).await.map(Turn::Closed);
        }
        self.close_turn(step, responses, records).await.map(Turn::Closed)
    }

    /// Metadata of the agent's messages: whether the model is simulated, and which agent of a team wrote them.
    pub(super) fn label(&self) -> Value {
        let simulated = self.model.answering.simulated;
        let mut label = if simulated { json!({"simulated": true}) } else { json!({}) };
        self.answered_by.label(&mut label);
        // Agents of other conversations may read it.
        if self.tools.taint.untrusted {
            label["untrusted"] = json!(true);
        }
        label
    }

    /// Continues the open calls of a run that was taken over, each as its effect class allows, and calls that waited for a
    /// person.
    pub(super) async fn resume_tools(&mut self, calls: Vec<ToolCall>) -> Flow {
        let said = self.run.history().last().map(Entry::text).unwrap_or_default();
        let plans = Box::pin(self.tools.resume(&self.journal, calls, &said)).await?;
        if !plans.has_new() {
            return self.finish_turn(Turn::Executing(plans.known())).await;
        }
        let mut step = self.journal.next_step();
        let (prepared, records) = Box::pin(self.tools.prepare(&self.journal, &mut step, plans)).await?;
        let turn = Box::pin(self.commit_prepared(step, prepared, records)).await?;
        self.finish_turn(turn).await
    }

    /// Releases the run while calls wait for a person, or goes on with what has arrived.
    async fn await_answers(&mut self, mut step: Step, held: Held, records: StepRows<S>) -> Flow {
        let until = held.until;
        step.transition = self.journal.waiting(until, held.questions(), Some(held.unread));
        let done = Box::pin(commit_with(&mut self.journal, step, records)).await?;
        Ok(self.waits(&done, until))
    }

    /// Executes calls whose intents are committed. What follows is boxed, so that a run that waits for its tools does not hold
    /// the memory for it.
    pub(super) async fn execute(&mut self, prepared: Prepared) -> Flow {
        match self.tools.execute(&mut self.journal, prepared, self.run.history()).await? {
            ToolsOutcome::Returned { step, held, .. } if held.is_open() => {
                Box::pin(self.await_answers(*step, held, None)).await
            }
            ToolsOutcome::Returned { step, responses, .. } => {
                let flow = Box::pin(self.close_turn(*step, responses, None)).await?;
                houston_faults::fault!("C12")?;
                Ok(flow)
            }
            ToolsOutcome::HandOver => Box::pin(self.hand_over()).await,
            ToolsOutcome::Stopped(Stop::Cancelled, open) => Box::pin(self.cancel_with(open)).await,
            ToolsOutcome::Stopped(_, open) => Box::pin(self.end_with(RunStatus::MaxDuration, open)).await,
        }
    }

    /// Adds the tool results to the history once all responses have arrived, and commits the step, which lets the run continue
    /// or ends it.
    async fn close_turn(&mut self, mut step: Step, responses: Responses, records: StepRows<S>) -> Flow {
        if let Some(results) = self.run.on_tools(responses) {
            step.entries.push(results);
        }
        let next = self.run.next(self.journal.now());
        // Whether the run ends then is for its driver to say, or for people who have let it go on.
        let is_open = matches!(self.setup.drive, Drive::Custom(_)) || self.may_be_lifted(&next);
        match next {
            Next::CallTools(_) => {}
            Next::Done(status) if !is_open => self.set_ending(&mut step, status),
            Next::CallModel | Next::Done(_) => {
                let event = Some(self.journal.step_finished());
                step.transition = RunTransition::Continue { read: true, event };
            }
        }
        let status = ending_status(&step.transition);
        self.waits_for_plan = records.as_ref().is_some_and(WrittenRecords::has_attached_plan);
        let done = Box::pin(commit_with(&mut self.journal, step, records)).await?;
        self.read(&done);
        self.void_written().await?;
        Ok(match status {
            Some(status) if !done.continued => ControlFlow::Break(DriveOutcome::Ended(status)),
            _ => ControlFlow::Continue(()),
        })
    }
}

impl<S: RunStorage> RunDriver<'_, S> {
    /// Waits for the answer of a call, which the provider has accepted now or before. `input_tokens`: those of its request.
    async fn wait_for_submitted(&mut self, call: SubmittedCall, input_tokens: u64) -> Flow {
        let (run, agentable, now) = (self.journal.run(), self.journal.agentable(), self.journal.now());
        let submission = match self.model.frame.submission.take() {
            Some(known) if known.call == call => known,
            _ => {
                let (entries, offer) = (self.run.own_entries(), self.model.frame.offer.clone());
                let submission = Box::new(Submission { call, at: now, input_tokens, entries, offer });
                self.journal.retrying(|storage| storage.keep_submission(run, &submission)).await?;
                submission
            }
        };
        if submission.is_overdue(now) {
            self.model.frame.submission = Some(submission);
            self.withdraw_submitted().await;
            return self.ask_without_submitting();
        }
        let unread = self.journal.retrying(|storage| storage.unread(agentable)).await?.count;
        let until = Some(submission.look_at(now));
        self.model.frame.submission = Some(submission);
        let mut step = self.journal.next_step();
        step.transition = self.journal.waiting(until, Vec::new(), Some(unread));
        let done = self.journal.commit(step).await?;
        Ok(self.waits(&done, until))
    }

    /// The provider will not answer what was submitted: the call is made as usual.
    fn ask_without_submitting(&mut self) -> Flow {
        tracing::warn!(run = %self.journal.run(), "a submitted call gets no answer; asking as usual");
        self.model.hurry();
        Ok(ControlFlow::Continue(()))
    }

    /// The run ends, or goes on without the answer: the provider is told so, and what it was sent counts as used, since it may have
    /// answered.
    pub(super) async fn withdraw_submitted(&mut self) {
        let Some(submission) = self.model.frame.submission.take() else { return };
        let models = self.setup.model.candidates();
        let asked = models.into_iter().find(|model| model.to_string() == submission.call.model);
        let asked = asked.unwrap_or(self.setup.model.description());
        self.journal.ledger.enter_lost(asked, submission.input_tokens);
        if timeout(WITHDRAWING, self.model.withdraw(&submission.call)).await.is_err() {
            tracing::warn!(call = submission.call.id, "a submitted call was not withdrawn in time");
        }
    }
}

impl<S: RunStorage> RunDriver<'_, S> {
    /// How many of the calls that the model asks for now, and are counted already, may be executed.
    fn calls_left(&self, now: usize) -> usize {
        let before = self.run.tool_calls().saturating_sub(now);
        self.most_calls().map_or(usize::MAX, |most| most.saturating_sub(before))
    }

    /// Why the run ends before its next model call: a code, and the reason for operators.
    fn too_many_calls(&self) -> Option<(&'static str, String)> {
        let (most, made) = (self.most_calls()?, self.run.tool_calls());
        let kind = &self.setup.agent_type.kind;
        (made > most).then(|| {
            let text =
                format!("asked for {made} tool calls; a run of {kind} may make {most}: give it less to do");
            (TOOL_CALL_LIMIT, text)
        })
    }

    /// Why a request of `tokens` is not sent: a code, and the reason for operators.
    pub(super) fn too_large(&self, tokens: u64) -> Option<(&'static str, String)> {
        let most = self.setup.agent_type.max_request_tokens?;
        let kind = &self.setup.agent_type.kind;
        (tokens > most).then(|| {
            let text = format!(
                "not sent: the request has {tokens} tokens; one of {kind} may have {most}: give it less to read"
            );
            (REQUEST_TOO_LARGE, text)
        })
    }

    fn most_calls(&self) -> Option<usize> {
        self.setup.agent_type.max_tool_calls.and_then(|most| usize::try_from(most).ok())
    }
}
