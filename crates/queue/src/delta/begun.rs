//! The first events of runs that began in this process, for streams that open soon after: they need not read Postgres.
//!
//! What is kept is a part of what Postgres has: all events of a run that this process has committed, from its first one on, without
//! gaps. Nothing is kept any more when others have written between them, when the run ends, and when it is cancelled, as all runs
//! are whose agentables are erased.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use houston_domain::event::{Committed, Event, Live, LiveItem};
use houston_domain::id::{AgentableId, RunId, TenantId};

/// The most bytes that are kept of a run, about: a stream that opens later reads Postgres.
const MAX_BYTES: usize = 16 * 1024;

/// A run, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BegunRun {
    /// The tenant of the agentable.
    pub tenant: TenantId,
    /// The agentable's kind.
    pub kind: String,
    /// The run's id.
    pub run: RunId,
    /// The position of its first event.
    pub first_seq: i64,
}

/// The runs, by agentable.
#[derive(Debug, Default)]
pub(super) struct BegunRuns(Mutex<HashMap<AgentableId, Kept>>);

#[derive(Debug)]
struct Kept {
    of: BegunRun,
    items: Vec<Arc<LiveItem>>,
    /// The position of the event that follows.
    next: i64,
    bytes: usize,
}

/// Keeps the events of a run until it is dropped.
#[derive(Debug)]
pub struct KeptEvents {
    all: Arc<BegunRuns>,
    agentable: AgentableId,
    run: RunId,
}

impl Drop for KeptEvents {
    fn drop(&mut self) {
        let mut runs = self.all.lock();
        if runs.get(&self.agentable).is_some_and(|kept| kept.of.run == self.run) {
            runs.remove(&self.agentable);
        }
    }
}

impl BegunRuns {
    /// Keeps the events of a run from now on.
    pub(super) fn keep(self: &Arc<Self>, agentable: AgentableId, of: BegunRun) -> KeptEvents {
        let (run, next) = (of.run, of.first_seq);
        self.lock().insert(agentable, Kept { of, items: Vec::new(), next, bytes: 0 });
        KeptEvents { all: Arc::clone(self), agentable, run }
    }

    /// Keeps what follows the events of its run; called with each item before it is delivered.
    pub(super) fn take(&self, item: &Arc<LiveItem>, weight: usize) {
        let events = match &item.live {
            Live::Committed(events) => &**events,
            Live::Nudge | Live::CancelRequested(_) => &[],
            Live::Delta(_) | Live::Progress(_) | Live::TranscriptWanted => return,
        };
        let mut runs = self.lock();
        let Some(kept) = runs.get_mut(&item.agentable) else { return };
        kept.bytes += weight;
        let follows = |(next, event): (i64, &Committed)| {
            event.seq == next
                && event.run_id == kept.of.run
                && !matches!(event.event, Event::RunFinished { .. })
        };
        if events.is_empty() || kept.bytes > MAX_BYTES || !(kept.next..).zip(events).all(follows) {
            runs.remove(&item.agentable);
            return;
        }
        kept.next += i64::try_from(events.len()).unwrap_or(0);
        kept.items.push(Arc::clone(item));
    }

    /// The events after a position, or all of the run, if they are kept.
    pub(super) fn events(
        &self,
        agentable: AgentableId,
        after: Option<i64>,
    ) -> Option<(BegunRun, Vec<Committed>)> {
        let runs = self.lock();
        let kept = runs.get(&agentable)?;
        let after = after.unwrap_or(kept.of.first_seq - 1);
        if !(kept.of.first_seq - 1..kept.next).contains(&after) || kept.items.is_empty() {
            return None;
        }
        let committed = kept.items.iter().flat_map(|item| match &item.live {
            Live::Committed(events) => &**events,
            _ => &[],
        });
        Some((kept.of.clone(), committed.filter(|event| event.seq > after).cloned().collect()))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AgentableId, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
