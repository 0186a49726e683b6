//! Calls of tools, as observers see them.

use houston_domain::tool_call::{ToolCall, ToolResponse};
use houston_tools::{Acted, CodeCalls};
use tokio::sync::mpsc;
use tracing::{Instrument as _, Span};

use super::ToolRunner;
use super::call::{ExternalCall, Running};
use crate::observer::Observed;
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;

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
