//! `/v1/{kinds}/{id}/learnings`: what an agent learnt about its user or its aim.

use std::collections::BTreeMap;

use houston_domain::id::{LearningId, TenantId};
use houston_store::idempotency::{Created, IdempotencyKey};
use houston_store::learning::{Learning, NewLearning};
use houston_store::{Result, Store};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Noun, Sentence, owner_id};
use crate::error::ApiError;
use crate::page::List;
use crate::place::Place;
use crate::rfc3339::Time;

/// What an agent learnt about its user or its aim.
pub(crate) enum Learnings {}

/// A learning as clients see it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Shown {
    id: LearningId,
    /// `goal_id`, `task_id`, …
    #[serde(flatten)]
    of: BTreeMap<String, String>,
    content: String,
    created_at: Time,
    updated_at: Time,
}

impl From<Learning> for Shown {
    fn from(item: Learning) -> Self {
        Self {
            id: item.id,
            of: owner_id(&item.kind, item.agentable),
            content: item.content,
            created_at: Time(item.created_at),
            updated_at: Time(item.updated_at),
        }
    }
}

impl Noun for Learnings {
    type Id = LearningId;
    type Owner = Place;
    type New = Sentence;
    type Change = Sentence;
    type Shown = Shown;

    const LIST: List = List::Learnings;
    const PATH: &'static str = "learnings";

    fn id(shown: &Shown) -> LearningId {
        shown.id
    }

    fn make(id: LearningId, owner: &Self::Owner, new: Sentence, at: Time) -> Result<Shown, ApiError> {
        new.check()?;
        let of = owner_id(&owner.kind, owner.id);
        Ok(Shown { id, of, content: new.content, created_at: at, updated_at: at })
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
        let new = NewLearning {
            id: item.id,
            agentable: owner.id,
            content: &item.content,
            created_at: Some(item.created_at.0),
        };
        store.create_learning(tenant, &new, key, response).await
    }

    async fn list(
        store: &Store,
        tenant: TenantId,
        owner: &Self::Owner,
        before: Option<LearningId>,
        limit: i64,
    ) -> Result<Vec<Shown>> {
        let items = store.learnings(tenant, owner.id, before, limit).await?;
        Ok(items.into_iter().map(Shown::from).collect())
    }

    async fn get(store: &Store, tenant: TenantId, id: LearningId) -> Result<Shown> {
        store.learning(tenant, id).await.map(Shown::from)
    }

    async fn change(store: &Store, tenant: TenantId, id: LearningId, change: Sentence) -> Result<Shown> {
        store.change_learning(tenant, id, &change.content).await.map(Shown::from)
    }

    async fn delete(store: &Store, tenant: TenantId, id: LearningId) -> Result<()> {
        store.delete_learning(tenant, id).await
    }
}
