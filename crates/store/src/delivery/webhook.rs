//! Webhooks of a tenant, and their deliveries as the tenant sees them.

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentableId, DeliveryId, TenantId, UserId, WebhookId};
use houston_domain::time::Time;
pub use houston_domain::webhook::UpdateWebhook;
use houston_domain::webhook::{Delivery, MAX_PENDING, MAX_WEBHOOKS, Webhook};
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::fan_out::ensure_reader;
use crate::bound;
use crate::error::{Error, Result};
use crate::handle::{RunStore, TenantStore};
use crate::statement::Statement as _;

/// A webhook to be stored.
#[derive(Debug, Clone, Copy)]
pub struct NewWebhook<'a> {
    /// The webhook.
    pub id: WebhookId,
    /// Where events are sent.
    pub url: &'a str,
    /// For people.
    pub description: &'a str,
    /// Patterns of topics, which were checked.
    pub topics: &'a [String],
    /// Only events of this user.
    pub user: Option<UserId>,
    /// Only events of this kind.
    pub kind: Option<&'a str>,
    /// Only events of this agentable.
    pub agentable: Option<AgentableId>,
    /// The secret that signs, sealed.
    pub sealed: &'a [u8],
}

/// Why a webhook was switched off by an answer.
pub(crate) const GONE: &str = "gone";
/// Why one was switched off for which too much waits.
const BACKLOG: &str = "backlog";
const NOT_FOUND: Error = Error::NotFound { what: "webhook" };

/// A statement that ends with webhooks, between `select` or `returning` and the rest.
macro_rules! query_webhooks {
    ($before:literal, $after:literal $(, $parameter:expr)* $(,)?) => {
        sqlx::query!(
            $before + "
                   id, url, description, topics, user_id, kind, agentable_id, sealed, old_sealed, old_until, enabled,
                   disabled_because, created_at, updated_at
            " + $after
            $(, $parameter)*
        )
        .map(|row| Webhook {
            id: WebhookId(row.id),
            url: row.url,
            description: row.description,
            topics: row.topics,
            user_id: row.user_id.map(UserId),
            // The kind of an agentable is that of the filter, which is stored with it.
            agentable_id: row
                .agentable_id
                .map(|id| AgentableId(id).public_id(row.kind.as_deref().unwrap_or_default())),
            kind: row.kind,
            sealed: row.sealed,
            old_sealed: row.old_sealed,
            old_secret_until: row.old_until.map(Time),
            enabled: row.enabled,
            disabled_because: row.disabled_because,
            created_at: Time(row.created_at),
            updated_at: Time(row.updated_at),
        })
    };
}

impl TenantStore<'_> {
    /// Stores a webhook: it gets the events that are committed from now on.
    ///
    /// # Errors
    /// [`Error::Full`] when the tenant has [`MAX_WEBHOOKS`].
    pub async fn create_webhook(self, new: &NewWebhook<'_>) -> Result<Webhook> {
        let mut tx = self.pool.begin().await?;
        bound::lock(&mut tx, "webhooks", self.tenant.0).await?;
        ensure_reader(&mut tx).await?;
        // By the clock of the database, by which events have their times.
        let created = query_webhooks!(
            "-- store::webhook::create
            insert into houston.webhooks (id, tenant_id, url, description, topics, user_id, kind, agentable_id, sealed,
                                          created_at, updated_at)
            select $2, $1, $3, $4, $5, $6, $7, $8, $9, statement_timestamp(), statement_timestamp()
             where $10 > (select count(*) from houston.webhooks where tenant_id = $1 and run_id is null)
            returning",
            "",
            self.tenant.0,
            new.id.0,
            new.url,
            new.description,
            new.topics,
            new.user.map(|user| user.0),
            new.kind,
            new.agentable.map(|agentable| agentable.0),
            new.sealed,
            MAX_WEBHOOKS
        )
        .fetch_optional(&mut *tx)
        .await?
        .ok_or(Error::Full { what: "webhooks of a tenant", limit: MAX_WEBHOOKS })?;
        tx.commit().await?;
        Ok(created)
    }

    /// The webhooks of the tenant, the oldest first.
    pub async fn webhooks(self) -> Result<Vec<Webhook>> {
        let rows = query_webhooks!(
            "-- store::webhook::list
            select",
            "from houston.webhooks where tenant_id = $1 and run_id is null order by id",
            self.tenant.0
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// One webhook.
    pub async fn webhook(self, id: WebhookId) -> Result<Webhook> {
        let row = query_webhooks!(
            "-- store::webhook::get
            select",
            "from houston.webhooks where tenant_id = $1 and id = $2 and run_id is null",
            self.tenant.0,
            id.0
        );
        row.fetch_optional(&self.pool).await?.ok_or(NOT_FOUND)
    }

    /// Changes a webhook. One that is switched on gets the events that are committed from then on.
    pub async fn change_webhook(
        self,
        id: WebhookId,
        change: &UpdateWebhook,
        now: DateTime<Utc>,
    ) -> Result<Webhook> {
        let mut tx = self.pool.begin().await?;
        if change.enabled == Some(true) {
            ensure_reader(&mut tx).await?;
        }
        let changed = query_webhooks!(
            "-- store::webhook::change
            update houston.webhooks
               set url = coalesce($3, url), description = coalesce($4, description), topics = coalesce($5, topics),
                   enabled = coalesce($6, enabled), disabled_because = case when $6 then null else disabled_because end,
                   updated_at = $7
             where tenant_id = $1 and id = $2 and run_id is null
            returning",
            "",
            self.tenant.0,
            id.0,
            change.url,
            change.description,
            change.topics.as_deref(),
            change.enabled,
            now
        )
        .fetch_optional(&mut *tx)
        .await?
        .ok_or(NOT_FOUND)?;
        tx.commit().await?;
        Ok(changed)
    }

    /// Replaces the secret of a webhook. The one before it signs, too, until `old_until`.
    pub async fn rotate_webhook_secret(
        self,
        id: WebhookId,
        sealed: &[u8],
        old_until: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Result<Webhook> {
        let row = query_webhooks!(
            "-- store::webhook::rotate
            update houston.webhooks set old_sealed = sealed, old_until = $4, sealed = $3, updated_at = $5
             where tenant_id = $1 and id = $2 and run_id is null
            returning",
            "",
            self.tenant.0,
            id.0,
            sealed,
            old_until,
            now
        );
        row.fetch_optional(&self.pool).await?.ok_or(NOT_FOUND)
    }

    /// Deletes a webhook with its deliveries.
    pub async fn delete_webhook(self, id: WebhookId) -> Result<()> {
        sqlx::query!(
            "-- store::webhook::delete
            delete from houston.webhooks where tenant_id = $1 and id = $2 and run_id is null",
            self.tenant.0,
            id.0
        )
        .run_or(&self.pool, NOT_FOUND)
        .await
    }

    /// Whether the tenant has this user, or agentable, in this cell: what a webhook may be restricted to.
    pub async fn has_event_owner(self, id: Uuid) -> Result<bool> {
        let has = sqlx::query_scalar!(
            r#"-- store::webhook::has_owner
            select exists (select from houston.users where tenant_id = $1 and id = $2)
                or exists (select from houston.agentables where tenant_id = $1 and id = $2) as "has!""#,
            self.tenant.0,
            id
        );
        Ok(has.fetch_one(&self.pool).await?)
    }

    /// Deliveries of a webhook, the newest first, with an id below `before` if given; with `state`, those in this state.
    pub async fn deliveries(
        self,
        webhook: WebhookId,
        state: Option<&str>,
        before: Option<DeliveryId>,
        limit: i64,
    ) -> Result<Vec<Delivery>> {
        let delivery = sqlx::query!(
            r#"-- store::webhook::delivery::list
            select d.id, d.agentable_id, a.kind, d.seq, d.topic, d.state, d.attempts, d.status, d.error, d.created_at,
                   d.attempted_at
              from houston.deliveries d
              join houston.agentables a on a.tenant_id = $1 and a.id = d.agentable_id
             where d.tenant_id = $1 and d.webhook_id = $2 and ($3::text is null or d.state = $3)
               and ($4::uuid is null or d.id < $4)
             order by d.id desc limit $5"#,
            self.tenant.0,
            webhook.0,
            state,
            before.map(|before| before.0),
            limit
        )
        .map(|row| Delivery {
            id: DeliveryId(row.id),
            event_id: format!("{}:{}", AgentableId(row.agentable_id).public_id(&row.kind), row.seq),
            topic: row.topic,
            state: row.state,
            attempts: row.attempts,
            status: row.status,
            error: row.error,
            created_at: row.created_at.into(),
            attempted_at: row.attempted_at.map(Time),
        });
        Ok(delivery.fetch_all(&self.pool).await?)
    }

    /// Attempts a delivery again, whatever became of it, as if it were new.
    pub async fn redeliver(self, webhook: WebhookId, id: DeliveryId, now: DateTime<Utc>) -> Result<()> {
        let mut tx = self.pool.begin().await?;
        // The webhook first, then what is open, then the deliveries: see `store::outbox::settle`. While another delivery of the
        // agentable is being sent, this one comes after it.
        sqlx::query!(
            "-- store::webhook::delivery::open
            with d as materialized (
                select d.tenant_id, d.webhook_id, d.agentable_id
                  from houston.deliveries d join houston.webhooks w on w.id = d.webhook_id
                 where d.tenant_id = $1 and d.webhook_id = $2 and d.id = $3
                   for key share of w)
            insert into houston.open_deliveries (webhook_id, agentable_id, tenant_id, due_at)
            select webhook_id, agentable_id, tenant_id, $4 from d
                on conflict (webhook_id, agentable_id) do update
               set due_at = case when open_deliveries.claim is null
                                 then least(open_deliveries.due_at, excluded.due_at) else open_deliveries.due_at end",
            self.tenant.0,
            webhook.0,
            id.0,
            now
        )
        .execute(&mut *tx)
        .await?;
        sqlx::query!(
            "-- store::webhook::delivery::again
            update houston.deliveries set state = 'pending', attempts = 0, created_at = $4
             where tenant_id = $1 and webhook_id = $2 and id = $3",
            self.tenant.0,
            webhook.0,
            id.0,
            now
        )
        .run_or(&mut *tx, Error::NotFound { what: "delivery" })
        .await?;
        Ok(tx.commit().await?)
    }
}

/// Locks one that is to be switched off or deleted.
pub(crate) async fn lock(connection: &mut PgConnection, webhook: Uuid) -> Result<()> {
    sqlx::query!("-- store::webhook::lock\nselect from houston.webhooks where id = $1 for update", webhook)
        .run(connection)
        .await
}

impl RunStore {
    /// Switches off webhooks with more than [`MAX_PENDING`] events that wait for their receiver. Returns how many. A replay
    /// delivers what they miss.
    pub async fn switch_off_backlogged_webhooks(&self, now: DateTime<Utc>) -> Result<usize> {
        let backlogged = sqlx::query_scalar!(
            "-- store::webhook::backlogged
            select w.id from houston.webhooks w
             where w.enabled and w.id in (select webhook_id from houston.open_deliveries)
               and (select count(*) from (select from houston.deliveries d
                                           where d.webhook_id = w.id and d.state = 'pending' limit $1::bigint + 1) p) > $1::bigint
             order by w.id",
            MAX_PENDING
        )
        .fetch_all(&self.pool)
        .await?;
        for webhook in &backlogged {
            let mut tx = self.pool.begin().await?;
            lock(&mut tx, *webhook).await?;
            switch_off(&mut tx, WebhookId(*webhook), BACKLOG, now).await?;
            tx.commit().await?;
        }
        Ok(backlogged.len())
    }
}

/// Switches a webhook off whose receiver is gone, or lets too much wait. That of a task is deleted.
pub(crate) async fn switch_off(
    connection: &mut PgConnection,
    webhook: WebhookId,
    because: &str,
    now: DateTime<Utc>,
) -> Result<()> {
    sqlx::query!(
        "-- store::webhook::gone
        with pushed as (delete from houston.webhooks where id = $1 and run_id is not null)
        update houston.webhooks
           set enabled = false, disabled_because = $2,
               -- Later than its last change, by whatever clock that was: so it is copied to the other cells.
               updated_at = greatest($3, updated_at + interval '1 microsecond')
         where id = $1 and enabled and run_id is null",
        webhook.0,
        because,
        now
    )
    .run(connection)
    .await
}

/// Makes the webhooks of a tenant those of the home. What a worker here has switched off stays off until it is changed.
pub(crate) async fn copy(connection: &mut PgConnection, tenant: TenantId, rows: &Value) -> Result<()> {
    // All that will be deleted or changed, by id: see the order of locks.
    sqlx::query!(
        "-- store::webhook::copies_lock
        select from houston.webhooks where tenant_id = $1 and run_id is null order by id for update",
        tenant.0
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "-- store::webhook::copies_gone
        delete from houston.webhooks w
         where w.tenant_id = $1 and w.run_id is null and not exists (
               select from jsonb_to_recordset($2::jsonb->'webhooks') as r (id uuid) where r.id = w.id)",
        tenant.0,
        rows
    )
    .execute(&mut *connection)
    .await?;
    let copied = sqlx::query!(
        "-- store::webhook::copies
        insert into houston.webhooks as w
        select r.* from jsonb_populate_recordset(null::houston.webhooks, $1::jsonb->'webhooks') r
        on conflict (id) do update
           set url = excluded.url, description = excluded.description, topics = excluded.topics, sealed = excluded.sealed,
               old_sealed = excluded.old_sealed, old_until = excluded.old_until, enabled = excluded.enabled,
               disabled_because = excluded.disabled_because, updated_at = excluded.updated_at
         where w.updated_at < excluded.updated_at",
        rows
    )
    .execute(&mut *connection)
    .await?;
    if copied.rows_affected() > 0 {
        ensure_reader(connection).await?;
    }
    Ok(())
}
