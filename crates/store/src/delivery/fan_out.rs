//! The reader of webhooks: makes a delivery of each event for each webhook that wants it, in the transaction that moves its
//! position. So no event is missed, and none is delivered twice by two readers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use houston_domain::event::Event;
use houston_domain::event::topic::{EventFilter, TopicPattern};
use houston_domain::id::{AgentableId, DeliveryId, Ids, RunId, TenantId, UserId, WebhookId};
use serde::Serialize;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::task_push;
use crate::error::{Error, Result};
use crate::event::position::present;
use crate::event::{EventPosition, OwnedEvent, owned_page};
use crate::handle::RunStore;
use crate::statement::Statement as _;

/// The name of the reader.
const READER: &str = "webhooks";

/// What one read has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FannedOut {
    /// Nothing: no webhook is switched on, or another process reads.
    Idle,
    /// The position was of another database: it is now at the present end of the events.
    Restarted,
    /// A page was read.
    Read {
        /// Events of tenants with webhooks.
        events: usize,
        /// Deliveries that were made.
        deliveries: usize,
        /// Whether more events may be visible already.
        has_more: bool,
    },
}

/// A webhook that is switched on.
struct Subscription {
    id: WebhookId,
    filter: EventFilter,
    since: DateTime<Utc>,
    /// Only events of this run.
    run: Option<RunId>,
}

impl Subscription {
    fn wants(&self, topic: &str, event: &OwnedEvent) -> bool {
        self.since <= event.event.at
            && self.run.is_none_or(|run| run == event.event.run_id)
            && self.filter.matches(topic, &event.owner)
    }
}

/// A delivery to be made.
#[derive(Serialize)]
struct NewDelivery {
    id: Uuid,
    tenant_id: Uuid,
    webhook_id: Uuid,
    agentable_id: Uuid,
    seq: i64,
    topic: String,
}

/// Deliveries to be made.
#[derive(Default)]
pub(crate) struct NewDeliveries(Vec<NewDelivery>);

impl NewDeliveries {
    pub(crate) fn push(
        &mut self,
        ids: &Ids,
        (tenant, webhook): (TenantId, WebhookId),
        (agentable, seq): (AgentableId, i64),
        topic: &str,
    ) {
        self.0.push(NewDelivery {
            id: ids.beside::<DeliveryId>(agentable).0,
            tenant_id: tenant.0,
            webhook_id: webhook.0,
            agentable_id: agentable.0,
            seq,
            topic: topic.to_owned(),
        });
    }

    /// Makes the deliveries, due at once. With `again`, those that were made before are attempted anew.
    pub(crate) async fn insert(
        &self,
        connection: &mut PgConnection,
        now: DateTime<Utc>,
        again: bool,
    ) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        // The webhooks first, then what is open, then the deliveries: see `store::outbox::settle`.
        sqlx::query!(
            "-- store::fan_out::lock
            select from houston.webhooks where id = any ($1) order by id for key share",
            &self.0.iter().map(|new| new.webhook_id).collect::<Vec<_>>()
        )
        .execute(&mut *connection)
        .await?;
        self.open(connection, now).await?;
        sqlx::query!(
            "-- store::fan_out::insert
            insert into houston.deliveries (id, tenant_id, webhook_id, agentable_id, seq, topic, created_at)
            select n.id, n.tenant_id, n.webhook_id, n.agentable_id, n.seq, n.topic, $2
              from jsonb_to_recordset($1) as n (id uuid, tenant_id uuid, webhook_id uuid, agentable_id uuid, seq bigint,
                                                topic text)
             order by n.webhook_id, n.agentable_id, n.seq
                on conflict (webhook_id, agentable_id, seq) do update
               set state = 'pending', attempts = 0, created_at = $2 where $3 and deliveries.state <> 'pending'",
            Json(&self.0) as Json<&Vec<NewDelivery>>,
            now,
            again
        )
        .run(connection)
        .await
    }

    /// Notes which agentables have open deliveries.
    async fn open(&self, connection: &mut PgConnection, now: DateTime<Utc>) -> Result<()> {
        let open = self.0.iter().map(|new| ((new.webhook_id, new.agentable_id), new.tenant_id));
        let open: BTreeMap<(Uuid, Uuid), Uuid> = open.collect();
        let (webhooks, agentables): (Vec<Uuid>, Vec<Uuid>) = open.keys().copied().unzip();
        let tenants: Vec<Uuid> = open.into_values().collect();
        // An update that changes nothing takes the lock of the row: what settles the last delivery of an agentable either sees
        // the new ones or has deleted the row before.
        sqlx::query!(
            "-- store::fan_out::open
            insert into houston.open_deliveries (webhook_id, agentable_id, tenant_id, due_at)
            select n.webhook_id, n.agentable_id, n.tenant_id, $4
              from unnest($1::uuid[], $2::uuid[], $3::uuid[]) as n (webhook_id, agentable_id, tenant_id)
             order by n.webhook_id, n.agentable_id
                on conflict (webhook_id, agentable_id) do update set tenant_id = excluded.tenant_id",
            &webhooks,
            &agentables,
            &tenants,
            now
        )
        .run(connection)
        .await
    }
}

/// Makes sure that there is a reader, in the transaction that switches a webhook on. The lock of its row keeps the reader from
/// ending at the same time.
pub(crate) async fn ensure_reader(connection: &mut PgConnection) -> Result<()> {
    sqlx::query!(
        "-- store::fan_out::ensure_reader
        insert into houston.readers (name, position) values ($1, pg_current_snapshot()::text)
            on conflict (name) do update set name = excluded.name",
        READER
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!("-- store::fan_out::notify\nselect pg_notify('houston', '1 webhooks')").run(connection).await
}

impl RunStore {
    /// Whether a webhook is switched on, or has something left to deliver or to replay.
    pub async fn has_webhooks(&self) -> Result<bool> {
        let has = sqlx::query_scalar!(
            r#"-- store::fan_out::has_webhooks
            select exists (select from houston.readers where name = $1) or exists (select from houston.open_deliveries)
                   as "has!""#,
            READER
        );
        Ok(has.fetch_one(&self.pool).await?)
    }

    /// Reads the next page of about `limit` events and makes their deliveries, unless another process is reading.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses a statement. Then nothing was made, and the next call reads
    /// the same page.
    pub async fn fan_out(&self, ids: &Ids, limit: i64, now: DateTime<Utc>) -> Result<FannedOut> {
        let mut tx = self.pool.begin().await?;
        let position = sqlx::query_scalar!(
            "-- store::fan_out::take
            select position from houston.readers where name = $1 for no key update skip locked",
            READER
        );
        let Some(position) = position.fetch_optional(&mut *tx).await? else { return Ok(FannedOut::Idle) };
        let subscriptions = subscriptions(&mut tx).await?;
        if subscriptions.is_empty() {
            sqlx::query!("-- store::fan_out::end\ndelete from houston.readers where name = $1", READER)
                .execute(&mut *tx)
                .await?;
            tx.commit().await?;
            return Ok(FannedOut::Idle);
        }
        let tenants: Vec<Uuid> = subscriptions.keys().map(|tenant| tenant.0).collect();
        let read = match position.parse::<EventPosition>() {
            Ok(position) => owned_page(&mut tx, &position, limit, &tenants).await,
            Err(_) => Err(Error::UnknownPosition),
        };
        let page = match read {
            Err(Error::UnknownPosition) => {
                let now = present(&mut *tx).await?;
                move_to(&mut tx, &now).await?;
                tx.commit().await?;
                return Ok(FannedOut::Restarted);
            }
            read => read?,
        };
        let (mut new, mut ended) = (NewDeliveries::default(), Vec::new());
        for event in &page.events {
            let topic = event.event.event.topic();
            for subscription in subscriptions.get(&event.tenant).into_iter().flatten() {
                if subscription.wants(topic, event) {
                    let place = (event.owner.agentable, event.event.seq);
                    new.push(ids, (event.tenant, subscription.id), place, topic);
                    if subscription.run.is_some() && matches!(event.event.event, Event::RunFinished { .. }) {
                        ended.push(subscription.id.0);
                    }
                }
            }
        }
        new.insert(&mut tx, now, false).await?;
        task_push::end(&mut tx, &ended).await?;
        move_to(&mut tx, &page.next).await?;
        tx.commit().await?;
        Ok(FannedOut::Read { events: page.events.len(), deliveries: new.0.len(), has_more: page.has_more })
    }
}

async fn move_to(connection: &mut PgConnection, position: &EventPosition) -> Result<()> {
    sqlx::query!(
        "-- store::fan_out::move\nupdate houston.readers set position = $2 where name = $1",
        READER,
        position.to_string()
    )
    .run(connection)
    .await
}

/// The webhooks that are switched on, by tenant.
async fn subscriptions(connection: &mut PgConnection) -> Result<HashMap<TenantId, Vec<Subscription>>> {
    let rows = sqlx::query!(
        "-- store::fan_out::subscriptions
        select id, tenant_id, topics, user_id, kind, agentable_id, run_id, created_at
          from houston.webhooks where enabled and not ended"
    )
    .fetch_all(connection)
    .await?;
    let mut all: HashMap<TenantId, Vec<Subscription>> = HashMap::new();
    for row in rows {
        let filter = EventFilter {
            topics: patterns(&row.topics),
            user: row.user_id.map(UserId),
            kind: row.kind,
            agentable: row.agentable_id.map(AgentableId),
        };
        let run = row.run_id.map(RunId);
        let subscription = Subscription { id: WebhookId(row.id), filter, since: row.created_at, run };
        all.entry(TenantId(row.tenant_id)).or_default().push(subscription);
    }
    Ok(all)
}

/// Patterns that were checked when they were stored. One that a later version does not accept chooses nothing.
pub(crate) fn patterns(stored: &[String]) -> Vec<TopicPattern> {
    let distinct: BTreeSet<&String> = stored.iter().collect();
    distinct.into_iter().filter_map(|text| text.parse().ok()).collect()
}
