//! Executing calls that act outside of Houston: those of a turn concurrently, each response committed when it arrives.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use houston_domain::ensure;
use houston_domain::guard::Intent;
use houston_domain::history::Entry;
use houston_domain::id::MessageId;
use houston_domain::step::Step;
use houston_domain::tool_call::{EffectClass, ToolCall, ToolErrorCode, ToolResponse};
use houston_tools::{
    Acted, Ask, CallContext, CheckOutcome, Code, CodeCalls, CodeHost, Offer, Pause, Paused, Plan, SharedTool,
    client,
};
use tokio::sync::mpsc;
use tracing::{Instrument as _, Span};

use super::cells::{add_response, cell_of};
use super::code::{Codes, time_of};
use super::fallback::FallbackCall;
use super::path::{Prepared, not_for_plans};
use super::pausing::Pausing;
use super::{Cells, Held, OpenCalls, Responses, ToolRunner, cut};
use crate::error::{Interrupted, Result};
use crate::observer::Observed;
use crate::run::journal::Journal;
use crate::run::signals::Stop;
use crate::run::storage::RunStorage;

/// How the calls of a turn ended.
pub(crate) enum ToolsOutcome {
    /// All calls have returned. `step` has the last response and is not committed yet. `held` are calls that have paused, and
    /// calls of code that wait for a person; the calls that run that code have no response.
    Returned { step: Box<Step>, responses: Responses, held: Held },
    /// The process stops, and the calls that are still open may be repeated by another worker.
    HandOver,
    /// The calls were stopped. The responses that arrived are committed.
    Stopped(Stop, OpenCalls),
}

/// A call without a response yet.
struct OpenCall {
    call: String,
    may_repeat: bool,
    /// How long it may continue once it is stopped.
    patience: Duration,
}

/// The calls of a turn that are executed, and what has become of them.
pub(super) struct Executing<'h> {
    running: FuturesUnordered<Running>,
    open: Vec<OpenCall>,
    cells: Cells,
    responses: Responses,
    /// Boxed: most turns run no code.
    pub(super) codes: Box<Codes<'h>>,
}

impl ToolRunner {
    /// Executes calls concurrently and commits each response when it arrives, except the last. When the process stops, it
    /// waits for calls that may not be repeated and hands over the rest. `history`: that of the session.
    pub(crate) async fn execute<S: RunStorage>(
        &mut self,
        journal: &mut Journal<'_, S>,
        Prepared { responses, external, held }: Prepared,
        history: &[Entry],
    ) -> Result<ToolsOutcome> {
        ensure!(!journal.signals.is_lost(), Interrupted::Lost);
        let (running, codes) = (FuturesUnordered::new(), Box::new(Codes::of(history, held)));
        let mut calls = Executing { running, open: Vec::new(), cells: Cells::new(), responses, codes };
        for call in external {
            Box::pin(self.start(journal, self.with_fallback(journal, call), &mut calls)).await?;
        }
        let mut drained = pin!(journal.signals.drained().fuse());
        loop {
            let may_all_repeat = !calls.open.is_empty() && calls.open.iter().all(|call| call.may_repeat);
            let next = next(&mut calls.running, &mut calls.codes);
            let happened = journal.signals.until_returned(next, may_all_repeat, drained.as_mut()).await?;
            let returned = match happened {
                Ok(Happened::Returned(returned)) => returned,
                Ok(Happened::Asked(asked)) => {
                    Box::pin(self.start_calls(journal, asked, &mut calls)).await?;
                    continue;
                }
                Err(Stop::Drained) => return Ok(ToolsOutcome::HandOver),
                Err(stop) => {
                    Box::pin(self.stop(journal, &mut calls)).await?;
                    let Executing { responses, cells, codes, .. } = calls;
                    return Ok(ToolsOutcome::Stopped(stop, OpenCalls::stopped(responses, cells, codes.held)));
                }
            };
            let mut step = Box::new(journal.next_step());
            houston_faults::fault!("C10")?;
            let (is_new, going) = match returned {
                Some(returned) => {
                    Box::pin(self.add_returned(journal, &mut step, returned, &mut calls)).await?
                }
                None => (true, None),
            };
            if !is_new {
                calls.codes.settle();
                continue;
            }
            if calls.running.is_empty() && going.is_none() {
                let Executing { responses, codes, .. } = calls;
                return Ok(ToolsOutcome::Returned { step, responses, held: codes.held });
            }
            // Boxed: the other calls may take minutes.
            Box::pin(journal.commit(*step)).await?;
            houston_faults::fault!("C11")?;
            // Only now: code goes on with what is committed, and so do calls that have paused.
            calls.codes.settle();
            if let Some(going) = going {
                Box::pin(self.start(journal, going, &mut calls)).await?;
            }
        }
    }

    /// Starts a call whose intent is committed.
    pub(super) async fn start<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        call: ExternalCall,
        calls: &mut Executing<'_>,
    ) -> Result<()> {
        let call = self.with_material(journal, call).await?;
        let ToolCall { id, name, .. } = &call.call;
        let patience = self.offer().get(name).map(|tool| tool.stop_within()).unwrap_or_default();
        calls.open.push(OpenCall { call: id.clone(), may_repeat: call.may_repeat(self.offer()), patience });
        if cell_of(&calls.cells, id).is_none() {
            calls.cells.extend(call.cell.map(|cell| (id.clone(), cell)));
        }
        let sender = calls.codes.begin(self, &call);
        calls.running.push(self.run(journal, call, sender));
        Ok(())
    }

    /// Starts the call of a plan's step, whose intent is committed.
    pub(crate) async fn start_step<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        call: ExternalCall,
    ) -> Result<BoxFuture<'static, ToolResponse>> {
        let call = self.with_material(journal, call).await?;
        let metrics = Arc::clone(&journal.services.metrics);
        let running = self.run(journal, call, None);
        Ok(Box::pin(async move {
            let response = match running.await {
                Returned { acted: Acted::Done(response), .. } => response,
                Returned { call, .. } => not_for_plans(&call.name),
            };
            metrics.tools.answered(&response);
            response
        }))
    }

    /// Adds what a call has returned to a step. Returns whether there is something to commit, and the call if it has paused and
    /// goes on once that is committed.
    async fn add_returned<S: RunStorage>(
        &mut self,
        journal: &mut Journal<'_, S>,
        step: &mut Step,
        returned: Returned,
        calls: &mut Executing<'_>,
    ) -> Result<(bool, Option<ExternalCall>)> {
        calls.open.retain(|open| open.call != returned.call.id);
        Ok(match self.pause_returned(journal, step, returned, calls).await? {
            Ok(going) => (true, going),
            Err(ended) => (self.add_ended(journal, step, ended, calls) || journal.owed() > 0, None),
        })
    }

    /// Adds to a step that a call has paused, if it has. Returns the call if it goes on once that is committed, with its
    /// fallback if it had one; an error is the response of a call that has ended. While a call is paused, its fallback is not
    /// called: the call may still succeed.
    async fn pause_returned<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        step: &mut Step,
        Returned { call, acted, .. }: Returned,
        calls: &mut Executing<'_>,
    ) -> Result<Result<Option<ExternalCall>, (ToolCall, ToolResponse)>> {
        let pause: Pause = match acted {
            Acted::Done(response) => {
                journal.services.metrics.tools.answered(&response);
                return Ok(Err((call, response)));
            }
            Acted::Paused(pause) => pause,
        };
        let cell = cell_of(&calls.cells, &call.id);
        Ok(match (self.pause(journal, step, &call, cell, pause), cell) {
            (Pausing::Failed(response), _) => Err((call, response)),
            (Pausing::Now(paused), _) => {
                let paused = Paused { state: paused.state, answer: None };
                let script = calls.codes.take_paused(&call.id);
                let intent = script.as_ref().and_then(|script| script.intent.as_ref());
                let going = self.going_on(journal, call, cell, paused, intent);
                Ok(Some(if script.is_some() { self.with_fallback(journal, going) } else { going }))
            }
            (Pausing::Later(paused), Some(cell)) => {
                calls.codes.take_paused(&call.id);
                let mut held =
                    Held { unread: self.seen_messages(journal, &paused).await?, ..Held::default() };
                held.add_paused(call.id, paused, cell);
                calls.codes.hold(held);
                Ok(None)
            }
            // Only the reply to the user has no cell, and it does not pause.
            (Pausing::Later(_), None) => Err((call, ToolResponse::outcome_unknown())),
        })
    }

    /// Adds the response of a call that has ended to a step. Returns whether there is something to commit: code that waits for a
    /// person has no response yet.
    fn add_ended<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        step: &mut Step,
        (call, response): (ToolCall, ToolResponse),
        calls: &mut Executing<'_>,
    ) -> bool {
        let is_short = |count| self.made_more(&call.id, count);
        let Some(response) = calls.codes.finished(&call.id, response, is_short) else {
            calls.codes.waits(&call.id);
            return false;
        };
        if !calls.codes.made(&call.id) {
            self.take(journal, step, call, response, calls);
            return true;
        }
        // The code reads it once the step is committed.
        let response = cut(journal, response);
        add_response(step, &call.id, &response, &calls.cells);
        calls.cells.retain(|(id, _)| *id != call.id);
        self.taint.add_result(response.text());
        calls.codes.answer(&call.id, &response);
        true
    }

    /// Adds a response that has arrived to a step, as the history will have it.
    fn take<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        step: &mut Step,
        call: ToolCall,
        response: ToolResponse,
        calls: &mut Executing<'_>,
    ) {
        let response = self.store_large_result(journal, step, &call.name, &call.id, response);
        add_response(step, &call.id, &response, &calls.cells);
        calls.responses.push((call.id, response));
    }

    /// Asks the running calls to stop and waits as long as one of the tools needs to stop; then drops the rest. Responses that
    /// arrive meanwhile are committed.
    async fn stop<S: RunStorage>(
        &mut self,
        journal: &mut Journal<'_, S>,
        calls: &mut Executing<'_>,
    ) -> Result<()> {
        // The watchdog stops tools through the same token as a cancel request.
        journal.signals.cancel().cancel();
        let mut running = std::mem::take(&mut calls.running);
        let patience = calls.open.iter().map(|open| open.patience).max().unwrap_or_default();
        if patience.is_zero() {
            return Ok(());
        }
        let until = tokio::time::Instant::now() + patience;
        loop {
            let returned = tokio::select! {
                biased;
                () = journal.signals.lost() => return Err(Interrupted::Lost),
                returned = tokio::time::timeout_at(until, running.next()) => returned,
            };
            let (call, response) = match returned {
                Ok(Some(Returned { call, acted: Acted::Done(response) })) => (call, response),
                // What has begun is ended by the tool itself: it was asked to stop.
                Ok(Some(Returned { acted: Acted::Paused(_), .. })) => continue,
                Ok(None) | Err(_) => return Ok(()),
            };
            let mut step = journal.next_step();
            self.take(journal, &mut step, call, response, calls);
            journal.commit(step).await?;
        }
    }
}

/// What calls that are executed are waited for.
#[expect(clippy::large_enum_variant, reason = "one lives at a time, and is taken apart at once")]
enum Happened {
    /// A call has returned; `None`: none is running.
    Returned(Option<Returned>),
    /// Code has made calls.
    Asked(CodeCalls),
}

/// What happens next.
async fn next(running: &mut FuturesUnordered<Running>, codes: &mut Codes<'_>) -> Happened {
    tokio::select! {
        biased;
        returned = running.next() => Happened::Returned(returned),
        asked = codes.next() => Happened::Asked(asked),
    }
}

/// A running call; completes with its response, or when it pauses.
type Running = BoxFuture<'static, Returned>;

/// A call that has returned, or has paused.
struct Returned {
    call: ToolCall,
    acted: Acted,
}

impl Returned {
    fn new(call: ToolCall, response: ToolResponse) -> Self {
        Self { call, acted: Acted::Done(response) }
    }
}

/// A call that acts outside of Houston.
pub(crate) struct ExternalCall {
    pub(super) call: ToolCall,
    pub(super) context: CallContext,
    pub(super) cell: Option<MessageId>,
    pub(super) work: Work,
    /// What the model reads before the result.
    pub(super) note: Option<String>,
    /// What the model said the call is for, and so what the calls are for that follow from it.
    pub(super) intent: Option<Intent>,
    /// What is called if this call fails.
    pub(super) fallback: Option<FallbackCall>,
}

/// How a call is executed.
pub(super) enum Work {
    /// Run this future.
    Execute(BoxFuture<'static, ToolResponse>),
    /// Run this future; the call may pause.
    Begin(BoxFuture<'static, Acted>),
    /// Go on with a call that has paused.
    GoOn(Paused),
    /// Run this code, which calls tools.
    Code(Code),
    /// Ask a model; what it works on is not read yet.
    Ask(Box<Ask>),
    /// The call was interrupted by a crash: ask the tool whether it happened, and execute it if not.
    Check,
}

impl Work {
    /// The outcome of the call is unknown, and it must not be repeated.
    pub(super) fn unknown() -> Self {
        Self::answered(ToolResponse::outcome_unknown())
    }

    /// Nothing is executed.
    pub(super) fn answered(response: ToolResponse) -> Self {
        Self::Execute(Box::pin(std::future::ready(response)))
    }

    pub(super) fn is_code(&self) -> bool {
        matches!(self, Self::Code(_))
    }

    async fn run(self, tool: &SharedTool, call: &ToolCall, context: &CallContext) -> Acted {
        let response = match self {
            Self::Execute(work) => work.await,
            Self::Begin(work) => return work.await,
            Self::GoOn(paused) => return tool.go_on(paused, &call.input, context).await,
            // Code is run by `ExternalCall::run`, and a question has become `Execute` before.
            Self::Code(_) | Self::Ask(_) => ToolResponse::outcome_unknown(),
            Self::Check => match tool.check(&call.input, context).await {
                CheckOutcome::Executed(response) => response,
                CheckOutcome::Unknown => ToolResponse::outcome_unknown(),
                CheckOutcome::NotExecuted => match tool.plan(&call.input, context) {
                    Ok(Plan::Execute(work)) => work.await,
                    Ok(Plan::Begin(work)) => return work.await,
                    Ok(_) => ToolResponse::outcome_unknown(),
                    Err(invalid) => invalid.into(),
                },
            },
        };
        Acted::Done(response)
    }

    /// Whether the call goes on by itself: it only asks how far it is.
    fn only_asks(&self) -> bool {
        matches!(self, Self::GoOn(Paused { answer: None, .. }))
    }
}

impl ExternalCall {
    /// A call without a note and a fallback.
    pub(super) fn new(
        call: ToolCall,
        context: CallContext,
        cell: Option<MessageId>,
        work: Work,
        intent: Option<&Intent>,
    ) -> Self {
        Self { call, context, cell, work, note: None, intent: intent.cloned(), fallback: None }
    }

    /// Whether another worker may execute the call again.
    pub(crate) fn may_repeat(&self, offer: &Offer) -> bool {
        let effect = offer.get(&self.call.name).map(|tool| tool.definition().effect);
        self.work.only_asks() || effect.is_some_and(|effect| effect != EffectClass::Effect)
    }

    /// Runs the call, up to its time-out. A panic becomes a failed response. Code sends its calls to `code_calls`; its own time
    /// is limited where it runs, and each of its calls has a time-out. So has a fallback, which is asked for there as well.
    fn run(self, offer: &Offer, code_calls: Option<mpsc::UnboundedSender<CodeCalls>>) -> Running {
        let Self { call, context, cell, work, note, fallback, .. } = self;
        if let Some(cell) = cell {
            context.progress.runs_as(cell);
        }
        let now = time_of(cell).unwrap_or(context.now);
        let (work, code_calls) = match (work, code_calls) {
            (Work::Code(code), Some(calls)) => {
                let code = code.run(CodeHost { of: call.id.clone(), now, calls });
                return Box::pin(async move {
                    let response = AssertUnwindSafe(code).catch_unwind().await;
                    let response = response.unwrap_or_else(|_panic| panicked(&call));
                    Returned::new(call, noted(response, note.as_deref()))
                });
            }
            (work, calls) => (work, calls),
        };
        let Some(tool) = offer.get(&call.name).cloned() else {
            let response = match work {
                // A client that goes on with other tools has carried this one out.
                Work::GoOn(paused) if paused.answer.is_some() && paused.state.is_null() => {
                    client::returned(&call.name, &paused)
                }
                _ => ToolResponse::outcome_unknown(),
            };
            return Box::pin(std::future::ready(Returned::new(call, response)));
        };
        Box::pin(async move {
            let timeout = tool.definition().timeout;
            let guarded = AssertUnwindSafe(work.run(&tool, &call, &context)).catch_unwind();
            let response = match tokio::time::timeout(timeout, guarded).await {
                // Its fallback is called if it fails in the end.
                Ok(Ok(acted @ Acted::Paused(_))) => return Returned { call, acted },
                Ok(Ok(Acted::Done(response))) => response,
                Ok(Err(_panic)) => panicked(&call),
                Err(_elapsed) => timed_out(&call, timeout),
            };
            if let (Some(fallback), Some(calls)) = (fallback, code_calls)
                && fallback.follows(tool.definition().effect, &response)
            {
                fallback.call(CodeHost { of: call.id.clone(), now, calls }, &response).await;
            }
            Returned::new(call, noted(response, note.as_deref()))
        })
    }
}

fn timed_out(call: &ToolCall, timeout: Duration) -> ToolResponse {
    let tool = &call.name;
    let seconds = timeout.as_secs();
    let text = format!(
        "{tool} did not answer within {seconds} s. It may have happened: verify before you try again."
    );
    ToolResponse::failure(ToolErrorCode::Timeout, text)
}

fn panicked(call: &ToolCall) -> ToolResponse {
    tracing::error!(tool = call.name, call = call.id, "a tool panicked");
    ToolResponse::failure(ToolErrorCode::Unknown, format!("{} failed unexpectedly", call.name))
}

/// A response with a note before it.
pub(super) fn noted(response: ToolResponse, note: Option<&str>) -> ToolResponse {
    match note {
        None => response,
        Some(note) => response.map_text(|text| format!("{note}\n{text}")),
    }
}

impl ToolRunner {
    /// Runs a call between the two calls of the observers.
    fn run<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        external: ExternalCall,
        code_calls: Option<mpsc::UnboundedSender<CodeCalls>>,
    ) -> Running {
        let observers = &journal.services.observers;
        let traced = parent(journal).tool(&external.call);
        if observers.is_empty() && !traced.is_on() {
            return external.run(self.offer(), code_calls);
        }
        let (observers, owner) = (observers.clone(), journal.owner);
        let (span, asked) = (observers.span(|| span_of(&external.call)), external.call.clone());
        let running = external.run(self.offer(), code_calls).instrument(span.clone());
        Box::pin(async move {
            observers.notify(&owner, &span, Observed::ToolCallStarted { call: &asked });
            let returned = running.await;
            // One that has paused is observed again when it goes on.
            if let Acted::Done(response) = &returned.acted {
                traced.responded(response);
                observers.notify(&owner, &span, Observed::ToolCallEnded { call: &returned.call, response });
            }
            returned
        })
    }
}

/// Counts calls that have their responses, and calls the observers for them: those that read or write Houston's own tables, and
/// those that were refused. `calls` are those of the turn, `begun` the spans that have begun already.
pub(super) fn observe<S: RunStorage>(
    journal: &Journal<'_, S>,
    calls: &[ToolCall],
    responses: &[(String, ToolResponse)],
    begun: &mut Vec<(String, houston_spans::Span)>,
) {
    responses.iter().for_each(|(_, response)| journal.services.metrics.tools.answered(response));
    let (observers, parent) = (&journal.services.observers, parent(journal));
    if observers.is_empty() && !parent.is_on() {
        return;
    }
    for (id, response) in responses {
        let Some(call) = calls.iter().find(|call| call.id == *id) else { continue };
        let traced = match begun.iter().position(|(of, _)| of == id) {
            Some(nth) => begun.swap_remove(nth).1,
            None => parent.tool(call),
        };
        traced.responded(response);
        let span = observers.span(|| span_of(call));
        observers.notify(&journal.owner, &span, Observed::ToolCallStarted { call });
        observers.notify(&journal.owner, &span, Observed::ToolCallEnded { call, response });
    }
}

/// The span of which calls are a part: that of the iteration, or of the agent if another attempt made the iteration.
pub(super) fn parent<'j, S: RunStorage>(journal: &'j Journal<'_, S>) -> &'j houston_spans::Span {
    if journal.iteration.is_on() { &journal.iteration } else { &journal.span }
}

fn span_of(call: &ToolCall) -> Span {
    tracing::info_span!("engine.tool.call", tool = call.name, call = call.id)
}
