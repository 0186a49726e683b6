//! What a trigger does when it fires, in the transaction of its caller, who holds the locks of the agentable and of the trigger.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::id::{AgentableId, TenantId, TriggerId};
use houston_domain::mode::Mode;
use houston_domain::plan::{ExpressionError, all_plain};
use houston_domain::trigger::effect::{
    Firing, MAX_FIRINGS, TriggerPlan, TriggerTask, filled, filled_title, filled_value,
};
use houston_domain::trigger::{Cause, Chain, allowance, trigger_message};
use serde_json::{Value, json};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::trigger_firing::{Fired, FiringIds, FiringLimits, Locked};
use super::trigger_reader::{Failures, note_failures};
use crate::cancel::ARCHIVED;
use crate::error::Result;
use crate::plan::{MAX_OPEN_PLANS, NewPlan, PlanRow, announce, insert_plan};
use crate::settings::Fairness;
use crate::statement::{Statement as _, uuids};
use crate::system_message::{Delivery, LockedRow, NewSystemMessage, deliver, lock};

/// What was made, or why nothing was.
type Made = std::result::Result<(Fired, Uuid, String), &'static str>;

/// What a trigger says, with what happened in it.
#[derive(Debug, Clone)]
struct Texts {
    /// The message.
    content: String,
    /// The title of a task or a plan.
    title: String,
    /// The input of a plan.
    input: Value,
}

/// Why a trigger acts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Why<'a> {
    pub(super) cause: &'a Cause,
    /// The triggers that have led to it.
    pub(super) before: &'a Chain,
    /// Of the run that the event belongs to.
    pub(super) traceparent: Option<&'a str>,
}

/// What a trigger says, evaluated while no transaction was open. It counts if the trigger still has these templates.
#[derive(Debug)]
pub(super) struct Filled {
    instructions: String,
    task: Option<TriggerTask>,
    texts: std::result::Result<Texts, ExpressionError>,
}

/// Posts to the agentable, or starts a task or a plan of it, unless the chain is too long, the trigger has fired too often, or its template
/// fails. What it starts because of an event belongs where the run of that event does: `traceparent`. `None`: nothing was done, since
/// its templates have to be evaluated first, without a transaction.
pub(super) async fn act(
    connection: &mut PgConnection,
    trigger: &Locked,
    Why { cause, before, traceparent }: Why<'_>,
    (limits, ids): (FiringLimits, FiringIds),
    (filled, fairness): (Option<&Filled>, Fairness),
) -> Result<Option<Fired>> {
    let (why, is_off) = 'refused: {
        let Some(chain) = before.then(trigger.id) else { break 'refused ("loop".to_owned(), false) };
        let Some(free_at) = allowance::count(trigger.free_at, ids.now, limits.per_hour) else {
            break 'refused ("limit".to_owned(), false);
        };
        let is_same =
            |filled: &&Filled| filled.instructions == trigger.instructions && filled.task == trigger.task;
        let texts = match filled.filter(is_same) {
            Some(filled) => filled.texts.clone(),
            None if trigger.is_plain() => texts(trigger, cause),
            None => return Ok(None),
        };
        let texts = match texts {
            Ok(texts) => texts,
            Err(error) => {
                break 'refused (format!("template: {error}"), matches!(error, ExpressionError::Budget(_)));
            }
        };
        let said = (&texts, traceparent);
        let Some(row) = lock(connection, trigger.agentable).await? else { return Ok(Some(Fired::Gone)) };
        let made = match trigger.task.as_ref().map(|task| (task, task.plan.as_deref())) {
            None => tell(connection, (trigger, &row), chain.depth, said, (ids, fairness)).await?,
            Some((task, None)) => start(connection, (trigger, task), said, (ids, fairness)).await?,
            Some((task, Some(plan))) => {
                start_plan(connection, &row, (task, plan), said, (ids, fairness)).await?
            }
        };
        match made {
            Ok((fired, run, made)) => {
                let firing = Firing { made: Some(made), ..Firing::about(cause, ids.now) };
                note_fired(connection, trigger.id, (run, &chain), &firing, free_at).await?;
                return Ok(Some(fired));
            }
            Err(why) => (why.to_owned(), false),
        }
    };
    let about = (cause, ids.now);
    refuse(connection, trigger.id, about, (&why, is_off)).await.map(Some)
}

impl Locked {
    /// Whether evaluating its templates takes microseconds.
    fn is_plain(&self) -> bool {
        let input = self.task.as_ref().and_then(|task| task.plan.as_ref()).map(|plan| &plan.input);
        let title = self.task.as_ref().map(|task| &task.title);
        all_plain(&json!([self.instructions, title, input]))
    }

    /// Evaluates its templates where that may take long.
    ///
    /// # Errors
    /// The process ends.
    pub(super) async fn fill(self, cause: &Cause) -> Result<Filled> {
        let cause = cause.clone();
        let filled = houston_meter::compute(self.tenant.0, move || {
            let texts = texts(&self, &cause);
            Filled { instructions: self.instructions, task: self.task, texts }
        });
        filled.await.map_err(|_| crate::error::Error::Database(sqlx::Error::WorkerCrashed))
    }
}

fn texts(trigger: &Locked, cause: &Cause) -> std::result::Result<Texts, ExpressionError> {
    let instructions = filled(&trigger.instructions, cause)?;
    let content = trigger_message(&trigger.name, &instructions, cause);
    let title = match &trigger.task {
        None => String::new(),
        Some(TriggerTask { title, plan: Some(_), .. }) => title.clone(),
        Some(TriggerTask { title, .. }) => filled_title(title, cause)?,
    };
    let plan = trigger.task.as_ref().and_then(|task| task.plan.as_ref());
    let input = plan.map_or(Ok(Value::Null), |plan| filled_value(&plan.input, cause))?;
    Ok(Texts { content, title, input })
}

/// Posts the message: an open run reads it at its next step; otherwise it opens a run. `depth`: how many triggers have led to it;
/// `traceparent`: of the run that the event belongs to.
async fn tell(
    connection: &mut PgConnection,
    (trigger, row): (&Locked, &LockedRow),
    depth: i16,
    (texts, traceparent): (&Texts, Option<&str>),
    (ids, fairness): (FiringIds, Fairness),
) -> Result<Made> {
    let message = NewSystemMessage {
        agentable: trigger.agentable,
        message: ids.message,
        run: ids.run,
        mode: (!row.run_open).then_some(Mode::Trigger),
        content: &texts.content,
        metadata: &json!({"type": Mode::Trigger, "trigger_id": trigger.id, "trigger_depth": depth}),
        event: None,
        traceparent,
    };
    if deliver(connection, row, &message, fairness).await? != Delivery::Posted {
        return Ok(Err("archived"));
    }
    let run = row.run_id.filter(|_| row.run_open).unwrap_or(ids.run.0);
    let public = houston_domain::id::RunId(run).to_string();
    Ok(Ok((Fired::Posted(trigger.agentable), run, public)))
}

/// Starts a task of the agentable, open and awake, unless it is archived or has enough open tasks. Its end is reported as that of
/// a task which a run has started.
async fn start(
    connection: &mut PgConnection,
    (trigger, task): (&Locked, &TriggerTask),
    (Texts { content, title, .. }, traceparent): (&Texts, Option<&str>),
    (ids, fairness): (FiringIds, Fairness),
) -> Result<Made> {
    let parent = sqlx::query!(
        r#"-- store::trigger_effect::parent
        select a.status is not distinct from $2 as "archived!",
               l.open_tasks >= coalesce(houston.setting('tasks.max_open'), 5)
                   or a.depth >= coalesce(houston.setting('tasks.max_depth'), 1) as "full!"
          from houston.agentables a join houston.run_locks l on l.agentable_id = a.id where a.id = $1"#,
        trigger.agentable.0,
        ARCHIVED
    )
    .fetch_one(&mut *connection)
    .await?;
    if parent.archived {
        return Ok(Err("archived"));
    }
    if parent.full {
        return Ok(Err("tasks"));
    }
    sqlx::query!(
        r#"-- store::trigger_effect::start
        with t as (select clock_timestamp() as at),
        counted as (update houston.run_locks set open_tasks = open_tasks + 1 where agentable_id = $2),
        task as (
            insert into houston.agentables (id, tenant_id, user_id, parent_id, depth, kind, title, status, untrusted)
            select $1, a.tenant_id, a.user_id, a.id, a.depth + 1, $3, $4, $5, a.untrusted
              from houston.agentables a where a.id = $2
            returning id, tenant_id, user_id),
        lock as (
            insert into houston.run_locks (agentable_id, tenant_id, user_id, last_seq, wake, unread, run_id, run_open)
            select id, tenant_id, user_id, 2, true, 1, $6, true from task),
        run as (
            insert into houston.runs (id, tenant_id, agentable_id, first_seq, origin_type, created_at, traceparent)
            select $6, tenant_id, id, 1, 'trigger', t.at, $10 from task cross join t)
        insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, metadata, run_id,
                                      created_at)
        select $7, tenant_id, id, 2, 'system', 'text', $8, $9, $6, t.at from task cross join t"#,
        ids.task.0,
        trigger.agentable.0,
        task.kind,
        title,
        task.status,
        ids.run.0,
        ids.message.0,
        content,
        json!({"type": "task_started", "origin_type": Mode::Trigger, "trigger_id": trigger.id}),
        traceparent
    )
    .execute(&mut *connection)
    .await?;
    notify(connection, ids.task, fairness).await?;
    Ok(Ok((Fired::Started(ids.task), ids.run.0, ids.task.public_id(&task.kind))))
}

/// Starts a plan of the agentable, unless that is archived or enough of its plans have not ended. Its end is reported as that of
/// a plan which a request has made.
async fn start_plan(
    connection: &mut PgConnection,
    row: &LockedRow,
    (task, plan): (&TriggerTask, &TriggerPlan),
    (Texts { title, input, .. }, traceparent): (&Texts, Option<&str>),
    (ids, fairness): (FiringIds, Fairness),
) -> Result<Made> {
    let parent = sqlx::query!(
        r#"-- store::trigger_effect::parent_of_plan
        select a.tenant_id as "tenant_id!", a.untrusted, a.status is not distinct from $2 as "archived!",
               (select count(*) from houston.plans p where p.parent_id = a.id and p.ended_at is null) as "open!"
          from houston.agentables a where a.id = $1"#,
        row.agentable.0,
        ARCHIVED
    )
    .fetch_one(&mut *connection)
    .await?;
    if parent.archived {
        return Ok(Err("archived"));
    }
    if parent.open >= MAX_OPEN_PLANS {
        return Ok(Err("plans"));
    }
    let tenant = TenantId(parent.tenant_id);
    let new = NewPlan {
        id: ids.task,
        run: ids.run,
        message: ids.message,
        kind: &task.kind,
        status: task.status.as_deref(),
        title,
        tools: &plan.tools,
        document: &plan.document,
        input,
        attached: false,
        deadline: ids.now + TimeDelta::seconds(plan.lasts_s.into()),
        traceparent,
    };
    let plan_row = PlanRow { untrusted: Some(parent.untrusted), ..PlanRow::new(tenant, row.agentable, &new) };
    insert_plan(connection, plan_row).await?;
    announce(connection, row, tenant, &new).await?;
    notify(connection, ids.task, fairness).await?;
    Ok(Ok((Fired::Started(ids.task), ids.run.0, ids.task.public_id(&task.kind))))
}

/// Workers look at once, if the user has a place for another run.
async fn notify(connection: &mut PgConnection, task: AgentableId, fairness: Fairness) -> Result<()> {
    sqlx::query!(
        r#"-- store::trigger_effect::notify
        select case when houston.free_slots(user_id, $1, $2) > 0
                    then pg_notify('houston', format('1 post %s', $1::uuid))::text end as notified
          from houston.agentables where id = $1"#,
        task.0,
        fairness.running()
    )
    .fetch_one(connection)
    .await?;
    Ok(())
}

/// Counts the firing, and marks the run as caused by the chain.
async fn note_fired(
    connection: &mut PgConnection,
    id: TriggerId,
    (run, chain): (Uuid, &Chain),
    firing: &Firing,
    free_at: DateTime<Utc>,
) -> Result<()> {
    sqlx::query!(
        "-- store::trigger_effect::fired
        with run as (
            update houston.runs r
               set trigger_chain = array(select distinct t from unnest(coalesce(r.trigger_chain, '{}') || $3::uuid[]) as u (t)),
                   trigger_depth = greatest(coalesce(r.trigger_depth, 0::smallint), $4::smallint)
             where r.id = $2)
        update houston.triggers
           set fired = fired + 1, last_at = $5, free_at = $6,
               firings = (select jsonb_agg(f order by nth) from jsonb_array_elements($7::jsonb || firings)
                                 with ordinality as e (f, nth) where nth <= $8)
         where id = $1",
        id.0,
        run,
        &uuids(&chain.triggers),
        chain.depth,
        firing.at,
        free_at,
        Json([firing]) as Json<[&Firing; 1]>,
        MAX_FIRINGS
    )
    .run(connection)
    .await
}

/// Counts what did not fire, and says why. A trigger that costs too much is switched off: its owner sees the reason, and may
/// switch it on again.
pub(super) async fn refuse(
    connection: &mut PgConnection,
    id: TriggerId,
    (cause, now): (&Cause, DateTime<Utc>),
    (why, is_off): (&str, bool),
) -> Result<Fired> {
    let last = Firing { refusal: Some(why.to_owned()), ..Firing::about(cause, now) };
    note_failures(connection, &BTreeMap::from([(id, Failures { count: 1, last, is_off })])).await?;
    Ok(Fired::Refused)
}
