//! How fast models answered the calls of a tenant.

use crate::error::Result;
use crate::handle::TenantStore;

/// Calls of a tenant that are looked at: the latest ones of the last minutes.
const CALLS: i64 = 5_000;

/// How fast a model answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSpeed {
    /// The part before the slash in `anthropic/claude-…`.
    pub provider: String,
    /// The part after the slash.
    pub model: String,
    /// Number of calls that were measured.
    pub calls: i64,
    /// Milliseconds from a request to the first piece of its answer; half of the calls took longer.
    pub first_event_ms: f64,
    /// Tokens per second from then on; half of the calls were faster. `None`: their answers came at once.
    pub tokens_per_s: Option<f64>,
}

impl TenantStore<'_> {
    /// How fast models answered the tenant's runs in the last half hour.
    pub async fn model_speeds(self) -> Result<Vec<ModelSpeed>> {
        let rows = sqlx::query_as!(
            ModelSpeed,
            r#"-- store::model_speed::of_tenant
            select c.provider, c.model, count(*) as "calls!",
                   percentile_cont(0.5) within group (order by c.first_event_ms) as "first_event_ms!",
                   -- What arrived at once was written before it was sent.
                   percentile_cont(0.5) within group (
                        order by c.output_tokens::double precision * 1000 / nullif(c.took_ms - c.first_event_ms, 0))
                        filter (where c.took_ms - c.first_event_ms >= 50 and c.output_tokens > 0) as tokens_per_s
              from (select o.provider, o.model, o.first_event_ms, o.took_ms, o.output_tokens
                      from houston.model_calls o
                     where o.tenant_id = $1 and o.created_at > now() - interval '30 minutes'
                       and o.first_event_ms is not null
                     limit $2) c
             group by c.provider, c.model order by c.provider, c.model"#,
            self.tenant.0,
            CALLS
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }
}
