//! Inbound hooks: addresses at which other programs post messages to an agentable, once for each id that they send.

use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::id::{AgentableId, InboundHookId, MessageId, RunId, TenantId};
use houston_domain::webhook::MAX_INBOUND_HOOKS;
use serde_json::Value;

use crate::bound;
use crate::error::{Error, Result};
use crate::handle::{ApiStore, TenantStore};
use crate::statement::Statement as _;
use crate::system_message::{Delivery, NewSystemMessage, deliver, lock};

/// An inbound hook, with its secrets, which are sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboundHook {
    /// The hook.
    pub id: InboundHookId,
    /// The tenant.
    pub tenant: TenantId,
    /// Whom messages are posted to, and its kind.
    pub agentable: (AgentableId, String),
    /// Where the texts come from.
    pub name: String,
    /// What the agent reads before each text.
    pub instructions: String,
    /// The secret that signs.
    pub sealed: Vec<u8>,
    /// The secret before it, which is accepted, too, until `old_until`.
    pub old_sealed: Option<Vec<u8>>,
    /// Until when.
    pub old_until: Option<DateTime<Utc>>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
}

/// What was received.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedMessage<'a> {
    /// The id that its sender gave it, the same for each attempt.
    pub webhook_id: &'a str,
    /// The id of the message.
    pub message: MessageId,
    /// The id of the run that it may open.
    pub run: RunId,
    /// What the agent reads.
    pub content: &'a str,
    /// Metadata for clients, a JSON object.
    pub metadata: &'a Value,
    /// Where the run that it opens belongs in a trace: a `traceparent`.
    pub traceparent: Option<&'a str>,
    /// The current time.
    pub now: DateTime<Utc>,
}

/// How long ids of senders are kept. Senders give up after some days.
const KEPT_DAYS: i64 = 14;
const NOT_FOUND: Error = Error::NotFound { what: "inbound hook" };

/// Reads hooks `h`, between the name of the query and the join with their agentables.
macro_rules! query_hooks {
    ($before:literal, $after:literal $(, $parameter:expr)* $(,)?) => {
        sqlx::query!(
            $before + "
            select h.id, h.tenant_id, h.agentable_id, a.kind, h.name, h.instructions, h.sealed, h.old_sealed,
                   h.old_until, h.created_at
              from houston.inbound_hooks h
              join houston.agentables a on
            " + $after
            $(, $parameter)*
        )
        .map(|row| InboundHook {
            id: InboundHookId(row.id),
            tenant: TenantId(row.tenant_id),
            agentable: (AgentableId(row.agentable_id), row.kind),
            name: row.name,
            instructions: row.instructions,
            sealed: row.sealed,
            old_sealed: row.old_sealed,
            old_until: row.old_until,
            created_at: row.created_at,
        })
    };
}

impl TenantStore<'_> {
    /// Stores an inbound hook. Its times and its agentable must be those of the tenant.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such agentable, [`Error::Full`] when it has [`MAX_INBOUND_HOOKS`].
    pub async fn create_inbound_hook(self, new: &InboundHook) -> Result<()> {
        let agentable = new.agentable.0;
        let mut tx = self.pool.begin().await?;
        bound::lock(&mut tx, "inbound hooks", agentable.0).await?;
        let has_room = sqlx::query_scalar!(
            r#"-- store::inbound_hook::room
            select $4 > (select count(*) from houston.inbound_hooks h where h.tenant_id = $1 and h.agentable_id = a.id)
                   as "has_room!"
              from houston.agentables a where a.tenant_id = $1 and a.id = $2 and a.kind = $3"#,
            self.tenant.0,
            agentable.0,
            new.agentable.1,
            MAX_INBOUND_HOOKS
        )
        .fetch_optional(&mut *tx)
        .await?;
        let (is_there, has_room) = (has_room.is_some(), has_room == Some(true));
        let what = "inbound hooks of an agentable";
        Error::check_inserted("agentable", what, MAX_INBOUND_HOOKS, is_there, has_room)?;
        sqlx::query!(
            "-- store::inbound_hook::create
            insert into houston.inbound_hooks (id, tenant_id, agentable_id, name, instructions, sealed, created_at)
            values ($2, $1, $3, $4, $5, $6, $7)",
            self.tenant.0,
            new.id.0,
            agentable.0,
            new.name,
            new.instructions,
            new.sealed,
            new.created_at
        )
        .execute(&mut *tx)
        .await?;
        Ok(tx.commit().await?)
    }

    /// The inbound hooks of an agentable, the oldest first.
    pub async fn inbound_hooks(self, agentable: AgentableId) -> Result<Vec<InboundHook>> {
        let rows = query_hooks!(
            "-- store::inbound_hook::list",
            "a.tenant_id = $1 and a.id = h.agentable_id
             where h.tenant_id = $1 and h.agentable_id = $2 order by h.id",
            self.tenant.0,
            agentable.0
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// One inbound hook.
    pub async fn inbound_hook(self, id: InboundHookId) -> Result<InboundHook> {
        let row = query_hooks!(
            "-- store::inbound_hook::get",
            "a.tenant_id = $1 and a.id = h.agentable_id
             where h.tenant_id = $1 and h.id = $2",
            self.tenant.0,
            id.0
        );
        row.fetch_optional(&self.pool).await?.ok_or(NOT_FOUND)
    }

    /// Replaces the secret of a hook. The one before it is accepted, too, until `old_until`.
    pub async fn rotate_inbound_secret(
        self,
        id: InboundHookId,
        sealed: &[u8],
        old_until: DateTime<Utc>,
    ) -> Result<()> {
        sqlx::query!(
            "-- store::inbound_hook::rotate
            update houston.inbound_hooks set old_sealed = sealed, old_until = $4, sealed = $3
             where tenant_id = $1 and id = $2",
            self.tenant.0,
            id.0,
            sealed,
            old_until
        )
        .run_or(&self.pool, NOT_FOUND)
        .await
    }

    /// Deletes an inbound hook.
    pub async fn delete_inbound_hook(self, id: InboundHookId) -> Result<()> {
        sqlx::query!(
            "-- store::inbound_hook::delete
            with received as (delete from houston.inbound_messages where tenant_id = $1 and hook_id = $2)
            delete from houston.inbound_hooks where tenant_id = $1 and id = $2",
            self.tenant.0,
            id.0
        )
        .run_or(&self.pool, NOT_FOUND)
        .await
    }

    /// Posts what was received as a system message, unless the same id was received before. Returns the message, and the
    /// run that reads it if it was posted now. Ids that were received long ago are forgotten.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the agentable was erased or is archived.
    pub async fn receive(
        self,
        hook: &InboundHook,
        received: &ReceivedMessage<'_>,
    ) -> Result<(MessageId, Option<RunId>)> {
        let agentable = hook.agentable.0;
        let mut tx = self.pool.begin().await?;
        let row = lock(&mut tx, agentable).await?.ok_or(Error::NotFound { what: "agentable" })?;
        // Under the lock of the agentable, so that of two at once one finds the other.
        let before = sqlx::query_scalar!(
            "-- store::inbound_hook::received
            select message_id from houston.inbound_messages where tenant_id = $1 and hook_id = $2 and webhook_id = $3",
            self.tenant.0,
            hook.id.0,
            received.webhook_id
        )
        .fetch_optional(&mut *tx)
        .await?;
        if let Some(before) = before {
            return Ok((MessageId(before), None));
        }
        sqlx::query!(
            "-- store::inbound_hook::receive
            with old as (
                delete from houston.inbound_messages o
                 where o.tenant_id = $1 and o.hook_id = $2 and o.webhook_id in (
                       select p.webhook_id from houston.inbound_messages p
                        where p.tenant_id = $1 and p.hook_id = $2 and p.created_at < $7 order by p.created_at limit 100))
            insert into houston.inbound_messages (hook_id, webhook_id, tenant_id, agentable_id, message_id, created_at)
            values ($2, $3, $1, $4, $5, $6)",
            self.tenant.0,
            hook.id.0,
            received.webhook_id,
            agentable.0,
            received.message.0,
            received.now,
            received.now - TimeDelta::days(KEPT_DAYS)
        )
        .execute(&mut *tx)
        .await?;
        let message = NewSystemMessage {
            agentable,
            message: received.message,
            run: received.run,
            mode: None,
            content: received.content,
            metadata: received.metadata,
            event: None,
            traceparent: received.traceparent,
        };
        if deliver(&mut tx, &row, &message, self.fairness).await? != Delivery::Posted {
            return Err(Error::NotFound { what: "open conversation" });
        }
        tx.commit().await?;
        let run = row.run_id.filter(|_| row.run_open).map_or(received.run, RunId);
        Ok((received.message, Some(run)))
    }
}

impl ApiStore {
    /// The inbound hook with this id, and what belongs to its tenant. The signature of what it was sent must be verified
    /// before anything else is done.
    pub async fn inbound_hook(&self, id: InboundHookId) -> Result<Option<(InboundHook, TenantStore<'_>)>> {
        let row = query_hooks!(
            "-- store::inbound_hook::opened",
            "a.tenant_id = h.tenant_id and a.id = h.agentable_id
             where h.id = $1",
            id.0
        )
        .map(|hook| {
            let store = self.shared.tenant(hook.tenant);
            (hook, store)
        });
        Ok(row.fetch_optional(&self.pool).await?)
    }
}
