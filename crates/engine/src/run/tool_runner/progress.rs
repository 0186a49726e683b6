//! Reports of calls about how far they are: on their way to open streams, as fast as people can read.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use houston_domain::event::{CallProgress, Live};
use houston_domain::id::{AgentableId, MessageId};
use houston_queue::DeltaBus;
use houston_tools::{Progress, Report, Reports};
use tokio::time::Instant;

use crate::run::journal::Journal;
use crate::run::storage::RunStorage;

/// The least time between two reports of a call that are passed on.
const APART: Duration = Duration::from_millis(250);

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
pub(super) fn of_call<S: RunStorage>(journal: &Journal<'_, S>) -> Progress {
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
