//! What lies behind a conversation: its closed sessions, its compressions, and long results that its texts name.

use houston_domain::compression::Reason;
use houston_domain::conversation::{
    ClosedSession, Conversation, HistoryEntry, KeptCompression, KeptResult, SummarySource,
};
use houston_domain::id::ResultId;
use houston_domain::session::CompletionReason;
use uuid::Uuid;

use super::{PAGE, Placed, Reader};
use crate::error::Result;

/// Long results of one page: each has 2 MiB at most.
const RESULTS_PAGE: usize = 8;

/// Positions of the database as those of a document, in which nothing is missing.
pub(super) struct Places(Vec<i64>);

impl Places {
    pub(super) fn of(history: &[Placed]) -> Self {
        Self(history.iter().map(|placed| placed.position).collect())
    }

    /// How many entries of the document stand there or before.
    pub(super) fn through(&self, position: i64) -> usize {
        self.0.partition_point(|placed| *placed <= position)
    }
}

impl Reader<'_> {
    /// The sessions that are closed; those that were, when the entry at `until` was the last one: the one it belongs to
    /// was open.
    pub(super) async fn sessions(
        &mut self,
        (until, session_position): (Option<i64>, i64),
        places: &Places,
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
                // What was closed before there were sessions belongs to the first one.
                let first_position = before.map_or(0, |before| before.last_position) + 1;
                let last_position = places.through(row.last_position);
                if last_position < first_position {
                    // All of it was rolled back.
                    continue;
                }
                // What was imported may have been written in any order; sessions of a document are in order.
                let started_at =
                    before.map_or(row.started_at, |before| row.started_at.max(before.completed_at));
                let source =
                    if row.summarised_by == "model" { SummarySource::Model } else { SummarySource::Extract };
                sessions.push(ClosedSession {
                    first_position,
                    last_position,
                    completion_reason: CompletionReason::named(&row.completion_reason),
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
        let closed = places.through(session_position);
        if sessions.is_empty() && closed > 0 && until.is_none() {
            sessions.push(ClosedSession::unsummarised(1, &history[..closed]));
        }
        Ok(sessions)
    }

    /// Those of which all that they stand for is part of the document, and was not rolled back.
    pub(super) async fn compressions(&mut self, places: &Places) -> Result<Vec<KeptCompression>> {
        let last = places.0.last().copied().unwrap_or(0);
        let mut compressions: Vec<KeptCompression> = Vec::new();
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
                let through_position = places.through(row.through_position);
                if through_position == 0 {
                    continue;
                }
                let entries = |count: i32| u32::try_from(count).unwrap_or(0);
                let tokens = |count: i64| u64::try_from(count).unwrap_or(0);
                compressions.push(KeptCompression {
                    through_position,
                    summary: row.summary,
                    reason: Reason::named(&row.reason),
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

    /// Those that its texts name and that it may read: its own, its sub-agents', and that of the one it works for.
    pub(super) async fn results(&mut self, conversation: &Conversation) -> Result<Vec<KeptResult>> {
        let named: Vec<Uuid> = conversation.named_results().into_iter().map(|id| id.0).collect();
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
                results.push(KeptResult {
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
