//! Conversations as documents: exported, imported and reset.
//!
//! A document is validated before it comes here ([`houston_domain::conversation::Conversation::check`]). An import
//! is one transaction, whatever its size. A reset deletes nothing of the history that models see: the session is closed.

pub mod client_items;
mod make;
mod read;

use houston_domain::id::{AgentableId, RunId, SessionId};
use houston_domain::session::CompletionReason;
use sqlx::PgConnection;

use crate::error::{Error, Result};
use crate::handle::TenantStore;

pub use make::{NewConversation, Origin};
pub use read::ExportOptions;

/// The result of a reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reset {
    /// Positions of the history that models no longer see.
    pub closed_entries: i64,
    /// Number of deleted notes.
    pub notes: u64,
    /// Number of deleted learnings.
    pub learnings: u64,
    /// Number of deleted files.
    pub files: u64,
}

/// The positions of an agentable without an open run.
struct Idle {
    last_seq: i64,
    last_position: i64,
    session_position: i64,
}

/// Locks the agentable, so that no run begins meanwhile.
///
/// # Errors
/// [`Error::NotFound`] when the tenant has no such agentable, [`Error::RunInProgress`] while a run is open.
async fn lock(connection: &mut PgConnection, store: TenantStore<'_>, agentable: AgentableId) -> Result<Idle> {
    let row = sqlx::query!(
        "-- store::conversation::lock
        select run_id, run_open, last_seq, last_position, session_position from houston.run_locks
         where tenant_id = $1 and agentable_id = $2 for no key update",
        store.tenant.0,
        agentable.0
    )
    .fetch_optional(connection)
    .await?
    .ok_or(Error::NotFound { what: "agentable" })?;
    let (last_seq, last_position, session_position) = (row.last_seq, row.last_position, row.session_position);
    match row.run_id.filter(|_| row.run_open) {
        Some(run) => Err(Error::RunInProgress { run: RunId(run) }),
        None => Ok(Idle { last_seq, last_position, session_position }),
    }
}

impl TenantStore<'_> {
    /// Closes the open session of an agentable of the tenant, under the id `session`, so that its next run begins
    /// with an empty history. With `knowledge`, also deletes its notes, learnings and files. The cost does not depend on
    /// the length of the history.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such agentable, [`Error::RunInProgress`] while a run is open, which
    /// needs its history.
    pub async fn reset(self, agentable: AgentableId, knowledge: bool, session: SessionId) -> Result<Reset> {
        let mut tx = self.pool.begin().await?;
        let Idle { last_position, session_position, .. } = lock(&mut tx, self, agentable).await?;
        sqlx::query_scalar!(
            "-- store::conversation::reset::close
            select houston.close_session(agentable_id, $2, $3) from houston.run_locks
             where tenant_id = $4 and agentable_id = $1",
            agentable.0,
            CompletionReason::Reset.as_str(),
            session.0,
            self.tenant.0
        )
        .fetch_one(&mut *tx)
        .await?;
        let (mut notes, mut learnings, mut files) = (0, 0, 0);
        if knowledge {
            notes = self.forget(&mut tx, agentable, "note").await?;
            learnings = self.forget(&mut tx, agentable, "learning").await?;
            // Those of a folder once this is committed.
            files = match self.workspace(self.tenant, agentable).clear_folder(&mut tx).await? {
                Some(files) => files,
                None => sqlx::query!(
                    "-- store::conversation::reset::files
                    delete from houston.workspace_files where tenant_id = $1 and agentable_id = $2",
                    self.tenant.0,
                    agentable.0
                )
                .execute(&mut *tx)
                .await?
                .rows_affected(),
            };
        }
        tx.commit().await?;
        if let Some(folders) = self.folders.as_ref().filter(|_| files > 0) {
            folders.settle_soon(self.tenant, agentable).await;
        }
        Ok(Reset { closed_entries: last_position - session_position, notes, learnings, files })
    }

    /// Deletes what an agentable knows of one kind. Returns how much.
    async fn forget(self, connection: &mut PgConnection, agentable: AgentableId, kind: &str) -> Result<u64> {
        let deleted = sqlx::query!(
            "-- store::conversation::reset::forget
            delete from houston.knowledge_items where tenant_id = $1 and owner_id = $2 and kind = $3",
            self.tenant.0,
            agentable.0,
            kind
        );
        Ok(deleted.execute(connection).await?.rows_affected())
    }
}
