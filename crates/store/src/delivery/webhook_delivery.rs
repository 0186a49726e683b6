//! Deliveries as a tenant sees them.

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentableId, DeliveryId, WebhookId};
use houston_domain::time::Time;
pub use houston_domain::webhook::Delivery;

use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::statement::Statement as _;

impl TenantStore<'_> {
    /// Deliveries of a webhook, the newest first, with an id below `before` if given; with `state`, those in this state.
    pub async fn deliveries(
        self,
        webhook: WebhookId,
        state: Option<&str>,
        before: Option<DeliveryId>,
        limit: i64,
    ) -> Result<Vec<Delivery>> {
        let delivery = sqlx::query!(
            r#"-- store::webhook_delivery::list
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
            "-- store::webhook_delivery::open
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
            "-- store::webhook_delivery::again
            update houston.deliveries set state = 'pending', attempts = 0, created_at = $4
             where tenant_id = $1 and webhook_id = $2 and id = $3",
            self.tenant.0,
            webhook.0,
            id.0,
            now
        )
        .run_or(&mut *tx, Error::NotFound { what: "delivery" })
        .await?;
        tx.commit().await?;
        Ok(())
    }
}
