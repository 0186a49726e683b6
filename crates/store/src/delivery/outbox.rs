//! Sending deliveries: a worker claims the next ones of an agentable for a time, sends one after the other, and settles them
//! together. A worker that dies meanwhile loses its claim when the time is over, and they are sent again with the same ids.

use chrono::{DateTime, SubsecRound as _, Utc};
use houston_domain::event::Committed;
use houston_domain::event::topic::EventOwner;
use houston_domain::id::{AgentableId, DeliveryId, RunId, TenantId, WebhookId};
use serde::Serialize;
use sqlx::types::Json;
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use super::task_push;
use super::webhook::{GONE, lock, switch_off};
use crate::batcher::Batch;
use crate::error::Result;
use crate::event::batch::{self, StreamRead};
use crate::handle::RunStore;
use crate::run::deaths::end_of_id;
use crate::statement::Statement as _;

/// Which deliveries are claimed.
#[derive(Debug, Clone, Copy)]
pub struct DueDeliveries<'a> {
    /// How many of which webhooks this process sends already.
    pub busy: &'a [(WebhookId, i64)],
    /// How many it sends at once of one webhook.
    pub per_webhook: i64,
    /// How many of which tenants it sends already.
    pub busy_tenants: &'a [(TenantId, i64)],
    /// How many it sends at once of one tenant.
    pub per_tenant: i64,
    /// How many are claimed at most.
    pub limit: i64,
    /// Only those of webhooks with a higher id, so that all get their turn.
    pub after: Option<WebhookId>,
    /// The current time.
    pub now: DateTime<Utc>,
    /// When the claim ends.
    pub until: DateTime<Utc>,
}

/// The next deliveries of an agentable to a webhook, which this process may send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedDeliveries {
    /// The tenant.
    pub tenant: TenantId,
    /// The webhook.
    pub webhook: WebhookId,
    /// The agentable.
    pub agentable: AgentableId,
    /// How many processes have ended with them: see [`houston_domain::quarantine`].
    pub deaths: i32,
    /// Where they are sent.
    pub url: String,
    /// The secret that signs, sealed.
    pub sealed: Vec<u8>,
    /// The secret before it, sealed, while it signs, too.
    pub old_sealed: Option<Vec<u8>>,
    /// If they are of a task that a client of A2A follows.
    pub push: Option<DeliveredPush>,
    /// Shows that the claim is still this process's.
    pub claim: Uuid,
    /// In the order of their events, at least one; exactly one if a process has ended with it, or with one just before it.
    pub deliveries: Vec<Delivery>,
}

/// An event on its way to a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The delivery.
    pub id: DeliveryId,
    /// The position of the event.
    pub seq: i64,
    /// Attempts before this one.
    pub attempts: i32,
    /// When the delivery was made.
    pub created_at: DateTime<Utc>,
    /// Where its run belongs in a trace: a `traceparent`.
    pub traceparent: Option<String>,
}

/// Of which task an event is, in the words of its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveredPush {
    /// The run.
    pub run: RunId,
    /// The id of the push notification configuration.
    pub push_id: String,
    /// As the client calls the thread.
    pub context: String,
}

/// What becomes of a delivery after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It was accepted.
    Delivered,
    /// It is attempted again at this time; those behind it wait.
    Retry(DateTime<Utc>),
    /// It is given up.
    Dead,
    /// It is given up, and its webhook is switched off: its address is gone.
    Gone,
}

impl Settled {
    fn state(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Retry(_) => "pending",
            Self::Dead | Self::Gone => "dead",
        }
    }
}

/// An attempt to send a delivery, and its result.
#[derive(Debug, Clone)]
pub struct Attempted {
    /// The delivery.
    pub id: DeliveryId,
    /// What becomes of it.
    pub settled: Settled,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// What went wrong.
    pub error: Option<String>,
    /// When the answer was there.
    pub at: DateTime<Utc>,
}

/// Maximum number of characters of an error that is stored.
const MAX_ERROR: usize = 500;
/// Most deliveries of an agentable that are claimed together: a run usually has three or four events. Each is in memory until all
/// are sent.
const MAX_TOGETHER: i32 = 4;

impl RunStore {
    /// Claims the next deliveries that are due, up to four of each agentable and webhook. Tenants take turns.
    pub async fn claim_deliveries(
        &self,
        due: &DueDeliveries<'_>,
        claim: Uuid,
    ) -> Result<Vec<ClaimedDeliveries>> {
        // The claim ends like the ids of the process's workers, and begins at random.
        let (high, low) = claim.as_u64_pair();
        let claim = self.process.map_or(claim, |process| Uuid::from_u64_pair(high ^ low, process.0));
        let (busy, counts): (Vec<Uuid>, Vec<i64>) = due.busy.iter().map(|(id, n)| (id.0, *n)).unzip();
        let (tenants, of_tenants): (Vec<Uuid>, Vec<i64>) =
            due.busy_tenants.iter().map(|(id, n)| (id.0, *n)).unzip();
        let claimed = sqlx::query!(
            r#"-- store::outbox::claim
            with recursive w as (
                -- The webhooks with open deliveries, each found by one step in the index.
                (select o.webhook_id from houston.open_deliveries o
                  where o.webhook_id > $8 order by o.webhook_id limit 1)
                union all
                select (select o.webhook_id from houston.open_deliveries o
                         where o.webhook_id > w.webhook_id order by o.webhook_id limit 1)
                  from w where w.webhook_id is not null),
            -- Of each tenant the longest overdue come first, and of all tenants the first ones.
            turns as (
                select o.webhook_id, o.agentable_id, $10 - coalesce(t.n, 0) as room,
                       row_number() over (partition by h.tenant_id order by o.due_at, o.webhook_id) as turn
                  from w
                  join houston.webhooks h on h.id = w.webhook_id and h.enabled
                  left join unnest($2::uuid[], $3::bigint[]) as b (id, n) on b.id = w.webhook_id
                  left join unnest($9::uuid[], $11::bigint[]) as t (id, n) on t.id = h.tenant_id
                 cross join lateral (
                       select o.webhook_id, o.agentable_id, o.due_at from houston.open_deliveries o
                        where o.webhook_id = w.webhook_id and o.due_at <= $1
                          -- A process that could not settle it takes it up again itself, as long as it lives.
                          and (o.claim is null or right(o.claim::text, 17) = $12 or not exists (
                              select from houston.workers p
                               where right(p.id::text, 17) = right(o.claim::text, 17) and p.alive_until > $1))
                        order by o.due_at
                        limit greatest(least($4 - coalesce(b.n, 0), $10 - coalesce(t.n, 0)), 0)
                          for no key update skip locked) o),
            due as (
                select webhook_id, agentable_id from turns where turn <= room order by turn limit $5),
            claimed as (
                -- A claim of another process that was not settled is the mark of its end.
                update houston.open_deliveries o
                   set due_at = $6, claim = $7,
                       deaths = case when right(o.claim::text, 17) <> $12 then greatest(o.deaths, 0) + 1 else o.deaths end
                  from due d
                 where o.webhook_id = d.webhook_id and o.agentable_id = d.agentable_id
                returning o.webhook_id, o.agentable_id, o.deaths)
            select c.deaths, d.id, d.tenant_id, d.webhook_id, d.agentable_id, d.seq, d.attempts, d.created_at, h.url, h.sealed,
                   case when h.old_until > $1 then h.old_sealed end as old_sealed, h.run_id, h.push_id, h.context,
                   -- Positions are those of the run that begins at or before them.
                   (select r.traceparent from houston.runs r
                     where r.agentable_id = c.agentable_id and r.first_seq <= d.seq
                     order by r.first_seq desc limit 1) as traceparent
              from claimed c
              join houston.webhooks h on h.id = c.webhook_id
             cross join lateral (
                   select * from houston.deliveries d
                    where d.webhook_id = c.webhook_id and d.agentable_id = c.agentable_id and d.state = 'pending'
                    order by d.seq limit case when c.deaths = 0 then $13 else 1 end) d
             order by c.webhook_id, c.agentable_id, d.seq"#,
            due.now,
            &busy,
            &counts,
            due.per_webhook,
            due.limit,
            due.until,
            claim,
            due.after.map_or(Uuid::nil(), |after| after.0),
            &tenants,
            due.per_tenant,
            &of_tenants,
            self.process.map(end_of_id).unwrap_or_default(),
            MAX_TOGETHER
        )
        .map(|row| ClaimedDeliveries {
            tenant: TenantId(row.tenant_id),
            webhook: WebhookId(row.webhook_id),
            agentable: AgentableId(row.agentable_id),
            deaths: i32::from(row.deaths).max(0),
            url: row.url,
            sealed: row.sealed,
            old_sealed: row.old_sealed,
            push: row.run_id.map(|run| DeliveredPush {
                run: RunId(run),
                push_id: row.push_id.unwrap_or_default(),
                context: row.context.unwrap_or_default(),
            }),
            claim,
            deliveries: vec![Delivery {
                id: DeliveryId(row.id),
                seq: row.seq,
                attempts: row.attempts,
                created_at: row.created_at,
                traceparent: row.traceparent,
            }],
        });
        Ok(by_agentable(claimed.fetch_all(&self.pool).await?))
    }

    /// The owners of these deliveries' events, and the events, in the same order; `None` for one that was erased.
    pub async fn delivered_events(
        &self,
        claimed: &[ClaimedDeliveries],
    ) -> Result<Vec<Vec<Option<(EventOwner, Committed)>>>> {
        let read = |of: &ClaimedDeliveries, delivery: &Delivery| StreamRead {
            agentable: of.agentable,
            tenant: of.tenant,
            kind: None,
            after: Some(delivery.seq - 1),
            limit: 1,
        };
        let reads: Vec<StreamRead> = claimed
            .iter()
            .flat_map(|of| of.deliveries.iter().map(move |delivery| read(of, delivery)))
            .collect();
        let agentables: Vec<Uuid> = claimed.iter().map(|of| of.agentable.0).collect();
        let tenants: Vec<Uuid> = claimed.iter().map(|of| of.tenant.0).collect();
        let owners = self.event_owners(&agentables, &tenants).await?;
        let mut connection = self.pool.acquire().await?;
        let mut pages = batch::read(&mut connection, &reads).await?.into_iter();
        let events = claimed.iter().map(|of| {
            let owner = owners.get(&of.agentable);
            let pages = pages.by_ref().take(of.deliveries.len());
            let events = of.deliveries.iter().zip(pages).map(|(delivery, page)| {
                // One that cannot be read is given up like one that was erased.
                let (_, events) = page.ok().flatten()?;
                let event = events.into_iter().find(|event| event.seq == delivery.seq)?;
                Some((owner?.clone(), event))
            });
            events.collect()
        });
        Ok(events.collect())
    }

    /// Gives back deliveries that were claimed and not begun: they are due at `at`. One whose claim is another one's now is left.
    pub async fn give_back_deliveries(&self, claimed: &[ClaimedDeliveries], at: DateTime<Utc>) -> Result<()> {
        let webhooks: Vec<Uuid> = claimed.iter().map(|of| of.webhook.0).collect();
        let agentables: Vec<Uuid> = claimed.iter().map(|of| of.agentable.0).collect();
        let claims: Vec<Uuid> = claimed.iter().map(|of| of.claim).collect();
        sqlx::query!(
            "-- store::outbox::give_back
            with held as (
                select o.webhook_id, o.agentable_id
                  from unnest($1::uuid[], $2::uuid[], $3::uuid[]) as g (webhook, agentable, claim)
                  join houston.open_deliveries o
                    on o.webhook_id = g.webhook and o.agentable_id = g.agentable and o.claim = g.claim
                 order by o.webhook_id, o.agentable_id for no key update of o)
            update houston.open_deliveries o set claim = null, due_at = $4
              from held h where o.webhook_id = h.webhook_id and o.agentable_id = h.agentable_id",
            &webhooks,
            &agentables,
            &claims,
            at
        )
        .run(&self.pool)
        .await
    }

    /// Stores what became of the claimed deliveries that were attempted, which are the first ones, and ends the claim. The others are
    /// due at once, or when the last of `attempted` is attempted again. Returns whether the claim was still the caller's: if not,
    /// another process sends them again, and nothing is stored. Does nothing if none was attempted: the claim ends by itself.
    pub async fn settle_deliveries(&self, of: &ClaimedDeliveries, attempted: &[Attempted]) -> Result<bool> {
        let Some(last) = attempted.last() else { return Ok(true) };
        let settled = attempted.iter().map(|attempted| SettledRow {
            id: attempted.id.0,
            state: attempted.settled.state(),
            status: attempted.status,
            error: attempted.error.as_ref().map(|error| error.chars().take(MAX_ERROR).collect()),
            attempted_at: attempted.at.trunc_subsecs(6),
        });
        let item = Settlement {
            n: 0,
            webhook_id: of.webhook.0,
            agentable_id: of.agentable.0,
            claim: of.claim,
            settled: settled.collect(),
            // Postgres would round what JSON has beyond microseconds, and the next delivery might be due later than now.
            due_at: if let Settled::Retry(at) = last.settled { at } else { last.at }.trunc_subsecs(6),
        };
        let is_gone = last.settled == Settled::Gone;
        let changes_webhook = is_gone || of.push.is_some();
        let may_be_batched = !changes_webhook && !self.is_unbatched;
        if may_be_batched && self.batchers.settlements.submit(item.clone()).await.is_some() {
            return Ok(true);
        }
        let mut tx = self.pool.begin().await?;
        // The webhook first, then what is open, then the deliveries, like everything that writes them: otherwise two could wait
        // for each other.
        if changes_webhook {
            lock(&mut tx, item.webhook_id).await?;
        }
        sqlx::query_scalar!(
            "-- store::outbox::wait
            with w as materialized (select id from houston.webhooks where id = $1 for key share)
            -- What settles finds its rows by their keys then, as in a batch, whatever the statistics say.
            select concat(set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true))
              from w join houston.open_deliveries o on o.webhook_id = w.id
             where o.agentable_id = $2 and o.claim = $3 for update of o",
            item.webhook_id,
            item.agentable_id,
            item.claim
        )
        .fetch_optional(&mut *tx)
        .await?;
        if settle(&mut tx, &mut [item]).await?.is_empty() {
            return Ok(false);
        }
        if is_gone {
            switch_off(&mut tx, of.webhook, GONE, last.at).await?;
        }
        if of.push.is_some() {
            task_push::close(&mut tx, of.webhook.0).await?;
        }
        tx.commit().await?;
        Ok(true)
    }

    /// Deletes push notification configurations of runs that have ended before `before`, and up to `limit` deliveries that were
    /// settled before. Returns how many deliveries.
    pub async fn forget_deliveries(&self, before: DateTime<Utc>, limit: i64) -> Result<u64> {
        sqlx::query!(
            "-- store::outbox::forget_pushes
            delete from houston.webhooks w
             where w.run_id is not null and not exists (
                   select from houston.runs r where r.id = w.run_id and (r.ended_at is null or r.ended_at >= $1))",
            before
        )
        .execute(&self.pool)
        .await?;
        let gone = sqlx::query!(
            "-- store::outbox::forget
            delete from houston.deliveries where ctid = any (array(
                   select ctid from houston.deliveries where state <> 'pending' and attempted_at < $1
                    order by attempted_at limit $2))",
            before,
            limit
        )
        .execute(&self.pool)
        .await?;
        Ok(gone.rows_affected())
    }
}

/// Puts together what was claimed of one agentable for one webhook, which follow each other.
fn by_agentable(claimed: Vec<ClaimedDeliveries>) -> Vec<ClaimedDeliveries> {
    let mut all: Vec<ClaimedDeliveries> = Vec::new();
    for one in claimed {
        match all.last_mut() {
            Some(last) if (last.webhook, last.agentable) == (one.webhook, one.agentable) => {
                last.deliveries.extend(one.deliveries);
            }
            _ => all.push(one),
        }
    }
    all
}

/// What became of claimed deliveries, as the statements read it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Settlement {
    /// Index in its batch.
    n: usize,
    webhook_id: Uuid,
    agentable_id: Uuid,
    claim: Uuid,
    settled: Vec<SettledRow>,
    /// When the next one is due, if there is one.
    due_at: DateTime<Utc>,
}

#[derive(Debug, Clone, Serialize)]
struct SettledRow {
    id: Uuid,
    state: &'static str,
    status: Option<u16>,
    error: Option<String>,
    attempted_at: DateTime<Utc>,
}

/// Settles deliveries together: one commit, where each would have one of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settlements;

impl Batch for Settlements {
    type Item = Settlement;
    type Done = ();
    type Key = (Uuid, Uuid);
    const CONNECTIONS: usize = 1;

    fn keys(item: &Settlement) -> impl Iterator<Item = (Uuid, Uuid)> {
        std::iter::once((item.webhook_id, item.agentable_id))
    }

    fn bytes(item: &Settlement) -> usize {
        item.settled.iter().filter_map(|row| row.error.as_ref()).map(String::len).sum()
    }

    async fn write(
        &self,
        connection: &mut PgConnection,
        items: &mut [Settlement],
    ) -> Result<Vec<Option<()>>> {
        let mut tx = connection.begin().await?;
        let written = settle(&mut tx, items).await?;
        tx.commit().await?;
        let mut done = vec![None; items.len()];
        for n in written {
            done[n] = Some(());
        }
        Ok(done)
    }
}

/// Stores what became of deliveries whose claims are still the callers' and whose rows nobody else has locked. Returns the
/// indexes of these.
async fn settle(connection: &mut PgConnection, items: &mut [Settlement]) -> Result<Vec<usize>> {
    items.iter_mut().enumerate().for_each(|(n, item)| item.n = n);
    let locked = sqlx::query_scalar!(
        r#"-- store::outbox::settle::lock
        select i.n as "n!"
          from jsonb_to_recordset($1) as i (n integer, webhook_id uuid, agentable_id uuid, claim uuid)
         cross join lateral (
               select w.id from houston.webhooks w where w.id = i.webhook_id for key share skip locked) w
         cross join lateral (
               select from houston.open_deliveries o
                where o.webhook_id = w.id and o.agentable_id = i.agentable_id and o.claim = i.claim
                  for update skip locked) o"#,
        Json(&*items) as Json<&[Settlement]>
    )
    .fetch_all(&mut *connection)
    .await?;
    let locked: Vec<usize> = locked.into_iter().filter_map(|n| usize::try_from(n).ok()).collect();
    let rows: Vec<&Settlement> = locked.iter().filter_map(|n| items.get(*n)).collect();
    if rows.is_empty() {
        return Ok(locked);
    }
    // Another statement, which sees what was made before the locks were taken. Nothing is made while they are held.
    sqlx::query!(
        "-- store::outbox::settle::write
        with i as materialized (
            select * from jsonb_to_recordset($1) as i (
                webhook_id uuid, agentable_id uuid, due_at timestamptz, settled jsonb)),
        s as materialized (
            select i.webhook_id, s.* from i cross join lateral jsonb_to_recordset(i.settled) as s (
                id uuid, state text, status integer, error text, attempted_at timestamptz)),
        settled as (
            update houston.deliveries d
               set state = s.state, attempts = d.attempts + 1, status = s.status, error = s.error,
                   attempted_at = s.attempted_at
              from s where d.webhook_id = s.webhook_id and d.id = s.id),
        m as materialized (
            select i.*, exists (
                   select from houston.deliveries d
                    where d.webhook_id = i.webhook_id and d.agentable_id = i.agentable_id and d.state = 'pending'
                      and not exists (select from s where s.id = d.id and s.state <> 'pending')) as has_more
              from i),
        next as (
            update houston.open_deliveries o
               set due_at = m.due_at, claim = null,
                   deaths = case when o.deaths > 0 then 1 - $2::integer when o.deaths < 0 then o.deaths + 1 else 0 end
              from m where m.has_more and o.webhook_id = m.webhook_id and o.agentable_id = m.agentable_id)
        delete from houston.open_deliveries o using m
         where not m.has_more and o.webhook_id = m.webhook_id and o.agentable_id = m.agentable_id",
        Json(rows) as Json<Vec<&Settlement>>,
        MAX_TOGETHER
    )
    .execute(connection)
    .await?;
    Ok(locked)
}
