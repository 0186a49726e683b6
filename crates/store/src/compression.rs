//! Compressions: what stands for the beginning of a long session. Written behind the fence, read with the run's
//! context; see [`crate::history`].

use chrono::{DateTime, Utc};
use houston_domain::compression::Reason;
use houston_domain::id::{AgentableId, CompressionId, RunId, TenantId};
use rust_decimal::Decimal;

use crate::error::Result;
use crate::pool::Store;
use crate::record::{FencedTx, Owner};

/// A compression about to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct NewCompression {
    /// Its id.
    pub id: CompressionId,
    /// How many of the newest entries it leaves as they are.
    pub kept: usize,
    /// How many of the newest entries are the run's own.
    pub own: usize,
    /// What stands for the others.
    pub summary: String,
    /// Why.
    pub reason: Reason,
    /// What was sent before, and what is from now on.
    pub metrics: Metrics,
    /// Who wrote it, as `provider/model`; `None`: it is an extract.
    pub model: Option<String>,
    /// What that cost in US dollars.
    pub cost: Option<Decimal>,
}

/// What a compression changes in what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metrics {
    /// Entries before.
    pub entries_before: usize,
    /// Entries after, the summary among them.
    pub entries_after: usize,
    /// Tokens of a request before, about: with system prompt and tools.
    pub tokens_before: u64,
    /// The same after.
    pub tokens_after: u64,
}

/// A compression, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Compression {
    /// Its id.
    pub id: CompressionId,
    /// The run that made it.
    pub run: RunId,
    /// The session begins after this position of the history.
    pub session_position: i64,
    /// It stands for the session's entries up to this position.
    pub through_position: i64,
    /// What it says.
    pub summary: String,
    /// Why, as [`Reason::as_str`].
    pub reason: String,
    /// What it changed.
    pub metrics: Metrics,
    /// Who wrote it; `None`: it is an extract.
    pub model: Option<String>,
    /// What that cost in US dollars, if anybody knows.
    pub cost: Option<Decimal>,
    /// When.
    pub created_at: DateTime<Utc>,
}

fn stored(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn tokens(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl FencedTx {
    /// Adds a compression, to be committed with the step that tells of it.
    ///
    /// # Errors
    /// What the database says.
    pub async fn compress(&mut self, owner: Owner, compression: &NewCompression) -> Result<()> {
        let metrics = &compression.metrics;
        sqlx::query!(
            "-- store::compression::insert
            with newest as (
                select position, row_number() over (order by position desc) as nth
                  from (select position from houston.history where agentable_id = $3 and not rolled_back
                         order by position desc limit greatest($5::bigint + 1, $6::bigint)) as h)
            insert into houston.compressions (id, tenant_id, agentable_id, run_id, run_position, session_position,
                                              through_position, summary, reason, entries_before, entries_after,
                                              tokens_before, tokens_after, model, cost)
            select $1, $2, $3, $4,
                   coalesce((select position from newest where nth = $6), l.last_position + 1),
                   l.session_position, (select position from newest where nth = $5 + 1),
                   $7, $8, $9, $10, $11, $12, $13, $14
              from houston.run_locks l where l.agentable_id = $3",
            compression.id.0,
            owner.tenant.0,
            owner.agentable.0,
            owner.run.0,
            i64::from(stored(compression.kept)),
            i64::from(stored(compression.own)),
            compression.summary,
            compression.reason.as_str(),
            stored(metrics.entries_before),
            stored(metrics.entries_after),
            tokens(metrics.tokens_before),
            tokens(metrics.tokens_after),
            compression.model,
            compression.cost
        )
        .execute(self.connection())
        .await?;
        Ok(())
    }
}

impl Store {
    /// Compressions of an agentable of the tenant, newest first, of positions before `before` if given.
    ///
    /// # Errors
    /// What the database says.
    pub async fn compressions(
        &self,
        tenant: TenantId,
        agentable: AgentableId,
        before: Option<CompressionId>,
        limit: i64,
    ) -> Result<Vec<Compression>> {
        let rows = sqlx::query!(
            "-- store::compression::list
            select id, run_id, session_position, through_position, summary, reason, entries_before, entries_after,
                   tokens_before, tokens_after, model, cost, created_at
              from houston.compressions
             where tenant_id = $1 and agentable_id = $2 and ($3::uuid is null or id < $3)
             order by id desc limit $4",
            tenant.0,
            agentable.0,
            before.map(|before| before.0),
            limit
        )
        .fetch_all(&self.pool)
        .await?;
        let count = |count: i32| usize::try_from(count).unwrap_or(0);
        let tokens = |tokens: i64| u64::try_from(tokens).unwrap_or(0);
        Ok(rows
            .into_iter()
            .map(|row| Compression {
                id: CompressionId(row.id),
                run: RunId(row.run_id),
                session_position: row.session_position,
                through_position: row.through_position,
                summary: row.summary,
                reason: row.reason,
                metrics: Metrics {
                    entries_before: count(row.entries_before),
                    entries_after: count(row.entries_after),
                    tokens_before: tokens(row.tokens_before),
                    tokens_after: tokens(row.tokens_after),
                },
                model: row.model,
                cost: row.cost,
                created_at: row.created_at,
            })
            .collect())
    }
}
