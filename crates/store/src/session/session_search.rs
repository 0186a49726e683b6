//! Searching closed sessions and reading one of them.

use chrono::{DateTime, Utc};
use houston_domain::history::{Block, Role};
use houston_domain::id::SessionId;
use houston_domain::session::{SessionSearch, Timeframe};
use sqlx::PgConnection;
use sqlx::types::Json;

use crate::error::Result;
use crate::record::Owner;

/// A closed session that a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSession {
    /// The session's id.
    pub id: SessionId,
    /// When its first entry was written.
    pub started_at: DateTime<Utc>,
    /// When it was closed.
    pub completed_at: DateTime<Utc>,
    /// Its summary.
    pub summary: String,
    /// Its messages, if they were counted.
    pub message_count: Option<i32>,
    /// Whether what strangers wrote was read in it.
    pub untrusted: bool,
}

/// An entry of a closed session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionEntry {
    /// Its position in the history.
    pub position: i64,
    /// Whose turn it is.
    pub role: Role,
    /// What it consists of.
    pub content: Vec<Block>,
}

/// Sessions of the agentable, the best match first.
pub(crate) async fn find(
    connection: &mut PgConnection,
    owner: Owner,
    search: &SessionSearch,
    limit: i32,
) -> Result<Vec<FoundSession>> {
    let rows = sqlx::query!(
        r#"-- store::session_search::find
        with u as (select houston.known_zone(time_zone) as time_zone from houston.users where id = $2),
        t as (select greatest(f.since, $5::date::timestamp at time zone u.time_zone) as since,
                     least(f.until, ($6::date + 1)::timestamp at time zone u.time_zone) as until
                from u cross join lateral houston.timeframe($4, u.time_zone) f)
        select s.id, s.started_at, s.completed_at, s.summary, s.message_count, s.untrusted
          from t cross join lateral houston.search_sessions($1, $3, t.since, t.until, $7)
               with ordinality as found (id, place)
          join houston.sessions s on s.id = found.id
         where s.tenant_id = $8
         order by found.place"#,
        owner.agentable.0,
        owner.user.0,
        search.query,
        search.timeframe.map(Timeframe::as_str),
        search.from,
        search.to,
        limit,
        owner.tenant.0
    )
    .fetch_all(connection)
    .await?;
    let found = rows.into_iter().map(|row| FoundSession {
        id: SessionId(row.id),
        started_at: row.started_at,
        completed_at: row.completed_at,
        summary: row.summary,
        message_count: row.message_count,
        untrusted: row.untrusted,
    });
    Ok(found.collect())
}

/// Entries of a session of the agentable after a position. Those that were rolled back are left out.
pub(crate) async fn entries(
    connection: &mut PgConnection,
    owner: Owner,
    (session, after): (SessionId, i64),
    limit: i64,
) -> Result<Vec<SessionEntry>> {
    let rows = sqlx::query!(
        r#"-- store::session_search::read
        select h.position as "position!", h.role as "role!", h.content as "content!: Json<Vec<Block>>"
          from houston.sessions s
          join houston.entries h on h.agentable_id = s.agentable_id and h.position between s.first_position and s.last_position
         where s.tenant_id = $1 and s.agentable_id = $2 and s.id = $3 and h.position > $4 and not h.rolled_back
         order by h.position limit $5"#,
        owner.tenant.0,
        owner.agentable.0,
        session.0,
        after,
        limit
    )
    .fetch_all(connection)
    .await?;
    let entries = rows.into_iter().map(|row| SessionEntry {
        position: row.position,
        role: if row.role == "assistant" { Role::Assistant } else { Role::User },
        content: row.content.0,
    });
    Ok(entries.collect())
}
