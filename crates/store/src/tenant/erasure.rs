//! Erasing users and agentables with all their data. A request makes them invisible and takes away the locks that
//! every write needs; [`crate::erasure::sweep`] deletes the rows afterwards, in batches.
//!
//! Objects of files that users posted are marked, and deleted by
//! [`RunStore::drop_objects`](crate::RunStore::drop_objects): no transaction of an erasure waits for the object store.

pub mod sweep;

use std::collections::{BTreeMap, HashSet};

use houston_domain::erasure::Erasure;
use houston_domain::id::{AgentableId, ApiKeyId, ErasureId, RunId, TenantId, UserId};
use houston_domain::knowledge::KnowledgeKind;
use houston_domain::run::RunStatus;
use houston_domain::task::TaskEnd;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::row_security::leave;
use crate::settings::Fairness;
use crate::statement::Statement as _;
use crate::task_report::report_erased;
use crate::workspace_file::folder::Folders;

/// Maximum number of attempts: each fails only if an agentable was created between two statements, or at a deadlock.
const ATTEMPTS: u32 = 20;
/// Files of one statement: each may have 20 MB in rows.
const FILES: i64 = 10;
/// Parts of files of one statement, each of 2 MiB.
const PARTS: i64 = 50;

/// What to erase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// A user, with all their agentables.
    User(UserId),
    /// An agentable of this kind, with all tasks below it.
    Agentable(&'a str, AgentableId),
}

impl Target<'_> {
    /// Id of the user or the agentable.
    pub fn id(self) -> Uuid {
        match self {
            Self::User(id) => id.0,
            Self::Agentable(_, id) => id.0,
        }
    }

    fn kind(&self) -> &str {
        match self {
            Self::User(_) => UserId::PREFIX,
            Self::Agentable(kind, _) => kind,
        }
    }
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Requested {
    /// The request; the first one, if there was an earlier one.
    pub erasure: Erasure,
    /// The agentables that this request made invisible.
    pub agentables: Vec<AgentableId>,
    /// Their runs that were open.
    pub stopped: Vec<(AgentableId, RunId)>,
}

macro_rules! erasure {
    ($row:expr) => {{
        let row = $row;
        Erasure {
            id: ErasureId(row.id),
            status: if row.completed_at.is_some() { "completed" } else { "running" }.to_owned(),
            resource_id: AgentableId(row.resource_id).public_id(&row.kind),
            resource: row.kind,
            api_key_id: row.api_key_id.map(ApiKeyId),
            deleted: serde_json::from_value(row.deleted).unwrap_or_default(),
            requested_at: row.requested_at.into(),
            completed_at: row.completed_at.map(Into::into),
        }
    }};
}

impl TenantStore<'_> {
    /// Requests that a user or agentable of the tenant be erased. After the commit it cannot be found, its open
    /// runs are cancelled, and their workers can write nothing more. A repeated request returns the first one.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such user or agentable and none was erased, [`Error::Busy`] when
    /// agentables were created during every attempt.
    pub async fn request_erasure(
        self,
        target: Target<'_>,
        id: ErasureId,
        key: Option<ApiKeyId>,
    ) -> Result<Requested> {
        for _ in 0..ATTEMPTS {
            match self.try_erasure(target, id, key).await {
                Ok(Some(requested)) => return Ok(requested),
                // An agentable was created in between.
                Ok(None) => {}
                // Deadlock: another transaction locked the same rows in another order.
                Err(error) if error.sqlstate().as_deref() == Some("40P01") => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Busy { what: target.kind().to_owned() })
    }

    /// One attempt; `None`, with no change, when an agentable was created in between.
    async fn try_erasure(
        self,
        target: Target<'_>,
        id: ErasureId,
        key: Option<ApiKeyId>,
    ) -> Result<Option<Requested>> {
        let mut tx = self.pool.begin().await?;
        let before = members(&mut tx, self.tenant, target).await?;
        let locked = lock(&mut tx, self.tenant, &before).await?;
        let is_there = match target {
            Target::User(user) => lock_user(&mut tx, self.tenant, user).await?,
            Target::Agentable(_, id) => locked.contains(&id.0),
        };
        if !is_there {
            tx.rollback().await?;
            let what = if let Target::User(_) = target { "user" } else { "agentable" };
            let erasure = self.erasure_of(target).await?.ok_or(Error::NotFound { what })?;
            return Ok(Some(Requested { erasure, agentables: Vec::new(), stopped: Vec::new() }));
        }
        let members = members(&mut tx, self.tenant, target).await?;
        if members.iter().any(|one| !locked.contains(one)) {
            return Ok(None);
        }
        if let Target::Agentable(_, task) = target {
            tell_parent(&mut tx, self.tenant, task, self.fairness).await?;
        }
        leave(&mut tx).await?;
        let stopped = fence_off(&mut tx, self.tenant, &members).await?;
        if let Target::User(user) = target {
            sqlx::query!(
                "-- store::erasure::hide_user
                with feeds as (delete from houston.feeds where tenant_id = $2 and user_id = $1)
                update houston.users set tenant_id = null, external_id = null, name = '' where tenant_id = $2 and id = $1",
                user.0,
                self.tenant.0
            )
            .execute(&mut *tx)
            .await?;
        }
        sqlx::query!(
            "-- store::erasure::insert
            insert into houston.erasures (id, tenant_id, api_key_id, kind, resource_id, agentables)
            values ($1, $2, $3, $4, $5, $6)",
            id.0,
            self.tenant.0,
            key.map(|key| key.0),
            target.kind(),
            target.id(),
            &members
        )
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        let erasure = self.erasure(id).await?;
        let agentables = members.into_iter().map(AgentableId).collect();
        Ok(Some(Requested { erasure, agentables, stopped }))
    }

    /// Reads a request of the tenant.
    pub async fn erasure(self, id: ErasureId) -> Result<Erasure> {
        let row = sqlx::query!(
            "-- store::erasure::get
            select id, kind, resource_id, api_key_id, requested_at, completed_at, deleted from houston.erasures
             where tenant_id = $1 and id = $2",
            self.tenant.0,
            id.0
        )
        .map(|row| erasure!(row));
        row.fetch_optional(&self.pool).await?.ok_or(Error::NotFound { what: "erasure" })
    }

    async fn erasure_of(self, target: Target<'_>) -> Result<Option<Erasure>> {
        let row = sqlx::query!(
            "-- store::erasure::of_resource
            select id, kind, resource_id, api_key_id, requested_at, completed_at, deleted from houston.erasures
             where tenant_id = $1 and resource_id = $2 and kind = $3",
            self.tenant.0,
            target.id(),
            target.kind()
        )
        .map(|row| erasure!(row));
        Ok(row.fetch_optional(&self.pool).await?)
    }

    /// Requests of the tenant, newest first, older than `before` if given.
    pub async fn erasures(self, before: Option<ErasureId>, limit: i64) -> Result<Vec<Erasure>> {
        let rows = sqlx::query!(
            "-- store::erasure::list
            select id, kind, resource_id, api_key_id, requested_at, completed_at, deleted from houston.erasures
             where tenant_id = $1 and ($2::uuid is null or id < $2) order by id desc limit $3",
            self.tenant.0,
            before.map(|before| before.0),
            limit
        )
        .map(|row| erasure!(row));
        Ok(rows.fetch_all(&self.pool).await?)
    }
}

/// Reports the end of the task to the agentable that created it, if that waits for it. The caller holds both locks.
async fn tell_parent(
    connection: &mut PgConnection,
    tenant: TenantId,
    task: AgentableId,
    fairness: Fairness,
) -> Result<()> {
    let waiting = sqlx::query!(
        r#"-- store::erasure::waiting_parent
        select a.kind, a.title, a.parent_id as "parent_id!", l.run_id as "run_id!"
          from houston.run_locks l
          join houston.agentables a on a.id = l.agentable_id
          join houston.runs r on r.id = l.run_id
         where l.tenant_id = $2 and l.agentable_id = $1 and a.parent_id is not null
           and (l.run_open or (l.open_tasks > 0 and r.status <> 'cancelled'))"#,
        task.0,
        tenant.0
    );
    let Some(row) = waiting.fetch_optional(&mut *connection).await? else { return Ok(()) };
    let end = TaskEnd {
        task: task.public_id(&row.kind),
        run: RunId(row.run_id),
        title: row.title,
        status: RunStatus::Cancelled,
        error_code: None,
        error_message: Some("The task was erased.".to_owned()),
        cancelled_by: Some("erased".to_owned()),
    };
    report_erased(connection, AgentableId(row.parent_id), &end, fairness).await
}

/// The agentables to erase: those of the user, or the one and all tasks below it, at any depth.
async fn members(connection: &mut PgConnection, tenant: TenantId, target: Target<'_>) -> Result<Vec<Uuid>> {
    let ids = match target {
        Target::User(user) => {
            sqlx::query_scalar!(
                "-- store::erasure::of_user
                select id from houston.agentables where tenant_id = $1 and user_id = $2",
                tenant.0,
                user.0
            )
            .fetch_all(connection)
            .await?
        }
        Target::Agentable(kind, id) => {
            sqlx::query_scalar!(
                r#"-- store::erasure::below
                with recursive below as (
                    select id from houston.agentables where tenant_id = $1 and id = $2 and kind = $3
                    union all
                    select a.id from below b join houston.agentables a on a.parent_id = b.id and a.tenant_id = $1)
                select id as "id!" from below"#,
                tenant.0,
                id.0,
                kind
            )
            .fetch_all(connection)
            .await?
        }
    };
    Ok(ids)
}

/// Locks these agentables, the lowest first, then the parent of the topmost: the same order as the end of a task.
/// Returns those that exist.
async fn lock(connection: &mut PgConnection, tenant: TenantId, members: &[Uuid]) -> Result<HashSet<Uuid>> {
    let locked = sqlx::query_scalar!(
        r#"-- store::erasure::lock
        with ids as (
            select unnest($1::uuid[]) as id
            union
            select p.parent_id from houston.agentables p where p.id = any ($1) and p.parent_id is not null)
        select l.agentable_id from ids
          join houston.agentables a on a.id = ids.id and a.tenant_id = $2
          join houston.run_locks l on l.agentable_id = a.id
         order by a.depth desc, a.id for update of l"#,
        members,
        tenant.0
    );
    Ok(locked.fetch_all(connection).await?.into_iter().collect())
}

/// Locks the user's row, after the locks of their agentables: a transaction with one of those may read the user's
/// row.
async fn lock_user(connection: &mut PgConnection, tenant: TenantId, user: UserId) -> Result<bool> {
    let found = sqlx::query_scalar!(
        "-- store::erasure::lock_user
        select id from houston.users where tenant_id = $1 and id = $2 for update",
        tenant.0,
        user.0
    );
    Ok(found.fetch_optional(connection).await?.is_some())
}

/// Makes the agentables invisible, ends their runs, clears what wakes them, and invalidates every fence.
async fn fence_off(
    connection: &mut PgConnection,
    tenant: TenantId,
    members: &[Uuid],
) -> Result<Vec<(AgentableId, RunId)>> {
    let rows = sqlx::query!(
        r#"-- store::erasure::fence_off
        with open as (
            select agentable_id, run_id, last_seq from houston.run_locks
             where tenant_id = $2 and agentable_id = any ($1) and run_open),
        stopped as (
            update houston.runs r
               set status = 'cancelled', held_for = null, ended_at = statement_timestamp(),
                   cancel_seq = coalesce(r.cancel_seq, o.last_seq)
              from open o where r.id = o.run_id
            returning r.agentable_id, r.id),
        check_ins as (delete from houston.check_ins where agentable_id = any ($1)),
        titles as (delete from houston.title_requests where agentable_id = any ($1)),
        states as (delete from houston.session_states where agentable_id = any ($1)),
        summaries as (
            update houston.sessions set summary_due_at = null
             where agentable_id = any ($1) and summary_due_at is not null),
        locks as (delete from houston.run_locks where agentable_id = any ($1)),
        hidden as (
            update houston.agentables
               set tenant_id = null, title = '', description = '', agent_id = null, team_id = null, tools = null
             where tenant_id = $2 and id = any ($1))
        select agentable_id, id, pg_notify('houston', format('1 cancel %s %s', agentable_id, id))::text as notified
          from stopped"#,
        members,
        tenant.0
    )
    .map(|row| (AgentableId(row.agentable_id), RunId(row.id)));
    Ok(rows.fetch_all(connection).await?)
}

/// How many rows a statement has deleted, by table or kind of knowledge.
type Gone = Json<BTreeMap<String, i64>>;

/// An open request, locked by this transaction.
struct OpenRequest {
    id: Uuid,
    tenant: Uuid,
    /// The user to erase, unless the target is an agentable.
    user: Option<Uuid>,
    resource: Uuid,
    agentables: Vec<Uuid>,
    phase: String,
    after_key: String,
    deleted: BTreeMap<String, i64>,
    /// Where the files of agentables are, if they are no rows.
    folders: Option<Folders>,
    /// Nothing is left but objects of the object store.
    waits: bool,
}

impl OpenRequest {
    /// Adds to the deleted rows of `table`; returns `rows`.
    fn count(&mut self, table: &str, rows: i64) -> i64 {
        if rows > 0 {
            *self.deleted.entry(table.to_owned()).or_default() += rows;
        }
        rows
    }

    /// Counts what one statement has deleted. Returns how many rows.
    fn count_all(&mut self, Json(gone): Gone) -> i64 {
        let count = |(name, rows): (String, i64)| {
            let table = KnowledgeKind::from_name(&name).map(|kind| kind.rules().plural.replace(' ', "_"));
            self.count(&table.unwrap_or(name), rows)
        };
        gone.into_iter().map(count).sum()
    }
}

/// Deletes which files agentables used, and files that no other agentable uses. Returns how many rows.
async fn delete_attachments_of_agentables(connection: &mut PgConnection, group: &[Uuid]) -> Result<Gone> {
    let gone = sqlx::query_scalar!(
        r#"-- store::erasure::attachments::of_agentables
        with uses as (
            delete from houston.attachment_uses where ctid = any (array(
                select ctid from houston.attachment_uses where agentable_id = any ($1) limit $2)) returning attachment_id),
        files as (
            delete from houston.attachments f
             where f.id in (select u.attachment_id from uses u)
               and not exists (select from houston.attachment_uses o
                                where o.attachment_id = f.id and o.agentable_id <> all ($1))
            returning f.id, f.object_id),
        parts as (delete from houston.attachment_parts p using files f where p.attachment_id = f.id),
        objects as (
            update houston.attachment_objects o set drop_at = now() from files f where o.id = f.object_id)
        select json_build_object('attachment_uses', (select count(*) from uses), 'attachments', (select count(*) from files))
               as "gone!: Json<BTreeMap<String, i64>>""#,
        group,
        FILES
    );
    Ok(gone.fetch_one(connection).await?)
}

/// Deletes the files of a user. Returns how many rows.
async fn delete_attachments_of_user(connection: &mut PgConnection, user: Uuid, rows: i64) -> Result<Gone> {
    let gone = sqlx::query_scalar!(
        r#"-- store::erasure::attachments::of_user
        with parts as (
            delete from houston.attachment_parts where ctid = any (array(
                select p.ctid from houston.attachments f join houston.attachment_parts p on p.attachment_id = f.id
                 where f.user_id = $1 limit $3)) returning 1),
        files as (
            delete from houston.attachments where ctid = any (array(
                select f.ctid from houston.attachments f
                 where f.user_id = $1
                   and not exists (select from houston.attachment_parts p where p.attachment_id = f.id) limit $2))
            returning 1),
        objects as (
            -- Those that are being deleted, or tried again in a minute, are left alone.
            update houston.attachment_objects set drop_at = now()
             where user_id = $1 and (drop_at is null or drop_at > now() + interval '2 minutes'))
        select json_build_object('attachment_parts', (select count(*) from parts), 'attachments', (select count(*) from files))
               as "gone!: Json<BTreeMap<String, i64>>""#,
        user,
        rows,
        PARTS
    );
    Ok(gone.fetch_one(connection).await?)
}

/// Whether the object store may still have objects of the user.
async fn wait_for_objects(connection: &mut PgConnection, user: Uuid) -> Result<bool> {
    let waits = sqlx::query_scalar!(
        r#"-- store::erasure::attachments::objects_left
        select exists (select from houston.attachment_objects where user_id = $1) as "waits!""#,
        user
    );
    Ok(waits.fetch_one(connection).await?)
}

/// Deletes up to about `rows` rows of each table. Returns how many.
async fn delete_user_data(connection: &mut PgConnection, user: Uuid, rows: i64) -> Result<Gone> {
    sqlx::query!(
        "-- store::erasure::user_data::rates
        delete from houston.rates where owner_id = $1",
        user
    )
    .execute(&mut *connection)
    .await?;
    let gone = sqlx::query_scalar!(
        r#"-- store::erasure::user_data::delete
        with items as (
            delete from houston.knowledge_items where ctid = any (array(
                select ctid from houston.knowledge_items where user_id = $1 limit $2)) returning kind),
        -- A copy of such a key in another cell names a user who is found nowhere.
        keys as (delete from houston.api_keys where user_id = $1 returning 1),
        profiles as (delete from houston.profiles where user_id = $1 returning 1),
        todos as (
            delete from houston.todos where ctid = any (array(
                select ctid from houston.todos where user_id = $1 limit $2)) returning 1),
        records as (
            delete from houston.custom_records where ctid = any (array(
                select ctid from houston.custom_records where user_id = $1 limit $2)) returning 1),
        images as (
            delete from houston.images where ctid = any (array(
                select ctid from houston.images where user_id = $1 limit $2)) returning 1),
        tables as (delete from houston.custom_tables where user_id = $1 returning 1),
        accounts as (delete from houston.mcp_accounts where user_id = $1 returning 1),
        logins as (delete from houston.mcp_logins where user_id = $1 returning 1),
        webhooks as (delete from houston.webhooks where user_id = $1 returning 1),
        servers as (delete from houston.mcp_servers where user_id = $1 returning 1)
        select coalesce((select jsonb_object_agg(i.kind, i.n) from (select kind, count(*) as n from items group by kind) as i),
                        '{}')
               || jsonb_build_object(
                      'profiles', (select count(*) from profiles), 'todos', (select count(*) from todos),
                      'custom_records', (select count(*) from records), 'api_keys', (select count(*) from keys),
                      'custom_tables', (select count(*) from tables), 'images', (select count(*) from images),
                      'mcp_servers', (select count(*) from servers), 'mcp_accounts', (select count(*) from accounts),
                      'mcp_logins', (select count(*) from logins), 'webhooks', (select count(*) from webhooks))
               as "gone!: Json<BTreeMap<String, i64>>""#,
        user,
        rows
    );
    Ok(gone.fetch_one(connection).await?)
}

/// Adds the user's costs to those of the tenant's erased users, by day.
async fn account_user_data(connection: &mut PgConnection, tenant: Uuid, user: Uuid) -> Result<()> {
    sqlx::query!(
        "-- store::erasure::user_data::account
        with spent as (
            delete from houston.spending where user_id = $2 returning day, cost, model_calls, unpriced_calls)
        insert into houston.erased_spending as e (tenant_id, day, cost, model_calls, unpriced_calls)
        select $1, day, sum(cost), sum(model_calls), sum(unpriced_calls) from spent group by day
            on conflict (tenant_id, day) do update
           set cost = case when e.cost is null then excluded.cost else e.cost + coalesce(excluded.cost, 0) end,
               model_calls = e.model_calls + excluded.model_calls,
               unpriced_calls = e.unpriced_calls + excluded.unpriced_calls",
        tenant,
        user
    )
    .run(connection)
    .await
}
