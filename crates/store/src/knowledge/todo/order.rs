//! The order of the todos of a user.

use houston_domain::id::{TenantId, TodoId, UserId};
use houston_domain::todo::{STEP, between};
use sqlx::PgConnection;

use crate::bound;
use crate::error::Result;

/// Moves a todo of a user before another one. Returns whether both exist.
pub(crate) async fn put_before(
    connection: &mut PgConnection,
    (tenant, user): (TenantId, UserId),
    id: TodoId,
    next: TodoId,
) -> Result<bool> {
    bound::lock(connection, "todos", user.0).await?;
    for _ in 0..2 {
        let around = sqlx::query!(
            r#"-- store::todo::order::around
            select n.position, (select max(b.position) from houston.todos b
                                 where b.tenant_id = $1 and b.user_id = $2 and b.id <> $4
                                   and b.position < n.position) as before
              from houston.todos n where n.tenant_id = $1 and n.user_id = $2 and n.id = $3"#,
            tenant.0,
            user.0,
            next.0,
            id.0
        )
        .fetch_optional(&mut *connection)
        .await?;
        let Some(around) = around else { return Ok(false) };
        if let Some(position) = between(around.before, around.position) {
            let done = sqlx::query!(
                "-- store::todo::order::put
                update houston.todos set position = $4, updated_at = statement_timestamp()
                 where tenant_id = $1 and user_id = $2 and id = $3",
                tenant.0,
                user.0,
                id.0,
                position
            )
            .execute(&mut *connection)
            .await?;
            return Ok(done.rows_affected() > 0);
        }
        // No number is left between two: all get new ones.
        sqlx::query!(
            "-- store::todo::order::spread
            update houston.todos t set position = $3::double precision * n.nth
              from (select id, row_number() over (order by position, id) as nth from houston.todos
                     where tenant_id = $1 and user_id = $2) as n
             where t.tenant_id = $1 and t.id = n.id",
            tenant.0,
            user.0,
            STEP
        )
        .execute(&mut *connection)
        .await?;
    }
    Ok(false)
}
