//! Tasks: agentables created by another agentable. A task is created, with its first message and its open run, in
//! the fenced transaction of the step that asked for it. Its end is reported in the transaction
//! that ends its run (`task_report`).

use houston_domain::id::{AgentId, AgentableId, MessageId, RunId, TeamId, TenantId};
use houston_domain::run::RunStatus;
use houston_domain::task::TaskLimits;
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use serde_json::json;

use crate::agentable::Agentable;
use crate::cost::Cost;
use crate::error::Result;
use crate::handle::Shared;
use crate::record::{FencedTx, Owner};
use crate::serving::ServedBy;

/// A task to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTask {
    /// The task's id.
    pub id: AgentableId,
    /// The id of its first run.
    pub run: RunId,
    /// The id of its first message.
    pub message: MessageId,
    /// Its kind, as in `task`.
    pub kind: String,
    /// Its first stored status.
    pub status: Option<String>,
    /// Its title, one line.
    pub title: String,
    /// The text of its first message.
    pub instructions: String,
    /// The tools it may call.
    pub tools: Vec<String>,
}

/// The counts that are compared with the limits.
struct Above {
    depth: i32,
    open: i32,
    of_this_run: i32,
    notes: i64,
    is_cancelled: bool,
}

impl Above {
    /// The response when a limit is reached, with what the model can do instead.
    fn refusal(&self, limits: &TaskLimits, max_notes: u32) -> Option<ToolResponse> {
        let TaskLimits { max_depth, max_open, max_per_run, .. } = *limits;
        let full = |text: String| Some(ToolResponse::failure(ToolErrorCode::RateLimited, text));
        if self.is_cancelled {
            let text = "this run is being cancelled: no task was created";
            return Some(ToolResponse::failure(ToolErrorCode::PermissionDenied, text));
        }
        if self.depth >= max_depth {
            let text = format!(
                "tasks may go {max_depth} deep, and you are {} deep: do it yourself, with your own tools",
                self.depth
            );
            return Some(ToolResponse::failure(ToolErrorCode::PermissionDenied, text));
        }
        if self.open >= max_open {
            return full(format!(
                "{} of your tasks are open, and at most {max_open} may be: wait until one has ended \
                 (you will be told), then create this one",
                self.open
            ));
        }
        if self.of_this_run >= max_per_run {
            return full(format!(
                "you have created {} tasks in this run, and at most {max_per_run} are allowed: put what is left \
                 into one task later, or do it yourself",
                self.of_this_run
            ));
        }
        if self.notes >= i64::from(max_notes) {
            return full(format!(
                "you have {max_notes} notes, the maximum, so a task could not hand over its own. Delete some first"
            ));
        }
        None
    }
}

impl FencedTx {
    /// Creates a task of `owner`'s agentable, open and awake, within `limits`. Returns the tool's response for the
    /// model.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn create_task(
        &mut self,
        owner: Owner,
        task: &NewTask,
        limits: &TaskLimits,
    ) -> Result<ToolResponse> {
        // The lock row of the agentable is held, so no other transaction creates a task of it.
        let above = sqlx::query_as!(
            Above,
            r#"-- store::task::above
            select a.depth, l.open_tasks as open, r.tasks_started as of_this_run,
                   r.cancel_seq is not null as "is_cancelled!",
                   (select count(*) from houston.knowledge_items where owner_id = a.id and kind = 'note') as "notes!"
              from houston.agentables a join houston.run_locks l on l.agentable_id = a.id
              join houston.runs r on r.id = $2
             where a.id = $1"#,
            owner.agentable.0,
            owner.run.0
        )
        .fetch_one(self.connection())
        .await?;
        if let Some(refusal) = above.refusal(limits, self.knowledge_limits.max_notes) {
            return Ok(refusal);
        }
        self.insert_task(owner, task, above.depth + 1).await?;
        let id = task.id.public_id(&task.kind);
        Ok(ToolResponse::success(format!(
            "Created {id}: {}. It works on its own; you will be told when it has ended. Do not wait for it.",
            task.title
        )))
    }

    async fn insert_task(&mut self, owner: Owner, task: &NewTask, depth: i32) -> Result<()> {
        let metadata = json!({"type": "task_started"});
        sqlx::query!(
            "-- store::task::insert
            with above as (
                update houston.runs set tasks_started = tasks_started + 1 where id = $5
                returning coalesce(mode, origin_type) as origin),
            counted as (update houston.run_locks set open_tasks = open_tasks + 1 where agentable_id = $4),
            task as (
                insert into houston.agentables (id, tenant_id, user_id, parent_id, depth, kind, title, status, tools)
                values ($1, $2, $3, $4, $6, $7, $8, $9, $10)),
            lock as (
                insert into houston.run_locks (agentable_id, tenant_id, user_id, last_seq, wake, unread, run_id, run_open)
                values ($1, $2, $3, 2, true, 1, $11, true)),
            run as (
                insert into houston.runs (id, tenant_id, agentable_id, first_seq, origin_type)
                select $11, $2, $1, 1, origin from above),
            message as (
                insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, metadata,
                                              run_id)
                select $12, $2, $1, 2, 'system', 'text', $13,
                       $14::jsonb || jsonb_strip_nulls(jsonb_build_object('origin_type', origin)), $11
                  from above)
            insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, message_id, data)
            select $1, e.seq, $2, $11, 0, e.message_id, e.data
              from (values (1, null::uuid, '{\"type\": \"run_queued\"}'::jsonb),
                           (2, $12::uuid, jsonb_build_object('type', 'message_posted',
                                                             'message_id', houston.shown('msg', $12::uuid)))
                   ) as e (seq, message_id, data)",
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
            metadata
        )
        .execute(self.connection())
        .await?;
        Ok(())
    }
}

impl Shared {
    /// The tasks of an agentable of the tenant, of any kind, newest first, older than `before` if given.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub(crate) async fn tasks(
        &self,
        tenant: TenantId,
        parent: AgentableId,
        before: Option<AgentableId>,
        limit: i64,
    ) -> Result<Vec<Agentable>> {
        let rows = sqlx::query!(
            r#"-- store::task::list
            select a.id, a.user_id, a.kind, a.title, a.description, a.status, a.created_at, l.last_seq, l.run_id,
                   a.cost, a.unpriced_calls, a.agent_id, a.team_id, a.tools, l.run_open, r.status as "run_status?",
                   p.kind as parent_kind
              from houston.agentables p
              join houston.agentables a on a.parent_id = p.id
              join houston.run_locks l on l.agentable_id = a.id
              left join houston.runs r on r.id = l.run_id
             where p.tenant_id = $1 and p.id = $2 and ($3::uuid is null or a.id < $3)
             order by a.id desc limit $4"#,
            tenant.0,
            parent.0,
            before.map(|before| before.0),
            limit
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|a| Agentable {
                parent: Some((a.parent_kind, parent)),
                served_by: ServedBy { agent: a.agent_id.map(AgentId), team: a.team_id.map(TeamId) },
                tools: a.tools,
                id: AgentableId(a.id),
                user: houston_domain::id::UserId(a.user_id),
                kind: a.kind,
                title: a.title,
                description: a.description,
                status: a.status,
                created_at: a.created_at,
                last_seq: a.last_seq,
                run: a.run_id.map(RunId),
                run_open: a.run_open,
                run_status: a.run_status.as_deref().and_then(RunStatus::from_name),
                cost: Cost::of(a.cost, a.unpriced_calls),
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_what_to_do_instead() {
        let limits = TaskLimits { max_depth: 1, max_open: 2, max_per_run: 3, ..TaskLimits::default() };
        let fine = || Above { depth: 0, open: 1, of_this_run: 2, notes: 0, is_cancelled: false };
        assert_eq!(fine().refusal(&limits, 4), None);
        for (above, expected) in [
            (Above { depth: 1, ..fine() }, "1 deep"),
            (Above { open: 2, ..fine() }, "at most 2 may be: wait until one has ended"),
            (Above { of_this_run: 3, ..fine() }, "at most 3 are allowed: put what is left"),
            (Above { notes: 4, ..fine() }, "Delete some"),
            (Above { is_cancelled: true, ..fine() }, "being cancelled"),
        ] {
            let refusal = above.refusal(&limits, 4).unwrap();
            assert!(!refusal.is_success() && refusal.text().contains(expected), "{}", refusal.text());
        }
    }
}
