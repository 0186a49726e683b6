//! Whether a run is over for someone who waits for it.

use houston_domain::id::{AgentableId, RunId};

use crate::error::{Error, Result};
use crate::handle::TenantStore;

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunProgress {
    /// The agentable that it runs for.
    pub agentable: AgentableId,
    /// The position of the agentable's newest event.
    pub last_seq: i64,
    /// Whether it has ended.
    pub has_ended: bool,
    /// Whether it waits for a person: a question of it is open.
    pub asks: bool,
}

impl TenantStore<'_> {
    /// How far a run of the tenant is.
    pub async fn run_progress(self, run: RunId) -> Result<RunProgress> {
        let row = sqlx::query_as!(
            RunProgress,
            r#"-- store::awaited::progress
            select r.agentable_id as agentable, l.last_seq, r.ended_at is not null as "has_ended!",
                   r.status = 'waiting' and exists (
                       select from houston.questions q
                        where q.user_id = l.user_id and q.state = 'open' and q.run_id = r.id) as "asks!"
              from houston.runs r join houston.run_locks l on l.agentable_id = r.agentable_id
             where r.tenant_id = $1 and r.id = $2"#,
            self.tenant.0,
            run.0
        );
        row.fetch_optional(&self.pool).await?.ok_or(Error::NotFound { what: "run" })
    }
}
