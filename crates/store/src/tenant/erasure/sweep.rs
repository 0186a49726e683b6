//! Deleting what was requested to be erased. Each call is one transaction over a bounded number of rows; if it
//! fails, the next call repeats it.

use std::collections::BTreeMap;

use houston_domain::id::ErasureId;
use sqlx::types::Json;
use sqlx::{PgConnection, Postgres, Transaction};
use uuid::Uuid;

use super::{
    Gone, OpenRequest, account_user_data, delete_attachments_of_agentables, delete_attachments_of_user,
    delete_user_data, wait_for_objects,
};
use crate::error::Result;
use crate::handle::RunStore;

/// How many agentables' rows one statement deletes.
const GROUP: i64 = 100;

/// The result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swept {
    /// No request is open, or other workers hold the open ones.
    Nothing,
    /// Rows were deleted; there may be more.
    More,
    /// Only objects of the object store are left, which are deleted by themselves ([`RunStore::drop_objects`]).
    Waits,
    /// The last rows of this request were deleted.
    Done(ErasureId),
}

impl RunStore {
    /// Deletes up to about `rows` rows of each table for one request: the one that was processed least recently.
    ///
    /// # Errors
    /// [`crate::Error::Database`] when Postgres cannot be reached or refuses a statement; then nothing was deleted.
    /// [`crate::Error::Folder`] when the folder of a workspace cannot be removed.
    pub async fn erase_some(&self, rows: i64) -> Result<Swept> {
        let mut tx = self.pool.begin().await?;
        let Some(mut open) = take(&mut tx).await? else { return Ok(Swept::Nothing) };
        open.folders = self.folders.clone();
        match open.phase.as_str() {
            "requests" => open.requests(&mut tx, rows, "rows").await?,
            "rows" => {
                if !open.delete_rows(&mut tx, rows).await? {
                    open.phase = "answers".to_owned();
                }
            }
            _ => open.requests(&mut tx, rows, "done").await?,
        }
        save_progress(tx, &open).await?;
        Ok(match open.phase.as_str() {
            "done" => Swept::Done(ErasureId(open.id)),
            _ if open.waits => Swept::Waits,
            _ => Swept::More,
        })
    }
}

async fn take(connection: &mut PgConnection) -> Result<Option<OpenRequest>> {
    let row = sqlx::query!(
        "-- store::erasure::sweep::take
        select id, tenant_id, kind, resource_id, agentables, phase, after_key, deleted from houston.erasures
         where completed_at is null order by swept_at limit 1 for no key update skip locked"
    )
    .map(|row| OpenRequest {
        id: row.id,
        tenant: row.tenant_id,
        user: (row.kind == "user").then_some(row.resource_id),
        resource: row.resource_id,
        agentables: row.agentables,
        phase: row.phase,
        after_key: row.after_key,
        deleted: serde_json::from_value(row.deleted).unwrap_or_default(),
        folders: None,
        waits: false,
    });
    Ok(row.fetch_optional(connection).await?)
}

async fn save_progress(mut tx: Transaction<'_, Postgres>, open: &OpenRequest) -> Result<()> {
    sqlx::query!(
        "-- store::erasure::sweep::keep
        with t as materialized (select clock_timestamp() as at)
        update houston.erasures
           set phase = $2, after_key = $3, deleted = $4, swept_at = t.at,
               completed_at = case when $2 = 'done' then t.at end,
               agentables = case when $2 = 'done' then '{}' else agentables end
          from t where id = $1",
        open.id,
        open.phase,
        open.after_key,
        Json(&open.deleted) as _
    )
    .execute(&mut *tx)
    .await?;
    Ok(tx.commit().await?)
}

impl OpenRequest {
    /// Deletes idempotency keys: first those of the requests that created messages, while the messages exist, and at
    /// the very end those whose stored response names what is erased. `next` is the phase after the last page.
    async fn requests(&mut self, connection: &mut PgConnection, rows: i64, next: &str) -> Result<()> {
        let page = sqlx::query!(
        r#"-- store::erasure::sweep::requests
        with page as (
            select key, resource_id, response from houston.idempotency_keys
             where tenant_id = $1 and key > $2 order by key limit $3),
        gone as (
            delete from houston.idempotency_keys k using page p
             where k.tenant_id = $1 and k.key = p.key
               and (p.resource_id = $5 or p.resource_id = any ($4)
                    or exists (select from houston.messages m
                                where m.id = p.resource_id and m.agentable_id = any ($4))
                    or exists (select from regexp_matches(p.response::text, '[0-9a-f]{32}', 'g') as named (ids)
                                where named.ids[1]::uuid = any ($4) or named.ids[1]::uuid = $5))
            returning 1)
        select (select max(key) from page) as last, (select count(*) from page) as "seen!",
               (select count(*) from gone) as "gone!""#,
        self.tenant,
        self.after_key,
        rows,
        &self.agentables,
        self.resource
    )
    .fetch_one(connection)
    .await?;
        self.count("idempotency_keys", page.gone);
        match page.last {
            Some(last) if page.seen >= rows => self.after_key = last,
            _ => {
                self.after_key = String::new();
                self.phase = next.to_owned();
            }
        }
        Ok(())
    }

    /// Deletes one batch. Returns whether there may be more.
    async fn delete_rows(&mut self, connection: &mut PgConnection, rows: i64) -> Result<bool> {
        let group = sqlx::query_scalar!(
            "-- store::erasure::sweep::group
        select id from houston.agentables where id = any ($1) order by depth desc, id limit $2",
            &self.agentables,
            GROUP
        )
        .fetch_all(&mut *connection)
        .await?;
        if group.is_empty() {
            return match self.user {
                Some(user) => self.delete_user(connection, user, rows).await,
                None => Ok(false),
            };
        }
        let deleted = self.sessions(connection, &group, rows).await?
            + self.count_all(runs(connection, &group, rows).await?)
            + self.count_all(threads(connection, &group, rows).await?)
            + self.count_all(knowledge(connection, &group, rows).await?)
            + self.count_all(delete_attachments_of_agentables(connection, &group).await?);
        if deleted == 0 {
            if let Some(folders) = &self.folders {
                folders.remove(group.iter().map(|agentable| (self.tenant, *agentable)).collect()).await?;
            }
            self.agentables(connection, &group).await?;
        }
        Ok(true)
    }

    /// Deletes closed sessions and the model calls of their summaries. Sessions first: a concurrent writer of a summary
    /// counts its call together with the session's row.
    async fn sessions(&mut self, connection: &mut PgConnection, group: &[Uuid], rows: i64) -> Result<i64> {
        let gone = sqlx::query_scalar!(
            "-- store::erasure::sweep::sessions
        delete from houston.sessions
         where id = any (array(select id from houston.sessions where agentable_id = any ($1) limit $2))
        returning id",
            group,
            rows
        )
        .fetch_all(&mut *connection)
        .await?;
        let calls = sqlx::query!(
            "-- store::erasure::sweep::session_calls
        delete from houston.model_calls where run_id = any ($1)",
            &gone
        )
        .execute(connection)
        .await?;
        self.count("model_calls", i64::try_from(calls.rows_affected()).unwrap_or(0));
        Ok(self.count("sessions", i64::try_from(gone.len()).unwrap_or(0)))
    }

    /// Deletes the agentables' own rows, once nothing else of them is left. A note that was being written at the time
    /// of the request holds its agentable's row; this call or the next one deletes it.
    async fn agentables(&mut self, connection: &mut PgConnection, group: &[Uuid]) -> Result<()> {
        sqlx::query!(
            "-- store::erasure::sweep::lock_agentables
        select id from houston.agentables where id = any ($1) order by id for update",
            group
        )
        .fetch_all(&mut *connection)
        .await?;
        let gone = sqlx::query!(
            "-- store::erasure::sweep::agentables
        with webhooks as (delete from houston.webhooks where agentable_id = any ($1))
        delete from houston.agentables a
         where a.id = any ($1)
           and not exists (select from houston.agentables c where c.parent_id = a.id and c.id <> all ($1))
           and not exists (select from houston.knowledge_items k where k.agentable_id = a.id)
           and not exists (select from houston.knowledge_items k where k.author_id = a.id)
           and not exists (select from houston.workspace_files f where f.agentable_id = a.id)
           and not exists (select from houston.image_uses u where u.agentable_id = a.id)
           and not exists (select from houston.attachment_uses u where u.agentable_id = a.id)",
            group
        )
        .execute(connection)
        .await?;
        self.count("agentables", i64::try_from(gone.rows_affected()).unwrap_or(0));
        Ok(())
    }

    /// Deletes the user's own rows, and at last the user. Their costs stay, in the tenant's totals.
    async fn delete_user(&mut self, connection: &mut PgConnection, user: Uuid, rows: i64) -> Result<bool> {
        sqlx::query!(
            "-- store::erasure::sweep::lock_user
        select id from houston.users where id = $1 for update",
            user
        )
        .fetch_all(&mut *connection)
        .await?;
        let deleted = self.count_all(delete_user_data(connection, user, rows).await?)
            + self.count_all(delete_attachments_of_user(connection, user, rows).await?);
        if deleted > 0 {
            return Ok(true);
        }
        if wait_for_objects(&mut *connection, user).await? {
            self.waits = true;
            return Ok(true);
        }
        account_user_data(connection, self.tenant, user).await?;
        let left = sqlx::query_scalar!(
        r#"-- store::erasure::sweep::user
        with gone as (
            delete from houston.users u
             where u.id = $1 and not exists (select from houston.agentables a where a.user_id = u.id) returning u.id)
        select exists (select from houston.users where id = $1) and not exists (select from gone) as "left!""#,
        user
    )
    .fetch_one(connection)
    .await?;
        self.count("users", i64::from(!left));
        Ok(left)
    }
}

/// Deletes runs with their model and tool calls. Rows of the user that stay lose their reference to the run.
async fn runs(connection: &mut PgConnection, group: &[Uuid], rows: i64) -> Result<Gone> {
    let gone = sqlx::query_scalar!(
        r#"-- store::erasure::sweep::runs
        with batch as materialized (
            select r.id, a.user_id from houston.runs r join houston.agentables a on a.id = r.agentable_id
             where r.agentable_id = any ($1) limit $2),
        knowledge as (
            update houston.knowledge_items k set run_id = null from batch b
             where k.user_id = b.user_id and k.run_id = b.id and not coalesce(k.author_id = any ($1), false)),
        feeds as (
            update houston.feeds f set run_id = null from batch b where f.user_id = b.user_id and f.run_id = b.id),
        tool_calls as (delete from houston.tool_calls t using batch b where t.run_id = b.id returning 1),
        model_calls as (delete from houston.model_calls c using batch b where c.run_id = b.id returning 1),
        runs as (delete from houston.runs r using batch b where r.id = b.id returning 1)
        select json_build_object('tool_calls', (select count(*) from tool_calls), 'runs', (select count(*) from runs),
                                 'model_calls', (select count(*) from model_calls))
               as "gone!: Json<BTreeMap<String, i64>>""#,
        group,
        rows
    );
    Ok(gone.fetch_one(connection).await?)
}

/// Deletes messages, questions, events and history.
async fn threads(connection: &mut PgConnection, group: &[Uuid], rows: i64) -> Result<Gone> {
    let gone = sqlx::query_scalar!(
        r#"-- store::erasure::sweep::threads
        with messages as (
            delete from houston.messages where ctid = any (array(
                select ctid from houston.messages where agentable_id = any ($1) limit $2)) returning 1),
        events as (
            delete from houston.events where ctid = any (array(
                select ctid from houston.events where agentable_id = any ($1) limit $2)) returning 1),
        history as (
            delete from houston.history where ctid = any (array(
                select ctid from houston.history where agentable_id = any ($1) limit $2)) returning 1),
        questions as (
            delete from houston.questions where ctid = any (array(
                select ctid from houston.questions where agentable_id = any ($1) limit $2)) returning 1)
        select json_build_object('messages', (select count(*) from messages), 'events', (select count(*) from events),
                                 'history', (select count(*) from history), 'questions', (select count(*) from questions))
               as "gone!: Json<BTreeMap<String, i64>>""#,
        group,
        rows
    );
    Ok(gone.fetch_one(connection).await?)
}

/// Deletes knowledge items of the agentables and feed items written by them, compressions, large results, files, and images
/// that no other agentable uses.
async fn knowledge(connection: &mut PgConnection, group: &[Uuid], rows: i64) -> Result<Gone> {
    let gone = sqlx::query_scalar!(
        r#"-- store::erasure::sweep::knowledge
        with items as (
            delete from houston.knowledge_items where ctid = any (array(
                select ctid from houston.knowledge_items where agentable_id = any ($1) limit $2)
                || array(select ctid from houston.knowledge_items where author_id = any ($1) limit $2)) returning kind),
        compressions as (
            delete from houston.compressions where ctid = any (array(
                select ctid from houston.compressions where agentable_id = any ($1) limit $2)) returning 1),
        results as (
            delete from houston.tool_results where ctid = any (array(
                select ctid from houston.tool_results where agentable_id = any ($1) limit $2)) returning 1),
        files as (
            delete from houston.workspace_files where ctid = any (array(
                select ctid from houston.workspace_files where agentable_id = any ($1) limit $2)) returning 1),
        uses as (
            delete from houston.image_uses where ctid = any (array(
                select ctid from houston.image_uses where agentable_id = any ($1) limit $2)) returning image_id),
        images as (
            delete from houston.images i
             where i.id in (select u.image_id from uses u)
               and not exists (select from houston.image_uses o
                                where o.image_id = i.id and o.agentable_id <> all ($1)) returning 1)
        select coalesce((select jsonb_object_agg(i.kind, i.n) from (select kind, count(*) as n from items group by kind) as i),
                        '{}')
               || jsonb_build_object(
                      'compressions', (select count(*) from compressions), 'tool_results', (select count(*) from results),
                      'workspace_files', (select count(*) from files), 'image_uses', (select count(*) from uses),
                      'images', (select count(*) from images))
               as "gone!: Json<BTreeMap<String, i64>>""#,
        group,
        rows
    );
    Ok(gone.fetch_one(connection).await?)
}
