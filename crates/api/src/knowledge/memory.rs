//! `/v1/users/{id}/memories`: what all agents of a user should still know another day.

use houston_domain::id::{MemoryId, RunId, TenantId, UserId};
use houston_store::idempotency::{Created, IdempotencyKey};
use houston_store::memory::{Memory, NewMemory};
use houston_store::{Result, Store};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Noun, Sentence};
use crate::error::ApiError;
use crate::page::List;
use crate::place;
use crate::rfc3339::Time;

/// What all agents of a user should still know another day.
pub(crate) enum Memories {}

/// A memory as clients see it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Shown {
    id: MemoryId,
    user_id: UserId,
    /// The run that saved it, if one did.
    run_id: Option<RunId>,
    content: String,
    created_at: Time,
    updated_at: Time,
}

impl From<Memory> for Shown {
    fn from(item: Memory) -> Self {
        Self {
            id: item.id,
            user_id: item.user,
            run_id: item.run,
            content: item.content,
            created_at: Time(item.created_at),
            updated_at: Time(item.updated_at),
        }
    }
}

impl Noun for Memories {
    type Id = MemoryId;
    type Owner = place::Id<UserId>;
    type New = Sentence;
    type Change = Sentence;
    type Shown = Shown;

    const LIST: List = List::Memories;
    const PATH: &'static str = "memories";

    fn id(shown: &Shown) -> MemoryId {
        shown.id
    }

    fn make(id: MemoryId, owner: &Self::Owner, new: Sentence, at: Time) -> Result<Shown, ApiError> {
        new.check()?;
        let user_id = owner.0;
        Ok(Shown { id, user_id, run_id: None, content: new.content, created_at: at, updated_at: at })
    }

    fn check(change: &Sentence) -> Result<(), ApiError> {
        change.check()
    }

    async fn insert(
        store: &Store,
        tenant: TenantId,
        owner: &Self::Owner,
        item: &Shown,
        key: Option<IdempotencyKey<'_>>,
        response: &Value,
    ) -> Result<Created<Value>> {
        let new = NewMemory {
            id: item.id,
            user: owner.0,
            run: None,
            content: &item.content,
            created_at: Some(item.created_at.0),
        };
        store.create_memory(tenant, &new, key, response).await
    }

    async fn list(
        store: &Store,
        tenant: TenantId,
        owner: &Self::Owner,
        before: Option<MemoryId>,
        limit: i64,
    ) -> Result<Vec<Shown>> {
        let items = store.memories(tenant, owner.0, before, limit).await?;
        Ok(items.into_iter().map(Shown::from).collect())
    }

    async fn get(store: &Store, tenant: TenantId, id: MemoryId) -> Result<Shown> {
        store.memory(tenant, id).await.map(Shown::from)
    }

    async fn change(store: &Store, tenant: TenantId, id: MemoryId, change: Sentence) -> Result<Shown> {
        store.change_memory(tenant, id, &change.content).await.map(Shown::from)
    }

    async fn delete(store: &Store, tenant: TenantId, id: MemoryId) -> Result<()> {
        store.delete_memory(tenant, id).await
    }
}
