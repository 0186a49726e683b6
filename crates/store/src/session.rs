//! Sessions: closing them, and reading the closed ones.
//!
//! Closing moves `run_locks.session_position` under that row's lock and inserts one row; no entry is touched. A
//! session is closed by the claim of a run that begins after the configured quiet time (in the claim's
//! transaction), by the sweep ([`RunStore::close_quiet`]), or on request (`houston.close_session`, as a reset does);
//! whichever comes second finds nothing to close. The event is emitted by the next claim, because an AG-UI stream
//! may send nothing between two runs.

pub mod session_search;
pub mod session_summary;
pub mod title;

use houston_domain::id::{AgentableId, SessionId};
use houston_domain::owner::Owner;
pub use houston_domain::session::Session;
use houston_domain::session::quiet::{QuietCheck, QuietSession};
use houston_domain::session::{CompletionReason, SummarySource};
use sqlx::PgConnection;

use crate::error::{Error, Result};
use crate::handle::{RunStore, TenantStore};
use crate::history::StoredEntry;

/// Reads sessions `s`, between the name of the query and the conditions; `$1`: the tenant.
macro_rules! query_sessions {
    ($before:literal, $after:literal $(, $parameter:expr)* $(,)?) => {
        sqlx::query!(
            $before + r#"
            select s.id, s.agentable_id, a.kind, s.number, s.first_position, s.last_position, s.started_at,
                   s.completed_at, s.completion_reason, s.summary, s.summarised_by,
                   s.summary_due_at is not null as "pending!", s.message_count, s.token_count
              from houston.sessions s join houston.agentables a on a.id = s.agentable_id and a.tenant_id = $1
             "# + $after
            $(, $parameter)*
        )
        .map(|row| Session {
            id: SessionId(row.id),
            owner: Owner { kind: row.kind, id: AgentableId(row.agentable_id) },
            number: row.number,
            first_position: row.first_position,
            last_position: row.last_position,
            started_at: row.started_at.into(),
            completed_at: row.completed_at.into(),
            reason: CompletionReason::from_name(&row.completion_reason).unwrap_or_default(),
            summary: row.summary,
            summary_source: SummarySource::from_name(&row.summarised_by).unwrap_or(SummarySource::Extract),
            pending: row.pending,
            message_count: row.message_count,
            token_count: row.token_count,
        })
    };
}

impl RunStore {
    /// Agentables whose open session may be over, the longest waiting first, at most `limit`. The cost does not
    /// grow with the number of agentables that have nothing to close.
    pub async fn sessions_due(&self, limit: i64) -> Result<Vec<AgentableId>> {
        let due = sqlx::query_scalar!(
            "-- store::session::due
            select agentable_id from houston.session_states where look_at <= now() order by look_at limit $1",
            limit
        );
        Ok(due.fetch_all(&self.pool).await?.into_iter().map(AgentableId).collect())
    }

    /// Closes the open session of `agentable`, under the id `session`, if it is over; otherwise sets when to look
    /// again. Never closes a session while a run is open or held. Returns whether it closed one.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement; then nothing was closed.
    pub async fn close_quiet(&self, agentable: AgentableId, session: SessionId) -> Result<bool> {
        let mut tx = self.pool.begin().await?;
        let locked = sqlx::query_scalar!(
            "-- store::session::lock_quiet
            select agentable_id from houston.run_locks where agentable_id = $1 for no key update skip locked",
            agentable.0
        )
        .fetch_optional(&mut *tx)
        .await?;
        if locked.is_none() {
            // A run is being claimed or committed; the next sweep tries again.
            return Ok(false);
        }
        let Some((open, last)) = self.open_session(&mut tx, agentable).await? else { return Ok(false) };
        let check = open.check();
        match check {
            QuietCheck::NotDue => {}
            QuietCheck::Close(reason) => {
                fold(&mut tx, agentable, last, reason, session).await?;
            }
            QuietCheck::LookAgain(_) | QuietCheck::Forget => {
                let look_at = if let QuietCheck::LookAgain(at) = check { Some(at) } else { None };
                sqlx::query!(
                    "-- store::session::look_again
                    update houston.session_states
                       set look_at = $2, close_reason = case when $2::timestamptz is null then null else close_reason end
                     where agentable_id = $1",
                    agentable.0,
                    look_at
                )
                .execute(&mut *tx)
                .await?;
            }
        }
        tx.commit().await?;
        Ok(matches!(check, QuietCheck::Close(_)))
    }

    /// Reads the open session of an agentable whose lock is held, and the position of its last entry.
    async fn open_session(
        &self,
        connection: &mut PgConnection,
        agentable: AgentableId,
    ) -> Result<Option<(QuietSession, i64)>> {
        let row = sqlx::query!(
            r#"-- store::session::open
            select s.look_at, s.close_reason, a.kind = any ($2) as "archives!", k.last_position,
                   k.run_open or k.holder is not null as "is_running!", clock_timestamp() as "now!",
                   (select case when h.epoch = 0 then greatest(h.created_at, a.created_at) else h.created_at end
                      from houston.history h
                     where h.agentable_id = k.agentable_id and h.position > k.session_position
                     order by h.position desc limit 1) as written_at
              from houston.run_locks k
              join houston.agentables a on a.id = k.agentable_id
              join houston.session_states s on s.agentable_id = k.agentable_id
             where k.agentable_id = $1"#,
            agentable.0,
            &self.archiving.kinds
        )
        .map(|row| {
            let session = QuietSession {
                now: row.now,
                look_at: row.look_at,
                requested: row
                    .close_reason
                    .as_deref()
                    .map(|name| CompletionReason::from_name(name).unwrap_or_default()),
                archives: row.archives,
                is_running: row.is_running,
                written_at: row.written_at,
                quiet: self.archiving.settings.quiet(),
            };
            (session, row.last_position)
        });
        Ok(row.fetch_optional(connection).await?)
    }
}

impl TenantStore<'_> {
    /// Sessions of an agentable of the tenant, newest first, with a number below `before` if given.
    pub async fn sessions(
        self,
        agentable: AgentableId,
        before: Option<i64>,
        limit: i64,
    ) -> Result<Vec<Session>> {
        let rows = query_sessions!(
            "-- store::session::list",
            "where s.tenant_id = $1 and s.agentable_id = $2 and s.number < coalesce($3, 9223372036854775807)
             order by s.number desc limit $4",
            self.tenant.0,
            agentable.0,
            before,
            limit
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Reads a session of the tenant.
    pub async fn session(self, id: SessionId) -> Result<Session> {
        let row = query_sessions!(
            "-- store::session::get",
            "where s.tenant_id = $1 and s.id = $2",
            self.tenant.0,
            id.0
        );
        row.fetch_optional(&self.pool).await?.ok_or(Error::NotFound { what: "session" })
    }

    /// Entries of a session of the tenant after position `after`, oldest first, at most `limit`.
    pub async fn session_history(
        self,
        session: &Session,
        after: i64,
        limit: i64,
    ) -> Result<Vec<StoredEntry>> {
        let (first, last) = (session.first_position, session.last_position);
        let mut entries = self.history(session.owner.id, after.max(first - 1), limit).await?;
        entries.retain(|entry| entry.position <= last);
        Ok(entries)
    }
}

/// Closes the open session with the entry at `last`, under the id `session`. The caller holds the agentable's lock, and no
/// run has written after that entry.
pub(crate) async fn fold(
    connection: &mut PgConnection,
    agentable: AgentableId,
    last: i64,
    reason: CompletionReason,
    session: SessionId,
) -> Result<()> {
    sqlx::query!(
        "-- store::session::fold
        select houston.close_session($1, $3, $4, $2)",
        agentable.0,
        last,
        reason.as_str(),
        session.0
    )
    .fetch_one(connection)
    .await?;
    Ok(())
}
