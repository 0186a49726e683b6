//! What the thread shows of tool calls: cells, messages that say what is called and what became of it; and reports of calls about
//! how far they are, on their way to open streams, as fast as people can read.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use houston_domain::agent::SEND_MESSAGE;
use houston_domain::event::{CallProgress, Event, Live};
use houston_domain::id::{AgentableId, MessageId};
use houston_domain::message::{MessageType, Source};
use houston_domain::step::{NewMessage, Step};
use houston_domain::tool_call::{ToolCall, ToolResponse};
use houston_queue::DeltaBus;
use houston_tools::{Progress, Report, Reports};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::path::Plans;
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;

/// The least time between two reports of a call that are passed on.
const APART: Duration = Duration::from_millis(250);

/// Call ids with the thread messages (cells) that show them.
pub(crate) type Cells = Vec<(String, MessageId)>;

/// Adds a thread message (cell) for every call without one except `send_message`. Returns those of all calls.
pub(super) fn add_cells<S: RunStorage>(
    journal: &Journal<'_, S>,
    step: &mut Step,
    plans: &mut Plans,
) -> Cells {
    let mut cells = std::mem::take(&mut plans.cells);
    for call in plans.calls.iter().filter(|call| call.name != SEND_MESSAGE) {
        if cell_of(&cells, &call.id).is_some() {
            continue;
        }
        let cell: MessageId = journal.new_id();
        let waits = plans.held.iter().any(|held| held.call.id == call.id);
        let of_call = plans.decided_by.iter().position(|(of, _)| *of == call.id);
        let decided_by = of_call.map(|at| Box::new(plans.decided_by.swap_remove(at).1));
        let status = if waits { "waiting" } else { "started" };
        step.messages.push(NewMessage {
            id: cell,
            event: step.events.len(),
            source: Source::Agent,
            message_type: MessageType::Tool,
            content: title(&call.name),
            metadata: json!({"tool": call.name, "call_id": call.id, "status": status}),
        });
        step.events.push(Event::ToolCalled {
            call_id: call.id.clone(),
            name: call.name.clone(),
            input: call.input.clone(),
            message_id: cell,
            decided_by,
        });
        cells.push((call.id.clone(), cell));
    }
    cells
}

/// Adds the result of a call: its event, and the new status of its cell.
pub(crate) fn add_tool_result(step: &mut Step, call: &str, cell: MessageId, response: &ToolResponse) {
    step.events.push(Event::ToolReturned {
        call_id: call.to_owned(),
        content: response.text().to_owned(),
        is_error: !response.is_success(),
        code: response.code(),
        message_id: cell,
    });
    let became = match response.code() {
        None => json!({"status": "done"}),
        Some(code) => json!({"status": "failed", "code": code}),
    };
    match step.messages.iter_mut().find(|message| message.id == cell).map(|message| &mut message.metadata) {
        Some(Value::Object(metadata)) => metadata.extend(became.as_object().cloned().unwrap_or_default()),
        _ => step.cells.push((cell, became)),
    }
}

/// Adds the response of a call whose turn is still open: for the thread, for streams, and for a worker that takes the run
/// over.
pub(super) fn add_response(step: &mut Step, call: &str, response: &ToolResponse, cells: &Cells) {
    if let Some(cell) = cell_of(cells, call) {
        add_tool_result(step, call, cell, response);
    }
    step.responses.push((call.to_owned(), response.clone()));
}

pub(super) fn cell_of(cells: &Cells, call: &str) -> Option<MessageId> {
    cells.iter().find(|(id, _)| id == call).map(|(_, cell)| *cell)
}

/// The name of the tool that a call of the turn calls.
pub(super) fn name_of<'c>(calls: &'c [ToolCall], call: &str) -> &'c str {
    calls.iter().find(|other| other.id == call).map_or("", |call| call.name.as_str())
}

/// The content of a tool's cell: the tool's name as words, such as "Create note".
pub(super) fn title(name: &str) -> String {
    let words = name.replace('_', " ");
    let mut chars = words.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// The reports of one call.
struct OfCall {
    bus: DeltaBus,
    agentable: AgentableId,
    /// The thread message that shows the call, once it runs.
    cell: OnceLock<MessageId>,
    /// When the last report was passed on.
    last: Mutex<Option<Instant>>,
}

/// The handle of a call.
pub(super) fn progress_of<S: RunStorage>(journal: &Journal<'_, S>) -> Progress {
    let (bus, agentable) = (journal.services.bus.clone(), journal.agentable());
    Progress::to(Arc::new(OfCall { bus, agentable, cell: OnceLock::new(), last: Mutex::default() }))
}

impl Reports for OfCall {
    fn report(&self, report: Report) {
        let Some(cell) = self.cell.get() else { return };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let Report { progress, total, message } = report;
        let progress = CallProgress { message_id: *cell, progress, total, message };
        self.bus.publish(self.agentable, Live::Progress(progress));
    }

    fn is_due(&self) -> bool {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        self.cell.get().is_some() && last.is_none_or(|last| last.elapsed() >= APART)
    }

    fn runs_as(&self, cell: MessageId) {
        // The second time is after a pause, with the same cell.
        let _ = self.cell.set(cell);
    }
}
