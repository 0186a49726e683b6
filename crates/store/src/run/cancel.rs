//! Cancelling an agentable: its open run and those of all tasks below it, at any depth.
//!
//! Locks are taken from the lowest task up, in the same order as the end of a task, which locks its parent's row
//! after its own. A task that was created in the meantime becomes visible once the row above it is locked; then the
//! transaction starts again.

use houston_domain::id::{AgentableId, RunId, TenantId};
use houston_domain::owner::Owner;
use houston_domain::run::CancelledRun;
use houston_domain::task::cancelled_tasks;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::handle::{Shared, TenantStore};
use crate::statement::Statement as _;
use crate::system_message;

/// Maximum number of attempts: each fails only if a task was created between two statements.
const ATTEMPTS: u32 = 20;

/// The stored status of an archived agentable.
pub const ARCHIVED: &str = "archived";

impl TenantStore<'_> {
    /// Requests the cancellation of the open run of an agentable of the tenant, and of those of all its tasks;
    /// their workers are notified at once. With `archive` the agentable is also archived and its check-ins are
    /// deleted. Idempotent. Returns the runs that were open.
    pub async fn cancel_agentable(
        self,
        kind: &str,
        id: AgentableId,
        archive: bool,
    ) -> Result<Vec<CancelledRun>> {
        self.agentable(kind, id).await?;
        self.cancel_all(self.tenant, id, archive).await
    }

    /// Stores a status of an agentable of the tenant; `None`: it follows from its run. With `instead_of` only if it has that
    /// status. An archived agentable leaves the archive. [`Self::cancel_agentable`] archives one.
    pub async fn store_status(
        self,
        kind: &str,
        id: AgentableId,
        status: Option<&str>,
        instead_of: Option<&str>,
    ) -> Result<()> {
        sqlx::query!(
            "-- store::cancel::store_status
            update houston.agentables set status = case when $5::text is null or status = $5 then $4 else status end
             where tenant_id = $1 and kind = $2 and id = $3",
            self.tenant.0,
            kind,
            id.0,
            status,
            instead_of
        )
        .run_or(&self.pool, Error::NotFound { what: "agentable" })
        .await
    }
}

impl Shared {
    /// Cancels an agentable, and what it started.
    pub(crate) async fn cancel_all(
        &self,
        tenant: TenantId,
        id: AgentableId,
        archive: bool,
    ) -> Result<Vec<CancelledRun>> {
        for _ in 0..ATTEMPTS {
            match self.try_cancel(tenant, id, archive, false).await {
                Ok(Some(requested)) => return Ok(requested),
                // A task was created in between.
                Ok(None) => {}
                // Deadlock: another transaction locked the same rows in another order.
                Err(error) if error.sqlstate().as_deref() == Some("40P01") => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.try_cancel(tenant, id, archive, true).await?.unwrap_or_default())
    }

    /// One attempt; `None`, with no change, when a task was created in between, unless it is the last attempt.
    async fn try_cancel(
        &self,
        tenant: TenantId,
        id: AgentableId,
        archive: bool,
        is_last: bool,
    ) -> Result<Option<Vec<CancelledRun>>> {
        let mut tx = self.pool_of(Some(tenant)).begin().await?;
        let locked = lock(&mut tx, id).await?;
        let open_tasks = open_tasks_below(&mut tx, id).await?;
        if open_tasks.iter().any(|one| !locked.contains(one)) && !is_last {
            tx.rollback().await?;
            return Ok(None);
        }
        let requested = request_cancel(&mut tx, id, &locked).await?;
        if archive {
            archive_agentable(&mut tx, id, &locked).await?;
        }
        tx.commit().await?;
        Ok(Some(requested))
    }
}

/// Archives an agentable in a transaction that may hold other locks: they are not taken in the usual order, and if another
/// transaction waits for one of them, Postgres ends one of the two, which is repeated.
pub(crate) async fn archive(connection: &mut PgConnection, id: AgentableId) -> Result<()> {
    let mut locked = lock(connection, id).await?;
    for _ in 0..ATTEMPTS {
        let open_tasks = open_tasks_below(connection, id).await?;
        if open_tasks.iter().all(|one| locked.contains(one)) {
            break;
        }
        locked = lock(connection, id).await?;
    }
    request_cancel(connection, id, &locked).await?;
    archive_agentable(connection, id, &locked).await
}

/// Locks the agentable and all open tasks below it, the lowest first. Returns the locked ids.
async fn lock(connection: &mut PgConnection, id: AgentableId) -> Result<Vec<Uuid>> {
    let rows = sqlx::query_scalar!(
        r#"-- store::cancel::lock
        with recursive below as (
            select id, depth from houston.agentables where id = $1
            union all
            select a.id, a.depth from below b join houston.agentables a on a.parent_id = b.id)
        select l.agentable_id from below b join houston.run_locks l on l.agentable_id = b.id
         where l.run_open or b.id = $1
         order by b.depth desc, b.id for no key update of l"#,
        id.0
    );
    Ok(rows.fetch_all(connection).await?)
}

/// The open tasks below the agentable.
async fn open_tasks_below(connection: &mut PgConnection, id: AgentableId) -> Result<Vec<Uuid>> {
    let rows = sqlx::query_scalar!(
        r#"-- store::cancel::below
        with recursive below as (
            select id from houston.agentables where parent_id = $1
            union all
            select a.id from below b join houston.agentables a on a.parent_id = b.id)
        select b.id as "id!" from below b join houston.run_locks l on l.agentable_id = b.id where l.run_open"#,
        id.0
    );
    Ok(rows.fetch_all(connection).await?)
}

/// Marks the open runs. The agent reads which tasks were cancelled with it when it runs again.
async fn request_cancel(
    connection: &mut PgConnection,
    id: AgentableId,
    locked: &[Uuid],
) -> Result<Vec<CancelledRun>> {
    let rows = sqlx::query!(
        r#"-- store::cancel::ask
        with open as (
            select l.agentable_id, l.run_id, l.last_seq, r.cancelled_with_parent as knew, a.kind, a.title, a.parent_id
              from houston.run_locks l join houston.runs r on r.id = l.run_id and r.ended_at is null
              join houston.agentables a on a.id = l.agentable_id
             where l.agentable_id = any ($2) and l.run_open),
        gone as (
            select array_agg(title order by agentable_id) as titles from open where parent_id = $1 and not knew),
        marked as (
            update houston.runs r
               set cancel_seq = coalesce(r.cancel_seq, o.last_seq),
                   cancelled_with_parent = r.cancelled_with_parent or o.agentable_id <> $1,
                   cancelled_tasks = case when o.agentable_id = $1
                                          then coalesce(r.cancelled_tasks, '{}') || g.titles
                                          else r.cancelled_tasks end
              from open o cross join gone g where r.id = o.run_id),
        woken as (
            update houston.run_locks l set wake = true, next_attempt_at = null, woken_at = statement_timestamp()
              from open o where l.agentable_id = o.agentable_id
            returning o.agentable_id, o.kind, o.run_id, o.knew)
        select w.agentable_id as "agentable_id!", w.kind as "kind!", w.run_id as "run_id!",
               pg_notify('houston', format('1 cancel %s %s', w.agentable_id, w.run_id))::text as notified, g.titles
          from woken w cross join gone g"#,
        id.0,
        locked
    )
    .fetch_all(&mut *connection)
    .await?;
    if let Some(titles) = rows.first().and_then(|row| row.titles.as_ref()) {
        let row = system_message::lock(connection, id).await?;
        // No run of its own ends and says so.
        if let Some(row) = row.filter(|row| !row.run_open) {
            row.add_frames(connection, &[cancelled_tasks(titles)]).await?;
        }
    }
    Ok(rows
        .into_iter()
        .map(|row| CancelledRun {
            run_id: RunId(row.run_id),
            owner: Owner { kind: row.kind, id: AgentableId(row.agentable_id) },
        })
        .collect())
}

async fn archive_agentable(connection: &mut PgConnection, id: AgentableId, locked: &[Uuid]) -> Result<()> {
    sqlx::query!(
        "-- store::cancel::archive
        with gone as (delete from houston.check_ins where agentable_id = any ($2))
        update houston.agentables set status = $3 where id = $1 and status is distinct from $3",
        id.0,
        locked,
        ARCHIVED
    )
    .run(connection)
    .await
}
