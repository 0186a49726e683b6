//! Creating a task, by a statement of the test's own: what is compared is how its run is claimed and how it ends.

use super::Scene;
use houston_domain::id::{AgentableId, MessageId, RunId};

/// Creates a task with its first message and its open run, if a run of its goal is open.
pub(super) async fn create_task(scene: &Scene<'_>, goal: AgentableId) -> Option<AgentableId> {
    let task: AgentableId = scene.ids().beside(goal);
    let (run, message): (RunId, MessageId) = (scene.ids().beside(goal), scene.ids().beside(goal));
    let created = sqlx::query(
        r#"with above as (
            update houston.run_locks l set open_tasks = l.open_tasks + 1
             where l.agentable_id = $1 and l.run_open returning l.*),
        counted as (
            update houston.runs r set tasks_started = r.tasks_started + 1 from above a where r.id = a.run_id),
        task as (
            insert into houston.agentables (id, tenant_id, user_id, parent_id, depth, kind, title, tools)
            select $2, a.tenant_id, a.user_id, $1, 1, 'task', 'Find <hotels>', '{}' from above a),
        lock as (
            insert into houston.run_locks (agentable_id, tenant_id, user_id, last_seq, wake, unread, run_id, run_open)
            select $2, a.tenant_id, a.user_id, 2, true, 1, $3, true from above a),
        run as (
            insert into houston.runs (id, tenant_id, agentable_id, first_seq) select $3, a.tenant_id, $2, 1 from above a),
        message as (
            insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, metadata, run_id)
            select $4, a.tenant_id, $2, 2, 'system', 'text', 'Find hotels.', '{"type": "task_started"}', $3 from above a)
        insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, message_id, data)
        select $2, e.seq, a.tenant_id, $3, 0, e.message_id, e.data
          from above a cross join (values
               (1, null::uuid, '{"type": "run_queued"}'::jsonb),
               (2, $4::uuid, jsonb_build_object('type', 'message_posted', 'message_id', 'msg_' || replace($4::text, '-', '')))
             ) as e (seq, message_id, data)"#,
    );
    let created =
        created.bind(goal.0).bind(task.0).bind(run.0).bind(message.0).execute(scene.pool()).await.unwrap();
    (created.rows_affected() > 0).then_some(task)
}
