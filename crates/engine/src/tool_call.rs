//! Executing tools that act outside of Houston, and repeating them after a crash only if their effect class allows it.

use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use houston_domain::id::MessageId;
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_domain::step::{RunTransition, Step};
use houston_domain::tool_call::{EffectClass, ToolCall, ToolErrorCode, ToolResponse};
use houston_faults::mutation::{self, Mutation};
use houston_store::history::CommittedIntent;
use houston_tools::{CallContext, CheckOutcome, Plan};

use crate::drive::DriveOutcome;
use crate::error::Interrupted;
use crate::run_driver::RunDriver;
use crate::turn::add_tool_result;

/// A running call; completes with its id and response.
type Running = BoxFuture<'static, (String, ToolResponse)>;

/// A call that acts outside of Houston.
pub(crate) struct ExternalCall {
    pub(crate) call: ToolCall,
    pub(crate) context: CallContext,
    pub(crate) cell: Option<MessageId>,
    pub(crate) work: Work,
}

/// A call without a response yet.
struct OpenCall {
    call: String,
    /// Whether another worker may execute it again.
    may_repeat: bool,
}

/// How a call is executed.
pub(crate) enum Work {
    /// Run this future.
    Execute(BoxFuture<'static, ToolResponse>),
    /// The call was interrupted by a crash: ask the tool whether it happened, and execute it if not.
    Check,
}

impl RunDriver<'_> {
    /// What a tool is given besides its arguments.
    pub(crate) fn call_context(&self, call: &ToolCall) -> CallContext {
        let claimed = &self.claimed;
        CallContext {
            agentable: claimed.fence.agentable,
            user: claimed.user,
            run: claimed.run,
            idempotency_key: call.idempotency_key(claimed.fence.agentable, claimed.run),
            now: self.now(),
            zone: self.zone,
            // A child token: a tool that cancels it does not cancel the run.
            stop: self.registration.live.cancel.child_token(),
        }
    }

    /// Continues the open calls of a run that was taken over, each as its effect class allows.
    pub(crate) async fn resume_tools(
        &mut self,
        calls: Vec<ToolCall>,
    ) -> Result<ControlFlow<DriveOutcome>, Interrupted> {
        let run = self.claimed.run;
        let known =
            self.retrying(|store| Box::pin(async move { store.committed_intents(run).await })).await?;
        let (mut responses, mut external) = (Vec::new(), Vec::new());
        for call in calls {
            match known.get(&call.id) {
                Some(CommittedIntent { response: Some(response), .. }) => {
                    responses.push((call.id.clone(), response.clone()));
                }
                Some(CommittedIntent { cell, .. }) => external.push(self.repeat_after_crash(call, *cell)),
                None if mutation::is(Mutation::Intent) => external.extend(self.execute_again(call)),
                // Cannot happen: an entry and its intents are one commit. If it did, the call must not be repeated.
                None => responses.push((call.id.clone(), ToolResponse::outcome_unknown())),
            }
        }
        self.execute(external, responses).await
    }

    /// How a call whose outcome is unknown after a crash is executed, by its effect class.
    fn repeat_after_crash(&self, call: ToolCall, cell: MessageId) -> ExternalCall {
        let context = self.call_context(&call);
        let effect =
            self.offer().get(&call.name).map_or(EffectClass::Effect, |tool| tool.definition().effect);
        let unknown = || Work::Execute(Box::pin(std::future::ready(ToolResponse::outcome_unknown())));
        let work = match effect {
            EffectClass::Effect => unknown(),
            EffectClass::Checkable => Work::Check,
            EffectClass::Read | EffectClass::Idempotent => match self.offer().plan(&call, &context) {
                Plan::Execute(work) => Work::Execute(work),
                Plan::Answer(response) => Work::Execute(Box::pin(std::future::ready(response))),
                Plan::Record(_) => unknown(),
            },
        };
        ExternalCall { call, context, cell: Some(cell), work }
    }

    /// Executes a call as if it had never started. Only for tests with the mutation `Intent`.
    fn execute_again(&self, call: ToolCall) -> Option<ExternalCall> {
        let context = self.call_context(&call);
        match self.offer().plan(&call, &context) {
            Plan::Execute(work) => {
                Some(ExternalCall { call, context, cell: None, work: Work::Execute(work) })
            }
            Plan::Answer(_) | Plan::Record(_) => None,
        }
    }

    /// Executes calls concurrently and commits each response when it arrives; the last commit adds the results to the
    /// history. When the process stops, it waits for calls that may not be repeated and hands over the rest.
    pub(crate) async fn execute(
        &mut self,
        external: Vec<ExternalCall>,
        mut responses: Vec<(String, ToolResponse)>,
    ) -> Result<ControlFlow<DriveOutcome>, Interrupted> {
        if !(self.holder.trusted)() {
            return Err(Interrupted::Lost);
        }
        let mut open: Vec<OpenCall> = external.iter().map(|external| self.open_call(external)).collect();
        let cells: Vec<(String, MessageId)> = external
            .iter()
            .filter_map(|external| external.cell.map(|cell| (external.call.id.clone(), cell)))
            .collect();
        let patience = external.iter().filter_map(|external| self.offer().get(&external.call.name));
        let patience = patience.map(|tool| tool.stop_within()).max().unwrap_or_default();
        let mut running: FuturesUnordered<_> =
            external.into_iter().map(|external| self.run_call(external)).collect();
        let mut drained = std::pin::pin!(self.drained());
        let mut is_draining = false;
        loop {
            if is_draining && !open.is_empty() && open.iter().all(|call| call.may_repeat) {
                return Box::pin(self.hand_over()).await.map(ControlFlow::Break);
            }
            let back = tokio::select! {
                biased;
                () = self.holder.lost.cancelled() => return Err(Interrupted::Lost),
                () = self.registration.live.cancel.cancelled() => Err(RunStatus::Cancelled),
                () = tokio::time::sleep_until(self.watchdog) => Err(RunStatus::MaxDuration),
                back = running.next() => Ok(back),
                () = &mut drained, if !is_draining => {
                    is_draining = true;
                    continue;
                }
            };
            let back = match back {
                Ok(back) => back,
                Err(status) => {
                    self.stop_tools(running, patience, &mut responses, &cells).await?;
                    let ended = match status {
                        RunStatus::Cancelled => self.cancel_with(responses, &cells).await,
                        status => self.end_with(status, responses, &cells).await,
                    };
                    return ended.map(ControlFlow::Break);
                }
            };
            let mut step = self.step(Usage::default(), RunTransition::Continue { read: false, event: None });
            houston_faults::fault!("C10")?;
            if let Some((call, response)) = back {
                open.retain(|open| open.call != call);
                let response = self.store_large_result(&mut step, &call, response);
                answered(&mut step, &call, &response, &cells);
                responses.push((call, response));
                if !running.is_empty() {
                    self.commit(step).await?;
                    houston_faults::fault!("C11")?;
                    continue;
                }
            }
            return self.commit_results(step, responses).await;
        }
    }

    /// Commits the last response with the tool results, once all calls have returned.
    async fn commit_results(
        &mut self,
        mut step: Step,
        responses: Vec<(String, ToolResponse)>,
    ) -> Result<ControlFlow<DriveOutcome>, Interrupted> {
        self.close_turn(&mut step, responses);
        let status = self.ending_status(&step.transition);
        let done = self.commit(step).await?;
        houston_faults::fault!("C12")?;
        Ok(match status {
            Some(status) if !done.continued => ControlFlow::Break(DriveOutcome::Ended(status)),
            _ => ControlFlow::Continue(()),
        })
    }

    fn open_call(&self, external: &ExternalCall) -> OpenCall {
        let effect = self.offer().get(&external.call.name).map(|tool| tool.definition().effect);
        OpenCall {
            call: external.call.id.clone(),
            may_repeat: effect.is_some_and(|effect| effect != EffectClass::Effect),
        }
    }

    /// Asks the running calls to stop and waits for up to `patience`, the longest time one of the tools needs to stop; then
    /// drops the rest. Responses that arrive meanwhile are committed.
    async fn stop_tools(
        &mut self,
        mut running: FuturesUnordered<Running>,
        patience: Duration,
        responses: &mut Vec<(String, ToolResponse)>,
        cells: &[(String, MessageId)],
    ) -> Result<(), Interrupted> {
        // The watchdog stops tools through the same token as a cancel request.
        self.registration.live.cancel.cancel();
        if patience.is_zero() {
            return Ok(());
        }
        let until = tokio::time::Instant::now() + patience;
        loop {
            let back = tokio::select! {
                biased;
                () = self.holder.lost.cancelled() => return Err(Interrupted::Lost),
                back = tokio::time::timeout_at(until, running.next()) => back,
            };
            let Ok(Some((call, response))) = back else { return Ok(()) };
            let mut step = self.step(Usage::default(), RunTransition::Continue { read: false, event: None });
            let response = self.store_large_result(&mut step, &call, response);
            answered(&mut step, &call, &response, cells);
            responses.push((call, response));
            self.commit(step).await?;
        }
    }

    /// Runs one call, up to its time-out. A panic becomes a failed response.
    fn run_call(&self, external: ExternalCall) -> Running {
        let ExternalCall { call, context, work, .. } = external;
        let Some(tool) = self.offer().get(&call.name).cloned() else {
            return Box::pin(std::future::ready((call.id, ToolResponse::outcome_unknown())));
        };
        let timeout = tool.definition().timeout;
        Box::pin(async move {
            let work = async {
                match work {
                    Work::Execute(work) => work.await,
                    Work::Check => match tool.check(&call.input, &context).await {
                        CheckOutcome::Executed(response) => response,
                        CheckOutcome::Unknown => ToolResponse::outcome_unknown(),
                        CheckOutcome::NotExecuted => match tool.plan(&call.input, &context) {
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
            (call.id, response)
        })
    }
}

/// Adds the response of a call: for the thread, for streams, and for a worker that takes the run over.
fn answered(step: &mut Step, call: &str, response: &ToolResponse, cells: &[(String, MessageId)]) {
    if let Some((_, cell)) = cells.iter().find(|(id, _)| id == call) {
        add_tool_result(step, call, *cell, response);
    }
    step.responses.push((call.to_owned(), response.clone()));
}
