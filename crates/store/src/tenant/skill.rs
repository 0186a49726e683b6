//! Skills of tenants and users. Requests write them; runs read their summaries with their context, and a text when it is
//! disclosed.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use houston_domain::ensure;
use houston_domain::id::{TenantId, UserId};
use houston_domain::skill::{SkillSource, SkillSummary};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::bound;
use crate::error::{Error, Result};
use crate::handle::{RunStore, TenantStore};
pub use crate::mcp_server::ServerOwner as SkillOwner;
use crate::record::RecordTx;
use crate::statement::Statement as _;

/// A skill of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillEntry {
    /// What runs read of it.
    pub summary: SkillSummary,
    /// How many files it has.
    pub files: i64,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// A skill with its texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSkill {
    /// What runs read of it.
    pub summary: SkillSummary,
    /// SKILL.md as it was given.
    pub text: String,
    /// Texts of its files, by path.
    pub files: BTreeMap<String, String>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// The text of a skill, and the paths of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillText {
    /// SKILL.md as it was given.
    pub text: String,
    /// Paths of its files, sorted.
    pub files: Vec<String>,
}

impl TenantStore<'_> {
    /// Creates a skill, or replaces the one with this name and its files.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such user, [`Error::Full`] when the owner has the maximum number of
    /// other skills.
    pub async fn put_skill(
        self,
        owner: SkillOwner,
        summary: &SkillSummary,
        text: &str,
        files: &BTreeMap<String, String>,
    ) -> Result<()> {
        let (id, name) = (owner.id(self.tenant), summary.name.as_str());
        let limits = self.knowledge_limits.skills;
        let (what, limit) = match owner {
            SkillOwner::Tenant => ("skills of a tenant", limits.max_of_tenant),
            SkillOwner::User(_) => ("skills of a user", limits.max_of_user),
        };
        let mut tx = self.pool.begin().await?;
        bound::lock(&mut tx, "skills", id).await?;
        let others = sqlx::query_scalar!(
            r#"-- store::skill::count_others
            select count(*) as "others!" from houston.skills where tenant_id = $1 and owner_id = $2 and name <> $3"#,
            self.tenant.0,
            id,
            name
        )
        .fetch_one(&mut *tx)
        .await?;
        ensure!(others < i64::from(limit), Error::Full { what, limit: limit.into() });
        sqlx::query!(
            "-- store::skill::put
            insert into houston.skills (tenant_id, user_id, owner_id, name, text, summary)
            select $1, $2::uuid, coalesce($2, $1), $3, $4, $5
             where $2 is null or exists (select from houston.users u where u.id = $2 and u.tenant_id = $1)
            on conflict (owner_id, name) do update
               set text = excluded.text, summary = excluded.summary, updated_at = excluded.updated_at",
            self.tenant.0,
            owner.user(),
            name,
            text,
            Json(summary) as Json<&SkillSummary>
        )
        .run_or(&mut *tx, Error::NotFound { what: "user" })
        .await?;
        sqlx::query!(
            "-- store::skill::delete_files
            delete from houston.skill_files where tenant_id = $1 and owner_id = $2 and skill = $3",
            self.tenant.0,
            id,
            name
        )
        .execute(&mut *tx)
        .await?;
        if !files.is_empty() {
            let (paths, contents): (Vec<String>, Vec<String>) = files.clone().into_iter().unzip();
            sqlx::query!(
                "-- store::skill::add_files
                insert into houston.skill_files (owner_id, skill, path, tenant_id, content)
                select $2, $3, f.path, $1, f.content from unnest($4::text[], $5::text[]) as f (path, content)",
                self.tenant.0,
                id,
                name,
                &paths,
                &contents
            )
            .execute(&mut *tx)
            .await?;
        }
        Ok(tx.commit().await?)
    }

    /// The skills of an owner, by name.
    pub async fn skills(self, owner: SkillOwner) -> Result<Vec<SkillEntry>> {
        let entries = sqlx::query!(
            r#"-- store::skill::list
            select s.summary as "summary: Json<SkillSummary>", s.created_at, s.updated_at,
                   (select count(*) from houston.skill_files f
                     where f.owner_id = s.owner_id and f.skill = s.name) as "files!"
              from houston.skills s where s.tenant_id = $1 and s.owner_id = $2 order by s.name"#,
            self.tenant.0,
            owner.id(self.tenant)
        )
        .map(|row| SkillEntry {
            summary: of_owner(row.summary.0, owner),
            files: row.files,
            created_at: row.created_at,
            updated_at: row.updated_at,
        });
        Ok(entries.fetch_all(&self.pool).await?)
    }

    /// A skill with its texts.
    pub async fn skill(self, owner: SkillOwner, name: &str) -> Result<StoredSkill> {
        let id = owner.id(self.tenant);
        let row = sqlx::query!(
            r#"-- store::skill::get
            select text, summary as "summary: Json<SkillSummary>", created_at, updated_at from houston.skills
             where tenant_id = $1 and owner_id = $2 and name = $3"#,
            self.tenant.0,
            id,
            name
        )
        .fetch_optional(&self.pool)
        .await?
        .ok_or(Error::NotFound { what: "skill" })?;
        let files = sqlx::query!(
            "-- store::skill::files
            select path, content from houston.skill_files where tenant_id = $1 and owner_id = $2 and skill = $3",
            self.tenant.0,
            id,
            name
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(StoredSkill {
            summary: of_owner(row.summary.0, owner),
            text: row.text,
            files: files.into_iter().map(|file| (file.path, file.content)).collect(),
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }

    /// Deletes a skill and its files.
    pub async fn delete_skill(self, owner: SkillOwner, name: &str) -> Result<()> {
        sqlx::query!(
            "-- store::skill::delete
            delete from houston.skills where tenant_id = $1 and owner_id = $2 and name = $3",
            self.tenant.0,
            owner.id(self.tenant),
            name
        )
        .run_or(&self.pool, Error::NotFound { what: "skill" })
        .await
    }
}

impl RunStore {
    /// The text of a stored skill that a run is to read; `None`: it was deleted.
    pub async fn skill_text(
        &self,
        tenant: TenantId,
        user: UserId,
        source: SkillSource,
        name: &str,
    ) -> Result<Option<SkillText>> {
        let mut connection = self.pool.acquire().await?;
        text(&mut connection, tenant, owner_id(tenant, user, source), name).await
    }
}

fn of_owner(summary: SkillSummary, owner: SkillOwner) -> SkillSummary {
    let source = if owner == SkillOwner::Tenant { SkillSource::Tenant } else { SkillSource::User };
    SkillSummary { source, ..summary }
}

/// The owner of a stored skill that a run of this user has.
pub(crate) fn owner_id(tenant: TenantId, user: UserId, source: SkillSource) -> Uuid {
    if source == SkillSource::User { user.0 } else { tenant.0 }
}

/// The text of a skill, and the paths of its files.
pub(crate) async fn text(
    connection: &mut PgConnection,
    tenant: TenantId,
    owner: Uuid,
    name: &str,
) -> Result<Option<SkillText>> {
    let row = sqlx::query_as!(
        SkillText,
        r#"-- store::skill::text
        select s.text, (select coalesce(array_agg(f.path order by f.path), '{}') from houston.skill_files f
                         where f.owner_id = s.owner_id and f.skill = s.name) as "files!"
          from houston.skills s where s.tenant_id = $1 and s.owner_id = $2 and s.name = $3"#,
        tenant.0,
        owner,
        name
    );
    Ok(row.fetch_optional(connection).await?)
}

impl RecordTx<'_> {
    /// The text of a file of a stored skill; `None`: there is none with this path.
    pub async fn skill_file(
        &mut self,
        source: SkillSource,
        name: &str,
        path: &str,
    ) -> Result<Option<String>> {
        let tenant = self.owner.tenant;
        let owner = owner_id(tenant, self.owner.user, source);
        let content = sqlx::query_scalar!(
            "-- store::skill::file
            select content from houston.skill_files
             where tenant_id = $1 and owner_id = $2 and skill = $3 and path = $4",
            tenant.0,
            owner,
            name,
            path
        );
        Ok(content.fetch_optional(self.tx.connection()).await?)
    }
}
