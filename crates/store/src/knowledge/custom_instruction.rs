//! Custom instructions: rules of a user for all agents. Only the API writes them.

use chrono::{DateTime, Utc};
use houston_domain::id::{CustomInstructionId, TenantId, UserId};
use houston_domain::knowledge::KnowledgeLimits;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::knowledge_item::KnowledgeItem;

/// A custom instruction to be created.
#[derive(Debug, Clone, Copy)]
pub struct NewCustomInstruction<'a> {
    /// The custom instruction's id.
    pub id: CustomInstructionId,
    /// The user it belongs to.
    pub user: UserId,
    /// The rule's text.
    pub content: &'a str,
    /// When it is created.
    pub created_at: DateTime<Utc>,
}

/// A custom instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomInstruction {
    /// The custom instruction's id.
    pub id: CustomInstructionId,
    /// The user it belongs to.
    pub user: UserId,
    /// The rule's text.
    pub content: String,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

macro_rules! instruction {
    ($row:expr) => {{
        let row = $row;
        CustomInstruction {
            id: CustomInstructionId(row.id),
            user: UserId(row.user_id),
            content: row.content,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }};
}

/// All custom instructions of a user, oldest first.
pub(crate) async fn all(
    connection: &mut PgConnection,
    tenant: TenantId,
    user: UserId,
    limits: &KnowledgeLimits,
) -> Result<Vec<(CustomInstructionId, String)>> {
    let rows = sqlx::query!(
        "-- store::custom_instruction::all
        select id, content from houston.custom_instructions
         where tenant_id = $1 and user_id = $2 order by id limit $3",
        tenant.0,
        user.0,
        i64::from(limits.max_custom_instructions)
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (CustomInstructionId(row.id), row.content)).collect())
}

impl KnowledgeItem for CustomInstruction {
    type Id = CustomInstructionId;
    type Owner = UserId;
    type New<'a> = NewCustomInstruction<'a>;
    type Change<'a> = &'a str;

    const NAME: &'static str = "custom instruction";

    fn id(new: &Self::New<'_>) -> CustomInstructionId {
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
        let done = sqlx::query!(
            r#"-- store::custom_instruction::insert
            with owner as (select id, tenant_id from houston.users where tenant_id = $2 and id = $3),
            made as (
                insert into houston.custom_instructions (id, tenant_id, user_id, content, created_at, updated_at)
                select $1, tenant_id, id, $4, $5, $5 from owner
                 where (select count(*) from houston.custom_instructions where user_id = $3) < $6
                returning id)
            select exists (select from owner) as "found!", exists (select from made) as "made!""#,
            new.id.0,
            tenant.0,
            new.user.0,
            new.content,
            new.created_at,
            i64::from(limits.max_custom_instructions)
        )
        .fetch_one(connection)
        .await?;
        let what = "custom instructions of a user";
        Error::check_inserted("user", what, limits.max_custom_instructions, done.found, done.made)
    }

    async fn list(
        connection: &mut PgConnection,
        tenant: TenantId,
        owner: UserId,
        before: Option<CustomInstructionId>,
        limit: i64,
    ) -> Result<Vec<Self>> {
        let rows = sqlx::query!(
            "-- store::custom_instruction::list
            select id, user_id, content, created_at, updated_at from houston.custom_instructions
             where tenant_id = $1 and user_id = $2 and ($3::uuid is null or id < $3)
             order by id desc limit $4",
            tenant.0,
            owner.0,
            before.map(|before| before.0),
            limit
        )
        .fetch_all(connection)
        .await?;
        Ok(rows.into_iter().map(|row| instruction!(row)).collect())
    }

    async fn find(
        connection: &mut PgConnection,
        tenant: TenantId,
        id: CustomInstructionId,
    ) -> Result<Option<Self>> {
        let row = sqlx::query!(
            "-- store::custom_instruction::get
            select id, user_id, content, created_at, updated_at from houston.custom_instructions
             where tenant_id = $1 and id = $2 and exists (
               select from houston.users o where o.id = user_id and o.tenant_id = $1)",
            tenant.0,
            id.0
        )
        .fetch_optional(connection)
        .await?;
        Ok(row.map(|row| instruction!(row)))
    }

    async fn change(
        connection: &mut PgConnection,
        tenant: TenantId,
        id: CustomInstructionId,
        content: Self::Change<'_>,
    ) -> Result<Option<Self>> {
        let row = sqlx::query!(
            "-- store::custom_instruction::change
            update houston.custom_instructions set content = $3, updated_at = statement_timestamp()
             where tenant_id = $1 and id = $2 and exists (
               select from houston.users o where o.id = user_id and o.tenant_id = $1)
            returning id, user_id, content, created_at, updated_at",
            tenant.0,
            id.0,
            content
        )
        .fetch_optional(connection)
        .await?;
        Ok(row.map(|row| instruction!(row)))
    }

    async fn delete(
        connection: &mut PgConnection,
        tenant: TenantId,
        id: CustomInstructionId,
    ) -> Result<bool> {
        let done = sqlx::query!(
            "-- store::custom_instruction::delete
            delete from houston.custom_instructions where tenant_id = $1 and id = $2 and exists (
               select from houston.users o where o.id = user_id and o.tenant_id = $1)",
            tenant.0,
            id.0
        )
        .execute(connection)
        .await?;
        Ok(done.rows_affected() > 0)
    }
}
