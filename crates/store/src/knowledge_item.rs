//! What agents know: notes, learnings, memories, custom instructions, feed items. The files of these nouns have their
//! queries; what is done with all of them alike is here.

use houston_domain::id::TenantId;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::bound;
use crate::error::{Error, Result};
use crate::idempotency::{Created, IdempotencyKey, earlier};
use crate::pool::Store;

/// A noun of what agents know: one row of it.
pub trait KnowledgeItem: Sized + Send + 'static {
    /// Ids of its rows.
    type Id: Copy + Send + Into<Uuid>;
    /// What a row belongs to.
    type Owner: Copy + Send;
    /// A row about to be made.
    type New<'a>: Send + Sync;
    /// What changes in a row.
    type Change<'a>: Send;

    /// What it is called.
    const NAME: &'static str;

    /// The id of a row about to be made.
    fn id(new: &Self::New<'_>) -> Self::Id;

    /// The id of the owner of a row about to be made.
    fn owner(new: &Self::New<'_>) -> Uuid;

    /// Makes one.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such owner, [`Error::Full`] when that has too many.
    fn insert(
        connection: &mut PgConnection,
        tenant: TenantId,
        new: &Self::New<'_>,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Those of an owner of the tenant, newest first, older than `before` if given.
    ///
    /// # Errors
    /// What the database says.
    fn list(
        connection: &mut PgConnection,
        tenant: TenantId,
        owner: Self::Owner,
        before: Option<Self::Id>,
        limit: i64,
    ) -> impl Future<Output = Result<Vec<Self>>> + Send;

    /// One of the tenant.
    ///
    /// # Errors
    /// What the database says.
    fn find(
        connection: &mut PgConnection,
        tenant: TenantId,
        id: Self::Id,
    ) -> impl Future<Output = Result<Option<Self>>> + Send;

    /// Changes what is given of one of the tenant.
    ///
    /// # Errors
    /// What the database says.
    fn change(
        connection: &mut PgConnection,
        tenant: TenantId,
        id: Self::Id,
        change: Self::Change<'_>,
    ) -> impl Future<Output = Result<Option<Self>>> + Send;

    /// Deletes one of the tenant. Returns whether it was there.
    ///
    /// # Errors
    /// What the database says.
    fn delete(
        connection: &mut PgConnection,
        tenant: TenantId,
        id: Self::Id,
    ) -> impl Future<Output = Result<bool>> + Send;
}

impl Store {
    /// Makes a row. `response` is what the client is answered, kept under the idempotency key.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such owner, [`Error::Full`] when that has too many.
    pub async fn create_item<K: KnowledgeItem>(
        &self,
        tenant: TenantId,
        new: &K::New<'_>,
        key: Option<IdempotencyKey<'_>>,
        response: &Value,
    ) -> Result<Created<Value>> {
        let mut tx = self.pool.begin().await?;
        if let Some(earlier) = earlier(&mut tx, tenant, key, K::id(new).into(), response).await? {
            return Ok(earlier);
        }
        bound::lock(&mut tx, K::NAME, K::owner(new)).await?;
        K::insert(&mut tx, tenant, new).await?;
        tx.commit().await?;
        Ok(Created::New(response.clone()))
    }

    /// Rows of an owner of the tenant, newest first, older than `before` if given.
    ///
    /// # Errors
    /// What the database says.
    pub async fn list_items<K: KnowledgeItem>(
        &self,
        tenant: TenantId,
        owner: K::Owner,
        before: Option<K::Id>,
        limit: i64,
    ) -> Result<Vec<K>> {
        K::list(&mut *self.pool.acquire().await?, tenant, owner, before, limit).await
    }

    /// A row of the tenant.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn item<K: KnowledgeItem>(&self, tenant: TenantId, id: K::Id) -> Result<K> {
        let found = K::find(&mut *self.pool.acquire().await?, tenant, id).await?;
        found.ok_or(Error::NotFound { what: K::NAME })
    }

    /// Changes what is given of a row of the tenant, and returns it.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn change_item<K: KnowledgeItem>(
        &self,
        tenant: TenantId,
        id: K::Id,
        change: K::Change<'_>,
    ) -> Result<K> {
        let changed = K::change(&mut *self.pool.acquire().await?, tenant, id, change).await?;
        changed.ok_or(Error::NotFound { what: K::NAME })
    }

    /// Deletes a row of the tenant.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn delete_item<K: KnowledgeItem>(&self, tenant: TenantId, id: K::Id) -> Result<()> {
        let done = K::delete(&mut *self.pool.acquire().await?, tenant, id).await?;
        if done { Ok(()) } else { Err(Error::NotFound { what: K::NAME }) }
    }
}
