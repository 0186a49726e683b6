//! Triggers that fire: each posts a message to its agentable or starts a task of it, in the transaction that moves the time it is
//! due, or that deletes the event it has heard. So each fires once, however many workers look, and whatever dies.

use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::id::{AgentableId, MessageId, RunId, TenantId, TriggerId};
use houston_domain::trigger::effect::TriggerTask;
use houston_domain::trigger::{Cause, Chain, Rule, When};
use sqlx::PgConnection;
use sqlx::types::Json;

use super::trigger_effect::{Filled, Why, act, refuse};
use super::trigger_reader::Evaluation;
use crate::error::Result;
use crate::handle::RunStore;
use crate::system_message::lock;

/// How triggers fire: `jobs/triggers.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FiringLimits {
    /// How often one trigger fires in an hour.
    pub per_hour: i32,
    /// How long after its time a trigger is late; later, the time was missed.
    pub grace: TimeDelta,
}

/// After which time without a word the process that evaluates a template counts as dead.
const TURN: TimeDelta = TimeDelta::seconds(10);

/// What became of a trigger that was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fired {
    /// A message was posted to this agentable.
    Posted(AgentableId),
    /// This task was started.
    Started(AgentableId),
    /// It was refused: it has fired too often, its time was missed, a template failed, or its agentable is archived.
    Refused,
    /// Another worker took it, or it is switched off or deleted.
    Gone,
}

/// A trigger that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueTrigger {
    /// The trigger.
    pub id: TriggerId,
    /// Who gets the message.
    pub agentable: AgentableId,
    /// When it was due.
    pub due_at: DateTime<Utc>,
}

/// An event that a trigger has heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// The trigger.
    pub trigger: TriggerId,
    /// Who gets the message.
    pub agentable: AgentableId,
    /// The event: its agentable, and its position there.
    pub event: (AgentableId, i64),
}

/// Ids and the time of a firing.
#[derive(Debug, Clone, Copy)]
pub struct FiringIds {
    /// Of the message.
    pub message: MessageId,
    /// Of the run that the message may open.
    pub run: RunId,
    /// Of the task that it may start.
    pub task: AgentableId,
    /// The current time.
    pub now: DateTime<Utc>,
}

/// A locked trigger.
pub(super) struct Locked {
    pub(super) id: TriggerId,
    pub(super) tenant: TenantId,
    pub(super) agentable: AgentableId,
    pub(super) name: String,
    pub(super) instructions: String,
    pub(super) task: Option<TriggerTask>,
    pub(super) free_at: Option<DateTime<Utc>>,
    rule: When,
    next_at: Option<DateTime<Utc>>,
}

impl RunStore {
    /// Whether there is anything that triggers could do.
    pub async fn has_triggers(&self) -> Result<bool> {
        let has = sqlx::query_scalar!(
            r#"-- store::trigger_firing::has_triggers
            select exists (select from houston.triggers where enabled and next_at is not null)
                or exists (select from houston.readers where name = 'triggers')
                or exists (select from houston.trigger_firings) as "has!""#
        );
        Ok(has.fetch_one(&self.pool).await?)
    }

    /// Triggers that are due at `now`, the longest overdue first. If more are due than `limit`, tenants take turns.
    pub async fn due_triggers(&self, now: DateTime<Utc>, limit: i64) -> Result<Vec<DueTrigger>> {
        let found = sqlx::query_as!(
            DueTrigger,
            r#"-- store::trigger_firing::due
            select id, agentable_id as agentable, next_at as "due_at!" from houston.triggers
             where enabled and next_at is not null and next_at <= $1 order by next_at limit $2"#,
            now,
            limit
        )
        .fetch_all(&self.pool)
        .await?;
        if i64::try_from(found.len()).is_ok_and(|count| count < limit) {
            return Ok(found);
        }
        // More are due than one look fires.
        let turns = sqlx::query_as!(
            DueTrigger,
            r#"-- store::trigger_firing::due_in_turns
            with recursive t as (
                -- The tenants, each found by one step in the index.
                (select f.tenant_id from houston.triggers f where f.enabled order by f.tenant_id limit 1)
                union all
                select (select f.tenant_id from houston.triggers f
                         where f.enabled and f.tenant_id > t.tenant_id order by f.tenant_id limit 1)
                  from t where t.tenant_id is not null)
            select d.id as "id!", d.agentable_id as "agentable!", d.next_at as "due_at!"
              from t cross join lateral (
                   select o.*, row_number() over (order by o.next_at, o.id) as turn
                     from (select f.id, f.agentable_id, f.next_at from houston.triggers f
                            where f.tenant_id = t.tenant_id and f.enabled and f.next_at <= $1
                            order by f.next_at, f.id limit $2) o) d
             order by d.turn, d.next_at limit $2"#,
            now,
            limit
        );
        Ok(turns.fetch_all(&self.pool).await?)
    }

    /// Fires a trigger that is due, unless another worker did: moves its time, and does what it does.
    ///
    /// # Errors
    /// As [`Self::has_triggers`]. Then nothing has happened.
    pub async fn fire_at_time(&self, due: DueTrigger, limits: FiringLimits, ids: FiringIds) -> Result<Fired> {
        let mut filled = None;
        loop {
            match self.try_at_time(due, (limits, ids), filled.as_ref()).await? {
                Tried::Fired(fired) => return Ok(fired),
                Tried::Unfilled(trigger, cause) => {
                    filled = Some(self.filled(*trigger, &cause, ids.now).await?)
                }
            }
        }
    }

    /// Evaluates the templates of a trigger, which is marked meanwhile.
    async fn filled(&self, trigger: Locked, cause: &Cause, now: DateTime<Utc>) -> Result<Filled> {
        let mut evaluation = Evaluation {
            position: None,
            trigger: Some(trigger.id),
            until: now + TURN,
            turn: TURN,
            process: self.process,
        };
        self.during(&mut evaluation, trigger.fill(cause)).await?
    }

    async fn try_at_time(
        &self,
        due: DueTrigger,
        (limits, ids): (FiringLimits, FiringIds),
        filled: Option<&Filled>,
    ) -> Result<Tried> {
        const GONE: Result<Tried> = Ok(Tried::Fired(Fired::Gone));
        let mut tx = self.pool.begin().await?;
        // The agentable first, as an erasure does.
        if lock(&mut tx, due.agentable).await?.is_none() {
            return GONE;
        }
        let Some(trigger) = locked(&mut tx, due.id).await? else { return GONE };
        let Ok(Rule::Cron(rule)) = trigger.rule.rule() else { return GONE };
        if trigger.next_at != Some(due.due_at) {
            return GONE;
        }
        let what = rule.due(due.due_at, ids.now, limits.grace);
        sqlx::query!(
            "-- store::trigger_firing::move
            update houston.triggers set next_at = $3, enabled = $3::timestamptz is not null where id = $1 and next_at = $2",
            due.id.0,
            due.due_at,
            what.next
        )
        .execute(&mut *tx)
        .await?;
        let cause = Cause::time(due.due_at, rule.zone);
        let fired = if what.fires {
            let why = Why { cause: &cause, before: &Chain::default(), traceparent: None };
            let acted = act(&mut tx, &trigger, why, (limits, ids), (filled, self.fairness)).await?;
            let Some(fired) = acted else {
                tx.rollback().await?;
                return Ok(Tried::Unfilled(Box::new(trigger), Box::new(cause)));
            };
            fired
        } else {
            refuse(&mut tx, trigger.id, (&cause, ids.now), ("missed", false)).await?
        };
        tx.commit().await?;
        Ok(Tried::Fired(fired))
    }

    /// Events that triggers have heard, without a message yet: of each tenant the oldest, `of_tenant` at most, and tenants
    /// take turns.
    pub async fn heard(&self, limit: i64, of_tenant: i64) -> Result<Vec<Heard>> {
        let rows = sqlx::query!(
            r#"-- store::trigger_firing::heard
            with recursive t as (
                -- The tenants, each found by one step in the index.
                (select f.tenant_id from houston.trigger_firings f order by f.tenant_id limit 1)
                union all
                select (select f.tenant_id from houston.trigger_firings f
                         where f.tenant_id > t.tenant_id order by f.tenant_id limit 1)
                  from t where t.tenant_id is not null)
            select f.trigger_id as "trigger_id!", f.agentable_id as "agentable_id!", f.parent_id as "parent_id!", f.seq as "seq!"
              from t cross join lateral (
                   select o.*, row_number() over (order by o.created_at, o.parent_id, o.seq) as turn
                     from (select * from houston.trigger_firings f where f.tenant_id = t.tenant_id
                            order by f.created_at, f.parent_id, f.seq limit $2) o) f
             order by f.turn, f.created_at limit $1"#,
            limit,
            of_tenant
        )
        .map(|row| Heard {
            trigger: TriggerId(row.trigger_id),
            agentable: AgentableId(row.agentable_id),
            event: (AgentableId(row.parent_id), row.seq),
        });
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Fires a trigger for an event that it has heard, unless another worker did.
    ///
    /// # Errors
    /// As [`Self::has_triggers`]. Then nothing has happened.
    pub async fn fire_at_event(&self, heard: Heard, limits: FiringLimits, ids: FiringIds) -> Result<Fired> {
        let mut filled = None;
        loop {
            match self.try_at_event(heard, (limits, ids), filled.as_ref()).await? {
                Tried::Fired(fired) => return Ok(fired),
                Tried::Unfilled(trigger, cause) => {
                    filled = Some(self.filled(*trigger, &cause, ids.now).await?)
                }
            }
        }
    }

    async fn try_at_event(
        &self,
        heard: Heard,
        (limits, ids): (FiringLimits, FiringIds),
        filled: Option<&Filled>,
    ) -> Result<Tried> {
        let mut tx = self.pool.begin().await?;
        if lock(&mut tx, heard.agentable).await?.is_none() {
            return Ok(Tried::Fired(Fired::Gone));
        }
        // Before what was heard, as the request that deletes a trigger does.
        let trigger = locked(&mut tx, heard.trigger).await?;
        let taken = sqlx::query!(
            r#"-- store::trigger_firing::take
            delete from houston.trigger_firings where trigger_id = $1 and parent_id = $2 and seq = $3
            returning cause as "cause: Json<Cause>", chain, depth,
                      -- That of the run of the event: positions are those of the run that begins at or before them.
                      (select r.traceparent from houston.runs r where r.agentable_id = $2 and r.first_seq <= $3
                        order by r.first_seq desc limit 1) as "traceparent?""#,
            heard.trigger.0,
            heard.event.0.0,
            heard.event.1
        );
        let Some(taken) = taken.fetch_optional(&mut *tx).await? else { return Ok(Tried::Fired(Fired::Gone)) };
        let fired = match trigger {
            Some(trigger) => {
                let triggers = taken.chain.into_iter().map(TriggerId).collect();
                let chain = Chain { triggers, depth: taken.depth };
                let traceparent = taken.traceparent.as_deref();
                let why = Why { cause: &taken.cause.0, before: &chain, traceparent };
                let acted = act(&mut tx, &trigger, why, (limits, ids), (filled, self.fairness)).await?;
                let Some(fired) = acted else {
                    tx.rollback().await?;
                    return Ok(Tried::Unfilled(Box::new(trigger), Box::new(taken.cause.0)));
                };
                fired
            }
            None => Fired::Gone,
        };
        tx.commit().await?;
        Ok(Tried::Fired(fired))
    }
}

/// What one transaction has done.
enum Tried {
    Fired(Fired),
    /// Nothing: the templates of this trigger have to be evaluated first.
    Unfilled(Box<Locked>, Box<Cause>),
}

/// The trigger, locked, if it is switched on.
async fn locked(connection: &mut PgConnection, id: TriggerId) -> Result<Option<Locked>> {
    let row = sqlx::query!(
        r#"-- store::trigger_firing::lock
        select tenant_id, agentable_id, name, instructions, task as "task: Json<TriggerTask>", rule as "rule: Json<When>", next_at, free_at
          from houston.triggers where id = $1 and enabled for no key update"#,
        id.0
    )
    .map(|row| Locked {
        id,
        tenant: TenantId(row.tenant_id),
        agentable: AgentableId(row.agentable_id),
        name: row.name,
        instructions: row.instructions,
        task: row.task.map(|task| task.0),
        rule: row.rule.0,
        next_at: row.next_at,
        free_at: row.free_at,
    });
    Ok(row.fetch_optional(connection).await?)
}
