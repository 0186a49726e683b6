//! What posting a message by itself returns, not in a batch.

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentableId, MessageId, RunId, TenantId};
use uuid::Uuid;

use super::{Joined, Posted};
use crate::error::Result;
use crate::handle::Shared;
use crate::idempotency::Created;

/// What `houston.post_message` returns.
pub(crate) struct PostedRow {
    pub(super) message_id: Option<Uuid>,
    pub(super) run_id: Option<Uuid>,
    pub(super) seq: Option<i64>,
    pub(super) created_at: Option<DateTime<Utc>>,
    pub(super) replayed: bool,
    pub(super) key_reused: Option<bool>,
    pub(super) opened: Option<bool>,
    pub(super) ring: bool,
}

impl PostedRow {
    /// Whether nothing was stored: it was before, or its key is another message's.
    pub(crate) fn is_old(&self) -> bool {
        self.replayed || self.key_reused == Some(true)
    }
}

impl Shared {
    /// What was posted by itself, after its commit.
    pub(crate) async fn posted_alone(
        &self,
        tenant: TenantId,
        agentable: AgentableId,
        row: PostedRow,
    ) -> Result<Created<Posted>> {
        let (Some(id), Some(run), Some(seq), Some(created_at)) =
            (row.message_id, row.run_id, row.seq, row.created_at)
        else {
            return Ok(Created::KeyReused);
        };
        if row.key_reused == Some(true) {
            return Ok(Created::KeyReused);
        }
        let opened = row.opened.unwrap_or(false);
        let Joined { run, run_seq, answered_by } = if opened {
            Joined { run: RunId(run), run_seq: seq - 1, answered_by: RunId(run) }
        } else {
            self.posted_into(tenant, agentable, seq).await?
        };
        let needs_hint = row.ring;
        let posted = Posted {
            id: MessageId(id),
            run,
            answered_by,
            seq,
            run_seq,
            opened,
            created_at,
            needs_hint,
            is_started: false,
        };
        Ok(if row.replayed { Created::Replayed(posted) } else { Created::New(posted) })
    }
}
