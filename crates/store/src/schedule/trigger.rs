//! Triggers of a user's agentables: creating, listing, changing, deleting. What fires them is in [`super::trigger_firing`] and
//! [`super::trigger_reader`].

use chrono::{DateTime, Utc};
use houston_domain::ensure;
use houston_domain::id::{AgentableId, TriggerId, UserId};
pub use houston_domain::trigger::UpdateTrigger;
use houston_domain::trigger::effect::{Firing, TriggerTask};
use houston_domain::trigger::{MAX_TRIGGERS, When};
use serde_json::Value;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::trigger_reader::ensure_reader;
use crate::bound;
use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::idempotency::{Created, Once};
use crate::statement::Statement as _;

/// The most triggers that are listed as due next.
pub const MAX_DUE: usize = 100;

/// A trigger as people see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Trigger {
    /// The trigger.
    pub id: TriggerId,
    /// Whose agentable gets the message.
    pub user: UserId,
    /// Who gets the message, and its kind.
    pub agentable: (AgentableId, String),
    /// For people.
    pub name: String,
    /// What the agent reads first: a template.
    pub instructions: String,
    /// The task of that agentable which it starts; `None`: it posts to the agentable.
    pub task: Option<TriggerTask>,
    /// When it fires.
    pub when: When,
    /// When it is due, if that is a time.
    pub next_at: Option<DateTime<Utc>>,
    /// Whether it fires.
    pub enabled: bool,
    /// How often it has fired.
    pub fired: i64,
    /// How often it was refused, and why the last time.
    pub refused: (i64, Option<String>),
    /// When it has fired last.
    pub last_at: Option<DateTime<Utc>>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

const NOT_FOUND: Error = Error::NotFound { what: "trigger" };

/// Reads triggers `t`, between the name of the query and the conditions.
macro_rules! query_triggers {
    ($before:literal, $after:literal $(, $parameter:expr)* $(,)?) => {
        sqlx::query!(
            $before + r#"
            select t.id, t.user_id, t.agentable_id, a.kind, t.name, t.instructions, t.task as "task: Json<TriggerTask>",
                   t.rule as "rule: Json<When>", t.next_at, t.enabled, t.fired, t.refused, t.refusal, t.last_at,
                   t.created_at, t.updated_at
              from houston.triggers t
              join houston.agentables a on a.id = t.agentable_id
            "# + $after
            $(, $parameter)*
        )
        .map(|row| Trigger {
            id: TriggerId(row.id),
            user: UserId(row.user_id),
            agentable: (AgentableId(row.agentable_id), row.kind),
            name: row.name,
            instructions: row.instructions,
            task: row.task.map(|task| task.0),
            when: row.rule.0,
            next_at: row.next_at,
            enabled: row.enabled,
            fired: row.fired,
            refused: (row.refused, row.refusal),
            last_at: row.last_at,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    };
}

impl TenantStore<'_> {
    /// The kind of an agentable of a user of the tenant.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the user has no such agentable.
    pub async fn kind_for_trigger(self, user: UserId, agentable: AgentableId) -> Result<String> {
        let kind = sqlx::query_scalar!(
            "-- store::trigger::kind
            select kind from houston.agentables where tenant_id = $1 and user_id = $2 and id = $3",
            self.tenant.0,
            user.0,
            agentable.0
        );
        kind.fetch_optional(&self.pool).await?.ok_or(Error::NotFound { what: "agentable" })
    }

    /// Stores a trigger: it hears what is committed from now on. `response` is stored under the idempotency key.
    ///
    /// # Errors
    /// [`Error::Full`] when the user has [`MAX_TRIGGERS`], [`Error::NotFound`] when the user has no such agentable.
    pub async fn create_trigger(self, new: &Trigger, once: Once<'_>) -> Result<Created<Value>> {
        let add = async |tx: &mut PgConnection| {
            bound::lock(tx, "triggers", new.user.0).await?;
            begin_hearing(tx, &new.when).await?;
            let count = sqlx::query_scalar!(
                r#"-- store::trigger::count
                select count(*) as "count!" from houston.triggers where tenant_id = $1 and user_id = $2"#,
                self.tenant.0,
                new.user.0
            )
            .fetch_one(&mut *tx)
            .await?;
            ensure!(count < MAX_TRIGGERS, Error::Full { what: "triggers of a user", limit: MAX_TRIGGERS });
            // By the clock of the database, by which events have their times.
            sqlx::query!(
                "-- store::trigger::create
                insert into houston.triggers (id, tenant_id, user_id, agentable_id, name, instructions, rule, next_at, task,
                                              created_at, updated_at)
                select $2, $1, $3, a.id, $5, $6, $7, $8, $9, statement_timestamp(), statement_timestamp()
                  from houston.agentables a where a.tenant_id = $1 and a.user_id = $3 and a.id = $4",
                self.tenant.0,
                new.id.0,
                new.user.0,
                new.agentable.0.0,
                new.name,
                new.instructions,
                Json(&new.when) as Json<&When>,
                new.next_at,
                new.task.as_ref().map(Json) as Option<Json<&TriggerTask>>
            )
            .run_or(tx, Error::NotFound { what: "agentable" })
            .await
        };
        self.create_once(new.id.0, once, add).await
    }

    /// The triggers of a user, the oldest first.
    pub async fn triggers(self, user: UserId) -> Result<Vec<Trigger>> {
        let rows = query_triggers!(
            "-- store::trigger::list",
            "where t.tenant_id = $1 and t.user_id = $2 order by t.id limit 100",
            self.tenant.0,
            user.0
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// The triggers of the tenant that are due at a time, the next one first, at most [`MAX_DUE`].
    pub async fn due_triggers(self) -> Result<Vec<Trigger>> {
        // With `next_at is not null`, an index of all tenants might be walked. Those of events come last.
        let mut rows = query_triggers!(
            "-- store::trigger::due_next",
            "where t.tenant_id = $1 and t.enabled order by t.next_at limit 100",
            self.tenant.0
        )
        .fetch_all(&self.pool)
        .await?;
        rows.retain(|trigger| trigger.next_at.is_some());
        Ok(rows)
    }

    /// One trigger.
    pub async fn trigger(self, id: TriggerId) -> Result<Trigger> {
        let row = query_triggers!(
            "-- store::trigger::get",
            "where t.tenant_id = $1 and t.id = $2",
            self.tenant.0,
            id.0
        );
        row.fetch_optional(&self.pool).await?.ok_or(NOT_FOUND)
    }

    /// What became of a trigger the last times, the latest first.
    pub async fn trigger_firings(self, id: TriggerId) -> Result<Vec<Firing>> {
        let firings = sqlx::query_scalar!(
            r#"-- store::trigger::firings
            select firings as "firings: Json<Vec<Firing>>" from houston.triggers where tenant_id = $1 and id = $2"#,
            self.tenant.0,
            id.0
        );
        firings.fetch_optional(&self.pool).await?.map(|firings| firings.0).ok_or(NOT_FOUND)
    }

    /// Changes a trigger. One whose rule is changed, or that is switched on, is due for the first time after `now`.
    pub async fn change_trigger(
        self,
        id: TriggerId,
        change: &UpdateTrigger,
        now: DateTime<Utc>,
    ) -> Result<Trigger> {
        let mut tx = self.pool.begin().await?;
        let row = sqlx::query!(
            r#"-- store::trigger::lock
            select rule as "rule: Json<When>", next_at from houston.triggers where tenant_id = $1 and id = $2
               for no key update"#,
            self.tenant.0,
            id.0
        )
        .fetch_optional(&mut *tx)
        .await?
        .ok_or(NOT_FOUND)?;
        let begins = change.when.is_some() || change.enabled == Some(true);
        let when = change.when.as_ref().unwrap_or(&row.rule.0);
        if begins {
            begin_hearing(&mut tx, when).await?;
        }
        // A rule was checked before it was stored or given.
        let next_at = if begins { when.first_after(now).unwrap_or(None) } else { row.next_at };
        sqlx::query!(
            "-- store::trigger::change
            update houston.triggers
               set name = coalesce($3, name), instructions = coalesce($4, instructions), rule = $5, next_at = $6,
                   enabled = coalesce($7, enabled), deaths = case when $7 then 0 else deaths end, updated_at = $8
             where tenant_id = $1 and id = $2",
            self.tenant.0,
            id.0,
            change.name,
            change.instructions,
            Json(when) as Json<&When>,
            next_at,
            change.enabled,
            now
        )
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        self.trigger(id).await
    }

    /// Deletes a trigger. What it has heard is lost.
    pub async fn delete_trigger(self, id: TriggerId) -> Result<()> {
        let deleted = sqlx::query_scalar!(
            r#"-- store::trigger::delete
            with gone as (delete from houston.triggers where tenant_id = $1 and id = $2 returning id),
            heard as (delete from houston.trigger_firings f using gone where f.tenant_id = $1 and f.trigger_id = gone.id)
            select count(*) as "count!" from gone"#,
            self.tenant.0,
            id.0
        );
        if deleted.fetch_one(&self.pool).await? == 0 { Err(NOT_FOUND) } else { Ok(()) }
    }
}

/// Makes sure that workers look: for a time, or for events.
async fn begin_hearing(connection: &mut PgConnection, when: &When) -> Result<()> {
    if !matches!(when, When::Cron { .. }) {
        ensure_reader(connection).await?;
    }
    sqlx::query!("-- store::trigger::notify\nselect pg_notify('houston', '1 triggers')").run(connection).await
}
