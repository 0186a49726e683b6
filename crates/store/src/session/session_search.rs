//! Searching closed sessions and reading one of them, for the tool `search_agent_history`.

use houston_domain::history::{Block, Role};
use houston_domain::id::SessionId;
use houston_domain::session::{HistoryQuery, SessionArchive};
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use sqlx::PgConnection;
use sqlx::types::Json;

use crate::error::Result;
use crate::record::Owner;

/// The tool's response to a query.
pub(crate) async fn answer(
    connection: &mut PgConnection,
    owner: Owner,
    query: &HistoryQuery,
    settings: &SessionArchive,
) -> Result<ToolResponse> {
    match query {
        HistoryQuery::Search { .. } => search(connection, owner, query, settings).await,
        HistoryQuery::Read { session, after } => read(connection, owner, *session, *after, settings).await,
    }
}

async fn search(
    connection: &mut PgConnection,
    owner: Owner,
    query: &HistoryQuery,
    settings: &SessionArchive,
) -> Result<ToolResponse> {
    let HistoryQuery::Search { query, timeframe, from, to } = query else {
        return Ok(ToolResponse::failure(ToolErrorCode::Unknown, "this cannot be done here"));
    };
    let rows = sqlx::query!(
        r#"-- store::session_search::find
        with u as (select houston.known_zone(time_zone) as time_zone from houston.users where id = $2),
        t as (select greatest(f.since, $5::date::timestamp at time zone u.time_zone) as since,
                     least(f.until, ($6::date + 1)::timestamp at time zone u.time_zone) as until
                from u cross join lateral houston.timeframe($4, u.time_zone) f)
        select s.id, s.started_at, s.completed_at, s.summary, s.message_count
          from t cross join lateral houston.search_sessions($1, $3, t.since, t.until, $7)
               with ordinality as found (id, place)
          join houston.sessions s on s.id = found.id
         where s.tenant_id = $8
         order by found.place"#,
        owner.agentable.0,
        owner.user.0,
        query,
        timeframe.map(|timeframe| timeframe.as_str()),
        *from,
        *to,
        settings.search_sessions,
        owner.tenant.0
    )
    .fetch_all(connection)
    .await?;
    if rows.is_empty() {
        return Ok(ToolResponse::success(
            "No earlier session is about that: try other words, or another timeframe.",
        ));
    }
    let found = rows.into_iter().map(|row| {
        let messages = row.message_count.map(|count| format!(", {count} messages")).unwrap_or_default();
        let (began, ended) =
            (row.started_at.format("%Y-%m-%d %H:%M"), row.completed_at.format("%Y-%m-%d %H:%M"));
        format!("{}: {began} to {ended} UTC{messages}\n{}", SessionId(row.id), row.summary)
    });
    Ok(ToolResponse::success(found.collect::<Vec<_>>().join("\n\n")))
}

async fn read(
    connection: &mut PgConnection,
    owner: Owner,
    session: SessionId,
    after: i64,
    settings: &SessionArchive,
) -> Result<ToolResponse> {
    let mut rows = sqlx::query!(
        r#"-- store::session_search::read
        select h.position, h.role, h.content as "content: Json<Vec<Block>>"
          from houston.sessions s
          join houston.history h on h.agentable_id = s.agentable_id and h.position between s.first_position and s.last_position
         where s.tenant_id = $1 and s.agentable_id = $2 and s.id = $3 and h.position > $4 and not h.rolled_back
         order by h.position limit $5"#,
        owner.tenant.0,
        owner.agentable.0,
        session.0,
        after,
        // One more than is returned, to find out whether there are more; rolled-back entries are left out.
        i64::from(settings.read_entries) + 1
    )
    .fetch_all(connection)
    .await?;
    let page = settings.read_entries as usize;
    let is_more = rows.len() > page;
    rows.truncate(page);
    let Some(last) = rows.last().map(|row| row.position) else {
        return Ok(ToolResponse::failure(
            ToolErrorCode::NotFound,
            format!("there is nothing in {session} after position {after}: search for the ids there are"),
        ));
    };
    let mut lines = Vec::new();
    for row in rows {
        let role = if row.role == "assistant" { Role::Assistant } else { Role::User };
        lines.extend(row.content.0.iter().filter_map(|block| line(role, block, settings.read_chars)));
    }
    if is_more {
        lines.push(format!("There is more: ask again with `after` set to {last}."));
    }
    Ok(ToolResponse::success(lines.join("\n")))
}

/// One line for a block; `None` for thinking and opaque blocks.
fn line(role: Role, block: &Block, most_chars: usize) -> Option<String> {
    let who = if role == Role::User { "user" } else { "you" };
    match block {
        Block::Text { text, .. } => Some(format!("{who}: {}", shortened(text, most_chars))),
        Block::ToolUse { name, input, .. } => {
            Some(format!("{who} called {name}: {}", shortened(&input.to_string(), most_chars)))
        }
        Block::ToolResult { content, .. } => Some(format!("it answered: {}", shortened(content, most_chars))),
        Block::Thinking { .. } | Block::Opaque { .. } => None,
    }
}

fn shortened(text: &str, most_chars: usize) -> String {
    match text.char_indices().nth(most_chars) {
        Some((end, _)) => format!("{}… [{} characters]", &text[..end], text.chars().count()),
        None => text.to_owned(),
    }
}
