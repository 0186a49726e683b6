//! Inserting closed sessions with their search vectors, compressions and large results.

use chrono::{DateTime, Utc};
use houston_domain::conversation::{ClosedSession, Conversation, ExportedCompression, ExportedResult};
use houston_domain::id::Ids;
use houston_domain::session::SearchText;
use rust_decimal::Decimal;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Owner, ROWS, pieces, rising};
use crate::error::Result;

/// Maximum bytes of searched text per statement: Postgres turns this much into vectors within half a second.
const SEARCHED_BYTES: usize = 1_000_000;
/// Maximum bytes of large results per statement.
const RESULTS_BYTES: usize = 4_000_000;

/// A closed session and the text that a search for it looks at.
struct Closed<'c> {
    session: &'c ClosedSession,
    searched: SearchText,
}

impl Owner {
    /// Inserts the closed sessions. The search vectors of a session with a pending summary are written with the
    /// summary.
    pub(super) async fn sessions(
        &self,
        connection: &mut PgConnection,
        conversation: &Conversation,
        ids: &Ids,
    ) -> Result<()> {
        let ids = rising(ids, self.agentable, conversation.sessions.len());
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
                self.closed(connection, &closed, first, &ids).await?;
                first += closed.len();
                closed.clear();
                bytes = 0;
            }
        }
        self.closed(connection, &closed, first, &ids).await
    }

    /// Inserts sessions; `before` is the number of those inserted earlier.
    async fn closed(
        &self,
        connection: &mut PgConnection,
        closed: &[Closed<'_>],
        before: usize,
        ids: &[Uuid],
    ) -> Result<()> {
        if closed.is_empty() {
            return Ok(());
        }
        let position = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let sessions = || closed.iter().map(|closed| closed.session);
        let firsts: Vec<i64> = sessions().map(|session| position(session.first_position)).collect();
        let lasts: Vec<i64> = sessions().map(|session| position(session.last_position)).collect();
        let started: Vec<DateTime<Utc>> = sessions().map(|session| session.started_at).collect();
        let completed: Vec<DateTime<Utc>> = sessions().map(|session| session.completed_at).collect();
        let reasons: Vec<&str> = sessions().map(|session| session.completion_reason.as_str()).collect();
        let summaries: Vec<&str> = sessions().map(|session| session.summary.as_str()).collect();
        let sources: Vec<&str> = sessions().map(|session| session.summary_source.as_str()).collect();
        let pending: Vec<bool> = sessions().map(|session| session.pending).collect();
        let messages: Vec<Option<i32>> = sessions()
            .map(|session| session.message_count.and_then(|count| i32::try_from(count).ok()))
            .collect();
        let tokens: Vec<Option<i64>> = sessions()
            .map(|session| session.token_count.and_then(|count| i64::try_from(count).ok()))
            .collect();
        let searched: Vec<&str> = closed.iter().map(|closed| closed.searched.text()).collect();
        sqlx::query!(
            "-- store::conversation::make::past::sessions
            insert into houston.sessions (id, tenant_id, agentable_id, number, first_position, last_position, started_at,
                                          completed_at, completion_reason, summary, summarised_by, message_count,
                                          token_count, summary_due_at, search)
            select s.id, $2, $1, $3 + s.n, s.first, s.last, s.started_at, s.completed_at, s.reason, t.summary, s.source,
                   s.messages, s.tokens, case when s.pending then clock_timestamp() end,
                   case when not s.pending then houston.session_vector($1, t.summary, s.searched) end
              from unnest($4::uuid[], $5::int8[], $6::int8[], $7::timestamptz[], $8::timestamptz[], $9::text[],
                          $10::text[], $11::text[], $12::bool[], $13::int4[], $14::int8[], $15::text[])
                   with ordinality as s (id, first, last, started_at, completed_at, reason, summary, source, pending,
                                         messages, tokens, searched, n)
             cross join lateral (
                   select case when s.summary = '' then houston.session_extract($1, s.first - 1, s.last)
                               else s.summary end as summary) as t",
            self.agentable.0,
            self.tenant.0,
            position(before),
            &ids[before..before + closed.len()],
            &firsts,
            &lasts,
            &started,
            &completed,
            &reasons as &[&str],
            &summaries as &[&str],
            &sources as &[&str],
            &pending,
            &messages as &[Option<i32>],
            &tokens as &[Option<i64>],
            &searched as &[&str]
        )
        .execute(connection)
        .await?;
        Ok(())
    }

    /// Inserts the compressions. None covers entries of the run that is created for the document.
    pub(super) async fn compressions(
        &self,
        connection: &mut PgConnection,
        conversation: &Conversation,
        ids: &Ids,
    ) -> Result<()> {
        let ids = rising(ids, self.agentable, conversation.compressions.len());
        let ends: Vec<usize> = conversation.sessions.iter().map(|session| session.last_position).collect();
        let position = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        // Where the session of a position begins.
        let begins = |through: usize| {
            let before = ends.partition_point(|end| *end < through).checked_sub(1);
            position(before.and_then(|before| ends.get(before).copied()).unwrap_or(0))
        };
        let count = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        let tokens = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        for ((_, compressions), ids) in pieces(&conversation.compressions).zip(ids.chunks(ROWS)) {
            let each = || compressions.iter();
            let sessions: Vec<i64> = each().map(|one| begins(one.through_position)).collect();
            let through: Vec<i64> = each().map(|one| position(one.through_position)).collect();
            let summaries: Vec<&str> = each().map(|one: &ExportedCompression| one.summary.as_str()).collect();
            let reasons: Vec<&str> = each().map(|one| one.reason.as_str()).collect();
            let entries_before: Vec<i32> = each().map(|one| count(one.entries_before)).collect();
            let entries_after: Vec<i32> = each().map(|one| count(one.entries_after)).collect();
            let tokens_before: Vec<i64> = each().map(|one| tokens(one.tokens_before)).collect();
            let tokens_after: Vec<i64> = each().map(|one| tokens(one.tokens_after)).collect();
            let models: Vec<Option<&str>> = each().map(|one| one.model.as_deref()).collect();
            let costs: Vec<Option<Decimal>> = each().map(|one| one.cost).collect();
            let times: Vec<DateTime<Utc>> = each().map(|one| one.created_at).collect();
            sqlx::query!(
                "-- store::conversation::make::past::compressions
                insert into houston.compressions (id, tenant_id, agentable_id, run_id, run_position, session_position,
                                                  through_position, summary, reason, entries_before, entries_after,
                                                  tokens_before, tokens_after, model, cost, created_at)
                select c.id, $2, $1, $3, c.through + 1, c.session, c.through, c.summary, c.reason, c.entries_before,
                       c.entries_after, c.tokens_before, c.tokens_after, c.model, c.cost, c.created_at
                  from unnest($4::uuid[], $5::int8[], $6::int8[], $7::text[], $8::text[], $9::int4[], $10::int4[],
                              $11::int8[], $12::int8[], $13::text[], $14::numeric[], $15::timestamptz[])
                       as c (id, session, through, summary, reason, entries_before, entries_after, tokens_before,
                             tokens_after, model, cost, created_at)",
                self.agentable.0,
                self.tenant.0,
                self.run.0,
                ids,
                &sessions,
                &through,
                &summaries as &[&str],
                &reasons as &[&str],
                &entries_before,
                &entries_after,
                &tokens_before,
                &tokens_after,
                &models as &[Option<&str>],
                &costs as &[Option<Decimal>],
                &times
            )
            .execute(&mut *connection)
            .await?;
        }
        Ok(())
    }

    /// Inserts the large results, under the ids that the texts name.
    pub(super) async fn results(
        &self,
        connection: &mut PgConnection,
        conversation: &Conversation,
    ) -> Result<()> {
        let mut rest = &conversation.results[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let fit = rest.iter().take_while(|result| {
                let fits = bytes == 0 || bytes + result.content.len() <= RESULTS_BYTES;
                bytes += result.content.len().max(1);
                fits
            });
            let (now, later) = rest.split_at(fit.count().min(ROWS));
            self.insert_results(connection, now).await?;
            rest = later;
        }
        Ok(())
    }

    async fn insert_results(&self, connection: &mut PgConnection, results: &[ExportedResult]) -> Result<()> {
        let ids: Vec<Uuid> = results.iter().map(|result| result.id.0).collect();
        let calls: Vec<&str> = results.iter().map(|result| result.call_id.as_str()).collect();
        let tools: Vec<&str> = results.iter().map(|result| result.tool.as_str()).collect();
        let contents: Vec<&str> = results.iter().map(|result| result.content.as_str()).collect();
        let times: Vec<DateTime<Utc>> = results.iter().map(|result| result.created_at).collect();
        sqlx::query!(
            "-- store::conversation::make::past::results
            insert into houston.tool_results (id, tenant_id, agentable_id, run_id, call_id, tool, content, created_at)
            select r.id, $2, $1, $3, r.call_id, r.tool, r.content, r.created_at
              from unnest($4::uuid[], $5::text[], $6::text[], $7::text[], $8::timestamptz[])
                   as r (id, call_id, tool, content, created_at)",
            self.agentable.0,
            self.tenant.0,
            self.run.0,
            &ids,
            &calls as &[&str],
            &tools as &[&str],
            &contents as &[&str],
            &times
        )
        .execute(connection)
        .await?;
        Ok(())
    }
}
