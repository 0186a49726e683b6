//! One call that acts outside of Houston.

use std::panic::AssertUnwindSafe;

use futures_util::future::{BoxFuture, FutureExt};
use houston_domain::id::MessageId;
use houston_domain::tool_call::{EffectClass, ToolCall, ToolErrorCode, ToolResponse};
use houston_tools::{CallContext, CheckOutcome, Offer, Plan, SharedTool};

/// A running call; completes with its response.
pub(super) type Running = BoxFuture<'static, (ToolCall, ToolResponse)>;

/// A call that acts outside of Houston.
pub(super) struct ExternalCall {
    pub(super) call: ToolCall,
    pub(super) context: CallContext,
    pub(super) cell: Option<MessageId>,
    pub(super) work: Work,
    /// What the model reads before the result.
    pub(super) note: Option<String>,
}

/// How a call is executed.
pub(super) enum Work {
    /// Run this future.
    Execute(BoxFuture<'static, ToolResponse>),
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

    async fn run(self, tool: &SharedTool, call: &ToolCall, context: &CallContext) -> ToolResponse {
        match self {
            Self::Execute(work) => work.await,
            Self::Check => match tool.check(&call.input, context).await {
                CheckOutcome::Executed(response) => response,
                CheckOutcome::Unknown => ToolResponse::outcome_unknown(),
                CheckOutcome::NotExecuted => match tool.plan(&call.input, context) {
                    Ok(Plan::Execute(work)) => work.await,
                    Ok(_) => ToolResponse::outcome_unknown(),
                    Err(invalid) => invalid.into(),
                },
            },
        }
    }
}

impl ExternalCall {
    /// Whether another worker may execute the call again.
    pub(super) fn may_repeat(&self, offer: &Offer) -> bool {
        let effect = offer.get(&self.call.name).map(|tool| tool.definition().effect);
        effect.is_some_and(|effect| effect != EffectClass::Effect)
    }

    /// Runs the call, up to its time-out. A panic becomes a failed response.
    pub(super) fn run(self, offer: &Offer) -> Running {
        let Self { call, context, work, note, .. } = self;
        let Some(tool) = offer.get(&call.name).cloned() else {
            return Box::pin(std::future::ready((call, ToolResponse::outcome_unknown())));
        };
        Box::pin(async move {
            let timeout = tool.definition().timeout;
            let guarded = AssertUnwindSafe(work.run(&tool, &call, &context)).catch_unwind();
            let response = match tokio::time::timeout(timeout, guarded).await {
                Ok(Ok(response)) => response,
                Ok(Err(_panic)) => {
                    tracing::error!(tool = call.name, call = call.id, "a tool panicked");
                    ToolResponse::failure(
                        ToolErrorCode::Unknown,
                        format!("{} failed unexpectedly", call.name),
                    )
                }
                Err(_elapsed) => ToolResponse::failure(
                    ToolErrorCode::Timeout,
                    format!(
                        "{} did not answer within {} s. It may have happened: verify before you try again.",
                        call.name,
                        timeout.as_secs()
                    ),
                ),
            };
            (call, noted(response, note.as_deref()))
        })
    }
}

/// A response with a note before it.
pub(super) fn noted(response: ToolResponse, note: Option<&str>) -> ToolResponse {
    match note {
        None => response,
        Some(note) => response.map_text(|text| format!("{note}\n{text}")),
    }
}
