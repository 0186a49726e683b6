//! Grants: the lasting yes of people. Written with the answer that gives one.

use houston_domain::guard::{GivenGrant, Grant, GrantScope, Granted};
use houston_domain::id::{AgentableId, GrantId, QuestionId, UserId};
use sqlx::PgConnection;
use sqlx::types::Json;

use crate::error::{Error, Result};
use crate::handle::{RunStore, TenantStore};
use crate::statement::Statement as _;

/// Maximum number of grants of a user: a run that would ask reads them all.
pub const MAX_GRANTS: i64 = 200;

type Conditions = Json<std::collections::BTreeMap<String, Granted>>;

impl RunStore {
    /// The grants that hold for an agentable of a user.
    pub async fn grants(&self, agentable: AgentableId, user: UserId) -> Result<Vec<Grant>> {
        let rows = sqlx::query!(
            r#"-- store::grants::of_run
            select tool, conditions as "conditions: Conditions", pin from houston.grants
             where user_id = $2 and (agentable_id is null or agentable_id = $1) order by id limit $3"#,
            agentable.0,
            user.0,
            MAX_GRANTS
        )
        .map(|row| Grant { tool: row.tool, when: row.conditions.0, pin: row.pin });
        Ok(rows.fetch_all(&self.pool).await?)
    }
}

impl TenantStore<'_> {
    /// The grants of a user of the tenant, newest first, older than `before` if given.
    pub async fn grants(self, user: UserId, before: Option<GrantId>, limit: i64) -> Result<Vec<GivenGrant>> {
        let grants = sqlx::query!(
            r#"-- store::grants::list
            select g.id, g.agentable_id, a.kind as "kind?", g.tool, g.conditions as "conditions: Conditions", g.pin,
                   g.granted_by, g.created_at
              from houston.grants g left join houston.agentables a on a.id = g.agentable_id
             where g.tenant_id = $1 and g.user_id = $2 and ($3::uuid is null or g.id < $3)
             order by g.id desc limit $4"#,
            self.tenant.0,
            user.0,
            before.map(|before| before.0),
            limit
        )
        .map(|row| GivenGrant {
            id: GrantId(row.id),
            user_id: user,
            agentable: row.kind.zip(row.agentable_id).map(|(kind, id)| AgentableId(id).public_id(&kind)),
            tool: row.tool,
            when: row.conditions.0,
            granted_by: row.granted_by,
            created_at: row.created_at.into(),
        });
        Ok(grants.fetch_all(&self.pool).await?)
    }

    /// Revokes a grant.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such grant, [`Error::Database`] when Postgres cannot be reached or
    /// refuses the statement.
    pub async fn revoke_grant(self, id: GrantId) -> Result<()> {
        sqlx::query!(
            "-- store::grants::revoke
            delete from houston.grants where id = $1 and tenant_id = $2",
            id.0,
            self.tenant.0
        )
        .run_or(&self.pool, Error::NotFound { what: "grant" })
        .await
    }
}

/// Adds the grant that an answer gives, in the transaction of the answer.
///
/// # Errors
/// [`Error::Full`] when the user has [`MAX_GRANTS`].
pub(crate) async fn add(
    connection: &mut PgConnection,
    question: QuestionId,
    (scope, grant): &(GrantScope, Grant),
    granted_by: Option<&str>,
) -> Result<()> {
    let conditions = Json(&grant.when);
    sqlx::query!(
        "-- store::grants::add
        insert into houston.grants (id, tenant_id, user_id, agentable_id, tool, conditions, pin, granted_by)
        select q.id, q.tenant_id, q.user_id, case when $2 then q.agentable_id end, $3, $4, $5, $6
          from houston.questions q
         where q.id = $1 and $7 > (select count(*) from houston.grants g where g.user_id = q.user_id)",
        question.0,
        *scope == GrantScope::Agentable,
        grant.tool,
        conditions as Json<&std::collections::BTreeMap<String, Granted>>,
        grant.pin,
        granted_by,
        MAX_GRANTS
    )
    .run_or(connection, Error::Full { what: "grants of a user", limit: MAX_GRANTS })
    .await
}
