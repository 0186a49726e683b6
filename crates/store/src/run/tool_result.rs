//! Large tool results, stored beside the history: written with the step that returns them, read page by page.

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentableId, ResultId, RunId, TenantId};
use houston_domain::step::LargeResult;
use sqlx::PgConnection;

use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::row_security::with_connection;
use crate::statement::Statement as _;

/// Inserts the results, under the fence of the step.
pub(crate) async fn insert(
    connection: &mut PgConnection,
    agentable: AgentableId,
    run: RunId,
    results: &[LargeResult],
) -> Result<()> {
    let ids: Vec<_> = results.iter().map(|result| result.id.0).collect();
    let calls: Vec<&str> = results.iter().map(|result| result.call.as_str()).collect();
    let tools: Vec<&str> = results.iter().map(|result| result.tool.as_str()).collect();
    let contents: Vec<&str> = results.iter().map(|result| result.content.as_str()).collect();
    sqlx::query!(
        "-- store::tool_result::insert
        insert into houston.tool_results (id, tenant_id, agentable_id, parent_id, run_id, call_id, tool, content)
        select r.id, a.tenant_id, a.id, a.parent_id, $2, r.call_id, r.tool, r.content
          from houston.agentables a, unnest($3::uuid[], $4::text[], $5::text[], $6::text[])
               as r (id, call_id, tool, content)
         where a.id = $1",
        agentable.0,
        run.0,
        &ids,
        &calls as &[&str],
        &tools as &[&str],
        &contents as &[&str]
    )
    .run(connection)
    .await
}

/// A stored large result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResult {
    /// The id of the call it answers.
    pub call: String,
    /// The tool's name.
    pub tool: String,
    /// The whole output.
    pub content: String,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
}

impl TenantStore<'_> {
    /// Reads a large result of the tenant that `agentable` may read.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such result, or `agentable` may not read it.
    pub async fn tool_result(self, agentable: AgentableId, id: ResultId) -> Result<StoredResult> {
        let found = with_connection!(self.pool, |c| find(c, self.tenant, agentable, id));
        found.ok_or(Error::NotFound { what: "result" })
    }
}

/// A result of the tenant that `agentable` may read: its own, those of its tasks, and those of the agentable that
/// created it. The fork of one of them has results under the same ids; its own come first.
pub(crate) async fn find(
    connection: &mut PgConnection,
    tenant: TenantId,
    agentable: AgentableId,
    id: ResultId,
) -> Result<Option<StoredResult>> {
    let found = sqlx::query_as!(
        StoredResult,
        "-- store::tool_result::find
        select found.content as \"content!\", found.call_id as \"call!\", found.tool as \"tool!\",
               found.created_at as \"created_at!\" from (
               select 1 as place, o.content, o.call_id, o.tool, o.created_at from houston.tool_results o
                where o.tenant_id = $1 and o.id = $3 and o.agentable_id = $2
                union all
               select 2, b.content, b.call_id, b.tool, b.created_at from houston.tool_results b
                where b.tenant_id = $1 and b.id = $3 and b.parent_id = $2
                union all
               select 3, p.content, p.call_id, p.tool, p.created_at from houston.tool_results p
                where p.tenant_id = $1 and p.id = $3
                  and p.agentable_id = (select a.parent_id from houston.agentables a where a.id = $2)) as found
         order by found.place limit 1",
        tenant.0,
        agentable.0,
        id.0
    );
    Ok(found.fetch_optional(connection).await?)
}
