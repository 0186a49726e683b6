//! Inserting closed sessions with their search vectors, compressions and large results.

use houston_domain::conversation::{ClosedSession, ExportedCompression, ExportedResult};
use houston_domain::session::SearchText;
use sqlx::types::Json;
use uuid::Uuid;

use super::{Maker, ROWS, pieces};
use crate::error::Result;
use crate::statement::Statement as _;

/// Maximum bytes of searched text per statement: Postgres turns this much into vectors within half a second.
const SEARCHED_BYTES: usize = 1_000_000;
/// Maximum bytes of large results per statement.
const RESULTS_BYTES: usize = 4_000_000;

/// A closed session and the text that a search for it looks at.
struct Closed<'c> {
    session: &'c ClosedSession,
    searched: SearchText,
}

impl Maker<'_> {
    /// Inserts the closed sessions. The search vectors of a session with a pending summary are written with the
    /// summary.
    pub(super) async fn sessions(&mut self) -> Result<()> {
        let conversation = self.conversation;
        let ids = self.rising(conversation.sessions.len());
        let (mut closed, mut bytes, mut first) = (Vec::new(), 0, 0);
        for session in &conversation.sessions {
            let mut searched = SearchText::default();
            if !session.pending {
                let entries = &conversation.history[session.first_position - 1..session.last_position];
                entries.iter().for_each(|entry| searched.add(&entry.entry()));
            }
            bytes += searched.text().len();
            closed.push(Closed { session, searched });
            if bytes >= SEARCHED_BYTES || closed.len() == ROWS {
                self.closed(&closed, first, &ids).await?;
                first += closed.len();
                closed.clear();
                bytes = 0;
            }
        }
        self.closed(&closed, first, &ids).await
    }

    /// Inserts sessions; `before` is the number of those inserted earlier.
    async fn closed(&mut self, closed: &[Closed<'_>], before: usize, ids: &[Uuid]) -> Result<()> {
        if closed.is_empty() {
            return Ok(());
        }
        let position = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let sessions: Vec<&ClosedSession> = closed.iter().map(|closed| closed.session).collect();
        let searched: Vec<&str> = closed.iter().map(|closed| closed.searched.text()).collect();
        sqlx::query!(
            "-- store::conversation::make::past::sessions
            insert into houston.sessions (id, tenant_id, agentable_id, number, first_position, last_position, started_at,
                                          completed_at, completion_reason, summary, summarised_by, message_count,
                                          token_count, summary_due_at, search)
            select s.id, $2, $1, $3 + s.n, s.first, s.last, s.started_at, s.completed_at, s.reason, t.summary, s.source,
                   s.messages, s.tokens, case when s.pending then clock_timestamp() end,
                   case when not s.pending then houston.session_vector($1, t.summary, s.searched) end
              from rows from (unnest($4::uuid[]), unnest($5::text[]), jsonb_to_recordset($6) as (
                              first_position bigint, last_position bigint, started_at timestamptz,
                              completed_at timestamptz, completion_reason text, summary text, summary_source text,
                              pending boolean, message_count integer, token_count bigint))
                   with ordinality as s (id, searched, first, last, started_at, completed_at, reason, summary, source,
                                         pending, messages, tokens, n)
             cross join lateral (
                   select case when s.summary = '' then houston.session_extract($1, s.first - 1, s.last)
                               else s.summary end as summary) as t",
            self.agentable.0,
            self.tenant.0,
            position(before),
            &ids[before..before + closed.len()],
            &searched as &[&str],
            Json(&sessions) as Json<&Vec<&ClosedSession>>
        )
        .run(&mut *self.connection)
        .await
    }

    /// Inserts the compressions. None covers entries of the run that is created for the document.
    pub(super) async fn compressions(&mut self) -> Result<()> {
        let conversation = self.conversation;
        let ids = self.rising(conversation.compressions.len());
        let ends: Vec<usize> = conversation.sessions.iter().map(|session| session.last_position).collect();
        let position = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        // Where the session of a position begins.
        let begins = |through: usize| {
            let before = ends.partition_point(|end| *end < through).checked_sub(1);
            position(before.and_then(|before| ends.get(before).copied()).unwrap_or(0))
        };
        for ((_, compressions), ids) in pieces(&conversation.compressions).zip(ids.chunks(ROWS)) {
            let sessions: Vec<i64> = compressions.iter().map(|one| begins(one.through_position)).collect();
            sqlx::query!(
                "-- store::conversation::make::past::compressions
                insert into houston.compressions (id, tenant_id, agentable_id, run_id, run_position, session_position,
                                                  through_position, summary, reason, entries_before, entries_after,
                                                  tokens_before, tokens_after, model, cost, created_at)
                select c.id, $2, $1, $3, c.through + 1, c.session, c.through, c.summary, c.reason, c.entries_before,
                       c.entries_after, c.tokens_before, c.tokens_after, c.model, c.cost, c.created_at
                  from rows from (unnest($4::uuid[]), unnest($5::int8[]), jsonb_to_recordset($6) as (
                                  through_position bigint, summary text, reason text, entries_before integer,
                                  entries_after integer, tokens_before bigint, tokens_after bigint, model text,
                                  cost numeric, created_at timestamptz))
                       as c (id, session, through, summary, reason, entries_before, entries_after, tokens_before,
                             tokens_after, model, cost, created_at)",
                self.agentable.0,
                self.tenant.0,
                self.run.0,
                ids,
                &sessions,
                Json(compressions) as Json<&[ExportedCompression]>
            )
            .execute(&mut *self.connection)
            .await?;
        }
        Ok(())
    }

    /// Inserts the large results, under the ids that the texts name.
    pub(super) async fn results(&mut self) -> Result<()> {
        let mut rest = &self.conversation.results[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let fit = rest.iter().take_while(|result| {
                let fits = bytes == 0 || bytes + result.content.len() <= RESULTS_BYTES;
                bytes += result.content.len().max(1);
                fits
            });
            let (now, later) = rest.split_at(fit.count().min(ROWS));
            sqlx::query!(
                "-- store::conversation::make::past::results
                insert into houston.tool_results (id, tenant_id, agentable_id, run_id, call_id, tool, content, created_at)
                select right(r.id, 32)::uuid, $2, $1, $3, r.call_id, r.tool, r.content, r.created_at
                  from jsonb_to_recordset($4) as r (id text, call_id text, tool text, content text, created_at timestamptz)",
                self.agentable.0,
                self.tenant.0,
                self.run.0,
                Json(now) as Json<&[ExportedResult]>
            )
            .execute(&mut *self.connection)
            .await?;
            rest = later;
        }
        Ok(())
    }
}
