//! What is compared: all rows of a user.

use sqlx::{AssertSqlSafe, PgPool};

use super::Twin;

/// All rows of a user, without ids and times.
pub(super) async fn rows(pool: &PgPool, of: &[Twin]) -> Vec<String> {
    let goals: Vec<String> = of.iter().map(|twin| format!("'{}'", twin.goal.0)).collect();
    let goals = goals.join(", ");
    let user = format!("(select user_id from houston.agentables where id in ({goals}) limit 1)");
    let nth = format!("array_position(array[{goals}]::uuid[], agentable_id)");
    let plain = |row: &str| {
        format!(
            "regexp_replace(regexp_replace((to_jsonb({row}) - 'slot')::text, '[0-9a-f]{{8}}-?([0-9a-f]{{4}}-?){{3}}[0-9a-f]{{12}}', '#', 'g'),
                            '\\d{{4}}-\\d\\d-\\d\\dT[0-9:.+]*Z?', 'time', 'g')"
        )
    };
    let tables = [
        ("run_locks", "agentable_id"),
        ("runs", "first_seq"),
        ("messages", "seq"),
        ("events", "seq"),
        ("history", "position"),
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
    queries.push(format!("select 'spending ' || {row} from houston.spending t where user_id = {user}"));
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
