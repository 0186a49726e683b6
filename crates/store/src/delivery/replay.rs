//! Replays: delivering again what happened since a time, a page at a time.

use chrono::{DateTime, Utc};
use houston_domain::event::topic::{EventFilter, EventOwner};
use houston_domain::id::{AgentableId, Ids, TenantId, UserId, WebhookId};
use sqlx::PgConnection;
use uuid::Uuid;

use super::fan_out::{NewDeliveries, patterns};
use crate::error::{Error, Result};
use crate::event::batch::{self, StreamRead};
use crate::handle::{RunStore, TenantStore};

impl TenantStore<'_> {
    /// Asks for all events since `since` again. It replaces an earlier request for the webhook that is not done.
    pub async fn request_replay(
        self,
        webhook: WebhookId,
        since: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Result<()> {
        let asked = sqlx::query!(
            "-- store::replay::request
            with asked as (
                insert into houston.replays (webhook_id, tenant_id, since, until, after_agentable, after_seq)
                select h.id, h.tenant_id, $3, $4, '00000000-0000-0000-0000-000000000000', 0
                  from houston.webhooks h
                 where h.tenant_id = $1 and h.id = $2 and h.run_id is null
                    on conflict (webhook_id) do update
                   set since = excluded.since, until = excluded.until, after_agentable = excluded.after_agentable,
                       after_seq = excluded.after_seq
                returning 1)
            select pg_notify('houston', '1 webhooks')::text as notified from asked",
            self.tenant.0,
            webhook.0,
            since,
            until
        )
        .map(|_| ());
        asked.fetch_optional(&self.pool).await?.ok_or(Error::NotFound { what: "webhook" })
    }
}

/// A replay that a transaction has taken, and how far it is.
struct Replay {
    webhook: WebhookId,
    tenant: TenantId,
    filter: EventFilter,
    since: DateTime<Utc>,
    until: DateTime<Utc>,
    after_agentable: Uuid,
    after_seq: i64,
}

impl RunStore {
    /// Whether a replay is requested.
    pub async fn has_replays(&self) -> Result<bool> {
        let has = sqlx::query_scalar!(
            r#"-- store::replay::any
            select exists (select from houston.replays) as "has!""#
        );
        Ok(has.fetch_one(&self.pool).await?)
    }

    /// Makes deliveries of the next page of a replay that no other process is working on: of about `limit` events of one
    /// agentable. Returns whether there was one.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] when an event cannot be decoded. Then nothing was made, and the next call repeats it.
    pub async fn replay_some(&self, ids: &Ids, limit: i64, now: DateTime<Utc>) -> Result<bool> {
        let mut tx = self.pool.begin().await?;
        let Some(mut replay) = take(&mut tx).await? else { return Ok(false) };
        let Some((owner, events_from)) = next_agentable(&mut tx, &replay).await? else {
            sqlx::query!(
                "-- store::replay::done\ndelete from houston.replays where webhook_id = $1",
                replay.webhook.0
            )
            .execute(&mut *tx)
            .await?;
            tx.commit().await?;
            return Ok(true);
        };
        let agentable = owner.agentable;
        if agentable.0 != replay.after_agentable {
            (replay.after_agentable, replay.after_seq) = (agentable.0, events_from - 1);
        }
        let read =
            StreamRead { agentable, tenant: replay.tenant, kind: None, after: Some(replay.after_seq), limit };
        let page = batch::read(&mut tx, std::slice::from_ref(&read)).await?.into_iter().next();
        let events = page.transpose()?.flatten().map_or_else(Vec::new, |(_, events)| events);
        let mut new = NewDeliveries::default();
        for event in &events {
            let topic = event.event.topic();
            let is_wanted = replay.since <= event.at && event.at <= replay.until;
            if is_wanted && replay.filter.matches(topic, &owner) {
                new.push(ids, (replay.tenant, replay.webhook), (agentable, event.seq), topic);
            }
        }
        new.insert(&mut tx, now, true).await?;
        // At the end of a stream the next call begins with the next agentable.
        let is_full = i64::try_from(events.len()).is_ok_and(|count| count >= limit);
        let seq = events.last().filter(|_| is_full).map_or(i64::MAX, |last| last.seq);
        sqlx::query!(
            "-- store::replay::move
            update houston.replays set after_agentable = $2, after_seq = $3 where webhook_id = $1",
            replay.webhook.0,
            agentable.0,
            seq
        )
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(true)
    }
}

async fn take(connection: &mut PgConnection) -> Result<Option<Replay>> {
    let row = sqlx::query!(
        "-- store::replay::take
        select p.webhook_id, p.tenant_id, p.since, p.until, p.after_agentable, p.after_seq, h.topics, h.user_id, h.kind,
               h.agentable_id
          from houston.replays p join houston.webhooks h on h.id = p.webhook_id
         order by p.webhook_id limit 1
           -- By the order of locks: a webhook that is being deleted is passed over.
           for no key update of p skip locked for key share of h skip locked"
    )
    .map(|row| Replay {
        webhook: WebhookId(row.webhook_id),
        tenant: TenantId(row.tenant_id),
        filter: EventFilter {
            topics: patterns(&row.topics),
            user: row.user_id.map(UserId),
            kind: row.kind,
            agentable: row.agentable_id.map(AgentableId),
        },
        since: row.since,
        until: row.until,
        after_agentable: row.after_agentable,
        after_seq: row.after_seq,
    });
    Ok(row.fetch_optional(connection).await?)
}

/// The agentable that a replay goes on with: the present one, if its stream is not at its end, or the next one in which
/// something has happened since; with the position of its first event that is kept.
async fn next_agentable(connection: &mut PgConnection, replay: &Replay) -> Result<Option<(EventOwner, i64)>> {
    let row = sqlx::query!(
        r#"-- store::replay::next_agentable
        select a.id, a.kind, a.user_id,
               coalesce((select l.events_from from houston.run_locks l where l.agentable_id = a.id), 1) as "events_from!"
          from houston.agentables a
         where a.tenant_id = $1 and a.id >= $2 and (a.id > $2 or $3 < 9223372036854775807)
           and ($4::uuid is null or a.user_id = $4) and ($5::text is null or a.kind = $5)
           and ($6::uuid is null or a.id = $6)
           and exists (select from houston.runs r
                        where r.agentable_id = a.id and (r.ended_at is null or r.ended_at >= $7))
         order by a.id limit 1"#,
        replay.tenant.0,
        replay.after_agentable,
        replay.after_seq,
        replay.filter.user.map(|user| user.0),
        replay.filter.kind,
        replay.filter.agentable.map(|agentable| agentable.0),
        replay.since
    )
    .map(|row| {
        let owner = EventOwner { agentable: AgentableId(row.id), kind: row.kind, user: UserId(row.user_id) };
        (owner, row.events_from)
    });
    Ok(row.fetch_optional(connection).await?)
}
