//! Putting a run off because the user's limit of tokens is used up: it waits until its turn, without an attempt.
//!
//! Its tokens are counted when it is put off. So each run that waits has a time of its own, at which it is admitted whatever others do:
//! no run is put off twice, and many that wait do not all look again at the same moment.

use std::time::Duration;

use houston_domain::claim::Decision;
use houston_domain::event::{Committed, Event};
use sqlx::PgConnection;
use sqlx::types::Json;

use super::alone::lock;
use super::batch::Claims;
use super::read::Candidate;
use super::{Claim, ClaimRequest, PutOff};
use crate::error::Result;
use crate::handle::RunStore;
use crate::rate::seconds;

impl RunStore {
    /// Counts the tokens of the run and writes when it begins. Claims nothing if the run has changed meanwhile.
    pub(super) async fn put_off(
        &self,
        claims: &Claims,
        request: ClaimRequest,
        candidate: &Candidate,
    ) -> Result<Claim> {
        let Some(tokens) = candidate.admission.map(|of| of.tokens) else { return Ok(Claim::Nothing) };
        let wait = self.take_turn(candidate, tokens).await?;
        let mut tx = self.pool.begin().await?;
        lock(&mut tx, request).await?;
        let again = claims.candidate(&mut tx, request).await?;
        let still = again.filter(|again| {
            again.version == candidate.version
                && claims.decide(again, 0, request.crashes.limit(), None) == Decision::PutOff
        });
        if still.is_none() {
            tx.rollback().await?;
            self.book_tokens(candidate.run.user, -tokens).await;
            return Ok(Claim::Nothing);
        }
        let put_off = write(&mut tx, request, candidate, tokens, wait).await?;
        tx.commit().await?;
        Ok(Claim::PutOff(Box::new(put_off)))
    }
}

impl RunStore {
    /// Counts the tokens, and returns how long the run waits behind those that were counted before. The transaction writes nothing
    /// else, so it waits for no disk while it holds the user's row.
    async fn take_turn(&self, candidate: &Candidate, tokens: i64) -> Result<Duration> {
        let limit = self.rates.tokens;
        let ahead = sqlx::query_scalar!(
            r#"-- store::claim::put_off::take_turn
            select houston.count_tokens($1, null, $2, $3, $4, $5) as ahead"#,
            candidate.run.user.0,
            tokens,
            i64::from(limit.quota),
            seconds(limit.window_s),
            seconds(limit.longest_wait_s)
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(limit.admit(ahead.unwrap_or(0.0), None).wait.unwrap_or_default())
    }
}

/// Writes what was booked, the time and the event.
async fn write(
    connection: &mut PgConnection,
    request: ClaimRequest,
    candidate: &Candidate,
    tokens: i64,
    wait: Duration,
) -> Result<PutOff> {
    let run = &candidate.run;
    let row = sqlx::query!(
        r#"-- store::claim::put_off::write
        with t as materialized (
            select n.at, date_trunc('milliseconds', n.at + make_interval(secs => $4)) as until
              from (select clock_timestamp() as at) n),
        booked as (update houston.runs r set booked_tokens = $3 where r.id = $2),
        locks as (
            update houston.run_locks k set next_attempt_at = t.until, last_seq = k.last_seq + 1
              from t where k.agentable_id = $1
            returning k.last_seq, k.epoch, k.tenant_id),
        events as (
            insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data, created_at)
            select $1, l.last_seq, l.tenant_id, $2, l.epoch,
                   jsonb_set($5, '{retry_at}', to_jsonb(to_char(t.until at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))), t.at
              from locks l cross join t)
        select l.last_seq as "seq!", t.at as "at!", t.until as "until!" from locks l cross join t"#,
        request.agentable.0,
        run.run.0,
        tokens,
        wait.as_secs_f64(),
        Json(Event::RateLimited { retry_at: chrono::DateTime::UNIX_EPOCH }) as Json<Event>
    )
    .fetch_one(connection)
    .await?;
    let event = Event::RateLimited { retry_at: row.until };
    Ok(PutOff {
        kind: run.kind.clone(),
        until: row.until,
        wait,
        event: Committed { seq: row.seq, run_id: run.run, at: row.at, event, body: None },
    })
}
