//! Reading the events of all agentables in the order of their commits.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use houston_domain::ensure;
use houston_domain::event::Committed;
use houston_domain::event::topic::EventOwner;
use houston_domain::id::{AgentableId, TenantId, UserId};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use super::batch::{self, StreamRead};
use crate::error::{Error, Result};
use crate::handle::{ApiStore, Shared, TenantStore};
use crate::statement::uuids;

/// How far a reader of all events has read: a snapshot of Postgres, and within what became visible after it, the last
/// event of a page. Its text is for [`FromStr`] only; it is valid for one cell and one database cluster, and not after
/// a dump and restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPosition {
    /// Every event that this snapshot shows was read.
    seen: Snapshot,
    /// The snapshot up to which the pages in progress read, and their last event so far.
    page: Option<(Snapshot, AgentableId, i64)>,
}

/// A `pg_snapshot` as text: `xmin:xmax:xip,xip,…`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Snapshot(String);

impl Snapshot {
    /// The transaction from which on it shows nothing.
    fn end(&self) -> u64 {
        self.0.split(':').nth(1).and_then(|end| end.parse().ok()).unwrap_or(u64::MAX)
    }

    /// What it shows, and this transaction. `None` when it would have to name too many others that it does not show.
    fn with(&self, xid: u64) -> Option<Self> {
        let mut parts = self.0.splitn(3, ':').skip(1);
        let mut end: u64 = parts.next()?.parse().ok()?;
        let running = parts.next()?.split(',').filter(|running| !running.is_empty());
        let running: std::result::Result<Vec<u64>, _> = running.map(str::parse).collect();
        let mut running = running.ok()?;
        if xid < end {
            running.retain(|other| *other != xid);
        } else if xid - end > MAX_BETWEEN {
            return None;
        } else {
            running.extend(end..xid);
            end = xid + 1;
        }
        let start = running.first().copied().unwrap_or(end);
        let running: Vec<String> = running.iter().map(u64::to_string).collect();
        Some(Self(format!("{start}:{end}:{}", running.join(","))))
    }
}

impl EventPosition {
    /// Whether a reader can go on from here to `now`: it is not ahead, which one of another database may be, and not too many
    /// transactions behind, which would take long to read.
    pub fn is_behind(&self, now: &Self) -> bool {
        let end = self.page.as_ref().map_or(0, |(target, ..)| target.end()).max(self.seen.end());
        end <= now.seen.end() && now.seen.end() - self.seen.end() <= MAX_BEHIND
    }

    /// The position behind what was written before this transaction.
    pub(crate) fn before(xid: u64) -> Self {
        Self { seen: Snapshot(format!("{xid}:{xid}:")), page: None }
    }

    /// The same, but what this transaction wrote counts as read. `None` when the position is too far behind it.
    pub(crate) fn with_read(&self, xid: u64) -> Option<Self> {
        let page = match &self.page {
            Some((target, agentable, seq)) => Some((target.with(xid)?, *agentable, *seq)),
            None => None,
        };
        Some(Self { seen: self.seen.with(xid)?, page })
    }
}

/// How many transactions a stream may read over when it resumes.
const MAX_BEHIND: u64 = 10_000_000;
/// How many transactions a reader may be behind one that it leaves out.
const MAX_BETWEEN: u64 = 10_000;

/// An event and whose it is.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnedEvent {
    /// The tenant.
    pub tenant: TenantId,
    /// The agentable, its kind and its user.
    pub owner: EventOwner,
    /// The event.
    pub event: Committed,
}

/// A page of events.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnedPage {
    /// The events: those of one agentable in the order of their positions.
    pub events: Vec<OwnedEvent>,
    /// Where the next page begins.
    pub next: EventPosition,
    /// Whether more events may be visible already.
    pub has_more: bool,
}

/// A text that is no [`EventPosition`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a position of events: expected the text of one that was returned with a page")]
pub struct InvalidPosition;

impl fmt::Display for EventPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.seen.0)?;
        let Some((target, agentable, seq)) = &self.page else { return Ok(()) };
        write!(f, "~{}~{}~{seq}", target.0, agentable.0.simple())
    }
}

impl FromStr for EventPosition {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, InvalidPosition> {
        let mut parts = text.split('~');
        let seen = parts.next().ok_or(InvalidPosition)?.parse()?;
        let page = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (None, ..) => None,
            (Some(target), Some(agentable), Some(seq), None) => {
                let agentable = Uuid::try_parse(agentable).map_err(|_| InvalidPosition)?;
                Some((target.parse()?, AgentableId(agentable), seq.parse().map_err(|_| InvalidPosition)?))
            }
            _ => return Err(InvalidPosition),
        };
        Ok(Self { seen, page })
    }
}

impl FromStr for Snapshot {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, InvalidPosition> {
        let number = |part: &str| part.parse::<u64>().map_err(|_| InvalidPosition);
        let mut parts = text.splitn(3, ':');
        let (start, end, running) = (parts.next(), parts.next(), parts.next());
        let (start, end) = (number(start.unwrap_or_default())?, number(end.unwrap_or_default())?);
        let mut before = start;
        for running in running.ok_or(InvalidPosition)?.split(',').filter(|running| !running.is_empty()) {
            let running = number(running)?;
            if running < before || running >= end {
                return Err(InvalidPosition);
            }
            before = running;
        }
        if start == 0 || start > end { Err(InvalidPosition) } else { Ok(Self(text.to_owned())) }
    }
}

/// The tenant for whom something is read; `None` if it is read for several.
fn only(tenants: &[Uuid]) -> Option<TenantId> {
    match tenants {
        [one] => Some(TenantId(*one)),
        _ => None,
    }
}

/// The positions of one agentable's events on a page.
struct Stretch {
    agentable: AgentableId,
    tenant: TenantId,
    first: i64,
    last: i64,
}

impl Shared {
    /// The position behind every event that is visible now.
    pub async fn event_position(&self) -> Result<EventPosition> {
        present(&self.pool).await
    }

    /// Whether no event that became visible after `position` was deleted by age.
    pub async fn keeps_events_since(&self, position: &EventPosition) -> Result<bool> {
        let keeps = sqlx::query_scalar!(
            r#"-- store::event::position::keeps
            select not exists (
                   select from houston.retention_walks w
                    where w.what = 'events' and not pg_visible_in_snapshot(w.xid::text::xid8, $1::text::pg_snapshot))
                   as "keeps!""#,
            position.seen.0
        );
        Ok(keeps.fetch_one(&self.pool).await?)
    }

    /// The events of these tenants after `position`, about `limit` at most. Those of agentables that were erased are left out.
    pub(crate) async fn owned_events_since(
        &self,
        position: &EventPosition,
        limit: i64,
        tenants: &[Uuid],
    ) -> Result<OwnedPage> {
        let mut tx = self.pool_of(only(tenants)).begin().await?;
        let page = owned_page(&mut tx, position, limit, tenants).await?;
        tx.commit().await?;
        Ok(page)
    }

    /// Whose agentables these are, of these tenants.
    pub(crate) async fn event_owners(
        &self,
        agentables: &[Uuid],
        tenants: &[Uuid],
    ) -> Result<HashMap<AgentableId, EventOwner>> {
        owners(&self.pool_of(only(tenants)), agentables, tenants).await
    }
}

impl ApiStore {
    /// The events of these tenants after `position`, about `limit` at most, for their open streams.
    ///
    /// # Errors
    /// [`Error::UnknownPosition`](crate::Error::UnknownPosition) when the position is of another database.
    pub async fn events_of_tenants(
        &self,
        position: &EventPosition,
        limit: i64,
        tenants: &[TenantId],
    ) -> Result<OwnedPage> {
        self.owned_events_since(position, limit, &uuids(tenants)).await
    }
}

impl TenantStore<'_> {
    /// The events of the tenant after `position`, about `limit` at most.
    ///
    /// # Errors
    /// As [`ApiStore::events_of_tenants`], and [`Error::EventsDeleted`] when some of them were deleted by age.
    pub async fn events_of_all(self, position: &EventPosition, limit: i64) -> Result<OwnedPage> {
        let page = self.owned_events_since(position, limit, &[self.tenant.0]).await?;
        // Asked after the page was read: what is deleted from now on was still on it.
        if self.keeps_events_since(position).await? { Ok(page) } else { Err(Error::EventsDeleted) }
    }
}

/// The events of agentables of these tenants that became visible after `position`, about `limit` at most: each exactly once,
/// however late its transaction commits. A transaction that stays open delays its own events only. Those of agentables that
/// were erased are left out.
///
/// # Errors
/// [`Error::UnknownPosition`] when the position is of another database.
pub(crate) async fn owned_page(
    connection: &mut PgConnection,
    position: &EventPosition,
    limit: i64,
    tenants: &[Uuid],
) -> Result<OwnedPage> {
    let limit = limit.max(1);
    let (target, stretches) = stretches_since(&mut *connection, position, limit, tenants).await?;
    let mut room = limit;
    let mut reads = Vec::new();
    for stretch in &stretches {
        let count = (stretch.last - stretch.first + 1).min(room);
        room -= count;
        let (agentable, tenant) = (stretch.agentable, stretch.tenant);
        let after = Some(stretch.first - 1);
        reads.push(StreamRead { agentable, tenant, kind: None, after, limit: count });
        if room == 0 {
            break;
        }
    }
    let last = reads.last().map(|read| (read.agentable, read.after.unwrap_or(0) + read.limit));
    let next = match last.filter(|_| room == 0) {
        Some((agentable, seq)) => {
            EventPosition { seen: position.seen.clone(), page: Some((target, agentable, seq)) }
        }
        None => EventPosition { seen: target, page: None },
    };
    let mut events = Vec::new();
    if !reads.is_empty() {
        let pages = batch::read(&mut *connection, &reads).await?;
        for (read, page) in reads.iter().zip(pages) {
            let page = match page {
                Err(Error::Inconsistent { .. }) => readable(&mut *connection, read).await?,
                // Without the row of its lock, the agentable was erased in between.
                page => page?.map_or_else(Vec::new, |(_, page)| page),
            };
            events.extend(page.into_iter().map(|event| (read, event)));
        }
    }
    let mut agentables: Vec<Uuid> = events.iter().map(|(read, _)| read.agentable.0).collect();
    agentables.dedup();
    let owners =
        if agentables.is_empty() { HashMap::new() } else { owners(connection, &agentables, tenants).await? };
    let events = events.into_iter().filter_map(|(read, event)| {
        Some(OwnedEvent { tenant: read.tenant, owner: owners.get(&read.agentable)?.clone(), event })
    });
    let (events, has_more) = (events.collect(), next.page.is_some());
    Ok(OwnedPage { events, next, has_more })
}

async fn owners(
    executor: impl PgExecutor<'_>,
    agentables: &[Uuid],
    tenants: &[Uuid],
) -> Result<HashMap<AgentableId, EventOwner>> {
    let rows = sqlx::query!(
        "-- store::event::owned::owners
            select id, kind, user_id from houston.agentables where tenant_id = any ($2) and id = any ($1)",
        agentables,
        tenants
    )
    .fetch_all(executor)
    .await?;
    let owner = |id, kind, user| EventOwner { agentable: AgentableId(id), kind, user: UserId(user) };
    Ok(rows.into_iter().map(|row| (AgentableId(row.id), owner(row.id, row.kind, row.user_id))).collect())
}

/// Those of the events that can be decoded, read one by one: what cannot be read must not stop what reads the events of all.
async fn readable(connection: &mut PgConnection, read: &StreamRead) -> Result<Vec<Committed>> {
    let mut events = Vec::new();
    let first = read.after.unwrap_or(0);
    for after in first..first + read.limit {
        let one = StreamRead { after: Some(after), limit: 1, ..read.clone() };
        match batch::read(connection, &[one]).await?.pop() {
            Some(Ok(Some((_, page)))) => {
                events.extend(page.into_iter().filter(|event| event.seq == after + 1))
            }
            Some(Err(error)) => tracing::error!(%error, "an event cannot be read: readers leave it out"),
            Some(Ok(None)) | None => {}
        }
    }
    Ok(events)
}

/// Up to which snapshot the page reads, and where: events of one agentable become visible in the order of their
/// positions, so those between two snapshots are a range without a gap.
async fn stretches_since(
    connection: &mut PgConnection,
    position: &EventPosition,
    limit: i64,
    tenants: &[Uuid],
) -> Result<(Snapshot, Vec<Stretch>)> {
    let (target, agentable, seq) = match &position.page {
        Some((target, agentable, seq)) => (Some(target.0.as_str()), agentable.0, *seq),
        None => (None, Uuid::nil(), 0),
    };
    // A plan is made before the range of transactions is known. A scan would read whole tables.
    sqlx::query!("-- store::event::position::setting\nset local enable_seqscan = off")
        .execute(&mut *connection)
        .await?;
    let rows = sqlx::query!(
            r#"-- store::event::position::since
            with t as materialized (select coalesce($2::text::pg_snapshot, pg_current_snapshot()) as s),
            -- The first and the last transaction that may be in question, for the indexes.
            b as materialized (
                select pg_snapshot_xmin($1::text::pg_snapshot)::text::bigint as first,
                       pg_snapshot_xmax(t.s)::text::bigint as last from t),
            -- Materialized, so that no other index is used for its condition below.
            x as materialized (
                select e.agentable_id, e.tenant_id, e.seq, e.xid from houston.events e
                 where e.xid >= (select first from b) and e.xid < (select last from b)
                union all
                select m.agentable_id, m.tenant_id, m.seq, m.xid from houston.messages m
                 where m.xid >= (select first from b) and m.xid < (select last from b)
                union all
                select r.agentable_id, r.tenant_id, r.first_seq, r.first_xid from houston.runs r
                 where r.first_xid >= (select first from b) and r.first_xid < (select last from b)
                union all
                select r.agentable_id, r.tenant_id, r.started_seq, r.started_xid from houston.runs r
                 where r.started_xid >= (select first from b) and r.started_xid < (select last from b)
                union all
                select r.agentable_id, r.tenant_id, r.last_seq, r.last_xid from houston.runs r
                 where r.last_xid >= (select first from b) and r.last_xid < (select last from b)),
            s as (
                select x.agentable_id, x.tenant_id, min(x.seq) as first, max(x.seq) as last
                  from x cross join t
                 where (x.agentable_id, x.seq) > ($3::uuid, $4::bigint)
                   and ($6::uuid[] is null or x.tenant_id = any ($6))
                   and not pg_visible_in_snapshot(x.xid::text::xid8, $1::text::pg_snapshot)
                   and pg_visible_in_snapshot(x.xid::text::xid8, t.s)
                 group by 1, 2 order by 1 limit $5)
            select t.s::text as "target!", pg_snapshot_xmax(pg_current_snapshot())::text::bigint as "end!", s.agentable_id as "agentable?", s.tenant_id as "tenant?", s.first, s.last
              from t left join s on true order by s.agentable_id"#,
            position.seen.0,
            target,
            agentable,
            seq,
            limit,
            tenants
        )
        .fetch_all(connection)
        .await?;
    let first = rows.first().ok_or(Error::UnknownPosition)?;
    let target = Snapshot(first.target.clone());
    ensure!(position.seen.end().max(target.end()) <= first.end.unsigned_abs(), Error::UnknownPosition);
    let stretches = rows.into_iter().filter_map(|row| {
        let (first, last) = row.first.zip(row.last)?;
        let (agentable, tenant) = row.agentable.zip(row.tenant)?;
        Some(Stretch { agentable: AgentableId(agentable), tenant: TenantId(tenant), first, last })
    });
    Ok((target, stretches.collect()))
}

/// [`Shared::event_position`], for a transaction of the caller.
pub(crate) async fn present(executor: impl PgExecutor<'_>) -> Result<EventPosition> {
    let snapshot = sqlx::query_scalar!(
        r#"-- store::event::position::now
            select pg_current_snapshot()::text as "snapshot!""#
    )
    .fetch_one(executor)
    .await?;
    Ok(EventPosition { seen: Snapshot(snapshot), page: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transaction_that_is_left_out_counts_as_read() {
        let with = |position: &str, xid| {
            let position: EventPosition = position.parse().unwrap();
            position.with_read(xid).map(|position| position.to_string())
        };
        assert_eq!(with("5:5:", 5).unwrap(), "6:6:");
        assert_eq!(with("5:5:", 8).unwrap(), "5:9:5,6,7");
        assert_eq!(with("5:9:5,7", 5).unwrap(), "7:9:7");
        assert_eq!(with("5:9:7", 10).unwrap(), "7:11:7,9");
        assert_eq!(with("5:9:7", 7).unwrap(), "9:9:");
        let page = |seen, target| format!("{seen}~{target}~0190a5c1e0e07000800000000000cafe~3");
        assert_eq!(with(&page("5:6:5", "5:9:8"), 8).unwrap(), page("5:9:5,6,7", "9:9:"));
        assert_eq!(with("5:5:", 20_000), None);
        for position in ["5:9:7", "5:5:", "9:9:"] {
            assert!(with(position, 9).unwrap().parse::<EventPosition>().is_ok(), "Postgres reads it");
        }
    }
}
