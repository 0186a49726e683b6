//! What is compared: all rows of a user.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use houston_testkit::event_stream::EVENTS;
use sqlx::{AssertSqlSafe, PgPool};
use uuid::Uuid;

use super::Scene;
use super::twin::Twin;

/// Columns that are not compared: the slot, which depends on the order of claims; what follows from another column.
const NOT_COMPARED: [&str; 2] = ["slot", "search"];

/// The columns that are not compared, those included that name a transaction.
pub(super) async fn not_compared(pool: &PgPool) -> Vec<String> {
    let of_transactions = "select distinct column_name::text from information_schema.columns
                            where table_schema = 'houston' and column_name like '%xid'";
    let mut names: Vec<String> = sqlx::query_scalar(of_transactions).fetch_all(pool).await.unwrap();
    names.extend(NOT_COMPARED.map(str::to_owned));
    names
}

/// The events of goals, stored or not: with the positions of their runs and messages in place of the ids, and whether
/// they have the time of the row that they follow from. Of these events the epoch is not known any more.
fn events() -> String {
    format!(
        "select e.agentable_id, e.seq, e.data, r.first_seq as run, m.seq as message,
                e.data ->> 'message_id' = 'msg_' || replace(e.message_id::text, '-', '') as names_message,
                case when o.at is null then e.epoch end as epoch, o.at = e.created_at as has_its_time
           from ({EVENTS}) e
           join houston.runs r on r.id = e.run_id
           left join houston.messages m on m.id = e.message_id
          cross join lateral (
                select case when e.data ->> 'type' = 'run_queued' then r.created_at
                            when e.data ->> 'type' = 'run_finished' then r.ended_at
                            when e.data ->> 'type' = 'attempt_started' and e.data ->> 'attempt' = '1' then r.started_at
                            when e.data ->> 'type' in ('message_posted', 'message_sent') and m.message_type = 'text'
                                 and m.source <> 'error' then m.created_at end as at) o
          where e.agentable_id = any ($1)"
    )
}

/// The statement that reads all rows of the goals and tasks $1, in an order that does not depend on ids and on what happens
/// at the same time.
static ROWS: LazyLock<String> = LazyLock::new(|| {
    let of_goals = [
        ("run_locks", "agentable_id", "0", "''"),
        ("agentables", "id", "0", "''"),
        ("runs", "agentable_id", "first_seq", "''"),
        ("messages", "agentable_id", "seq", "''"),
        ("entries", "agentable_id", "position", "''"),
        ("session_states", "agentable_id", "0", "''"),
        ("sessions", "agentable_id", "number", "''"),
        ("model_calls", "agentable_id", "extract(epoch from created_at)", "''"),
        ("tool_calls", "agentable_id", "(select seq from houston.messages m where m.id = message_id)", "''"),
        ("tool_results", "agentable_id", "0", "t.content"),
        ("plans", "agentable_id", "0", "''"),
        ("plan_steps", "plan_id", "0", "t.path"),
        ("plan_versions", "plan_id", "version", "''"),
        ("knowledge_items", "agentable_id", "0", "t.content"),
    ];
    let of_user = [("knowledge_items", "t.content"), ("profiles", "''")];
    let mut parts: Vec<String> = of_goals
        .iter()
        .map(|(table, owner, place, text)| {
            format!(
                "select '{table}' as name, array_position($1, t.{owner}) as nth, ({place})::numeric as place, {text} as text,
                        to_jsonb(t) as data
                   from houston.{table} t where t.{owner} = any ($1)"
            )
        })
        .collect();
    parts.extend(of_user.iter().map(|(table, text)| {
        format!(
            "select '{table}', 0, 0, {text}, to_jsonb(t) from houston.{table} t
              where t.user_id = (select user_id from houston.agentables where id = any ($1) limit 1)"
        )
    }));
    // Of each connection that wrote costs there is a row.
    parts.push(
        "select 'spending', 0, 0, '', to_jsonb(t) from (
            select day, sum(cost), sum(model_calls), sum(unpriced_calls) from houston.spending
             where user_id = (select user_id from houston.agentables where id = any ($1) limit 1) group by day) t"
            .to_owned(),
    );
    let events = events();
    parts.push(format!(
        "select 'events', array_position($1, t.agentable_id), t.seq, '', to_jsonb(t) from ({events}) t"
    ));
    format!(
        "select name || ' ' || nth || ' ' || (data - $2)::text from ({}) r order by name, nth, place, text",
        parts.join(" union all ")
    )
});

/// The ids of those that exist.
pub(super) fn ids(twins: &[Twin]) -> Vec<Uuid> {
    twins.iter().filter_map(|twin| twin.agentable).map(|agentable| agentable.0).collect()
}

/// All rows of a user. Each id is replaced by the number of its first occurrence, and each time by a word.
pub(super) async fn rows(scene: &Scene<'_>, of: &[Twin]) -> Vec<String> {
    let rows = sqlx::query_scalar(AssertSqlSafe(ROWS.as_str())).bind(ids(of)).bind(&scene.side.not_compared);
    let rows: Vec<String> = rows.fetch_all(scene.pool()).await.unwrap();
    let mut numbers = HashMap::new();
    rows.iter().map(|row| numbered(row, &mut numbers)).collect()
}

/// Whether a byte may be part of an id or a date.
fn is_of_id(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-')
}

fn numbered(row: &str, numbers: &mut HashMap<Uuid, usize>) -> String {
    let (mut result, mut rest) = (String::with_capacity(row.len()), row);
    while let Some(start) = rest.bytes().position(is_of_id) {
        let length = rest[start..].bytes().position(|byte| !is_of_id(byte)).unwrap_or(rest.len() - start);
        let (before, part) = (&rest[..start], &rest[start..start + length]);
        rest = &rest[start + length..];
        result.push_str(before);
        if let (true, Ok(id)) = (length >= 32, Uuid::try_parse(part)) {
            let next = numbers.len();
            let _ = write!(result, "#{}", numbers.entry(id).or_insert(next));
        } else if length == 10 && rest.starts_with('T') {
            let end =
                rest.bytes().position(|byte| !matches!(byte, b'T' | b'Z' | b'0'..=b'9' | b':' | b'.' | b'+'));
            rest = &rest[end.unwrap_or(rest.len())..];
            result.push_str("time");
        } else {
            result.push_str(part);
        }
    }
    result + rest
}

/// A text without its ids and the marks of frames, which follow from them: hexadecimal numbers of 16 digits or more.
pub(super) fn without_ids(text: &str) -> String {
    let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    let parts = text.split_inclusive(|c| !is_digit(c)).map(|part| {
        let rest = part.trim_start_matches(is_digit);
        if part.len() - rest.len() < 16 { part.to_owned() } else { format!("#{rest}") }
    });
    parts.collect()
}
