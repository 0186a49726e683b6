//! The latest failures of a tenant, for their groups.

use std::time::Duration;

use houston_domain::error_group::{FailedRun, Outcome, fingerprint_of};
use houston_domain::id::RunId;
use houston_domain::run::Run;

use crate::error::Result;
use crate::handle::TenantStore;

/// How many failed runs are read at most: the latest.
pub const MOST: i64 = 10_000;
/// How many characters of an error's text are read.
const CHARS: i32 = 600;

/// The fingerprint of the group of errors that a run belongs to.
pub(super) fn fingerprint(run: &Run) -> String {
    let code = run.error_code().map_or_else(|| run.status.as_str().to_uppercase(), str::to_owned);
    let message = run.error_message().unwrap_or_default();
    let end = message.char_indices().nth(CHARS.unsigned_abs() as usize).map_or(message.len(), |(end, _)| end);
    fingerprint_of(&code, message.get(..end).unwrap_or_default())
}

impl TenantStore<'_> {
    /// The runs of the tenant that failed within `window`, and those that are retried: at most [`MOST`] of each, the latest.
    pub async fn failures(self, window: Duration) -> Result<Vec<FailedRun>> {
        let rows = sqlx::query!(
            r#"-- store::run_error::list
            (select r.id as "id!", coalesce(r.error_code, upper(r.status)) as "code!",
                    -- Most texts are short, and `left` would count the characters of each.
                    case when octet_length(r.error_message) > $4 then left(r.error_message, $4)
                         else coalesce(r.error_message, '') end as "message!",
                    coalesce(r.ended_at, r.created_at) as "at!", r.status as "status!"
               from (select f.id, f.status, f.error_code, f.error_message, f.created_at, f.ended_at
                       from houston.runs f where f.tenant_id = $1 and f.status in ('failed', 'dead_lettered')
                         -- Ids are made of the time, and no run takes longer than two days.
                         and f.id >= (lpad(to_hex((extract(epoch from now() - make_interval(days => 2, secs => $2)) * 1000)::bigint),
                                           12, '0') || repeat('0', 20))::uuid
                      order by f.id desc limit $3) as r
              where r.ended_at > now() - make_interval(secs => $2))
            union all
            (select r.id, coalesce(r.error_code, 'RETRYING'),
                    case when octet_length(r.error_message) > $4 then left(r.error_message, $4)
                         else coalesce(r.error_message, '') end,
                    r.created_at, r.status
               from houston.runs r
              where r.tenant_id = $1 and r.status = 'retrying'
              order by r.created_at desc limit $3)"#,
            self.tenant.0,
            window.as_secs_f64(),
            MOST,
            CHARS
        )
        .map(|row| FailedRun {
            run: RunId(row.id),
            code: row.code,
            message: row.message,
            at: row.at,
            outcome: match row.status.as_str() {
                "dead_lettered" => Outcome::DeadLettered,
                "retrying" => Outcome::Retrying,
                _ => Outcome::Failed,
            },
        });
        Ok(rows.fetch_all(&self.pool).await?)
    }
}
