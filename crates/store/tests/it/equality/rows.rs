//! What is compared: all rows of a user.

use sqlx::{AssertSqlSafe, PgPool};

use houston_testkit::event_stream::EVENTS;

use super::Twin;

/// Columns of runs from which events follow. The functions store the events instead.
const NEW: &str = "last_cost,started_seq,started_message_id";

/// The events of goals, stored or not: with the positions of their runs and messages in place of the ids, and whether
/// they have the time of the row that they follow from. Of these events the epoch is not known any more.
fn events(goals: &str) -> String {
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
          where e.agentable_id in ({goals})"
    )
}

/// All rows of a user, without ids and times.
pub(super) async fn rows(pool: &PgPool, of: &[Twin]) -> Vec<String> {
    let goals = of.iter().filter_map(|twin| twin.agentable);
    let goals: Vec<String> = goals.map(|goal| format!("'{}'", goal.0)).collect();
    let goals = goals.join(", ");
    let user = format!("(select user_id from houston.agentables where id in ({goals}) limit 1)");
    let nth = format!("array_position(array[{goals}]::uuid[], agentable_id)");
    let plain = |row: &str| {
        format!(
            "regexp_replace(regexp_replace((to_jsonb({row}) - '{{slot,{NEW}}}'::text[])::text, '[0-9a-f]{{8}}-?([0-9a-f]{{4}}-?){{3}}[0-9a-f]{{12}}', '#', 'g'),
                            '\\d{{4}}-\\d\\d-\\d\\dT[0-9:.+]*Z?', 'time', 'g')"
        )
    };
    let tables = [
        ("run_locks", "agentable_id"),
        ("runs", "first_seq"),
        ("messages", "seq"),
        ("entries", "position"),
        ("session_states", "agentable_id"),
        ("sessions", "number"),
        ("model_calls", "created_at"),
        ("tool_calls", "started_at"),
    ];
    let row = plain("t");
    let mut queries: Vec<String> = tables
        .into_iter()
        .map(|(table, order)| {
            format!(
                "select '{table} ' || {nth} || ' ' || {row} from houston.{table} t
                  where agentable_id in ({goals}) order by {nth}, {order}"
            )
        })
        .collect();
    queries.push(format!(
        "select 'events ' || {nth} || ' ' || {row} from ({}) t where agentable_id in ({goals}) order by {nth}, seq",
        events(&goals)
    ));
    queries.push(format!(
        "select 'spending ' || {row} from (
            select day, sum(cost), sum(model_calls), sum(unpriced_calls) from houston.spending
             where user_id = {user} group by day order by day) t"
    ));
    queries.push(format!(
        "select 'agentables ' || {row} from houston.agentables t where id in ({goals})
          order by array_position(array[{goals}]::uuid[], id)"
    ));
    let mut rows = Vec::new();
    for query in queries {
        rows.extend(sqlx::query_scalar::<_, String>(AssertSqlSafe(query)).fetch_all(pool).await.unwrap());
    }
    rows
}
