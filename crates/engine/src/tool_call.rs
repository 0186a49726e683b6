//! Executing tools that act outside, each exactly as often as its class allows.

use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use houston_domain::id::MessageId;
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_domain::tool_call::{EffectClass, ToolCall, ToolErrorCode, ToolResponse};
use houston_faults::mutation::{self, Mutation};
use houston_store::history::KnownCall;
use houston_store::step::{Step, RunTransition};
use houston_tools::{CallContext, Happened, Plan};

use crate::context::RunDriver;
use crate::drive::DriveOutcome;
use crate::error::Interrupted;
use crate::turn::returned;

/// A call at work, on its way to its id and response.
type Running = BoxFuture<'static, (String, ToolResponse)>;

/// A call that acts outside.
pub(crate) struct External {
    pub(crate) call: ToolCall,
    pub(crate) context: CallContext,
    pub(crate) cell: Option<MessageId>,
    pub(crate) work: Work,
}

/// A call that is not back yet.
struct Open {
    call: String,
    /// Whether another worker may do it again.
    may_repeat: bool,
}

/// What is to be done for it.
pub(crate) enum Work {
    /// Execute it.
    Execute(BoxFuture<'static, ToolResponse>),
    /// A crash cut it off: ask the outside whether it happened, and execute it if not.
    Check,
}

impl RunDriver<'_> {
    pub(crate) fn call_context(&self, call: &ToolCall) -> CallContext {
        let claimed = &self.claimed;
        CallContext {
            agentable: claimed.fence.agentable,
            user: claimed.user,
            run: claimed.run,
            idempotency_key: call.idempotency_key(claimed.fence.agentable, claimed.run),
            now: self.now(),
            zone: self.zone,
            // A child: what a tool does with it stays with the tool.
            stop: self.entered.live.cancel.child_token(),
        }
    }

    /// Goes on with the open calls of a run that was taken over, each by its class.
    pub(crate) async fn resume_tools(&mut self, calls: Vec<ToolCall>) -> Result<ControlFlow<DriveOutcome>, Interrupted> {
        let run = self.claimed.run;
        let known = self.retrying(|store| Box::pin(async move { store.known_calls(run).await })).await?;
        let (mut responses, mut external) = (Vec::new(), Vec::new());
        for call in calls {
            match known.get(&call.id) {
                Some(KnownCall { response: Some(response), .. }) => {
                    responses.push((call.id.clone(), response.clone()));
                }
                Some(KnownCall { cell, .. }) => external.push(self.again(call, *cell)),
                None if mutation::is(Mutation::Intent) => external.extend(self.anew(call)),
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
        External { call, context, cell: Some(cell), work }
    }

    /// The call once more, as if it had never been made.
    fn anew(&self, call: ToolCall) -> Option<External> {
        let context = self.call_context(&call);
        match self.offer().plan(&call, &context) {
            Plan::Execute(work) => Some(External { call, context, cell: None, work: Work::Execute(work) }),
            Plan::Answer(_) | Plan::Record(_) => None,
        }
    }

    /// Executes calls side by side, commits each response as it comes, and with the last the results. Told to stop,
    /// it waits for what may not be repeated, and hands over the rest.
    pub(crate) async fn execute(
        &mut self,
        external: Vec<External>,
        mut responses: Vec<(String, ToolResponse)>,
    ) -> Result<ControlFlow<DriveOutcome>, Interrupted> {
        if !(self.holder.trusted)() {
            return Err(Interrupted::Lost);
        }
        let mut open: Vec<Open> = external.iter().map(|external| self.open(external)).collect();
        let cells: Vec<(String, MessageId)> = external
            .iter()
            .filter_map(|external| external.cell.map(|cell| (external.call.id.clone(), cell)))
            .collect();
        let patience = external.iter().filter_map(|external| self.offer().get(&external.call.name));
        let patience = patience.map(|tool| tool.stop_within()).max().unwrap_or_default();
        let mut running: FuturesUnordered<_> =
            external.into_iter().map(|external| self.perform(external)).collect();
        let mut drained = std::pin::pin!(self.drained());
        let mut leaves = false;
        loop {
            if leaves && !open.is_empty() && open.iter().all(|call| call.may_repeat) {
                return Box::pin(self.hand_over()).await.map(ControlFlow::Break);
            }
            let back = tokio::select! {
                biased;
                () = self.holder.lost.cancelled() => return Err(Interrupted::Lost),
                () = self.entered.live.cancel.cancelled() => Err(RunStatus::Cancelled),
                () = tokio::time::sleep_until(self.watchdog) => Err(RunStatus::MaxDuration),
                back = running.next() => Ok(back),
                () = &mut drained, if !leaves => {
                    leaves = true;
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
                let response = self.kept(&mut step, &call, response);
                answered(&mut step, &call, &response, &cells);
                responses.push((call, response));
                if !running.is_empty() {
                    self.commit(step).await?;
                    houston_faults::fault!("C11")?;
                    continue;
                }
            }
            return self.results(step, responses).await;
        }
    }

    /// All calls are back: their results enter the history.
    async fn results(
        &mut self,
        mut step: Step,
        responses: Vec<(String, ToolResponse)>,
    ) -> Result<ControlFlow<DriveOutcome>, Interrupted> {
        self.close_turn(&mut step, responses);
        let status = self.ending_status(&step.transition);
        let done = self.commit(step).await?;
        houston_faults::fault!("C12")?;
        Ok(match status {
            Some(status) if !done.went_on => ControlFlow::Break(DriveOutcome::Ended(status)),
            _ => ControlFlow::Continue(()),
        })
    }

    fn open(&self, external: &External) -> Open {
        let effect = self.offer().get(&external.call.name).map(|tool| tool.definition().effect);
        Open {
            call: external.call.id.clone(),
            may_repeat: effect.is_some_and(|effect| effect != EffectClass::Effect),
        }
    }

    /// Lets the calls that run end in their own way, for as long as the slowest of them may take, then drops what
    /// is left. What they answer is what happened.
    async fn stop_tools(
        &mut self,
        mut running: FuturesUnordered<Running>,
        patience: Duration,
        responses: &mut Vec<(String, ToolResponse)>,
        cells: &[(String, MessageId)],
    ) -> Result<(), Interrupted> {
        // The watchdog stops tools as well as whoever cancels.
        self.entered.live.cancel.cancel();
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
            let response = self.kept(&mut step, &call, response);
            answered(&mut step, &call, &response, cells);
            responses.push((call, response));
            self.commit(step).await?;
        }
    }

    /// One call, bounded by its time-out; a panic is a failure like any other.
    fn perform(&self, external: External) -> Running {
        let External { call, context, work, .. } = external;
        let Some(tool) = self.offer().get(&call.name).cloned() else {
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

/// Adds what a call answered: for the thread, for streams, and for whoever takes the run over.
fn answered(step: &mut Step, call: &str, response: &ToolResponse, cells: &[(String, MessageId)]) {
    if let Some((_, cell)) = cells.iter().find(|(id, _)| id == call) {
        returned(step, call, *cell, response);
    }
    step.responses.push((call.to_owned(), response.clone()));
}
