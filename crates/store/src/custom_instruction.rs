//! Custom instructions: rules of a user for all their agents. Only the API writes them.

use chrono::{DateTime, Utc};
use houston_domain::id::{CustomInstructionId, TenantId, UserId};
use houston_domain::knowledge::MAX_CUSTOM_INSTRUCTIONS;
use serde_json::Value;
use sqlx::PgConnection;

use crate::error::{Error, Result};
use crate::idempotency::{Created, IdempotencyKey, earlier};
use crate::pool::Store;

/// A custom instruction about to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewCustomInstruction<'a> {
    /// Its id.
    pub id: CustomInstructionId,
    /// Whose it is.
    pub user: UserId,
    /// The rule.
    pub content: &'a str,
    /// When.
    pub created_at: DateTime<Utc>,
}

/// A custom instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomInstruction {
    /// Its id.
    pub id: CustomInstructionId,
    /// Whose it is.
    pub user: UserId,
    /// The rule.
    pub content: String,
    /// When it was made.
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

/// All of a user, oldest first.
pub(crate) async fn all(
    connection: &mut PgConnection,
    tenant: TenantId,
    user: UserId,
) -> Result<Vec<(CustomInstructionId, String)>> {
    let rows = sqlx::query!(
        "-- store::custom_instruction::all
        select id, content from houston.custom_instructions
         where tenant_id = $1 and user_id = $2 order by id limit $3",
        tenant.0,
        user.0,
        MAX_CUSTOM_INSTRUCTIONS
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (CustomInstructionId(row.id), row.content)).collect())
}

impl Store {
    /// Makes a custom instruction. `response` is what the client is answered, kept under the idempotency key.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such user, [`Error::Full`] when they have too many.
    pub async fn create_custom_instruction(
        &self,
        tenant: TenantId,
        instruction: &NewCustomInstruction<'_>,
        key: Option<IdempotencyKey<'_>>,
        response: &Value,
    ) -> Result<Created<Value>> {
        let mut tx = self.pool.begin().await?;
        if let Some(earlier) = earlier(&mut tx, tenant, key, instruction.id.0, response).await? {
            return Ok(earlier);
        }
        let done = sqlx::query!(
            r#"-- store::custom_instruction::insert
            with owner as (select id, tenant_id from houston.users where tenant_id = $2 and id = $3),
            made as (
                insert into houston.custom_instructions (id, tenant_id, user_id, content, created_at, updated_at)
                select $1, tenant_id, id, $4, $5, $5 from owner
                 where (select count(*) from houston.custom_instructions where user_id = $3) < $6
                returning id)
            select exists (select from owner) as "found!", exists (select from made) as "made!""#,
            instruction.id.0,
            tenant.0,
            instruction.user.0,
            instruction.content,
            instruction.created_at,
            MAX_CUSTOM_INSTRUCTIONS
        )
        .fetch_one(&mut *tx)
        .await?;
        let what = "custom instructions of a user";
        Error::unless_made("user", what, MAX_CUSTOM_INSTRUCTIONS, done.found, done.made)?;
        tx.commit().await?;
        Ok(Created::New(response.clone()))
    }

    /// Custom instructions of a user of the tenant, newest first, older than `before` if given.
    ///
    /// # Errors
    /// What the database says.
    pub async fn custom_instructions(
        &self,
        tenant: TenantId,
        user: UserId,
        before: Option<CustomInstructionId>,
        limit: i64,
    ) -> Result<Vec<CustomInstruction>> {
        let rows = sqlx::query!(
            "-- store::custom_instruction::list
            select id, user_id, content, created_at, updated_at from houston.custom_instructions
             where tenant_id = $1 and user_id = $2 and ($3::uuid is null or id < $3)
             order by id desc limit $4",
            tenant.0,
            user.0,
            before.map(|before| before.0),
            limit
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.into_iter().map(|row| instruction!(row)).collect())
    }

    /// A custom instruction of the tenant.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn custom_instruction(
        &self,
        tenant: TenantId,
        id: CustomInstructionId,
    ) -> Result<CustomInstruction> {
        let row = sqlx::query!(
            "-- store::custom_instruction::get
            select id, user_id, content, created_at, updated_at from houston.custom_instructions
             where tenant_id = $1 and id = $2",
            tenant.0,
            id.0
        )
        .fetch_optional(&self.pool)
        .await?;
        row.map(|row| instruction!(row)).ok_or(Error::NotFound { what: "custom instruction" })
    }

    /// Changes a custom instruction of the tenant, and returns it.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn change_custom_instruction(
        &self,
        tenant: TenantId,
        id: CustomInstructionId,
        content: &str,
    ) -> Result<CustomInstruction> {
        let row = sqlx::query!(
            "-- store::custom_instruction::change
            update houston.custom_instructions set content = $3, updated_at = clock_timestamp()
             where tenant_id = $1 and id = $2
            returning id, user_id, content, created_at, updated_at",
            tenant.0,
            id.0,
            content
        )
        .fetch_optional(&self.pool)
        .await?;
        row.map(|row| instruction!(row)).ok_or(Error::NotFound { what: "custom instruction" })
    }

    /// Deletes a custom instruction of the tenant.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn delete_custom_instruction(&self, tenant: TenantId, id: CustomInstructionId) -> Result<()> {
        let done = sqlx::query!(
            "-- store::custom_instruction::delete
            delete from houston.custom_instructions where tenant_id = $1 and id = $2",
            tenant.0,
            id.0
        )
        .execute(&self.pool)
        .await?;
        if done.rows_affected() > 0 { Ok(()) } else { Err(Error::NotFound { what: "custom instruction" }) }
    }
}
