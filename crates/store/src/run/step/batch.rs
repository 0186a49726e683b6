//! Many steps in one commit, written set by set.
//!
//! What a step changes is decided before its row is locked ([`undisturbed`]), on the assumption that nothing has
//! arrived since the step before it. The statement checks this under the lock: it writes only the steps whose fence
//! holds, whose agentable is not awake, and whose end concerns no other agentable. It waits for no lock. The caller
//! commits every other step by itself ([`alone`](super::alone)): its changes are decided under the lock, and the same
//! statement writes them.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use houston_domain::id::UserId;
use houston_domain::step::Step;
use houston_domain::step::decision::undisturbed;
use houston_faults::mutation::{self, Mutation};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{CommittedStep, StepRows, statement};
use crate::batcher::Batch;
use crate::claim::Fence;
use crate::error::Result;
use crate::handle::RunStore;
use crate::sweep::Due;

/// The result of a committed step.
#[derive(Debug)]
pub(crate) struct Written {
    /// The position of the newest event before the step.
    pub(super) last_seq: i64,
    pub(super) at: DateTime<Utc>,
    pub(super) waiting: Vec<Due>,
}

impl RunStore {
    /// Commits a step together with others; `None` if it was not, and may be committed by itself.
    pub(super) async fn commit_in_batch(&self, fence: &Fence, step: &Step) -> Option<CommittedStep> {
        // These weaken steps that are committed by themselves.
        if self.is_unbatched || mutation::is(Mutation::Fence) || mutation::is(Mutation::RowLock) {
            return None;
        }
        if !step.large_results.is_empty() || !step.more_calls.is_empty() {
            return None;
        }
        let changes = undisturbed(step)?;
        let written = self.batchers.steps.submit(StepRows::of(fence, step, &changes).ok()?).await?;
        Some(CommittedStep::new(step, changes, None, written))
    }
}

/// How steps are written: see the module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Steps {
    /// See [`Fairness::max_running`](crate::Fairness::max_running).
    pub(crate) max_running: i32,
}

impl Batch for Steps {
    type Item = StepRows;
    type Done = Written;
    type Key = Uuid;
    /// One, because the larger a batch is, the less a step costs.
    const CONNECTIONS: usize = 1;

    fn keys(item: &StepRows) -> impl Iterator<Item = Uuid> {
        std::iter::once(item.agentable_id)
    }

    fn bytes(item: &StepRows) -> usize {
        item.bytes()
    }

    async fn write(
        &self,
        connection: &mut PgConnection,
        items: &mut [StepRows],
    ) -> Result<Vec<Option<Written>>> {
        items.iter_mut().enumerate().for_each(|(n, item)| item.n = n);
        if let (true, Some(first)) = (mutation::is(Mutation::BatchFence), items.first_mut()) {
            first.take_present_fence(&mut *connection).await?;
        }
        houston_faults::fault!("C25")?;
        let rows = if items.iter().any(StepRows::has_tools) {
            statement::write_with_tools(connection, items, self.max_running).await?
        } else {
            statement::write(connection, items, self.max_running).await?
        };
        houston_faults::fault!("C26")?;
        let mut written: Vec<Option<Written>> = items.iter().map(|_| None).collect();
        // Each step of the batch that ended a run of the same user freed one slot more.
        let mut freed: HashMap<UserId, i32> = HashMap::new();
        for row in rows {
            let Some(place) = usize::try_from(row.n).ok().and_then(|n| written.get_mut(n)) else { continue };
            let earlier = freed.entry(UserId(row.user_id)).or_default();
            let slots = row.slots.unwrap_or(0).saturating_add(*earlier);
            *earlier += 1;
            let mut waiting = Due::all(row.waiting, row.kinds);
            waiting.truncate(usize::try_from(slots).unwrap_or(0));
            *place = Some(Written { last_seq: row.last_seq, at: row.at, waiting });
        }
        Ok(written)
    }
}

impl StepRows {
    /// Makes a step that would be fenced expect the epoch and the token that the lock has now, and the lock have a holder.
    async fn take_present_fence(&mut self, connection: &mut PgConnection) -> Result<()> {
        let now = sqlx::query!(
            "-- store::step::batch::present_fence
            update houston.run_locks
               set holder = coalesce(holder, $2), run_token = coalesce(run_token, $2)
             where agentable_id = $1 and (epoch <> $3 or run_token is distinct from $2 or holder is null)
            returning epoch, run_token",
            self.agentable_id,
            self.token,
            self.fence
        )
        .fetch_optional(connection)
        .await?;
        if let Some(now) = now {
            (self.fence, self.token) = (now.epoch, now.run_token.unwrap_or_default());
        }
        Ok(())
    }
}
