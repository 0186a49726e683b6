//! Tasks: agentables created by another agentable. A task is created, with its first message and its open run, in
//! the fenced transaction of the step that asked for it. Its end is reported in the transaction
//! that ends its run (`task_report`).

use houston_domain::client_offer::ClientOffer;
use houston_domain::id::{AgentId, AgentableId, RunId, TeamId, UserId};
use houston_domain::model_policy::ModelPolicy;
use houston_domain::run::RunStatus;
use houston_domain::task::{NewTask, TaskResult};
use serde_json::json;
use sqlx::PgConnection;
use sqlx::types::Json;

use crate::agentable::{Agentable, query_agentables};
use crate::cost::Cost;
use crate::error::Result;
use crate::handle::TenantStore;
use crate::record::{Owner, RecordTx};
use crate::serving::ServedBy;
use crate::statement::{Statement as _, uuids};

/// What limits the tasks of an agentable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskCounts {
    /// Levels of tasks above the agentable; 0: it is not a task.
    pub depth: i32,
    /// Its open tasks.
    pub open: i32,
    /// Tasks that this run has created.
    pub of_this_run: i32,
    /// Its notes.
    pub notes: i64,
    /// Whether the run is being cancelled.
    pub is_cancelled: bool,
}

impl RecordTx<'_> {
    /// What limits the tasks of the agentable. No other transaction creates one until the step is committed.
    pub async fn task_counts(&mut self) -> Result<TaskCounts> {
        // The lock row of the agentable is held, so no other transaction creates a task of it.
        let counts = sqlx::query_as!(
            TaskCounts,
            r#"-- store::task::above
            select a.depth, l.open_tasks as open, r.tasks_started as of_this_run,
                   r.cancel_seq is not null as "is_cancelled!",
                   (select count(*) from houston.knowledge_items where owner_id = a.id and kind = 'note') as "notes!"
              from houston.agentables a join houston.run_locks l on l.agentable_id = a.id
              join houston.runs r on r.id = $2
             where a.id = $1"#,
            self.owner.agentable.0,
            self.owner.run.0
        );
        Ok(counts.fetch_one(self.tx.connection()).await?)
    }

    /// Creates a task, open and awake; `depth` is that of its creator and one.
    pub async fn create_task(&mut self, task: NewTask, depth: i32) -> Result<()> {
        let task = NewTask { traceparent: self.tx.traceparent.clone(), ..task };
        insert_task(self.tx.connection(), self.owner, &task, depth).await
    }
}

/// Creates a task of `owner`'s agentable, open and awake. The caller holds the lock row of that agentable.
pub(crate) async fn insert_task(
    connection: &mut PgConnection,
    owner: Owner,
    task: &NewTask,
    depth: i32,
) -> Result<()> {
    let metadata = json!({"type": "task_started"});
    let model_policy = ModelPolicy { cache: None, latency: task.latency };
    let offer = ClientOffer { output: task.output.clone(), model_policy, ..ClientOffer::default() };
    let offer = (!offer.is_empty()).then_some(Json(offer));
    sqlx::query!(
            "-- store::task::insert
            with t as (select clock_timestamp() as at),
            above as (
                update houston.runs set tasks_started = tasks_started + 1 where id = $5
                returning coalesce(mode, origin_type) as origin, traceparent),
            counted as (update houston.run_locks set open_tasks = open_tasks + 1 where agentable_id = $4),
            task as (
                insert into houston.agentables (id, tenant_id, user_id, parent_id, depth, kind, title, status, tools,
                                                untrusted)
                values ($1, $2, $3, $4, $6, $7, $8, $9, $10, $15)),
            -- The form of its result; and how models are called, as the call says, else as the message says that the creating run
            -- answers.
            offer as (
                insert into houston.client_offers (agentable_id, tenant_id, message_id, offer)
                select $1, $2, $12, coalesce($17::jsonb, '{}') || case when p.policy is null then '{}'
                       else jsonb_build_object('model_policy', p.policy || coalesce($17 -> 'model_policy', '{}')) end
                  from (values (true)) v
                  left join (
                       select o.offer -> 'model_policy' as policy
                         from houston.client_offers o join houston.messages m on m.id = o.message_id
                        where o.agentable_id = $4 and m.run_id = $5 and o.offer ? 'model_policy') p on true
                 where $17::jsonb is not null or p.policy is not null),
            lock as (
                insert into houston.run_locks (agentable_id, tenant_id, user_id, last_seq, wake, unread, run_id, run_open)
                values ($1, $2, $3, 2, true, 1, $11, true)),
            run as (
                insert into houston.runs (id, tenant_id, agentable_id, first_seq, origin_type, created_at, traceparent)
                select $11, $2, $1, 1, origin, t.at, coalesce($16, traceparent) from above cross join t)
            insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, metadata,
                                          run_id, created_at)
            select $12, $2, $1, 2, 'system', 'text', $13,
                   $14::jsonb || jsonb_strip_nulls(jsonb_build_object('origin_type', origin)), $11, t.at
              from above cross join t",
            task.id.0,
            owner.tenant.0,
            owner.user.0,
            owner.agentable.0,
            owner.run.0,
            depth,
            task.kind,
            task.title,
            task.status,
            &task.tools,
            task.run.0,
            task.message.0,
            task.instructions,
            metadata,
            owner.untrusted,
            task.traceparent,
            offer as _
        )
        .run(connection)
        .await
}

impl TenantStore<'_> {
    /// Tasks of an agentable of the tenant, of any kind, newest first, older than `before` if given, at most `limit`.
    pub async fn tasks(
        self,
        parent: AgentableId,
        before: Option<AgentableId>,
        limit: i64,
    ) -> Result<Vec<Agentable>> {
        let tasks = query_agentables!(
            "-- store::task::list",
            "where p.tenant_id = $1 and p.id = $2 and ($3::uuid is null or a.id < $3)
             order by a.id desc limit $4",
            self.tenant.0,
            parent.0,
            before.map(|before| before.0),
            limit
        );
        Ok(tasks.fetch_all(&self.pool).await?)
    }

    /// The results of these tasks of the tenant. Tasks with an open run have none and are left out.
    pub async fn task_results(self, tasks: &[AgentableId]) -> Result<Vec<(AgentableId, TaskResult)>> {
        let rows = sqlx::query!(
            r#"-- store::task::result::of
            select a.id, r.status, r.error_code, r.error_message, r.cancel_reason, r.cancelled_with_parent,
                   r.ended_at as "ended_at!", said.text as "text?"
              from houston.agentables a
              join houston.run_locks l on l.agentable_id = a.id
              join houston.runs r on r.id = l.run_id and r.ended_at is not null
              left join lateral (
                    select string_agg(b.block ->> 'text', E'\n' order by b.n) as text
                      from houston.entries h
                     cross join lateral jsonb_array_elements(h.content) with ordinality as b (block, n)
                     where h.agentable_id = a.id and h.run_id = r.id and h.role = 'assistant' and not h.rolled_back
                       and b.block ->> 'type' = 'text' and btrim(b.block ->> 'text') <> ''
                     group by h.position order by h.position desc limit 1) as said on true
             where a.tenant_id = $1 and a.id = any ($2) and a.parent_id is not null"#,
            self.tenant.0,
            &uuids(tasks)
        )
        .map(|row| {
            let status = RunStatus::from_name(&row.status).unwrap_or(RunStatus::Failed);
            let by =
                if row.cancelled_with_parent { Some("parent") } else { row.cancel_reason.as_deref() };
            let result = TaskResult {
                run_status: status,
                reason: status.stopped_by(row.error_code.as_deref(), by),
                message: row.error_message,
                text: row.text,
                ended_at: row.ended_at.into(),
            };
            (AgentableId(row.id), result)
        });
        Ok(rows.fetch_all(&self.pool).await?)
    }
}
