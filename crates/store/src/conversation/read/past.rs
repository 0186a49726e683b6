//! Reading closed sessions, compressions, and the large results that the document's texts name.

use houston_domain::compression::CompressionReason;
use houston_domain::conversation::{
    ClosedSession, Conversation, ExportedCompression, ExportedResult, HistoryEntry, SummarySource,
};
use houston_domain::id::ResultId;
use houston_domain::session::CompletionReason;
use uuid::Uuid;

use super::{PAGE, PositionedEntry, Reader};
use crate::error::Result;

/// Large results per page: each has at most 2 MiB.
const RESULTS_PAGE: usize = 8;

/// Maps positions in the database to those in the document, which has no gaps.
pub(super) struct Positions(Vec<i64>);

impl Positions {
    pub(super) fn of(history: &[PositionedEntry]) -> Self {
        Self(history.iter().map(|entry| entry.position).collect())
    }

    /// How many entries of the document are at this position or before it.
    pub(super) fn through(&self, position: i64) -> usize {
        self.0.partition_point(|entry| *entry <= position)
    }
}

impl Reader<'_> {
    /// The closed sessions. With `until`, those that were closed when that entry was the last one: its own session
    /// was open.
    pub(super) async fn sessions(
        &mut self,
        (until, session_position): (Option<i64>, i64),
        positions: &Positions,
        history: &[HistoryEntry],
    ) -> Result<Vec<ClosedSession>> {
        let mut sessions: Vec<ClosedSession> = Vec::new();
        let mut after = 0;
        loop {
            let rows = sqlx::query!(
                r#"-- store::conversation::read::past::sessions
                select number, last_position, started_at, completed_at, completion_reason, summary, summarised_by,
                       summary_due_at is not null as "pending!", message_count, token_count
                  from houston.sessions
                 where tenant_id = $1 and agentable_id = $2 and number > $3 and ($4::bigint is null or last_position < $4)
                 order by number limit $5"#,
                self.tenant.0,
                self.agentable.id.0,
                after,
                until,
                PAGE
            )
            .fetch_all(&mut *self.connection)
            .await?;
            let is_last = rows.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
            for row in rows {
                self.count(row.summary.len())?;
                after = row.number;
                let before = sessions.last();
                // Entries that were closed before sessions existed belong to the first one.
                let first_position = before.map_or(0, |before| before.last_position) + 1;
                let last_position = positions.through(row.last_position);
                if last_position < first_position {
                    // All its entries were rolled back.
                    continue;
                }
                // An import may contain sessions in any order of time; a document lists them in order.
                let started_at =
                    before.map_or(row.started_at, |before| row.started_at.max(before.completed_at));
                let source =
                    if row.summarised_by == "model" { SummarySource::Model } else { SummarySource::Extract };
                sessions.push(ClosedSession {
                    first_position,
                    last_position,
                    completion_reason: CompletionReason::from_name(&row.completion_reason),
                    summary: row.summary,
                    summary_source: if row.pending { SummarySource::Extract } else { source },
                    pending: row.pending,
                    message_count: row.message_count.and_then(|count| u32::try_from(count).ok()),
                    token_count: row.token_count.and_then(|count| u64::try_from(count).ok()),
                    started_at,
                    completed_at: row.completed_at.max(started_at),
                });
            }
            if is_last {
                break;
            }
        }
        let closed = positions.through(session_position);
        if sessions.is_empty() && closed > 0 && until.is_none() {
            sessions.push(ClosedSession::pending(1, &history[..closed]));
        }
        Ok(sessions)
    }

    /// The compressions whose whole range is part of the document and was not rolled back.
    pub(super) async fn compressions(&mut self, positions: &Positions) -> Result<Vec<ExportedCompression>> {
        let last = positions.0.last().copied().unwrap_or(0);
        let mut compressions: Vec<ExportedCompression> = Vec::new();
        let mut after = Uuid::nil();
        loop {
            let rows = sqlx::query!(
                "-- store::conversation::read::past::compressions
                select c.id, c.through_position, c.summary, c.reason, c.entries_before, c.entries_after, c.tokens_before,
                       c.tokens_after, c.model, c.cost, c.created_at
                  from houston.compressions c
                 where c.tenant_id = $1 and c.agentable_id = $2 and c.id > $3 and c.through_position <= $4
                   and (c.through_position < c.run_position
                        or not exists (select from houston.history h where h.agentable_id = $2
                                          and h.position = c.run_position and h.rolled_back))
                 order by c.id limit $5",
                self.tenant.0,
                self.agentable.id.0,
                after,
                last,
                PAGE
            )
            .fetch_all(&mut *self.connection)
            .await?;
            let is_last = rows.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
            for row in rows {
                self.count(row.summary.len())?;
                after = row.id;
                let through_position = positions.through(row.through_position);
                if through_position == 0 {
                    continue;
                }
                let entries = |count: i32| u32::try_from(count).unwrap_or(0);
                let tokens = |count: i64| u64::try_from(count).unwrap_or(0);
                compressions.push(ExportedCompression {
                    through_position,
                    summary: row.summary,
                    reason: CompressionReason::from_name(&row.reason),
                    entries_before: entries(row.entries_before),
                    entries_after: entries(row.entries_after),
                    tokens_before: tokens(row.tokens_before),
                    tokens_after: tokens(row.tokens_after),
                    model: row.model,
                    cost: row.cost,
                    created_at: row.created_at,
                });
            }
            if is_last {
                return Ok(compressions);
            }
        }
    }

    /// The large results that the texts name and the agentable may read: its own, its tasks', and those of the
    /// agentable that created it.
    pub(super) async fn results(&mut self, conversation: &Conversation) -> Result<Vec<ExportedResult>> {
        let named: Vec<Uuid> = conversation.referenced_results().into_iter().map(|id| id.0).collect();
        let mut results = Vec::new();
        for ids in named.chunks(RESULTS_PAGE) {
            let rows = sqlx::query!(
                r#"-- store::conversation::read::past::results
                select r.id as "id!", r.call_id as "call_id!", r.tool as "tool!", r.content as "content!",
                       r.created_at as "created_at!"
                  from unnest($3::uuid[]) as named (id)
                 cross join lateral (
                       select 1 as place, o.* from houston.tool_results o
                        where o.tenant_id = $1 and o.agentable_id = $2 and o.id = named.id
                        union all
                       select 2, b.* from houston.tool_results b
                        where b.tenant_id = $1 and b.parent_id = $2 and b.id = named.id
                        union all
                       select 3, p.* from houston.tool_results p
                        where p.tenant_id = $1 and p.id = named.id
                          and p.agentable_id = (select a.parent_id from houston.agentables a where a.id = $2)
                        order by place limit 1) as r
                 order by r.id"#,
                self.tenant.0,
                self.agentable.id.0,
                ids
            )
            .fetch_all(&mut *self.connection)
            .await?;
            for row in rows {
                self.count(row.content.len())?;
                results.push(ExportedResult {
                    id: ResultId(row.id),
                    call_id: row.call_id,
                    tool: row.tool,
                    content: row.content,
                    created_at: row.created_at,
                });
            }
        }
        Ok(results)
    }
}
