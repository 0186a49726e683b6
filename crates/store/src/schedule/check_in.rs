//! Check-ins: times at which an agent wakes itself, or is woken over REST. Each is a row until it is due. The
//! transaction that deletes it posts the system message to the agent, so it happens once, however many workers
//! look.

use chrono::{DateTime, Utc};
use houston_domain::check_in::{CheckIn, CheckInLimits, CheckInRequest};
use houston_domain::ensure;
use houston_domain::id::{AgentableId, CheckInId, MessageId, RunId, TenantId, UserId};
use houston_domain::local_time::parse_zone;
use houston_domain::mode::Mode;
use houston_domain::owner::Owner;
use houston_domain::schedule::{CheckInConfig, check_in_message};
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::cancel::ARCHIVED;
use crate::error::{Error, Result};
use crate::handle::{RunStore, TenantStore};
use crate::idempotency::{self, Created, IdempotencyKey, earlier};
use crate::record::RecordTx;
use crate::row_security::with_connection;
use crate::system_message::{NewSystemMessage, post_system_message};

/// The result of starting a check-in that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckInOutcome {
    /// A system message was posted to this agentable.
    Posted(AgentableId),
    /// A run of the agentable is open: the check-in is due again a little later.
    Postponed,
    /// Another worker started it, or it was cancelled.
    Gone,
}

impl RecordTx<'_> {
    /// Sets a check-in of the agentable, with [`RecordIds::row`](crate::record::RecordIds::row) as its id.
    pub async fn set_check_in(
        &mut self,
        wanted: &CheckInRequest,
    ) -> Result<std::result::Result<SetCheckIn, CheckInRefusal>> {
        let (owner, id, limits) = (self.owner, CheckInId(self.ids.row), self.limits.check_ins);
        let connection = self.tx.connection();
        let state = sqlx::query!(
            r#"-- store::check_in::is_cancelled
            select r.cancel_seq is not null as "cancelled!", a.status is not distinct from $2 as "archived!"
              from houston.runs r join houston.agentables a on a.id = r.agentable_id where r.id = $1"#,
            owner.run.0,
            ARCHIVED
        )
        .fetch_one(&mut *connection)
        .await?;
        if state.cancelled {
            return Ok(Err(CheckInRefusal::Cancelled));
        }
        if state.archived {
            return Ok(Err(CheckInRefusal::Archived));
        }
        set(connection, owner.tenant, (owner.user, owner.agentable), Some(owner.run), id, wanted, &limits)
            .await
    }

    /// The pending check-ins of the agentable, oldest first, at most 100.
    pub async fn check_ins(&mut self) -> Result<Vec<PendingCheckIn>> {
        let pending = sqlx::query!(
            "-- store::check_in::pending
            select c.id, c.reason, c.due_at, u.time_zone from houston.check_ins c
              join houston.users u on u.id = c.user_id
             where c.agentable_id = $1 order by c.id limit 100",
            self.owner.agentable.0
        )
        .map(|row| PendingCheckIn {
            id: CheckInId(row.id),
            reason: row.reason,
            local: row.due_at.with_timezone(&parse_zone(&row.time_zone)).to_rfc3339(),
        });
        Ok(pending.fetch_all(self.tx.connection()).await?)
    }
}

/// A check-in that was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetCheckIn {
    /// When it is due.
    pub due_at: DateTime<Utc>,
    /// The same instant in the user's time zone, RFC 3339.
    pub local: String,
    /// When it was set.
    pub created_at: DateTime<Utc>,
}

/// Why a check-in was not set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckInRefusal {
    /// The run is being cancelled. Archiving deletes check-ins and cancels the run: none may be set after that.
    Cancelled,
    /// The agentable is archived. A run of it exists only because its user wrote to it; nothing else may wake it.
    Archived,
    /// The agentable has the maximum number of check-ins.
    Full {
        /// Its pending check-ins.
        pending: i64,
        /// The maximum.
        most: i64,
    },
    /// The time is not allowed.
    Invalid(String),
}

/// A pending check-in as its agent sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCheckIn {
    /// The check-in's id.
    pub id: CheckInId,
    /// Why, in the agent's or the client's words.
    pub reason: String,
    /// When it is due, in the user's time zone, RFC 3339.
    pub local: String,
}

/// Sets a check-in within `limits`. The caller holds the agentable's lock row, so the count cannot change.
async fn set(
    connection: &mut PgConnection,
    tenant: TenantId,
    (user, agentable): (UserId, AgentableId),
    run: Option<RunId>,
    id: CheckInId,
    wanted: &CheckInRequest,
    limits: &CheckInLimits,
) -> Result<std::result::Result<SetCheckIn, CheckInRefusal>> {
    let now = sqlx::query!(
        r#"-- store::check_in::before
        select u.time_zone, clock_timestamp() as "now!: DateTime<Utc>",
               (select count(*) from houston.check_ins where agentable_id = $2) as "pending!"
          from houston.users u where u.tenant_id = $3 and u.id = $1"#,
        user.0,
        agentable.0,
        tenant.0
    )
    .fetch_one(&mut *connection)
    .await?;
    let most = limits.max_pending;
    if now.pending >= most {
        return Ok(Err(CheckInRefusal::Full { pending: now.pending, most }));
    }
    let zone = parse_zone(&now.time_zone);
    let due_at = match wanted.when.resolve(limits, zone, now.now) {
        Ok(due_at) => due_at,
        Err(invalid) => return Ok(Err(CheckInRefusal::Invalid(invalid))),
    };
    let created_at = sqlx::query_scalar!(
        "-- store::check_in::insert
        insert into houston.check_ins (id, tenant_id, user_id, agentable_id, run_id, reason, wanted_at, due_at)
        values ($1, $2, $3, $4, $5, $6, $7, $7) returning created_at",
        id.0,
        tenant.0,
        user.0,
        agentable.0,
        run.map(|run| run.0),
        wanted.reason,
        due_at
    )
    .fetch_one(connection)
    .await?;
    Ok(Ok(SetCheckIn { due_at, local: due_at.with_timezone(&zone).to_rfc3339(), created_at }))
}

/// Deletes a pending check-in of the tenant; with `within`, only if it belongs to that agentable. Returns whether it
/// existed.
pub(crate) async fn delete(
    connection: &mut PgConnection,
    tenant: TenantId,
    within: Option<AgentableId>,
    id: CheckInId,
) -> Result<bool> {
    let done = sqlx::query!(
        "-- store::check_in::delete
        delete from houston.check_ins
         where tenant_id = $1 and id = $2 and ($3::uuid is null or agentable_id = $3)",
        tenant.0,
        id.0,
        within.map(|within| within.0)
    );
    Ok(done.execute(connection).await?.rows_affected() == 1)
}

impl TenantStore<'_> {
    /// Sets a check-in of an agentable of the tenant within `limits`. `answer` builds the response that is stored
    /// under the idempotency key.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such agentable, [`Error::Full`] when it has the maximum number of
    /// check-ins, [`Error::InvalidMoment`] when the time is not allowed, [`Error::Archived`] when the agentable is
    /// archived and would never wake.
    pub async fn set_check_in(
        self,
        (agentable, kind): (AgentableId, &str),
        (id, wanted): (CheckInId, &CheckInRequest),
        limits: &CheckInLimits,
        key: Option<IdempotencyKey<'_>>,
        answer: impl FnOnce(&CheckIn) -> Value,
    ) -> Result<Created<Value>> {
        let mut tx = self.pool.begin().await?;
        let owner = sqlx::query!(
            r#"-- store::check_in::owner
            select l.user_id, a.status is not distinct from $4 as "archived!" from houston.run_locks l join houston.agentables a on a.id = l.agentable_id
             where l.tenant_id = $1 and l.agentable_id = $2 and a.kind = $3 for no key update of l"#,
            self.tenant.0,
            agentable.0,
            kind,
            ARCHIVED
        )
        .fetch_optional(&mut *tx)
        .await?
        .ok_or(Error::NotFound { what: "agentable" })?;
        // The key is taken before the checks, so that a repeated request gets its first answer even if the check-in
        // could no longer be set. The response follows below.
        if let Some(earlier) = earlier(&mut tx, self.tenant, key, id.0, &Value::Null).await? {
            return Ok(earlier);
        }
        ensure!(!owner.archived, Error::Archived);
        let owner = (UserId(owner.user_id), agentable);
        let set = match set(&mut tx, self.tenant, owner, None, id, wanted, limits).await? {
            Ok(set) => set,
            Err(CheckInRefusal::Full { most, .. }) => {
                return Err(Error::Full { what: "check-ins of an agentable", limit: most });
            }
            Err(CheckInRefusal::Invalid(invalid)) => return Err(Error::InvalidMoment(invalid)),
            Err(CheckInRefusal::Cancelled | CheckInRefusal::Archived) => return Err(Error::Archived),
        };
        let response = answer(&CheckIn {
            id,
            owner: Owner { kind: kind.to_owned(), id: agentable },
            reason: wanted.reason.clone(),
            due_at: set.due_at.into(),
            created_at: set.created_at.into(),
        });
        idempotency::answer(&mut tx, self.tenant, key, &response).await?;
        tx.commit().await?;
        Ok(Created::New(response))
    }

    /// Pending check-ins of an agentable of the tenant, newest first, older than `before` if given.
    pub async fn check_ins(
        self,
        agentable: AgentableId,
        before: Option<CheckInId>,
        limit: i64,
    ) -> Result<Vec<CheckIn>> {
        let rows = sqlx::query!(
            "-- store::check_in::list
            select c.id, c.agentable_id as agentable, a.kind, c.reason, c.due_at, c.created_at
              from houston.check_ins c join houston.agentables a on a.id = c.agentable_id
             where c.tenant_id = $1 and c.agentable_id = $2 and ($3::uuid is null or c.id < $3)
             order by c.id desc limit $4",
            self.tenant.0,
            agentable.0,
            before.map(|before| before.0),
            limit
        )
        .map(|row| CheckIn {
            id: CheckInId(row.id),
            owner: Owner { kind: row.kind, id: AgentableId(row.agentable) },
            reason: row.reason,
            due_at: row.due_at.into(),
            created_at: row.created_at.into(),
        });
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Cancels a pending check-in of the tenant.
    pub async fn cancel_check_in(self, id: CheckInId) -> Result<()> {
        let done = with_connection!(self.pool, |c| delete(c, self.tenant, None, id));
        if done { Ok(()) } else { Err(Error::NotFound { what: "check-in" }) }
    }
}

impl RunStore {
    /// Ids of check-ins that are due, the longest overdue first.
    pub async fn due_check_ins(&self, limit: i64) -> Result<Vec<CheckInId>> {
        let rows = sqlx::query_scalar!(
            "-- store::check_in::due
            select id from houston.check_ins where due_at <= now() order by due_at limit $1",
            limit
        );
        Ok(rows.fetch_all(&self.pool).await?.into_iter().map(CheckInId).collect())
    }

    /// Starts a check-in that is due: deletes it and posts a system message to its agentable, in one transaction.
    /// While a run of the agentable is open, the check-in is postponed instead.
    pub async fn begin_check_in(
        &self,
        id: CheckInId,
        config: &CheckInConfig,
        message: MessageId,
        run: RunId,
    ) -> Result<CheckInOutcome> {
        let mut tx = self.pool.begin().await?;
        let due = sqlx::query!(
            "-- store::check_in::take
            delete from houston.check_ins c using houston.users u
             where c.id = $1 and c.due_at <= now() and u.id = c.user_id
            returning c.agentable_id, c.reason, c.wanted_at, u.time_zone",
            id.0
        );
        let Some(due) = due.fetch_optional(&mut *tx).await? else { return Ok(CheckInOutcome::Gone) };
        let content =
            check_in_message(&config.prompt, parse_zone(&due.time_zone), due.wanted_at, &due.reason);
        let message = NewSystemMessage {
            agentable: AgentableId(due.agentable_id),
            message,
            run,
            mode: Some(Mode::AgentCheckIn),
            content: &content,
            metadata: &json!({"type": Mode::AgentCheckIn, "check_in_id": id}),
            event: None,
            traceparent: None,
        };
        if post_system_message(&mut tx, &message, self.fairness).await? {
            tx.commit().await?;
            return Ok(CheckInOutcome::Posted(message.agentable));
        }
        tx.rollback().await?;
        sqlx::query!(
            "-- store::check_in::put_off
            update houston.check_ins set due_at = now() + make_interval(secs => $2) where id = $1 and due_at <= now()",
            id.0,
            f64::from(u32::try_from(config.poll.retry_after_s).unwrap_or(u32::MAX))
        )
        .execute(&self.pool)
        .await?;
        Ok(CheckInOutcome::Postponed)
    }
}
