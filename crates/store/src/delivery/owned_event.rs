//! Events of all agentables with their owners.

use std::collections::HashMap;

use houston_domain::event::Committed;
use houston_domain::event::topic::EventOwner;
use houston_domain::id::{AgentableId, TenantId, UserId};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::event::position::page_since;
use crate::event::{EventPosition, only};
use crate::handle::{ApiStore, Shared, TenantStore};
use crate::statement::uuids;

/// An event and whose it is.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnedEvent {
    /// The tenant.
    pub tenant: TenantId,
    /// The agentable, its kind and its user.
    pub owner: EventOwner,
    /// The event.
    pub event: Committed,
}

/// A page of events.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnedPage {
    /// The events: those of one agentable in the order of their positions.
    pub events: Vec<OwnedEvent>,
    /// Where the next page begins.
    pub next: EventPosition,
    /// Whether more events may be visible already.
    pub has_more: bool,
}

impl Shared {
    /// The events of these tenants after `position`, about `limit` at most. Those of agentables that were erased are left out.
    pub(crate) async fn owned_events_since(
        &self,
        position: &EventPosition,
        limit: i64,
        tenants: &[Uuid],
    ) -> Result<OwnedPage> {
        let mut tx = self.pool_of(only(tenants)).begin().await?;
        let page = owned_page(&mut tx, position, limit, tenants).await?;
        tx.commit().await?;
        Ok(page)
    }

    /// Whose agentables these are, of these tenants.
    pub(crate) async fn event_owners(
        &self,
        agentables: &[Uuid],
        tenants: &[Uuid],
    ) -> Result<HashMap<AgentableId, EventOwner>> {
        owners(&self.pool_of(only(tenants)), agentables, tenants).await
    }
}

/// [`Shared::owned_events_since`], in a transaction of the caller.
pub(crate) async fn owned_page(
    connection: &mut PgConnection,
    position: &EventPosition,
    limit: i64,
    tenants: &[Uuid],
) -> Result<OwnedPage> {
    let page = page_since(&mut *connection, position, limit, tenants).await?;
    let mut agentables: Vec<Uuid> = page.events.iter().map(|event| event.agentable.0).collect();
    agentables.dedup();
    let owners =
        if agentables.is_empty() { HashMap::new() } else { owners(connection, &agentables, tenants).await? };
    let events = page.events.into_iter().filter_map(|any| {
        let owner = owners.get(&any.agentable)?.clone();
        Some(OwnedEvent { tenant: any.tenant, owner, event: any.event })
    });
    Ok(OwnedPage { events: events.collect(), next: page.next, has_more: page.has_more })
}

async fn owners(
    executor: impl PgExecutor<'_>,
    agentables: &[Uuid],
    tenants: &[Uuid],
) -> Result<HashMap<AgentableId, EventOwner>> {
    let rows = sqlx::query!(
        "-- store::owned_event::owners
            select id, kind, user_id from houston.agentables where tenant_id = any ($2) and id = any ($1)",
        agentables,
        tenants
    )
    .fetch_all(executor)
    .await?;
    let owner = |id, kind, user| EventOwner { agentable: AgentableId(id), kind, user: UserId(user) };
    Ok(rows.into_iter().map(|row| (AgentableId(row.id), owner(row.id, row.kind, row.user_id))).collect())
}

impl ApiStore {
    /// The events of these tenants after `position`, about `limit` at most, for their open streams.
    ///
    /// # Errors
    /// [`Error::UnknownPosition`](crate::Error::UnknownPosition) when the position is of another database.
    pub async fn events_of_tenants(
        &self,
        position: &EventPosition,
        limit: i64,
        tenants: &[TenantId],
    ) -> Result<OwnedPage> {
        self.owned_events_since(position, limit, &uuids(tenants)).await
    }
}

impl TenantStore<'_> {
    /// The events of the tenant after `position`, about `limit` at most.
    ///
    /// # Errors
    /// As [`ApiStore::events_of_tenants`], and [`Error::EventsDeleted`] when some of them were deleted by age.
    pub async fn events_of_all(self, position: &EventPosition, limit: i64) -> Result<OwnedPage> {
        let page = self.owned_events_since(position, limit, &[self.tenant.0]).await?;
        // Asked after the page was read: what is deleted from now on was still on it.
        if self.keeps_events_since(position).await? { Ok(page) } else { Err(Error::EventsDeleted) }
    }
}
