//! Summaries of closed sessions: which worker writes one next, and writing it once.
//!
//! A session is closed with an extract (the beginning of what its user wrote) as its summary, so it always has one.
//! The worker that is to write a better one has the session until `summary_due_at`; if it does not finish, another
//! takes over.

use std::time::Duration;

use houston_domain::id::{AgentableId, SessionId, TenantId, WriteId};

use crate::cost::count_call;
use crate::error::Result;
use crate::handle::RunStore;
use crate::statement::{Statement as _, uuids};
use houston_domain::step::ModelCall;

/// A session whose summary is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingSummary {
    /// The session's id.
    pub session: SessionId,
    /// The tenant it belongs to.
    pub tenant: TenantId,
    /// The agentable it belongs to.
    pub agentable: AgentableId,
    /// The kind of that agentable.
    pub kind: String,
    /// The position of its first entry.
    pub first_position: i64,
    /// The position of its last entry.
    pub last_position: i64,
    /// The extract: the beginning of what the user wrote.
    pub extract: String,
    /// How many attempts were started, this one included.
    pub attempts: i32,
}

/// What is stored with the summary of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSummary<'a> {
    /// The summary a model wrote; `None`: the extract stays.
    pub summary: Option<&'a str>,
    /// The model calls that were made to write it.
    pub calls: &'a [(WriteId, ModelCall)],
    /// Number of messages of both sides.
    pub message_count: i32,
    /// Estimated tokens of all entries.
    pub token_count: i64,
    /// The text that a search looks at, besides the summary.
    pub conversation: &'a str,
    /// Whether what strangers wrote was read in the session.
    pub untrusted: bool,
}

impl RunStore {
    /// Takes at most `limit` sessions whose summary is to be written, for the duration `lease`. Tenants take turns.
    pub async fn take_pending_summaries(&self, lease: Duration, limit: i64) -> Result<Vec<PendingSummary>> {
        let rows = sqlx::query_as!(
            PendingSummary,
            r#"-- store::session_summary::take
            with recursive t as (
                -- The tenants, each found by one step in the index. Ordered and compared as the index is, here and below, so
                -- that it is used whatever the statistics say.
                (select u.tenant_id from houston.sessions u where u.summary_due_at is not null
                  order by u.tenant_id, u.summary_due_at limit 1)
                union all
                select (select u.tenant_id from houston.sessions u
                         where u.summary_due_at is not null and u.tenant_id > t.tenant_id
                         order by u.tenant_id, u.summary_due_at limit 1)
                  from t where t.tenant_id is not null),
            -- Of each tenant the longest overdue come first, and of all tenants the first ones.
            turns as (
                select d.id, d.summary_due_at,
                       row_number() over (partition by t.tenant_id order by d.summary_due_at, d.id) as turn
                  from t cross join lateral (
                       select u.id, u.summary_due_at from houston.sessions u
                        where u.summary_due_at is not null
                          and (u.tenant_id, u.summary_due_at) >= (t.tenant_id, '-infinity')
                          and (u.tenant_id, u.summary_due_at) <= (t.tenant_id, now())
                        order by u.tenant_id, u.summary_due_at limit $2 for no key update skip locked) d)
            update houston.sessions s
               set summary_due_at = statement_timestamp() + make_interval(secs => $1), summary_attempts = s.summary_attempts + 1
             where s.id = any (array(select id from turns order by turn, summary_due_at limit $2))
            returning s.id as session, s.tenant_id as tenant, s.agentable_id as agentable, s.first_position, s.last_position,
                      s.summary as extract, s.summary_attempts as attempts,
                      (select a.kind from houston.agentables a where a.id = s.agentable_id) as "kind!""#,
            lease.as_secs_f64(),
            limit
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Returns sessions that were taken, so that another worker may take them at once. Does not count as an
    /// attempt.
    pub async fn return_pending_summaries(&self, sessions: &[SessionId]) -> Result<()> {
        sqlx::query!(
            "-- store::session_summary::give_back
            update houston.sessions
               set summary_due_at = statement_timestamp(), summary_attempts = summary_attempts - 1
             where id = any ($1) and summary_due_at is not null",
            &uuids(sessions)
        )
        .run(&self.pool)
        .await
    }

    /// Stores the summary of a session, unless it was stored before, and counts the model calls under the session,
    /// since it belongs to no run. Returns whether it was stored.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement; then
    /// nothing was written.
    pub async fn write_summary(&self, session: SessionId, new: &NewSummary<'_>) -> Result<bool> {
        let mut tx = self.pool.begin().await?;
        let written = sqlx::query_scalar!(
            r#"-- store::session_summary::write
            update houston.sessions s
               set summary = coalesce($2, s.summary),
                   summarised_by = case when $2::text is null then 'extract' else 'model' end,
                   message_count = $3, token_count = $4, summary_due_at = null, untrusted = $6,
                   search = houston.session_vector(s.agentable_id, coalesce($2, s.summary), $5)
             where s.id = $1 and s.summary_due_at is not null
            returning s.agentable_id"#,
            session.0,
            new.summary,
            new.message_count,
            new.token_count,
            new.conversation,
            new.untrusted
        )
        .fetch_optional(&mut *tx)
        .await?;
        if let Some(agentable) = written {
            for (id, call) in new.calls {
                count_call(&mut tx, AgentableId(agentable), session.0, *id, call).await?;
            }
        }
        tx.commit().await?;
        Ok(written.is_some())
    }
}
