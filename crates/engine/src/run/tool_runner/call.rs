//! One call that acts outside of Houston.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use houston_domain::guard::Intent;
use houston_domain::id::MessageId;
use houston_domain::tool_call::{EffectClass, ToolCall, ToolErrorCode, ToolResponse};
use houston_tools::{
    Acted, Ask, CallContext, CheckOutcome, Code, CodeCalls, CodeHost, Offer, Paused, Plan, SharedTool, client,
};
use tokio::sync::mpsc;

use super::code::time_of;
use super::fallback::FallbackCall;

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
pub(super) struct ExternalCall {
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
    pub(super) fn may_repeat(&self, offer: &Offer) -> bool {
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
