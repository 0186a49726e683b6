//! Executing the calls of a turn that act outside of Houston: concurrently, each response committed when it arrives.

use std::pin::{Pin, pin};
use std::time::Duration;

use futures_util::future::{Fuse, FusedFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use houston_domain::step::Step;
use houston_domain::tool_call::{ToolCall, ToolResponse};

use super::call::{ExternalCall, Running};
use super::{Cells, ExternalCalls, Responses, ToolRunner, add_response};
use crate::error::Interrupted;
use crate::run::journal::Journal;
use crate::run::signals::Stop;
use crate::run::storage::RunStorage;

/// How the calls of a turn ended.
#[expect(clippy::large_enum_variant, reason = "it exists once per turn, and a box would be an allocation")]
pub(crate) enum ToolsOutcome {
    /// All calls have returned. `step` has the last response and is not committed yet.
    Returned { step: Step, responses: Responses },
    /// The process stops, and the calls that are still open may be repeated by another worker.
    HandOver,
    /// The calls were stopped. The responses that arrived are committed; `cells` are those of all calls.
    Stopped { stop: Stop, responses: Responses, cells: Cells },
}

/// A call without a response yet.
struct OpenCall {
    call: String,
    may_repeat: bool,
}

impl ToolRunner {
    /// Executes calls concurrently and commits each response when it arrives, except the last. When the process stops, it
    /// waits for calls that may not be repeated and hands over the rest.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    pub(crate) async fn execute<S: RunStorage>(
        &mut self,
        journal: &mut Journal<'_, S>,
        ExternalCalls(external): ExternalCalls,
        mut responses: Responses,
    ) -> Result<ToolsOutcome, Interrupted> {
        if journal.signals.is_lost() {
            return Err(Interrupted::Lost);
        }
        let mut open: Vec<OpenCall> = external.iter().map(|external| self.open_call(external)).collect();
        let cells: Cells = external
            .iter()
            .filter_map(|external| external.cell.map(|cell| (external.call.id.clone(), cell)))
            .collect();
        let patience = external.iter().filter_map(|external| self.offer().get(&external.call.name));
        let patience = patience.map(|tool| tool.stop_within()).max().unwrap_or_default();
        let mut running: FuturesUnordered<Running> =
            external.into_iter().map(|external| external.run(self.offer())).collect();
        let mut drained = pin!(journal.signals.drained().fuse());
        loop {
            let returned = match next(journal, &mut running, &open, drained.as_mut()).await? {
                Ok(returned) => returned,
                Err(Stop::Drained) => return Ok(ToolsOutcome::HandOver),
                Err(stop) => {
                    Box::pin(self.stop(journal, running, patience, &mut responses, &cells)).await?;
                    return Ok(ToolsOutcome::Stopped { stop, responses, cells });
                }
            };
            let mut step = journal.next_step();
            houston_faults::fault!("C10")?;
            let Some((call, response)) = returned else {
                return Ok(ToolsOutcome::Returned { step, responses });
            };
            open.retain(|open| open.call != call.id);
            let response = self.take(journal, &mut step, &call, response, &cells);
            responses.push((call.id, response));
            if running.is_empty() {
                return Ok(ToolsOutcome::Returned { step, responses });
            }
            // Boxed: the other calls may take minutes.
            Box::pin(journal.commit(step)).await?;
            houston_faults::fault!("C11")?;
        }
    }

    fn open_call(&self, external: &ExternalCall) -> OpenCall {
        OpenCall { call: external.call.id.clone(), may_repeat: external.may_repeat(self.offer()) }
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
            let Ok(Some((call, response))) = returned else { return Ok(()) };
            let mut step = journal.next_step();
            let response = self.take(journal, &mut step, &call, response, cells);
            responses.push((call.id, response));
            journal.commit(step).await?;
        }
    }
}

/// Waits for the next response, `None` if no call is running. [`Stop::Drained`] only while all open calls may be repeated.
async fn next<S: RunStorage>(
    journal: &Journal<'_, S>,
    running: &mut FuturesUnordered<Running>,
    open: &[OpenCall],
    mut drained: Pin<&mut Fuse<impl Future<Output = ()>>>,
) -> Result<Result<Option<(ToolCall, ToolResponse)>, Stop>, Interrupted> {
    let may_hand_over = !open.is_empty() && open.iter().all(|call| call.may_repeat);
    let signals = &journal.signals;
    loop {
        if drained.is_terminated() && may_hand_over {
            return Ok(Err(Stop::Drained));
        }
        return tokio::select! {
            biased;
            () = signals.lost() => Err(Interrupted::Lost),
            () = signals.cancel().cancelled() => Ok(Err(Stop::Cancelled)),
            () = tokio::time::sleep_until(signals.watchdog) => Ok(Err(Stop::OutOfTime)),
            returned = running.next() => Ok(Ok(returned)),
            () = &mut drained => continue,
        };
    }
}
