//! Memories: facts about a user that all their agents should remember across conversations.

use chrono::{DateTime, Utc};
use houston_domain::id::{MemoryId, RunId, TenantId, UserId};
use houston_domain::knowledge::KnowledgeLimits;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::excerpt::Excerpt;
use crate::knowledge_item::KnowledgeItem;

/// A memory to be saved.
#[derive(Debug, Clone, Copy)]
pub struct NewMemory<'a> {
    /// The memory's id.
    pub id: MemoryId,
    /// The user it belongs to.
    pub user: UserId,
    /// The run that saves it; `None`: the API does.
    pub run: Option<RunId>,
    /// The sentence.
    pub content: &'a str,
    /// When it is saved; `None`: now, by the database's clock.
    pub created_at: Option<DateTime<Utc>>,
}

/// A memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// The memory's id.
    pub id: MemoryId,
    /// The user it belongs to.
    pub user: UserId,
    /// The run that saved it; `None`: the API did.
    pub run: Option<RunId>,
    /// The sentence.
    pub content: String,
    /// When it was saved.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

macro_rules! memory {
    ($row:expr) => {{
        let row = $row;
        Memory {
            id: MemoryId(row.id),
            user: UserId(row.user_id),
            run: row.run_id.map(RunId),
            content: row.content,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }};
}

/// # Errors
/// [`Error::NotFound`] when the tenant has no such user, [`Error::Full`] when they have the maximum number of
/// memories.
pub(crate) async fn insert(
    connection: &mut PgConnection,
    tenant: TenantId,
    memory: &NewMemory<'_>,
    limits: &KnowledgeLimits,
) -> Result<()> {
    let done = sqlx::query!(
        r#"-- store::memory::insert
        with owner as (select id, tenant_id from houston.users where tenant_id = $2 and id = $3),
        made as (
            insert into houston.memories (id, tenant_id, user_id, run_id, content, created_at, updated_at)
            select $1, tenant_id, id, $4, $5, coalesce($6, clock_timestamp()), coalesce($6, clock_timestamp())
              from owner where (select count(*) from houston.memories where user_id = $3) < $7
            returning id)
        select exists (select from owner) as "found!", exists (select from made) as "made!""#,
        memory.id.0,
        tenant.0,
        memory.user.0,
        memory.run.map(|run| run.0),
        memory.content,
        memory.created_at,
        i64::from(limits.max_memories)
    )
    .fetch_one(connection)
    .await?;
    Error::check_inserted("user", "memories of a user", limits.max_memories, done.found, done.made)
}

/// Beginnings of the memories that match `query` best: those with some of its words, or similar words.
pub(crate) async fn recall(
    connection: &mut PgConnection,
    tenant: TenantId,
    user: UserId,
    query: &str,
    limit: u32,
    chars: i32,
) -> Result<Vec<Excerpt>> {
    let rows = sqlx::query!(
        r#"-- store::memory::recall
        select id, left(content, $5) as "text!", char_length(content) as "chars!"
          from houston.memories
         where tenant_id = $1 and user_id = $2
           and (search @@ houston.any_word($3) or houston.likeness($3, content) > 0)
         order by ts_rank(search, houston.any_word($3)) + houston.likeness($3, content) desc, id desc limit $4"#,
        tenant.0,
        user.0,
        query,
        i64::from(limit),
        chars
    )
    .fetch_all(connection)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Excerpt {
            id: MemoryId(row.id).to_string(),
            title: None,
            text: row.text,
            chars: row.chars,
        })
        .collect())
}

/// A memory of the tenant; with `within`, only if it belongs to that user.
pub(crate) async fn find(
    connection: &mut PgConnection,
    tenant: TenantId,
    within: Option<UserId>,
    id: MemoryId,
) -> Result<Option<Memory>> {
    let row = sqlx::query!(
        "-- store::memory::find
        select id, user_id, run_id, content, created_at, updated_at from houston.memories
         where tenant_id = $1 and id = $2 and exists (
               select from houston.users o where o.id = user_id and o.tenant_id = $1) and ($3::uuid is null or user_id = $3)",
        tenant.0,
        id.0,
        within.map(|within| within.0)
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(|row| memory!(row)))
}

/// Changes a memory of the tenant; with `within`, only if it belongs to that user.
pub(crate) async fn change(
    connection: &mut PgConnection,
    tenant: TenantId,
    within: Option<UserId>,
    id: MemoryId,
    content: &str,
) -> Result<Option<Memory>> {
    let row = sqlx::query!(
        "-- store::memory::change
        update houston.memories set content = $4, updated_at = statement_timestamp()
         where tenant_id = $1 and id = $2 and exists (
               select from houston.users o where o.id = user_id and o.tenant_id = $1) and ($3::uuid is null or user_id = $3)
        returning id, user_id, run_id, content, created_at, updated_at",
        tenant.0,
        id.0,
        within.map(|within| within.0),
        content
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(|row| memory!(row)))
}

/// Deletes a memory of the tenant; with `within`, only if it belongs to that user. Returns whether it existed.
pub(crate) async fn delete(
    connection: &mut PgConnection,
    tenant: TenantId,
    within: Option<UserId>,
    id: MemoryId,
) -> Result<bool> {
    let done = sqlx::query!(
        "-- store::memory::delete
        delete from houston.memories
         where tenant_id = $1 and id = $2 and exists (
               select from houston.users o where o.id = user_id and o.tenant_id = $1) and ($3::uuid is null or user_id = $3)",
        tenant.0,
        id.0,
        within.map(|within| within.0)
    )
    .execute(connection)
    .await?;
    Ok(done.rows_affected() > 0)
}

impl KnowledgeItem for Memory {
    type Id = MemoryId;
    type Owner = UserId;
    type New<'a> = NewMemory<'a>;
    type Change<'a> = &'a str;

    const NAME: &'static str = "memory";

    fn id(new: &Self::New<'_>) -> MemoryId {
        new.id
    }

    fn owner(new: &Self::New<'_>) -> Uuid {
        new.user.0
    }

    async fn insert(
        connection: &mut PgConnection,
        tenant: TenantId,
        new: &Self::New<'_>,
        limits: &KnowledgeLimits,
    ) -> Result<()> {
        insert(connection, tenant, new, limits).await
    }

    async fn list(
        connection: &mut PgConnection,
        tenant: TenantId,
        owner: UserId,
        before: Option<MemoryId>,
        limit: i64,
    ) -> Result<Vec<Self>> {
        let rows = sqlx::query!(
            "-- store::memory::list
            select id, user_id, run_id, content, created_at, updated_at from houston.memories
             where tenant_id = $1 and user_id = $2 and ($3::uuid is null or id < $3)
             order by id desc limit $4",
            tenant.0,
            owner.0,
            before.map(|before| before.0),
            limit
        )
        .fetch_all(connection)
        .await?;
        Ok(rows.into_iter().map(|row| memory!(row)).collect())
    }

    async fn find(connection: &mut PgConnection, tenant: TenantId, id: MemoryId) -> Result<Option<Self>> {
        find(connection, tenant, None, id).await
    }

    async fn change(
        connection: &mut PgConnection,
        tenant: TenantId,
        id: MemoryId,
        content: Self::Change<'_>,
    ) -> Result<Option<Self>> {
        change(connection, tenant, None, id, content).await
    }

    async fn delete(connection: &mut PgConnection, tenant: TenantId, id: MemoryId) -> Result<bool> {
        delete(connection, tenant, None, id).await
    }
}
