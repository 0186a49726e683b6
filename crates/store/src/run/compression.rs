//! Compressions: summaries that replace the beginning of a long session. Written behind the fence, read with the
//! run's context; see [`crate::history`].

pub use houston_domain::compression::Compression;
use houston_domain::compression::CompressionReason;
use houston_domain::id::{AgentableId, CompressionId, RunId};
use rust_decimal::Decimal;

use crate::error::Result;
use crate::handle::TenantStore;
use crate::record::{FencedTx, Owner};
use crate::statement::Statement as _;

/// A compression to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewCompression {
    /// The compression's id.
    pub id: CompressionId,
    /// How many of the newest entries stay as they are.
    pub remaining_entries: usize,
    /// How many of the newest entries belong to the current run.
    pub run_entries: usize,
    /// The summary that replaces the other entries.
    pub summary: String,
    /// What triggered the compression.
    pub reason: CompressionReason,
    /// The size of a request before and after.
    pub metrics: Metrics,
    /// The model that wrote the summary, as `provider/model`; `None`: it is an extract.
    pub model: Option<String>,
    /// Cost of writing it in US dollars, if known.
    pub cost: Option<Decimal>,
    /// Whether the session had read what strangers wrote.
    pub untrusted: bool,
}

/// The size of a request before and after a compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metrics {
    /// Entries before.
    pub entries_before: usize,
    /// Entries after, the summary included.
    pub entries_after: usize,
    /// Estimated input tokens before, with system prompt and tools.
    pub tokens_before: u64,
    /// Estimated input tokens after.
    pub tokens_after: u64,
}

fn stored(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn tokens(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl FencedTx {
    /// Stores a compression in the transaction of the step that reports it.
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
                                              tokens_before, tokens_after, model, cost, untrusted)
            select $1, $2, $3, $4,
                   coalesce((select position from newest where nth = $6), l.last_position + 1),
                   l.session_position, (select position from newest where nth = $5 + 1),
                   $7, $8, $9, $10, $11, $12, $13, $14, $15
              from houston.run_locks l where l.agentable_id = $3",
            compression.id.0,
            owner.tenant.0,
            owner.agentable.0,
            owner.run.0,
            i64::from(stored(compression.remaining_entries)),
            i64::from(stored(compression.run_entries)),
            compression.summary,
            compression.reason.as_str(),
            stored(metrics.entries_before),
            stored(metrics.entries_after),
            tokens(metrics.tokens_before),
            tokens(metrics.tokens_after),
            compression.model,
            compression.cost,
            compression.untrusted
        )
        .run(self.connection())
        .await
    }
}

impl TenantStore<'_> {
    /// Compressions of an agentable of the tenant, newest first, older than `before` if given.
    pub async fn compressions(
        self,
        agentable: AgentableId,
        before: Option<CompressionId>,
        limit: i64,
    ) -> Result<Vec<Compression>> {
        let count = |count: i32| usize::try_from(count).unwrap_or(0);
        let tokens = |tokens: i64| u64::try_from(tokens).unwrap_or(0);
        let rows = sqlx::query!(
            "-- store::compression::list
            select id, run_id, session_position, through_position, summary, reason, entries_before, entries_after,
                   tokens_before, tokens_after, model, cost, created_at
              from houston.compressions
             where tenant_id = $1 and agentable_id = $2 and ($3::uuid is null or id < $3)
             order by id desc limit $4",
            self.tenant.0,
            agentable.0,
            before.map(|before| before.0),
            limit
        )
        .map(|row| Compression {
            id: CompressionId(row.id),
            run: RunId(row.run_id),
            session_position: row.session_position,
            through_position: row.through_position,
            summary: row.summary,
            reason: row.reason,
            entries_before: count(row.entries_before),
            entries_after: count(row.entries_after),
            tokens_before: tokens(row.tokens_before),
            tokens_after: tokens(row.tokens_after),
            model: row.model,
            cost: row.cost.map(|cost| cost.normalize()),
            created_at: row.created_at.into(),
        });
        Ok(rows.fetch_all(&self.pool).await?)
    }
}
