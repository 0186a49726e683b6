//! Operations shared by the knowledge resources: notes, learnings, memories, custom instructions, feed items. Each
//! has a file of its own with its queries, and implements [`KnowledgeItem`].

use houston_domain::id::TenantId;
use houston_domain::knowledge::KnowledgeLimits;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::bound;
use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::idempotency::{Created, IdempotencyKey, earlier};

/// A row of one knowledge resource.
pub trait KnowledgeItem: Sized + Send + 'static {
    /// The id of a row.
    type Id: Copy + Send + Into<Uuid>;
    /// The id of the owner: an agentable or a user.
    type Owner: Copy + Send + Into<Uuid>;
    /// A row to insert.
    type New<'a>: Send + Sync;
    /// A partial change of a row.
    type Change<'a>: Send;

    /// The resource's name in errors: `note`, `learning`, …
    const NAME: &'static str;

    /// The id of a new row.
    fn id(new: &Self::New<'_>) -> Self::Id;

    /// The id of the new row's owner.
    fn owner(new: &Self::New<'_>) -> Uuid;

    /// Inserts a row.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such owner, [`Error::Full`] when the owner has the maximum number
    /// of rows, [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    fn insert(
        connection: &mut PgConnection,
        tenant: TenantId,
        new: &Self::New<'_>,
        limits: &KnowledgeLimits,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Rows of an owner of the tenant, newest first, older than `before` if given.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    fn list(
        connection: &mut PgConnection,
        tenant: TenantId,
        owner: Self::Owner,
        before: Option<Self::Id>,
        limit: i64,
    ) -> impl Future<Output = Result<Vec<Self>>> + Send;

    /// The row with this id, if the tenant has it.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    fn find(
        connection: &mut PgConnection,
        tenant: TenantId,
        id: Self::Id,
    ) -> impl Future<Output = Result<Option<Self>>> + Send;

    /// Applies a partial change and returns the changed row; `None` when the tenant has no such row.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    fn change(
        connection: &mut PgConnection,
        tenant: TenantId,
        id: Self::Id,
        change: Self::Change<'_>,
    ) -> impl Future<Output = Result<Option<Self>>> + Send;

    /// Deletes a row of the tenant. Returns whether it existed.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    fn delete(
        connection: &mut PgConnection,
        tenant: TenantId,
        id: Self::Id,
    ) -> impl Future<Output = Result<bool>> + Send;
}

impl TenantStore<'_> {
    /// Inserts a row. `response` is what the client is answered, stored under the idempotency key.
    ///
    /// # Errors
    /// As [`KnowledgeItem::insert`].
    pub async fn create_item<K: KnowledgeItem>(
        self,
        new: &K::New<'_>,
        key: Option<IdempotencyKey<'_>>,
        response: &Value,
    ) -> Result<Created<Value>> {
        let mut tx = self.pool.begin().await?;
        if let Some(earlier) = earlier(&mut tx, self.tenant, key, K::id(new).into(), response).await? {
            return Ok(earlier);
        }
        bound::lock(&mut tx, K::NAME, K::owner(new)).await?;
        K::insert(&mut tx, self.tenant, new, &self.knowledge_limits).await?;
        tx.commit().await?;
        Ok(Created::New(response.clone()))
    }

    /// Rows of an owner of the tenant, newest first, older than `before` if given.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    pub async fn list_items<K: KnowledgeItem>(
        self,
        owner: K::Owner,
        before: Option<K::Id>,
        limit: i64,
    ) -> Result<Vec<K>> {
        K::list(&mut *self.pool.acquire().await?, self.tenant, owner, before, limit).await
    }

    /// A row of the tenant.
    ///
    /// Reads a row of the tenant.
    /// [`Error::NotFound`] when the tenant has no such row, [`Error::Database`] when Postgres cannot be reached or
    /// refuses the statement.
    pub async fn item<K: KnowledgeItem>(self, id: K::Id) -> Result<K> {
        let found = K::find(&mut *self.pool.acquire().await?, self.tenant, id).await?;
        found.ok_or(Error::NotFound { what: K::NAME })
    }

    /// Applies a partial change to a row of the tenant, and returns the changed row.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such row, [`Error::Database`] when Postgres cannot be reached or
    /// refuses the statement.
    pub async fn change_item<K: KnowledgeItem>(self, id: K::Id, change: K::Change<'_>) -> Result<K> {
        let changed = K::change(&mut *self.pool.acquire().await?, self.tenant, id, change).await?;
        changed.ok_or(Error::NotFound { what: K::NAME })
    }

    /// Deletes a row of the tenant.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such row, [`Error::Database`] when Postgres cannot be reached or
    /// refuses the statement.
    pub async fn delete_item<K: KnowledgeItem>(self, id: K::Id) -> Result<()> {
        let done = K::delete(&mut *self.pool.acquire().await?, self.tenant, id).await?;
        if done { Ok(()) } else { Err(Error::NotFound { what: K::NAME }) }
    }
}
