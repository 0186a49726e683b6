//! Executing the calls of a turn that act outside of Houston: concurrently, each response committed when it arrives.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use houston_domain::guard::Intent;
use houston_domain::history::Entry;
use houston_domain::id::MessageId;
use houston_domain::step::Step;
use houston_domain::tool_call::PausedCall;
use houston_domain::tool_call::{EffectClass, ToolCall, ToolErrorCode, ToolResponse};
use houston_tools::{
    Acted, Ask, CallContext, CheckOutcome, Code, CodeCalls, CodeHost, Offer, Pause, Paused, Plan, SharedTool,
    client,
};
use rust_decimal::Decimal;
use tokio::sync::mpsc;
use tracing::{Instrument as _, Span};

use super::code::{Codes, time_of};
use super::fallback::FallbackCall;
use super::pausing::Pausing;
use super::{Cells, ExternalCalls, Held, Responses, ToolRunner, add_response, cell_of, not_for_plans};
use crate::error::Interrupted;
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
    /// The calls were stopped. The responses that arrived are committed; `cells` are those of all calls,
    /// `paused` what calls have begun that have paused.
    Stopped { stop: Stop, responses: Responses, cells: Cells, held: Held, paused: Vec<PausedCall> },
}

/// A call without a response yet.
pub(super) struct OpenCall {
    call: String,
    may_repeat: bool,
    /// How long it may continue once it is stopped.
    patience: Duration,
}

/// The calls that are executed.
pub(super) struct OpenCalls<'o> {
    pub(super) running: &'o mut FuturesUnordered<Running>,
    pub(super) open: &'o mut Vec<OpenCall>,
    pub(super) cells: &'o mut Cells,
}

/// What calls that return are added to.
struct Collected<'c, 'h> {
    codes: &'c mut Codes<'h>,
    responses: &'c mut Responses,
    cells: &'c mut Cells,
}

impl ToolRunner {
    /// Executes calls concurrently and commits each response when it arrives, except the last. When the process stops, it
    /// waits for calls that may not be repeated and hands over the rest. `history`: that of the session.
    pub(crate) async fn execute<S: RunStorage>(
        &mut self,
        journal: &mut Journal<'_, S>,
        ExternalCalls(external): ExternalCalls,
        mut responses: Responses,
        history: &[Entry],
    ) -> Result<ToolsOutcome, Interrupted> {
        if journal.signals.is_lost() {
            return Err(Interrupted::Lost);
        }
        let external = Box::pin(self.ready(journal, external)).await?;
        let mut open: Vec<OpenCall> = external.iter().map(|external| self.open_call(external)).collect();
        let mut cells: Cells = external
            .iter()
            .filter_map(|external| external.cell.map(|cell| (external.call.id.clone(), cell)))
            .collect();
        // Boxed: most turns run no code.
        let mut codes = Box::new(Codes::of(history));
        let mut running = FuturesUnordered::<Running>::new();
        for call in external {
            let sender = codes.begin(self, &call);
            running.push(self.start_call(journal, call, sender));
        }
        let mut drained = pin!(journal.signals.drained().fuse());
        loop {
            let may_all_repeat = !open.is_empty() && open.iter().all(|call| call.may_repeat);
            let next = next(&mut running, &mut codes);
            let happened = journal.signals.until_returned(next, may_all_repeat, drained.as_mut()).await?;
            let returned = match happened {
                Ok(Happened::Returned(returned)) => returned,
                Ok(Happened::Asked(asked)) => {
                    let calls = OpenCalls { running: &mut running, open: &mut open, cells: &mut cells };
                    Box::pin(self.start_calls(journal, asked, &mut codes, calls)).await?;
                    continue;
                }
                Err(Stop::Drained) => return Ok(ToolsOutcome::HandOver),
                Err(stop) => {
                    let patience = open.iter().map(|open| open.patience).max().unwrap_or_default();
                    Box::pin(self.stop(journal, running, patience, &mut responses, &cells)).await?;
                    let (held, paused) = (codes.take_held(), std::mem::take(&mut codes.pauses));
                    return Ok(ToolsOutcome::Stopped { stop, responses, cells, held, paused });
                }
            };
            let mut step = Box::new(journal.next_step());
            houston_faults::fault!("C10")?;
            let Some(returned) = returned else {
                return Ok(ToolsOutcome::Returned { step, responses, held: codes.take_held() });
            };
            open.retain(|open| open.call != returned.call.id);
            let calls = Collected { codes: &mut codes, responses: &mut responses, cells: &mut cells };
            let returned = Box::pin(self.add_returned(journal, &mut step, returned, calls));
            let (is_new, going) = returned.await?;
            if !is_new {
                codes.settle();
                continue;
            }
            if running.is_empty() && going.is_none() {
                return Ok(ToolsOutcome::Returned { step, responses, held: codes.take_held() });
            }
            // Boxed: the other calls may take minutes.
            Box::pin(journal.commit(*step)).await?;
            houston_faults::fault!("C11")?;
            // Only now: code goes on with what is committed, and so do calls that have paused.
            codes.settle();
            if let Some(going) = going {
                open.push(self.open_call(&going));
                let sender = codes.begin(self, &going);
                running.push(self.start_call(journal, going, sender));
            }
        }
    }

    /// The calls with their fallbacks, and with what a model is asked about.
    async fn ready<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        external: Vec<ExternalCall>,
    ) -> Result<Vec<ExternalCall>, Interrupted> {
        self.reserved = Decimal::ZERO;
        let mut ready = Vec::with_capacity(external.len());
        for call in external {
            ready.push(self.with_material(journal, self.with_fallback(journal, call)).await?);
        }
        Ok(ready)
    }

    /// Adds what a call has returned to a step. Returns whether there is something to commit, and the call if it has paused and
    /// goes on once that is committed.
    async fn add_returned<S: RunStorage>(
        &mut self,
        journal: &mut Journal<'_, S>,
        step: &mut Step,
        returned: Returned,
        calls: Collected<'_, '_>,
    ) -> Result<(bool, Option<ExternalCall>), Interrupted> {
        Ok(match self.pause_returned(journal, step, returned, (&mut *calls.codes, &*calls.cells)).await? {
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
        (codes, cells): (&mut Codes<'_>, &Cells),
    ) -> Result<Result<Option<ExternalCall>, (ToolCall, ToolResponse)>, Interrupted> {
        let pause: Pause = match acted {
            Acted::Done(response) => {
                journal.services.metrics.tools.answered(&response);
                return Ok(Err((call, response)));
            }
            Acted::Paused(pause) => pause,
        };
        let cell = cell_of(cells, &call.id);
        Ok(match (self.pause(journal, step, &call, cell, pause), cell) {
            (Pausing::Failed(response), _) => Err((call, response)),
            (Pausing::Now(paused), _) => {
                let paused = Paused { state: paused.state, answer: None };
                let script = codes.take_paused(&call.id);
                let intent = script.as_ref().and_then(|script| script.intent.as_ref());
                let going = self.going_on(journal, call, cell, paused, intent);
                Ok(Some(if script.is_some() { self.with_fallback(journal, going) } else { going }))
            }
            (Pausing::Later(paused), Some(cell)) => {
                codes.take_paused(&call.id);
                let seen = self.seen_messages(journal, &paused).await?;
                codes.pause(call.id, paused, cell, seen);
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
        Collected { codes, responses, cells }: Collected<'_, '_>,
    ) -> bool {
        let is_short = |count| self.made_more(&call.id, count);
        let Some(response) = codes.finished(&call.id, response, is_short) else {
            codes.waits(&call.id);
            return false;
        };
        if codes.made(&call.id) {
            self.add_of_code(journal, step, &call, response, codes, cells);
            return true;
        }
        let response = self.take(journal, step, &call, response, cells);
        responses.push((call.id, response));
        true
    }

    pub(super) fn open_call(&self, external: &ExternalCall) -> OpenCall {
        let tool = self.offer().get(&external.call.name);
        OpenCall {
            call: external.call.id.clone(),
            may_repeat: external.may_repeat(self.offer()),
            patience: tool.map(|tool| tool.stop_within()).unwrap_or_default(),
        }
    }

    /// Adds a response that has arrived to a step. Returns it as the history will have it.
    fn take<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        step: &mut Step,
        call: &ToolCall,
        response: ToolResponse,
        cells: &Cells,
    ) -> ToolResponse {
        let response = self.store_large_result(journal, step, &call.name, &call.id, response);
        add_response(step, &call.id, &response, cells);
        response
    }

    /// Asks the running calls to stop and waits for up to `patience`, the longest time one of the tools needs to stop; then
    /// drops the rest. Responses that arrive meanwhile are committed.
    async fn stop<S: RunStorage>(
        &mut self,
        journal: &mut Journal<'_, S>,
        mut running: FuturesUnordered<Running>,
        patience: Duration,
        responses: &mut Responses,
        cells: &Cells,
    ) -> Result<(), Interrupted> {
        // The watchdog stops tools through the same token as a cancel request.
        journal.signals.cancel().cancel();
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
            let response = self.take(journal, &mut step, &call, response, cells);
            responses.push((call.id, response));
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
pub(super) type Running = BoxFuture<'static, Returned>;

/// A call that has returned, or has paused.
pub(super) struct Returned {
    pub(super) call: ToolCall,
    pub(super) acted: Acted,
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
    /// Whether another worker may execute the call again.
    pub(crate) fn may_repeat(&self, offer: &Offer) -> bool {
        let effect = offer.get(&self.call.name).map(|tool| tool.definition().effect);
        self.work.only_asks() || effect.is_some_and(|effect| effect != EffectClass::Effect)
    }

    /// Runs the call, up to its time-out. A panic becomes a failed response. Code sends its calls to `code_calls`; its own time
    /// is limited where it runs, and each of its calls has a time-out. So has a fallback, which is asked for there as well.
    pub(super) fn run(self, offer: &Offer, code_calls: Option<mpsc::UnboundedSender<CodeCalls>>) -> Running {
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
    let (tool, seconds) = (&call.name, timeout.as_secs());
    ToolResponse::failure(
        ToolErrorCode::Timeout,
        format!(
            "{tool} did not answer within {seconds} s. It may have happened: verify before you try again."
        ),
    )
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
    /// Starts a call that acts outside of Houston, between the two calls of the observers.
    pub(super) fn start_call<S: RunStorage>(
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

impl ToolRunner {
    /// Starts the call of a plan's step, whose intent is committed.
    pub(crate) fn start_step<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        call: ExternalCall,
    ) -> BoxFuture<'static, ToolResponse> {
        let metrics = Arc::clone(&journal.services.metrics);
        let running = self.start_call(journal, call, None);
        async move {
            let response = match running.await {
                Returned { acted: Acted::Done(response), .. } => response,
                Returned { call, .. } => not_for_plans(&call.name),
            };
            metrics.tools.answered(&response);
            response
        }
        .boxed()
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
