//! Claiming a run by itself: under its locks, so that what is decided is still true when it is written.
//!
//! A run whose user has used up the limit of tokens is put off: it waits until its turn, without an attempt. Its tokens are counted
//! when it is put off. So each run that waits has a time of its own, at which it is admitted whatever others do: no run is put off
//! twice, and many that wait do not all look again at the same moment.

use std::time::Duration;

use houston_domain::claim::{Decision, Start};
use houston_domain::death::Verdict;
use houston_domain::event::{Committed, Event};
use houston_domain::unread::MovedMessages;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::batch::{ClaimRow, Claims};
use super::read::Candidate;
use super::{Claim, ClaimRequest, ClaimedRun, PutOff, Trial};
use crate::error::{Result, not_json};
use crate::handle::RunStore;
use crate::message::move_messages;
use crate::rate::{Tokens, count};
use crate::statement::Statement as _;
use crate::system_message::lock;

/// How long a suspect waits whose worker drives another one. It is not due meanwhile, so that hints for it cost a read.
const BEHIND_SUSPECT: Duration = Duration::from_secs(1);

impl RunStore {
    /// Claims a run by itself.
    pub(super) async fn claim_alone(&self, request: ClaimRequest) -> Result<Claim> {
        let crashes = request.crashes;
        let claims = &self.batchers.claims.batch;
        let mut tx = self.pool.begin().await?;
        // Decided before any lock is taken, so that many hints for a user at the limit cause reads only.
        let Some(candidate) = claims.candidate(&mut tx, request).await? else { return Ok(Claim::Nothing) };
        let shown = request.trial.verdict();
        let verdict = match claims.decide(&candidate, 0, crashes.limit(), shown) {
            Decision::Refused => return Ok(Claim::Nothing),
            Decision::PutOff => {
                // Counted in a transaction of its own, which waits for no disk while it holds the user's row.
                tx.rollback().await?;
                return self.put_off(request, &candidate).await;
            }
            Decision::Accused if request.trial == Trial::Possible => {
                tx.rollback().await?;
                return Ok(Claim::Accused);
            }
            Decision::Accused => {
                // Other cells are asked, so no transaction is kept open.
                tx.rollback().await?;
                let verdict = self.judge(request.agentable, crashes.limit(), crashes.patience).await?;
                tx = self.pool.begin().await?;
                Some((candidate.version, verdict))
            }
            Decision::Started(_) | Decision::Doubted => shown.map(|verdict| (candidate.version, verdict)),
        };
        let claimed = match claims.claim_locked(&mut tx, request, verdict).await {
            // Another claim of the user took the slot since the free ones were read.
            Err(error) if error.constraint() == Some("runs_held") => {
                tx.rollback().await?;
                return Box::pin(self.claim_alone(request)).await;
            }
            claimed => claimed?,
        };
        // Also if nothing was claimed: a transaction that is dropped keeps its locks until the pool rolls it back.
        tx.commit().await?;
        Ok(claimed)
    }
}

impl Claims {
    /// Decides again under the lock of the row. `verdict`: about the deaths of a version of the row.
    async fn claim_locked(
        &self,
        tx: &mut PgConnection,
        request: ClaimRequest,
        verdict: Option<(String, Verdict)>,
    ) -> Result<Claim> {
        let crashes = request.crashes;
        lock(tx, request.agentable).await?;
        let Some(candidate) = self.candidate(tx, request).await? else { return Ok(Claim::Nothing) };
        let kind = candidate.run.kind.clone();
        // The verdict is about the deaths that were read.
        let verdict =
            verdict.filter(|(version, _)| *version == candidate.version).map(|(_, verdict)| verdict);
        let start = match self.decide(&candidate, 0, crashes.limit(), verdict) {
            // The tokens were used up meanwhile: the next sweep finds it.
            Decision::Refused | Decision::PutOff | Decision::Accused => return Ok(Claim::Nothing),
            Decision::Doubted => {
                // Whether the worker is alive is known after the first wait; the other runs show sooner what they are.
                let wait = if verdict.is_some() { crashes.grace / 5 } else { crashes.grace };
                return postpone(tx, request, kind, wait).await;
            }
            Decision::Started(start) => start,
        };
        if start.is_suspect && drives_other_suspect(tx, request, crashes.max).await? {
            return postpone(tx, request, kind, BEHIND_SUSPECT).await;
        }
        let claimed = self.claim_candidate(tx, request, candidate, &start).await?;
        Ok(claimed.map_or(Claim::Nothing, |run| Claim::Run(Box::new(run))))
    }

    pub(super) async fn candidate(
        &self,
        connection: &mut PgConnection,
        request: ClaimRequest,
    ) -> Result<Option<Candidate>> {
        // The context is read when the claim is committed, since the claim may close a session.
        let request = ClaimRequest { context: None, ..request };
        Ok(self.read(connection, &[request.into()]).await?.into_iter().next().flatten())
    }

    /// Writes the claim with all that belongs to it; `None` if the present holder turns out to be alive, or if other claims
    /// are taking all slots of the user at the moment.
    async fn claim_candidate(
        &self,
        connection: &mut PgConnection,
        request: ClaimRequest,
        candidate: Candidate,
        start: &Start,
    ) -> Result<Option<ClaimedRun>> {
        let slots = candidate.choices(1, request.worker).concat();
        let item = request.into();
        let row = ClaimRow::of(0, &item, &candidate, start, slots).map_err(not_json)?;
        let Some(claimed) = self.claim(connection, &[row]).await?.into_iter().next() else { return Ok(None) };
        let first = candidate.claimable.unread.first().filter(|_| start.moves_messages);
        if let (Some(first), Some(to)) = (first, start.read_to) {
            let moved = MovedMessages { after: first.seq - 1, to, run: candidate.run.run };
            move_messages(connection, request.agentable, &moved).await?;
        }
        let (last, requested) = (candidate.last_entry, candidate.close_reason.clone());
        let run = candidate.claimed(start, &claimed, None);
        if !start.turn.is_plain() {
            self.turn(connection, &run, start.turn, last, requested.as_deref()).await?;
        }
        Ok(Some(run))
    }
}

/// Whether the worker holds another run that will be given up at its next death. Serialises the claims of such runs by
/// one worker.
async fn drives_other_suspect(
    connection: &mut PgConnection,
    request: ClaimRequest,
    max: i32,
) -> Result<bool> {
    sqlx::query!(
        "-- store::claim::alone::lock_worker
        select pg_advisory_xact_lock(2, hashtext($1::uuid::text))::text as locked",
        request.worker.0
    )
    .fetch_one(&mut *connection)
    .await?;
    let other = sqlx::query_scalar!(
        r#"-- store::claim::alone::other_suspect
        select exists (select from houston.run_locks k
                        where k.died_with <> '{}' and cardinality(k.died_with) >= $3 - 1 and k.holder = $2
                          and k.agentable_id <> $1) as "exists!""#,
        request.agentable.0,
        request.worker.0,
        max
    );
    Ok(other.fetch_one(connection).await?)
}

/// Releases the lock of a dead holder and counts the death. `wait`: until the run may be claimed again.
async fn postpone(
    connection: &mut PgConnection,
    request: ClaimRequest,
    kind: String,
    wait: Duration,
) -> Result<Claim> {
    sqlx::query!(
        "-- store::claim::alone::postpone
        with t as materialized (
            select n.at, n.at + make_interval(secs => $2::float8) as next from (select clock_timestamp() as at) n),
        lock as (
            update houston.run_locks k
               set died_with = case when k.holder is null then k.died_with else k.died_with || k.holder end,
                   woken_at = case when k.holder is null then k.woken_at else t.at end,
                   holder = null, wake = true, next_attempt_at = t.next
              from t where k.agentable_id = $1
            returning k.run_id)
        update houston.runs r set held_for = null from lock l where r.id = l.run_id and r.held_for is not null",
        request.agentable.0,
        wait.as_secs_f64()
    )
    .run(connection)
    .await?;
    Ok(Claim::Postponed { kind, wait })
}

impl RunStore {
    /// Counts the tokens of the run and writes when it begins. Claims nothing if the run has changed meanwhile.
    async fn put_off(&self, request: ClaimRequest, candidate: &Candidate) -> Result<Claim> {
        let claims = &self.batchers.claims.batch;
        let Some(tokens) = candidate.admission.map(|of| of.tokens) else { return Ok(Claim::Nothing) };
        // Behind those that were counted before. This writes nothing else, so it waits for no disk while it holds the user's row.
        let limit = self.rates.tokens;
        let ahead = count(&self.pool, limit, &[Tokens::Booked(candidate.run.user, tokens)]).await?;
        let wait = limit.admit(ahead.first().copied().unwrap_or(0.0), None).wait.unwrap_or_default();
        let mut tx = self.pool.begin().await?;
        lock(&mut tx, request.agentable).await?;
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
