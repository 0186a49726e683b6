//! Reporting the end of a task to the agentable that created it: the task's notes move there, and a message starts a
//! run there. The caller holds the lock of the task, and the one of the other agentable is taken here: every
//! transaction that takes both takes the task's first.

use std::collections::BTreeMap;

use houston_domain::event::Event;
use houston_domain::id::{AgentableId, NoteId, TenantId};
use houston_domain::plan::PlanEnd;
use houston_domain::task::{TaskEnd, TaskOutput};
use houston_domain::workspace::{FileLimits, handed_over};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::cancel::ARCHIVED;
use crate::error::Result;
use crate::plan::{ExecutorOutcome, keep_outcome};
use crate::settings::Fairness;
use crate::statement::Statement as _;
use crate::system_message::{LockedRow, NewSystemMessage, lock};

/// A task whose last run has ended.
pub(crate) struct EndedTask<'s> {
    pub(crate) id: AgentableId,
    pub(crate) tenant: TenantId,
    /// The agentable that created it.
    pub(crate) parent: AgentableId,
    pub(crate) end: TaskEnd,
    /// The position of the last history entry of the task's agent.
    pub(crate) position: i64,
    /// Whether the parent knows, because its cancel caused this one. Then only an event is written, for the clients of
    /// its stream.
    pub(crate) is_known: bool,
    /// Whether its agent had read what strangers wrote.
    pub(crate) untrusted: bool,
    /// Set if it is a plan.
    pub(crate) plan: Option<&'s PlanEnd>,
}

/// Reports the end of a task.
pub(crate) async fn report(
    connection: &mut PgConnection,
    task: &EndedTask<'_>,
    fairness: Fairness,
) -> Result<()> {
    let Some(parent) = lock(connection, task.parent).await? else { return Ok(()) };
    let to = release(connection, task).await?;
    let event = task.end.event();
    if task.is_known {
        if parent.run_open {
            parent.add_event(connection, &event).await?;
        }
        return Ok(());
    }
    if let Some(plan) = task.plan {
        send(connection, &parent, &to, (&task.end, Some(plan)), &plan.report, fairness).await?;
        return Ok(houston_faults::fault!("C32")?);
    }
    if to.is_executor {
        return keep(connection, task, &parent).await;
    }
    let content = content(connection, task).await?;
    send(connection, &parent, &to, (&task.end, None), &content, fairness).await
}

/// Reports that a task was erased. The rows of the task are deleted, so nothing of it moves.
pub(crate) async fn report_erased(
    connection: &mut PgConnection,
    parent: AgentableId,
    end: &TaskEnd,
    fairness: Fairness,
) -> Result<()> {
    let Some(row) = lock(connection, parent).await? else { return Ok(()) };
    let to = sqlx::query_as!(
        Addressee,
        r#"-- store::task_report::forget
        with parent as (
            update houston.run_locks set open_tasks = greatest(open_tasks - 1, 0) where agentable_id = $1)
        select false as "has_files!", false as "is_executor!", houston.id_beside($1) as "message!",
               houston.id_beside($1) as "run!",
               (select r.traceparent from houston.runs r where r.id = $2 and r.tenant_id = $3) as traceparent,
               (select a.status is not distinct from $4 from houston.agentables a where a.id = $1) as "is_archived!""#,
        parent.0,
        end.run.0,
        row.tenant_id,
        ARCHIVED
    )
    .fetch_one(&mut *connection)
    .await?;
    let content = end.frame(&TaskOutput::default(), 0);
    send(connection, &row, &to, (end, None), &content, fairness).await
}

/// What a report to an agentable needs to know, read under its lock.
struct Addressee {
    /// Whether the task has files.
    has_files: bool,
    /// Whether the task is the executor of a plan.
    is_executor: bool,
    /// The ids of the message and of the run that it may open.
    message: Uuid,
    run: Uuid,
    /// Where the run of the task belongs in a trace.
    traceparent: Option<String>,
    is_archived: bool,
}

/// Posts the report to the parent, whose lock the caller holds. The run that it opens belongs where that of the task does.
async fn send(
    connection: &mut PgConnection,
    row: &LockedRow,
    to: &Addressee,
    (end, plan): (&TaskEnd, Option<&PlanEnd>),
    content: &str,
    fairness: Fairness,
) -> Result<()> {
    let event = plan.map_or_else(|| end.event(), |plan| plan_event(end, plan));
    let (metadata, ids) = (end.metadata(), (to.message.into(), to.run.into()));
    let report = NewSystemMessage {
        event: Some(&event),
        traceparent: to.traceparent.as_deref(),
        ..NewSystemMessage::report(row.agentable, ids, content, &metadata)
    };
    row.deliver(connection, to.is_archived, &report, fairness).await?;
    Ok(())
}

/// The end of a plan, for the stream of the agentable that it works for.
pub(crate) fn plan_event(end: &TaskEnd, plan: &PlanEnd) -> Event {
    Event::PlanEnded {
        plan_id: end.task.clone(),
        status: end.status,
        code: end.error_code.clone(),
        message: end.error_message.clone(),
        checklist: plan.checklist.clone(),
    }
}

/// Keeps what the executor of a plan returned for the run of that plan.
async fn keep(connection: &mut PgConnection, task: &EndedTask<'_>, plan: &LockedRow) -> Result<()> {
    let text = sqlx::query_scalar!(
        r#"-- store::task_report::last_text
        select said.text
          from houston.entries h
         cross join lateral (
               select string_agg(b.block ->> 'text', E'\n' order by b.n) as text
                 from jsonb_array_elements(h.content) with ordinality as b (block, n)
                where b.block ->> 'type' = 'text') as said
         where h.agentable_id = $1 and h.run_id = $2 and h.role = 'assistant' and btrim(said.text) <> ''
         order by h.position desc limit 1"#,
        task.id.0,
        task.end.run.0
    );
    let outcome = ExecutorOutcome {
        // Empty if its agent wrote none.
        text: text.fetch_optional(&mut *connection).await?.flatten().unwrap_or_default(),
        error: (!task.end.is_complete()).then(|| task.end.failure()),
        untrusted: task.untrusted,
    };
    keep_outcome(connection, plan, task.id, &outcome).await
}

/// The parent waits for one task less, and gets the task's notes and files. The files are in a folder with the name of
/// the task; those for which there is no place stay with the task.
async fn release(connection: &mut PgConnection, task: &EndedTask<'_>) -> Result<Addressee> {
    let to = sqlx::query_as!(
        Addressee,
        r#"-- store::task_report::release
        with parent as (
            update houston.run_locks set open_tasks = greatest(open_tasks - 1, 0) where agentable_id = $2),
        notes as (
            update houston.knowledge_items set agentable_id = $2 where owner_id = $1 and kind = 'note')
        select exists (select from houston.workspace_files where agentable_id = $1) as "has_files!",
               exists (select from houston.plans where agentable_id = $2) as "is_executor!",
               houston.id_beside($2) as "message!", houston.id_beside($2) as "run!",
               (select r.traceparent from houston.runs r where r.id = $3 and r.tenant_id = $4) as "traceparent?",
               (select a.status is not distinct from $5 from houston.agentables a where a.id = $2) as "is_archived!""#,
        task.id.0,
        task.parent.0,
        task.end.run.0,
        task.tenant.0,
        ARCHIVED
    )
    .fetch_one(&mut *connection)
    .await?;
    if to.has_files {
        hand_over_files(connection, task).await?;
    }
    Ok(to)
}

/// Moves the files. Others write those of the parent only under its lock, which the caller holds.
async fn hand_over_files(connection: &mut PgConnection, task: &EndedTask<'_>) -> Result<()> {
    let rows = sqlx::query!(
        r#"-- store::task_report::files
        select f.agentable_id = $2 as "there!", f.path, f.bytes,
               houston.setting('files.max_files') as "max_files!", houston.setting('files.max_bytes') as "max_bytes!"
          from houston.workspace_files f where f.agentable_id in ($1, $2) and f.place <> 'removed' order by f.path"#,
        task.id.0,
        task.parent.0
    )
    .fetch_all(&mut *connection)
    .await?;
    let mut limits = FileLimits::default();
    let (mut files, mut there) = (Vec::new(), BTreeMap::new());
    for row in rows {
        limits.max_files = u32::try_from(row.max_files).unwrap_or(0);
        limits.max_bytes = u64::try_from(row.max_bytes).unwrap_or(0);
        let bytes = u64::try_from(row.bytes).unwrap_or(0);
        if row.there {
            there.insert(row.path, bytes);
        } else {
            files.push((row.path, bytes));
        }
    }
    let files = files.iter().map(|(path, bytes)| (path.as_str(), *bytes));
    let moved = handed_over(&task.end.task, files, &there, &limits);
    let (from, to): (Vec<String>, Vec<String>) = moved.into_iter().map(|file| (file.from, file.to)).unzip();
    sqlx::query!(
        "-- store::task_report::hand_over
        update houston.workspace_files f
           set agentable_id = $2, path = m.path_there,
               -- A file of a folder is moved once this is committed.
               place = case when f.place = 'folder' then 'moved' else f.place end,
               content = case when f.place = 'folder' then format('%s/%s', f.agentable_id, f.path) else f.content end
          from unnest($3::text[], $4::text[]) as m (path_here, path_there)
         where f.agentable_id = $1 and f.path = m.path_here",
        task.id.0,
        task.parent.0,
        &from,
        &to
    )
    .run(connection)
    .await
}

/// What the agent of the parent reads of what the task leaves behind. If the task was completed and wrote no note itself, its last
/// text becomes one. The limits are those that all processes have stored.
async fn content(connection: &mut PgConnection, task: &EndedTask<'_>) -> Result<String> {
    let is_complete = task.end.is_complete();
    let row = sqlx::query!(
        r#"-- store::task_report::output
        select (select said.text
                  from houston.entries h
                 cross join lateral (
                       select string_agg(b.block ->> 'text', E'\n' order by b.n) as text
                         from jsonb_array_elements(h.content) with ordinality as b (block, n)
                        where b.block ->> 'type' = 'text') as said
                 where h.agentable_id = $1 and h.position >= $4 and h.run_id = $3 and h.role = 'assistant'
                   and btrim(said.text) <> ''
                 order by h.position desc limit 1) as text,
               (select json_agg(json_build_array(n.id, n.title) order by n.id)
                  from (select o.id, o.title from houston.knowledge_items o
                         where o.owner_id = $2 and o.kind = 'note' and o.run_id = $3 order by o.id
                         limit greatest(houston.setting('tasks.report_notes'), 1)) n)
                   as "notes: Json<Vec<(Uuid, String)>>",
               houston.setting('tasks.note_chars') as "note_chars!",
               houston.setting('tasks.report_chars') as "report_chars!",
               houston.setting('tasks.report_notes') as "report_notes!""#,
        task.id.0,
        task.parent.0,
        task.end.run.0,
        if is_complete { task.position } else { 0 }
    )
    .fetch_one(&mut *connection)
    .await?;
    let notes = row.notes.map_or_else(Vec::new, |notes| notes.0);
    let mut notes: Vec<_> = notes.into_iter().map(|(id, title)| (NoteId(id), title)).collect();
    if let (true, true, Some(text)) = (is_complete, notes.is_empty(), &row.text) {
        let content: String = text.chars().take(usize::try_from(row.note_chars).unwrap_or(0)).collect();
        let id = sqlx::query_scalar!(
            "-- store::task_report::note_result
            insert into houston.knowledge_items (id, tenant_id, kind, agentable_id, run_id, title, content, untrusted)
            values (houston.id_beside($2), $1, 'note', $2, $3, $4, $5, $6) returning id",
            task.tenant.0,
            task.parent.0,
            task.end.run.0,
            task.end.title,
            content,
            task.untrusted
        )
        .fetch_one(connection)
        .await?;
        notes.push((NoteId(id), task.end.title.clone()));
    }
    notes.truncate(usize::try_from(row.report_notes).unwrap_or(0));
    let output = TaskOutput { text: row.text, notes, untrusted: task.untrusted };
    Ok(task.end.frame(&output, usize::try_from(row.report_chars).unwrap_or(usize::MAX)))
}
