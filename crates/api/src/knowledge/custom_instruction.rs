//! `/v1/users/{id}/custom-instructions`: rules of a user, which each of their agents follows.

use houston_domain::id::{CustomInstructionId, TenantId, UserId};
use houston_store::custom_instruction::{CustomInstruction, NewCustomInstruction};
use houston_store::idempotency::{Created, IdempotencyKey};
use houston_store::{Result, Store};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Noun, Sentence};
use crate::error::ApiError;
use crate::page::List;
use crate::place;
use crate::rfc3339::Time;

/// Rules of a user, which each of their agents follows.
pub(crate) enum CustomInstructions {}

/// A custom instruction as clients see it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Shown {
    id: CustomInstructionId,
    user_id: UserId,
    content: String,
    created_at: Time,
    updated_at: Time,
}

impl From<CustomInstruction> for Shown {
    fn from(item: CustomInstruction) -> Self {
        Self {
            id: item.id,
            user_id: item.user,
            content: item.content,
            created_at: Time(item.created_at),
            updated_at: Time(item.updated_at),
        }
    }
}

impl Noun for CustomInstructions {
    type Id = CustomInstructionId;
    type Owner = place::Id<UserId>;
    type New = Sentence;
    type Change = Sentence;
    type Shown = Shown;

    const LIST: List = List::CustomInstructions;
    const PATH: &'static str = "custom-instructions";

    fn id(shown: &Shown) -> CustomInstructionId {
        shown.id
    }

    fn make(
        id: CustomInstructionId,
        owner: &Self::Owner,
        new: Sentence,
        at: Time,
    ) -> Result<Shown, ApiError> {
        new.check()?;
        let user_id = owner.0;
        Ok(Shown { id, user_id, content: new.content, created_at: at, updated_at: at })
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
        let new = NewCustomInstruction {
            id: item.id,
            user: owner.0,
            content: &item.content,
            created_at: item.created_at.0,
        };
        store.create_custom_instruction(tenant, &new, key, response).await
    }

    async fn list(
        store: &Store,
        tenant: TenantId,
        owner: &Self::Owner,
        before: Option<CustomInstructionId>,
        limit: i64,
    ) -> Result<Vec<Shown>> {
        let items = store.custom_instructions(tenant, owner.0, before, limit).await?;
        Ok(items.into_iter().map(Shown::from).collect())
    }

    async fn get(store: &Store, tenant: TenantId, id: CustomInstructionId) -> Result<Shown> {
        store.custom_instruction(tenant, id).await.map(Shown::from)
    }

    async fn change(
        store: &Store,
        tenant: TenantId,
        id: CustomInstructionId,
        change: Sentence,
    ) -> Result<Shown> {
        store.change_custom_instruction(tenant, id, &change.content).await.map(Shown::from)
    }

    async fn delete(store: &Store, tenant: TenantId, id: CustomInstructionId) -> Result<()> {
        store.delete_custom_instruction(tenant, id).await
    }
}
