//! The state that an agentable shares with front ends ([`SharedState`]). Each change is a row at the position of its event, so
//! that a stream finds the state at whichever position it begins. All writers hold the agentable's lock row.

use houston_domain::event::{Committed, Event};
use houston_domain::id::{AgentableId, RunId, TenantId};
use houston_domain::question::schema::Mismatch;
use houston_domain::shared_state::{SharedState, StateChange};
use serde_json::Value;
use sqlx::types::Json;
use sqlx::{Executor, PgConnection, Postgres};

use crate::error::{Error, Result};
use crate::handle::{RunStore, TenantStore};
use crate::statement::Statement as _;

/// How a client changes a state.
#[derive(Debug, Clone, Copy)]
pub enum StateInput<'a> {
    /// The whole state, with the client's own id of its run: what was set with it once is not set again.
    Replace(&'a Value, Option<&'a str>),
    /// A merge patch (RFC 7386).
    Merge(&'a Value),
}

/// A state that was changed, or not.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangedState {
    /// The state now.
    pub state: Value,
    /// The event, if there is one: none if nothing changed, and before the first run.
    pub event: Option<Committed>,
}

impl TenantStore<'_> {
    /// The state of an agentable of the tenant after the events up to the position `seq`; `None`: nothing had changed it.
    pub async fn shared_state(self, agentable: AgentableId, seq: i64) -> Result<Option<Value>> {
        read(&self.pool, self.tenant, agentable, seq).await
    }

    /// Changes the state of an agentable of the tenant.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such agentable, [`Error::Database`] when Postgres cannot be reached or refuses
    /// the statement. Within: the state would not match.
    pub async fn change_shared_state(
        self,
        agentable: AgentableId,
        declared: &SharedState,
        input: StateInput<'_>,
    ) -> Result<std::result::Result<ChangedState, Mismatch>> {
        let mut tx = self.pool.begin().await?;
        let lock = sqlx::query!(
            "-- store::shared_state::lock
            select run_id, run_open from houston.run_locks
             where tenant_id = $1 and agentable_id = $2 for no key update",
            self.tenant.0,
            agentable.0
        );
        let lock = lock.fetch_optional(&mut *tx).await?.ok_or(Error::NotFound { what: "agentable" })?;
        let now = read(&mut *tx, self.tenant, agentable, i64::MAX).await?;
        let now = now.unwrap_or_else(|| declared.initial.clone());
        let given_with = match input {
            StateInput::Replace(_, given_with) => given_with,
            StateInput::Merge(_) => None,
        };
        if let Some(run) = given_with {
            let was_given = sqlx::query_scalar!(
                r#"-- store::shared_state::was_given
                select exists (select from houston.shared_states
                                where tenant_id = $1 and agentable_id = $2 and given_with = $3) as "was_given!""#,
                self.tenant.0,
                agentable.0,
                run
            );
            if was_given.fetch_one(&mut *tx).await? {
                return Ok(Ok(ChangedState { state: now, event: None }));
            }
        }
        let change = match input {
            StateInput::Replace(state, _) => declared.replace(&now, state.clone()),
            StateInput::Merge(patch) => declared.merge(&now, patch),
        };
        let change = match change {
            Ok(change) => change,
            Err(mismatch) => return Ok(Err(mismatch)),
        };
        let event = match (change.delta.is_empty(), lock.run_id) {
            (true, _) | (_, None) => None,
            (false, Some(run)) => {
                let delta = change.delta.clone();
                let event = Event::StateChanged { delta, between_runs: !lock.run_open };
                Some(self.add_state_event(&mut tx, agentable, RunId(run), event).await?)
            }
        };
        if !change.delta.is_empty() || given_with.is_some() {
            let seq = event.as_ref().map(|event| event.seq);
            // Without an event, the newest row is replaced, or that of position 0 is made.
            sqlx::query!(
                "-- store::shared_state::put
                insert into houston.shared_states (agentable_id, seq, tenant_id, state, given_with)
                select $2, coalesce($3, (select max(s.seq) from houston.shared_states s
                                          where s.tenant_id = $1 and s.agentable_id = $2), 0), $1, $4, $5
                on conflict (agentable_id, seq) do update set state = excluded.state, given_with = excluded.given_with",
                self.tenant.0,
                agentable.0,
                seq,
                &change.state,
                given_with
            )
            .execute(&mut *tx)
            .await?;
            tx.commit().await?;
        }
        Ok(Ok(ChangedState { state: change.state, event }))
    }

    async fn add_state_event(
        self,
        connection: &mut PgConnection,
        agentable: AgentableId,
        run: RunId,
        event: Event,
    ) -> Result<Committed> {
        let row = sqlx::query!(
            "-- store::shared_state::add_event
            with lock as (
                update houston.run_locks set last_seq = last_seq + 1 where tenant_id = $1 and agentable_id = $2
                returning agentable_id, last_seq, tenant_id, epoch)
            insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data)
            select l.agentable_id, l.last_seq, l.tenant_id, $3, l.epoch, $4 from lock l
            returning seq, created_at",
            self.tenant.0,
            agentable.0,
            run.0,
            Json(&event) as _
        )
        .fetch_one(connection)
        .await?;
        Ok(Committed { seq: row.seq, run_id: run, at: row.created_at, event, body: None })
    }
}

impl RunStore {
    /// The state of an agentable now; `None`: nothing has changed it.
    pub async fn shared_state(&self, tenant: TenantId, agentable: AgentableId) -> Result<Option<Value>> {
        read(&self.pool, tenant, agentable, i64::MAX).await
    }
}

pub(crate) async fn read<'e>(
    executor: impl Executor<'e, Database = Postgres>,
    tenant: TenantId,
    agentable: AgentableId,
    seq: i64,
) -> Result<Option<Value>> {
    let state = sqlx::query_scalar!(
        "-- store::shared_state::read
        select state from houston.shared_states
         where tenant_id = $1 and agentable_id = $2 and seq <= $3 order by seq desc limit 1",
        tenant.0,
        agentable.0,
        seq
    );
    Ok(state.fetch_optional(executor).await?)
}

/// Writes what tool calls of a step changed, at the positions of their events.
pub(crate) async fn insert(
    connection: &mut PgConnection,
    agentable: AgentableId,
    changes: &[StateChange],
    events: &[Committed],
) -> Result<()> {
    let positions = events
        .iter()
        .filter(|event| matches!(event.event, Event::StateChanged { .. }))
        .map(|event| event.seq);
    let (seqs, states): (Vec<i64>, Vec<Value>) =
        positions.zip(changes).map(|(seq, change)| (seq, change.state.clone())).unzip();
    sqlx::query!(
        "-- store::shared_state::insert
        insert into houston.shared_states (agentable_id, seq, tenant_id, state)
        select $1, n.seq, l.tenant_id, n.state
          from unnest($2::bigint[], $3::jsonb[]) as n (seq, state)
          join houston.run_locks l on l.agentable_id = $1",
        agentable.0,
        &seqs,
        &states
    )
    .run(connection)
    .await
}
