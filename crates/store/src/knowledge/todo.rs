//! Todos of users. Requests of a tenant write them, and so do runs, in the fenced transaction of a step.

use chrono::{DateTime, Utc};
use houston_domain::id::{TodoId, UserId};
use houston_domain::time::Time;
use houston_domain::todo::{Priority, STEP, TodoStatus, between};
pub use houston_domain::todo::{Todo, TodoChange};
use serde_json::{Value, json};

use super::Knowledge;
use crate::bound;
use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::idempotency::{Created, Once};
use crate::row_security::with_connection;
use crate::statement::uuids;

/// Which todos a list has.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TodoQuery {
    /// Whether they are done.
    pub status: TodoStatus,
    /// Only those of this list.
    pub list: Option<String>,
    /// Only those that are overdue at this time, or due by then.
    pub due_by: Option<DateTime<Utc>>,
    /// Only those with this text in their title or details.
    pub text: Option<String>,
    /// Only those that come after this one.
    pub after: Option<TodoId>,
    /// Maximum number.
    pub limit: i64,
}

macro_rules! of_row {
    ($row:expr) => {{
        let row = $row;
        Todo {
            id: TodoId(row.id),
            user: UserId(row.user_id),
            list: row.list,
            title: row.title,
            details: row.details,
            priority: Priority::from_stored(row.priority),
            due: row.due,
            time_zone: row.time_zone,
            due_at: row.due_at.map(Time),
            position: row.position,
            done_at: row.done_at.map(Time),
            untrusted: row.untrusted,
            created_at: row.created_at.into(),
            updated_at: row.updated_at.into(),
        }
    }};
}

impl Knowledge<'_> {
    /// Creates todos of the user, in the order given; they come last. `created_at`: `None` is now.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such user, [`Error::Full`] when there would be too many; then none is created.
    pub async fn create_todos(
        &mut self,
        new: &[(TodoId, TodoChange)],
        created_at: Option<DateTime<Utc>>,
    ) -> Result<()> {
        let user = self.user();
        bound::lock(self.connection, "todos", user).await?;
        let row = |(id, todo): &(TodoId, TodoChange)| {
            let due = todo.new_due();
            json!({
                "id": id.0,
                "list": todo.list.as_deref().unwrap_or_default(),
                "title": todo.title.as_deref().unwrap_or_default(),
                "details": todo.details.as_deref().unwrap_or_default(),
                "priority": todo.priority.unwrap_or_default().stored(),
                "due": due.map(|due| &due.local),
                "zone": due.map(|due| due.zone.to_string()),
                "at": due.map(|due| due.at),
            })
        };
        let rows: Value = new.iter().map(row).collect();
        let done = sqlx::query!(
            r#"-- store::todo::insert
            with owner as (select id, tenant_id from houston.users where tenant_id = $1 and id = $2),
            present as (select count(*) as n, coalesce(max(position), 0) as last from houston.todos
                         where tenant_id = $1 and user_id = $2),
            made as (
                insert into houston.todos (id, tenant_id, user_id, agentable_id, list, title, details, priority, due,
                                           time_zone, due_at, position, untrusted, created_at, updated_at)
                select v.id, o.tenant_id, o.id, $3, v.list, v.title, v.details, v.priority, v.due, v.zone, v.at,
                       p.last + $4::double precision * v.nth, $5, coalesce($8, statement_timestamp()),
                       coalesce($8, statement_timestamp())
                  from owner o, present p,
                       rows from (jsonb_to_recordset($6) as (id uuid, list text, title text, details text, priority smallint,
                                                             due text, zone text, at timestamptz)) with ordinality
                           as v (id, list, title, details, priority, due, zone, at, nth)
                 where p.n + jsonb_array_length($6) <= $7
                returning id)
            select exists (select from owner) as "found!", exists (select from made) as "made!""#,
            self.tenant.0,
            user,
            self.author.map(|(agentable, _)| agentable.0),
            STEP,
            self.untrusted,
            rows,
            i64::from(self.limits.max_todos),
            created_at
        )
        .fetch_one(&mut *self.connection)
        .await?;
        Error::check_inserted("user", "todos of a user", self.limits.max_todos, done.found, done.made)
    }

    /// Todos of the user in their order, those that are done last. `written_here`: only those that agents of this agentable
    /// wrote.
    pub async fn todos(&mut self, query: &TodoQuery, written_here: bool) -> Result<Vec<Todo>> {
        let rows = sqlx::query!(
            r#"-- store::todo::list
            select id, user_id, list, title, details, priority, due, time_zone, due_at, position, done_at, untrusted,
                   created_at, updated_at
              from houston.todos t
             where tenant_id = $1 and user_id = $2
               and ($3::boolean is null or (done_at is not null) = $3)
               and ($4::text is null or lower(list) = lower($4))
               and ($5::timestamptz is null or due_at <= $5)
               and ($6::text is null or position(lower($6) in lower(title || ' ' || details)) > 0)
               and ($7::uuid is null or agentable_id = $7)
               and ($8::uuid is null or (done_at is not null, position, id)
                    > (select b.done_at is not null, b.position, b.id from houston.todos b
                        where b.tenant_id = $1 and b.user_id = $2 and b.id = $8))
             order by done_at is not null, position, id limit $9"#,
            self.tenant.0,
            self.user(),
            query.status.is_done(),
            query.list,
            query.due_by,
            query.text,
            self.author.filter(|_| written_here).map(|(agentable, _)| agentable.0),
            query.after.map(|todo| todo.0),
            query.limit
        )
        .map(|row| of_row!(row));
        Ok(rows.fetch_all(&mut *self.connection).await?)
    }

    /// A todo of the tenant.
    pub(crate) async fn todo(&mut self, id: TodoId) -> Result<Option<Todo>> {
        let row = sqlx::query!(
            "-- store::todo::find
            select t.id, t.user_id, t.list, t.title, t.details, t.priority, t.due, t.time_zone, t.due_at, t.position,
                   t.done_at, t.untrusted, t.created_at, t.updated_at
              from houston.todos t join houston.users u on u.id = t.user_id
             -- A user who is being erased has no tenant any more.
             where t.tenant_id = $1 and u.tenant_id = $1 and t.id = $2",
            self.tenant.0,
            id.0
        )
        .map(|row| of_row!(row));
        Ok(row.fetch_optional(&mut *self.connection).await?)
    }

    /// Changes todos in the same way. Returns those that exist, as they are then.
    pub async fn change_todos(&mut self, ids: &[TodoId], change: &TodoChange) -> Result<Vec<Todo>> {
        let due = change.new_due();
        // Text that stays keeps its mark.
        let writes = change.list.is_some() || change.title.is_some() || change.details.is_some();
        let rows = sqlx::query!(
            "-- store::todo::change
            with t as materialized (select statement_timestamp() as at)
            update houston.todos d
               set list = coalesce($4, d.list), title = coalesce($5, d.title), details = coalesce($6, d.details),
                   priority = coalesce($7, d.priority),
                   due = case when $8 then $9 else d.due end, time_zone = case when $8 then $10 else d.time_zone end,
                   due_at = case when $8 then $11 else d.due_at end,
                   done_at = case $12::boolean when true then coalesce(d.done_at, t.at) when false then null
                                               else d.done_at end,
                   untrusted = d.untrusted or $13, updated_at = t.at
              from t
             where d.tenant_id = $1 and d.id = any ($2) and ($3::uuid is null or d.user_id = $3)
               and exists (select from houston.users u where u.id = d.user_id and u.tenant_id = $1)
            returning d.id, d.user_id, d.list, d.title, d.details, d.priority, d.due, d.time_zone, d.due_at, d.position,
                      d.done_at, d.untrusted, d.created_at, d.updated_at",
            self.tenant.0,
            &uuids(ids),
            self.user.map(|user| user.0),
            change.list,
            change.title,
            change.details,
            change.priority.map(Priority::stored),
            change.due.is_some(),
            due.map(|due| due.local.as_str()),
            due.map(|due| due.zone.to_string()),
            due.map(|due| due.at),
            change.done,
            self.untrusted && writes
        )
        .map(|row| of_row!(row));
        Ok(rows.fetch_all(&mut *self.connection).await?)
    }

    /// Deletes todos. Returns how many existed.
    pub async fn delete_todos(&mut self, ids: &[TodoId]) -> Result<u64> {
        let done = sqlx::query!(
            "-- store::todo::delete
            delete from houston.todos d
             where d.tenant_id = $1 and d.id = any ($2) and ($3::uuid is null or d.user_id = $3)
               and exists (select from houston.users u where u.id = d.user_id and u.tenant_id = $1)",
            self.tenant.0,
            &uuids(ids),
            self.user.map(|user| user.0)
        );
        Ok(done.execute(&mut *self.connection).await?.rows_affected())
    }

    /// Moves a todo of the user before another one. Returns whether both exist.
    pub async fn put_todo_before(&mut self, id: TodoId, next: TodoId) -> Result<bool> {
        let user = self.user();
        bound::lock(self.connection, "todos", user).await?;
        for _ in 0..2 {
            let around = sqlx::query!(
                r#"-- store::todo::order::around
                select n.position, (select max(b.position) from houston.todos b
                                     where b.tenant_id = $1 and b.user_id = $2 and b.id <> $4
                                       and b.position < n.position) as before
                  from houston.todos n where n.tenant_id = $1 and n.user_id = $2 and n.id = $3"#,
                self.tenant.0,
                user,
                next.0,
                id.0
            );
            let Some(around) = around.fetch_optional(&mut *self.connection).await? else { return Ok(false) };
            if let Some(position) = between(around.before, around.position) {
                let done = sqlx::query!(
                    "-- store::todo::order::put
                    update houston.todos set position = $4, updated_at = statement_timestamp()
                     where tenant_id = $1 and user_id = $2 and id = $3",
                    self.tenant.0,
                    user,
                    id.0,
                    position
                )
                .execute(&mut *self.connection)
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
                self.tenant.0,
                user,
                STEP
            )
            .execute(&mut *self.connection)
            .await?;
        }
        Ok(false)
    }
}

const NOT_FOUND: Error = Error::NotFound { what: "todo" };

impl TenantStore<'_> {
    /// Creates a todo.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such user, [`Error::Full`] when the user has the maximum number.
    pub async fn create_todo(
        self,
        user: UserId,
        new: (TodoId, TodoChange),
        created_at: DateTime<Utc>,
        once: Once<'_>,
    ) -> Result<Created<Value>> {
        let (id, new, at) = (new.0.0, [new], Some(created_at));
        self.create_once(id, once, async |tx| self.knowledge_of(user, tx).create_todos(&new, at).await).await
    }

    /// Todos of a user in their order, those that are done last.
    pub async fn todos(self, user: UserId, query: &TodoQuery) -> Result<Vec<Todo>> {
        Ok(with_connection!(self.pool, |c| self.knowledge_of(user, c).todos(query, false)))
    }

    /// A todo of the tenant.
    pub async fn todo(self, id: TodoId) -> Result<Todo> {
        with_connection!(self.pool, |c| self.knowledge(c).todo(id)).ok_or(NOT_FOUND)
    }

    /// Changes a todo of the tenant, and moves it before another one of the same user.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such todo, or the user no such other one; [`Error::Database`] when
    /// Postgres cannot be reached or refuses a statement. Then nothing was changed.
    pub async fn change_todo(self, id: TodoId, to: &TodoChange, before: Option<TodoId>) -> Result<Todo> {
        let mut tx = self.pool.begin().await?;
        let mut knowledge = self.knowledge(&mut tx);
        let mut todo = knowledge.change_todos(&[id], to).await?.pop().ok_or(NOT_FOUND)?;
        if let Some(next) = before {
            knowledge.user = Some(todo.user);
            if !knowledge.put_todo_before(id, next).await? {
                return Err(NOT_FOUND);
            }
            todo = knowledge.todo(id).await?.ok_or(NOT_FOUND)?;
        }
        tx.commit().await?;
        Ok(todo)
    }

    /// Deletes a todo of the tenant.
    pub async fn delete_todo(self, id: TodoId) -> Result<()> {
        let deleted = with_connection!(self.pool, |c| self.knowledge(c).delete_todos(&[id]));
        if deleted > 0 { Ok(()) } else { Err(NOT_FOUND) }
    }
}
