//! What clients offer the runs that answer their messages: stored with the message, and read with the context of the run that
//! reads it.
//!
//! An agentable has that of its latest message with an offer. A message without one costs nothing.

use houston_domain::client_offer::ClientOffer;
use houston_domain::id::AgentableId;
use sqlx::types::Json;

use crate::error::Result;
use crate::handle::TenantStore;
use crate::idempotency::{Created, IdempotencyKey};
use crate::message::{NewPost, Posted};
use crate::statement::Statement as _;

impl TenantStore<'_> {
    /// Stores a user's message with what its client offers the run that answers it, in one transaction.
    pub async fn post_message_with_offer(
        self,
        agentable: AgentableId,
        post: &NewPost,
        offer: &ClientOffer,
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Created<Posted>> {
        if let Some(kind) = &post.kind {
            self.agentable(kind, agentable).await?;
        }
        let mut tx = self.pool.begin().await?;
        let posted = self.post_alone(&mut tx, agentable, post, key).await;
        if let Ok(Created::New(_)) = posted {
            sqlx::query!(
                "-- store::client_offer::put
                insert into houston.client_offers as o (agentable_id, tenant_id, message_id, offer)
                values ($2, $1, $3, $4)
                -- The focus that a run has had, or will have before this one. Of several messages that one run reads, the last counts.
                on conflict (agentable_id) do update
                   set message_id = excluded.message_id, offer = excluded.offer,
                       last_focus = case when o.offer ? 'focus' and not exists (
                           select from houston.messages a join houston.messages b on b.run_id = a.run_id
                            where a.id = o.message_id and b.id = excluded.message_id)
                           then o.offer -> 'focus' else o.last_focus end
                 where o.tenant_id = $1",
                self.tenant.0,
                agentable.0,
                post.id.0,
                Json(offer) as _
            )
            .execute(&mut *tx)
            .await?;
            tx.commit().await?;
        } else {
            // A transaction that is dropped keeps its locks until the pool rolls it back.
            let _ = tx.rollback().await;
        }
        posted
    }

    /// Changes what the client of the agentable's latest message with an offer offers, from the next attempt of its run on.
    pub async fn change_client_offer(self, agentable: AgentableId, offer: &ClientOffer) -> Result<()> {
        sqlx::query!(
            "-- store::client_offer::change
            update houston.client_offers set offer = $3 where tenant_id = $1 and agentable_id = $2 and offer <> $3",
            self.tenant.0,
            agentable.0,
            Json(offer) as _
        )
        .run(&self.pool)
        .await
    }

    /// Leaves it to the model which of these tools it calls: the client has answered, and says nothing more about them.
    pub async fn release_client_choice(self, agentable: AgentableId) -> Result<()> {
        sqlx::query!(
            "-- store::client_offer::release
            update houston.client_offers set offer = offer - 'must_call'
             where tenant_id = $1 and agentable_id = $2 and offer ? 'must_call'",
            self.tenant.0,
            agentable.0
        )
        .run(&self.pool)
        .await
    }

    /// The names of the tools that the client of the agentable's latest message with an offer offers.
    pub async fn client_tools(self, agentable: AgentableId) -> Result<Vec<String>> {
        let names = sqlx::query_scalar!(
            r#"-- store::client_offer::tools
            select t.tool ->> 'name' as "name!"
              from houston.client_offers o
             cross join lateral jsonb_array_elements(o.offer -> 'tools') as t (tool)
             where o.tenant_id = $1 and o.agentable_id = $2"#,
            self.tenant.0,
            agentable.0
        );
        Ok(names.fetch_all(&self.pool).await?)
    }
}
