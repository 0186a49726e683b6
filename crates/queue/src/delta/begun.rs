//! The first events of runs that began in this process, for streams that open soon after: they need not read Postgres.
//!
//! What is kept is the beginning of what Postgres has: the events of a run that this process has published, from the first one on. It
//! is forgotten once the process hears that others have written, when the run ends, and when it is cancelled, as all runs are whose
//! agentables are erased. What others have written without this process hearing of it comes late in a stream that opens: with the next
//! event, or the next poll of Postgres. So what is kept is believed for a short time only.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use houston_domain::event::{Committed, Event, Live, LiveItem};
use houston_domain::id::{AgentableId, RunId, TenantId};
use tokio::time::Instant;

/// The most bytes that are kept of a run, about.
const MAX_BYTES: usize = 16 * 1024;
/// How long after its beginning: whoever posts a message opens a stream at once. One that opens later reads Postgres.
const MAX_AGE: Duration = Duration::from_secs(2);

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

/// The runs of the process.
#[derive(Debug, Default)]
pub(super) struct BegunRuns(Mutex<Runs>);

#[derive(Debug, Default)]
struct Runs {
    by_agentable: HashMap<AgentableId, Kept>,
    /// When they began, the oldest first.
    begins: VecDeque<(Instant, AgentableId)>,
}

#[derive(Debug)]
struct Kept {
    of: BegunRun,
    began: Instant,
    items: Vec<Arc<LiveItem>>,
    /// The position of the event that follows.
    next: i64,
    bytes: usize,
}

impl Kept {
    fn is_old(&self) -> bool {
        self.began.elapsed() > MAX_AGE
    }
}

impl BegunRuns {
    /// Keeps the events of a run from now on.
    pub(super) fn keep(&self, agentable: AgentableId, of: BegunRun) {
        let (began, next) = (Instant::now(), of.first_seq);
        let mut runs = self.lock();
        runs.begins.push_back((began, agentable));
        runs.by_agentable.insert(agentable, Kept { of, began, items: Vec::new(), next, bytes: 0 });
        while let Some((began, agentable)) = runs.begins.pop_front_if(|(began, _)| began.elapsed() > MAX_AGE)
        {
            if runs.by_agentable.get(&agentable).is_some_and(|kept| kept.began == began) {
                runs.by_agentable.remove(&agentable);
            }
        }
    }

    /// Keeps what follows the events of its run; called with each item before it is delivered.
    pub(super) fn take(&self, item: &Arc<LiveItem>, weight: usize) {
        let events = match &item.live {
            Live::Committed(events) => &**events,
            Live::Nudge | Live::CancelRequested(_) => return self.forget(item.agentable),
            Live::Delta(_) | Live::Progress(_) | Live::TranscriptWanted => return,
        };
        let mut runs = self.lock();
        let Some(kept) = runs.by_agentable.get_mut(&item.agentable) else { return };
        kept.bytes += weight;
        let follows = |(next, event): (i64, &Committed)| {
            event.seq == next
                && event.run_id == kept.of.run
                && !matches!(event.event, Event::RunFinished { .. })
        };
        if kept.bytes > MAX_BYTES || kept.is_old() || !(kept.next..).zip(events).all(follows) {
            runs.by_agentable.remove(&item.agentable);
            return;
        }
        kept.next += i64::try_from(events.len()).unwrap_or(0);
        kept.items.push(Arc::clone(item));
    }

    /// The run is over, or others may have written.
    pub(super) fn forget(&self, agentable: AgentableId) {
        self.lock().by_agentable.remove(&agentable);
    }

    /// The events after a position, or all of the run, if they are kept.
    pub(super) fn events(
        &self,
        agentable: AgentableId,
        after: Option<i64>,
    ) -> Option<(BegunRun, Vec<Committed>)> {
        let runs = self.lock();
        let kept = runs.by_agentable.get(&agentable)?;
        let first = kept.of.first_seq - 1;
        let after = after.unwrap_or(first);
        if !(first..kept.next).contains(&after) || kept.items.is_empty() || kept.is_old() {
            return None;
        }
        let (of, items) = (kept.of.clone(), kept.items.clone());
        drop(runs);
        let committed = items.iter().flat_map(|item| match &item.live {
            Live::Committed(events) => &**events,
            _ => &[],
        });
        Some((of, committed.filter(|event| event.seq > after).cloned().collect()))
    }

    fn lock(&self) -> MutexGuard<'_, Runs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
