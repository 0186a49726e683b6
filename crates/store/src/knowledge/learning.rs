//! Learnings: what an agent learned about its user or its aim, one sentence each.

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentableId, LearningId, TenantId};
use houston_domain::knowledge::{KnowledgeLimits, ListQuery};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::knowledge_item::KnowledgeItem;

/// A learning to be created.
#[derive(Debug, Clone, Copy)]
pub struct NewLearning<'a> {
    /// The learning's id.
    pub id: LearningId,
    /// The agentable it belongs to.
    pub agentable: AgentableId,
    /// The sentence.
    pub content: &'a str,
    /// When it is created; `None`: now, by the database's clock.
    pub created_at: Option<DateTime<Utc>>,
}

/// A learning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learning {
    /// The learning's id.
    pub id: LearningId,
    /// The agentable it belongs to.
    pub agentable: AgentableId,
    /// The kind of that agentable.
    pub kind: String,
    /// The sentence.
    pub content: String,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

macro_rules! learning {
    ($row:expr) => {{
        let row = $row;
        Learning {
            id: LearningId(row.id),
            agentable: AgentableId(row.agentable_id),
            kind: row.kind,
            content: row.content,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }};
}

/// # Errors
/// [`Error::NotFound`] when the tenant has no such agentable, [`Error::Full`] when it has the maximum number of
/// learnings.
pub(crate) async fn insert(
    connection: &mut PgConnection,
    tenant: TenantId,
    learning: &NewLearning<'_>,
    limits: &KnowledgeLimits,
) -> Result<()> {
    let done = sqlx::query!(
        r#"-- store::learning::insert
        with owner as (select id, tenant_id from houston.agentables where tenant_id = $2 and id = $3),
        made as (
            insert into houston.learnings (id, tenant_id, agentable_id, content, created_at, updated_at)
            select $1, tenant_id, id, $4, coalesce($5, clock_timestamp()), coalesce($5, clock_timestamp())
              from owner where (select count(*) from houston.learnings where agentable_id = $3) < $6
            returning id)
        select exists (select from owner) as "found!", exists (select from made) as "made!""#,
        learning.id.0,
        tenant.0,
        learning.agentable.0,
        learning.content,
        learning.created_at,
        i64::from(limits.max_learnings)
    )
    .fetch_one(connection)
    .await?;
    Error::check_inserted(
        "agentable",
        "learnings of an agentable",
        limits.max_learnings,
        done.found,
        done.made,
    )
}

/// Ids and texts, newest first: one row more than `listing` asks for, if there are more.
pub(crate) async fn listed(
    connection: &mut PgConnection,
    tenant: TenantId,
    agentable: AgentableId,
    listing: &ListQuery<LearningId>,
) -> Result<Vec<(LearningId, String)>> {
    let rows = sqlx::query!(
        "-- store::learning::listed
        select id, content from houston.learnings
         where tenant_id = $1 and agentable_id = $2 and ($3::uuid is null or id < $3)
           and ($4::text is null or to_tsvector('simple', content) @@ houston.any_word($4)
                or houston.likeness($4, content) > 0)
         order by id desc limit $5",
        tenant.0,
        agentable.0,
        listing.before.map(|id| id.0),
        listing.query,
        i64::from(listing.limit) + 1
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (LearningId(row.id), row.content)).collect())
}

/// Changes a learning of the tenant; with `within`, only if it belongs to that agentable.
pub(crate) async fn change(
    connection: &mut PgConnection,
    tenant: TenantId,
    within: Option<AgentableId>,
    id: LearningId,
    content: &str,
) -> Result<Option<Learning>> {
    let row = sqlx::query!(
        "-- store::learning::change
        update houston.learnings l set content = $4, updated_at = statement_timestamp()
          from houston.agentables a
         where l.tenant_id = $1 and l.id = $2 and ($3::uuid is null or l.agentable_id = $3)
           and a.id = l.agentable_id and a.tenant_id = $1
        returning l.id, l.agentable_id, a.kind, l.content, l.created_at, l.updated_at",
        tenant.0,
        id.0,
        within.map(|within| within.0),
        content
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(|row| learning!(row)))
}

/// Deletes a learning of the tenant; with `within`, only if it belongs to that agentable. Returns whether it
/// existed.
pub(crate) async fn delete(
    connection: &mut PgConnection,
    tenant: TenantId,
    within: Option<AgentableId>,
    id: LearningId,
) -> Result<bool> {
    let done = sqlx::query!(
        "-- store::learning::delete
        delete from houston.learnings
         where tenant_id = $1 and id = $2 and ($3::uuid is null or agentable_id = $3)
           and exists (select from houston.agentables o where o.id = agentable_id and o.tenant_id = $1)",
        tenant.0,
        id.0,
        within.map(|within| within.0)
    )
    .execute(connection)
    .await?;
    Ok(done.rows_affected() > 0)
}

impl KnowledgeItem for Learning {
    type Id = LearningId;
    type Owner = AgentableId;
    type New<'a> = NewLearning<'a>;
    type Change<'a> = &'a str;

    const NAME: &'static str = "learning";

    fn id(new: &Self::New<'_>) -> LearningId {
        new.id
    }

    fn owner(new: &Self::New<'_>) -> Uuid {
        new.agentable.0
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
        owner: AgentableId,
        before: Option<LearningId>,
        limit: i64,
    ) -> Result<Vec<Self>> {
        let rows = sqlx::query!(
            "-- store::learning::list
            select l.id, l.agentable_id, a.kind, l.content, l.created_at, l.updated_at
              from houston.learnings l join houston.agentables a on a.id = l.agentable_id and a.tenant_id = $1
             where l.tenant_id = $1 and l.agentable_id = $2 and ($3::uuid is null or l.id < $3)
             order by l.id desc limit $4",
            tenant.0,
            owner.0,
            before.map(|before| before.0),
            limit
        )
        .fetch_all(connection)
        .await?;
        Ok(rows.into_iter().map(|row| learning!(row)).collect())
    }

    async fn find(connection: &mut PgConnection, tenant: TenantId, id: LearningId) -> Result<Option<Self>> {
        let row = sqlx::query!(
            "-- store::learning::get
            select l.id, l.agentable_id, a.kind, l.content, l.created_at, l.updated_at
              from houston.learnings l join houston.agentables a on a.id = l.agentable_id and a.tenant_id = $1
             where l.tenant_id = $1 and l.id = $2",
            tenant.0,
            id.0
        )
        .fetch_optional(connection)
        .await?;
        Ok(row.map(|row| learning!(row)))
    }

    async fn change(
        connection: &mut PgConnection,
        tenant: TenantId,
        id: LearningId,
        content: Self::Change<'_>,
    ) -> Result<Option<Self>> {
        change(connection, tenant, None, id, content).await
    }

    async fn delete(connection: &mut PgConnection, tenant: TenantId, id: LearningId) -> Result<bool> {
        delete(connection, tenant, None, id).await
    }
}
