//! Executing tools that act outside, each exactly as often as its class allows.

use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use houston_domain::id::MessageId;
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_domain::tool_call::{EffectClass, ToolCall, ToolErrorCode, ToolResponse};
use houston_store::history::KnownCall;
use houston_store::step::Then;
use houston_tools::{CallContext, Happened, Plan};

use crate::context::Driving;
use crate::drive::Driven;
use crate::error::Halt;
use crate::turn::returned;

/// A call that acts outside.
pub(crate) struct External {
    pub(crate) call: ToolCall,
    pub(crate) context: CallContext,
    pub(crate) cell: Option<MessageId>,
    pub(crate) work: Work,
}

/// What is to be done for it.
pub(crate) enum Work {
    /// Execute it.
    Execute(BoxFuture<'static, ToolResponse>),
    /// A crash cut it off: ask the outside whether it happened, and execute it if not.
    Check,
}

impl Driving<'_> {
    pub(crate) fn call_context(&self, call: &ToolCall) -> CallContext {
        let claimed = &self.claimed;
        CallContext {
            agentable: claimed.fence.agentable,
            user: claimed.user,
            run: claimed.run,
            idempotency_key: call.idempotency_key(claimed.fence.agentable, claimed.run),
            now: self.now(),
        }
    }

    /// Goes on with the open calls of a run that was taken over, each by its class.
    pub(crate) async fn resume_tools(&mut self, calls: Vec<ToolCall>) -> Result<ControlFlow<Driven>, Halt> {
        let run = self.claimed.run;
        let known = self.retrying(|store| Box::pin(async move { store.known_calls(run).await })).await?;
        let (mut responses, mut external) = (Vec::new(), Vec::new());
        for call in calls {
            match known.get(&call.id) {
                Some(KnownCall { response: Some(response), .. }) => {
                    responses.push((call.id.clone(), response.clone()));
                }
                Some(KnownCall { cell, .. }) => external.push(self.again(call, *cell)),
                // Never happens: an entry and its intents are one commit. If it did, nothing may be repeated.
                None => responses.push((call.id.clone(), ToolResponse::outcome_unknown())),
            }
        }
        self.execute(external, responses).await
    }

    /// What a crash allows for a call whose outcome is unknown.
    fn again(&self, call: ToolCall, cell: MessageId) -> External {
        let context = self.call_context(&call);
        let effect =
            self.setup.offer.get(&call.name).map_or(EffectClass::Effect, |tool| tool.definition().effect);
        let unknown = || Work::Execute(Box::pin(std::future::ready(ToolResponse::outcome_unknown())));
        let work = match effect {
            EffectClass::Effect => unknown(),
            EffectClass::Checkable => Work::Check,
            EffectClass::Read | EffectClass::Idempotent => match self.setup.offer.plan(&call, &context) {
                Plan::Execute(work) => Work::Execute(work),
                Plan::Answer(response) => Work::Execute(Box::pin(std::future::ready(response))),
                Plan::Record(_) => unknown(),
            },
        };
        External { call, context, cell: Some(cell), work }
    }

    /// Executes calls side by side, commits each response as it comes, and with the last the results.
    pub(crate) async fn execute(
        &mut self,
        external: Vec<External>,
        mut responses: Vec<(String, ToolResponse)>,
    ) -> Result<ControlFlow<Driven>, Halt> {
        if !(self.holder.trusted)() {
            return Err(Halt::Lost);
        }
        let cells: Vec<(String, Option<MessageId>)> =
            external.iter().map(|external| (external.call.id.clone(), external.cell)).collect();
        let mut running: FuturesUnordered<_> =
            external.into_iter().map(|external| self.perform(external)).collect();
        loop {
            let back = tokio::select! {
                biased;
                () = self.holder.lost.cancelled() => return Err(Halt::Lost),
                () = self.entered.live.cancel.cancelled() => {
                    return self.cancel_with(responses).await.map(ControlFlow::Break);
                }
                () = tokio::time::sleep_until(self.watchdog) => {
                    return self.end_with(RunStatus::MaxDuration, responses).await.map(ControlFlow::Break);
                }
                back = running.next() => back,
            };
            let mut step = self.step(Usage::default(), Then::GoOn { read: false, event: None });
            if let Some((call, response)) = back {
                let response = self.cut(response);
                let cell = cells.iter().find(|(id, _)| *id == call).and_then(|(_, cell)| *cell);
                if let Some(cell) = cell {
                    returned(&mut step, &call, cell, &response);
                }
                step.responses.push((call.clone(), response.clone()));
                responses.push((call, response));
                if !running.is_empty() {
                    self.commit(step).await?;
                    continue;
                }
            }
            self.close_turn(&mut step, responses);
            let status = self.ending_status(&step.then);
            let done = self.commit(step).await?;
            return Ok(match status {
                Some(status) if !done.went_on => ControlFlow::Break(Driven::Ended(status)),
                _ => ControlFlow::Continue(()),
            });
        }
    }

    /// One call, bounded by its time-out; a panic is a failure like any other.
    fn perform(&self, external: External) -> BoxFuture<'static, (String, ToolResponse)> {
        let External { call, context, work, .. } = external;
        let Some(tool) = self.setup.offer.get(&call.name).cloned() else {
            return Box::pin(std::future::ready((call.id, ToolResponse::outcome_unknown())));
        };
        let timeout = tool.definition().timeout;
        Box::pin(async move {
            let work = async {
                match work {
                    Work::Execute(work) => work.await,
                    Work::Check => match tool.check(&call.input, &context).await {
                        Happened::Yes(response) => response,
                        Happened::Unknown => ToolResponse::outcome_unknown(),
                        Happened::No => match tool.plan(&call.input, &context) {
                            Ok(Plan::Execute(work)) => work.await,
                            Ok(_) => ToolResponse::outcome_unknown(),
                            Err(invalid) => invalid.into(),
                        },
                    },
                }
            };
            let guarded = tokio::time::timeout(timeout, AssertUnwindSafe(work).catch_unwind());
            let response = match guarded.await {
                Ok(Ok(response)) => response,
                Ok(Err(_panic)) => {
                    tracing::error!(tool = call.name, call = call.id, "a tool panicked");
                    ToolResponse::failure(ToolErrorCode::Unknown, format!("{} broke down", call.name))
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
            (call.id, response)
        })
    }
}
