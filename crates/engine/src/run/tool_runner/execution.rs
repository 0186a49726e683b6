//! Executing the calls of a turn that act outside of Houston: concurrently, each response committed when it arrives.

use std::pin::{Pin, pin};
use std::time::Duration;

use futures_util::future::{Fuse, FusedFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use houston_domain::history::Entry;
use houston_domain::paused_call::PausedCall;
use houston_domain::step::Step;
use houston_domain::tool_call::{ToolCall, ToolResponse};
use houston_tools::{Acted, CodeCalls, Pause, Paused};

use super::call::{ExternalCall, Running};
use super::codes::Codes;
use super::pausing::Pausing;
use super::{Cells, ExternalCalls, Held, Responses, ToolRunner, add_response, cell_of};
use crate::error::Interrupted;
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

impl ToolRunner {
    /// Executes calls concurrently and commits each response when it arrives, except the last. When the process stops, it
    /// waits for calls that may not be repeated and hands over the rest. `history`: that of the session.
    ///
    /// # Errors
    /// As [`Journal::commit`].
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
        let mut open: Vec<OpenCall> = external.iter().map(|external| self.open_call(external)).collect();
        let mut cells: Cells = external
            .iter()
            .filter_map(|external| external.cell.map(|cell| (external.call.id.clone(), cell)))
            .collect();
        // Boxed: most turns run no code.
        let mut codes = Box::new(Codes::of(&external, history));
        let mut running: FuturesUnordered<Running> =
            external.into_iter().map(|external| self.start_call(journal, external, codes.sender())).collect();
        let mut drained = pin!(journal.signals.drained().fuse());
        loop {
            let returned = match next(journal, &mut running, &open, &mut codes, drained.as_mut()).await? {
                Happened::Returned(returned) => returned,
                Happened::Asked(asked) => {
                    let calls = (&mut running, &mut open, &mut cells);
                    Box::pin(self.start_calls(journal, asked, &mut codes, calls)).await?;
                    continue;
                }
                Happened::Stopped(Stop::Drained) => return Ok(ToolsOutcome::HandOver),
                Happened::Stopped(stop) => {
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
            open.retain(|open| open.call != returned.0.id);
            let going = match self.pause_returned(journal, &mut step, returned, &mut codes, &cells).await? {
                Ok(going) => going,
                Err(returned) => {
                    let calls = (&mut *codes, &mut responses, &mut cells);
                    if !self.add_returned(journal, &mut step, returned, calls) {
                        continue;
                    }
                    None
                }
            };
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
                running.push(going.run(self.offer(), None));
            }
        }
    }

    /// Adds to a step that a call has paused, if it has. Returns the call if it goes on once that is committed; an error is the
    /// response of a call that has ended.
    async fn pause_returned<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        step: &mut Step,
        (call, acted): (ToolCall, Acted),
        codes: &mut Codes<'_>,
        cells: &Cells,
    ) -> Result<Result<Option<ExternalCall>, (ToolCall, ToolResponse)>, Interrupted> {
        let pause: Pause = match acted {
            Acted::Done(response) => return Ok(Err((call, response))),
            Acted::Paused(pause) => pause,
        };
        let cell = cell_of(cells, &call.id);
        Ok(match (self.pause(journal, step, &call, cell, pause), cell) {
            (Pausing::Failed(response), _) => Err((call, response)),
            (Pausing::Now(paused), _) => {
                let paused = Paused { state: paused.state, answer: None };
                Ok(Some(self.going_on(journal, call, cell, paused, None)))
            }
            (Pausing::Later(paused), Some(cell)) => {
                let seen = self.seen_messages(journal, &paused).await?;
                codes.pause(call.id, paused, cell, seen);
                Ok(None)
            }
            // Only the reply to the user has no cell, and it does not pause.
            (Pausing::Later(_), None) => Err((call, ToolResponse::outcome_unknown())),
        })
    }

    /// Adds the response of a call to a step. Returns whether there is something to commit: code that waits for a person has no
    /// response yet.
    fn add_returned<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        step: &mut Step,
        (call, response): (ToolCall, ToolResponse),
        (codes, responses, cells): (&mut Codes<'_>, &mut Responses, &mut Cells),
    ) -> bool {
        if codes.made(&call.id) {
            self.add_of_code(journal, step, &call, response, codes, cells);
            return true;
        }
        let is_short = |count| self.made_more(&call.id, count);
        let Some(response) = codes.finished(&call.id, response, is_short) else { return false };
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
                Ok(Some((call, Acted::Done(response)))) => (call, response),
                // What has begun is ended by the tool itself: it was asked to stop.
                Ok(Some((_, Acted::Paused(_)))) => continue,
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
    Returned(Option<(ToolCall, Acted)>),
    /// Code has made calls.
    Asked(CodeCalls),
    Stopped(Stop),
}

/// Waits for what happens next. [`Stop::Drained`] only while all open calls may be repeated.
async fn next<S: RunStorage>(
    journal: &Journal<'_, S>,
    running: &mut FuturesUnordered<Running>,
    open: &[OpenCall],
    codes: &mut Codes<'_>,
    mut drained: Pin<&mut Fuse<impl Future<Output = ()>>>,
) -> Result<Happened, Interrupted> {
    let may_hand_over = !open.is_empty() && open.iter().all(|call| call.may_repeat);
    let signals = &journal.signals;
    loop {
        if drained.is_terminated() && may_hand_over {
            return Ok(Happened::Stopped(Stop::Drained));
        }
        return tokio::select! {
            biased;
            () = signals.lost() => Err(Interrupted::Lost),
            () = signals.cancel().cancelled() => Ok(Happened::Stopped(Stop::Cancelled)),
            () = tokio::time::sleep_until(signals.watchdog) => Ok(Happened::Stopped(Stop::OutOfTime)),
            returned = running.next() => Ok(Happened::Returned(returned)),
            asked = codes.next() => Ok(Happened::Asked(asked)),
            () = &mut drained => continue,
        };
    }
}
