//! Reading the events of many streams in one statement.

use chrono::{DateTime, Utc};
use houston_domain::event::Committed;
use houston_domain::id::{AgentableId, RunId, TenantId};
use serde_json::value::RawValue;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::{StreamHead, body};
use crate::batcher::Batch;
use crate::error::{Error, Result};

/// A stream that asks for its next events.
#[derive(Debug, Clone)]
pub(crate) struct StreamRead {
    pub(crate) agentable: AgentableId,
    /// Whose agentable it must be.
    pub(crate) tenant: TenantId,
    /// Of which kind it must be; `None` if that was checked before.
    pub(crate) kind: Option<String>,
    /// The position after which it reads; `None`: the beginning of the open or latest run.
    pub(crate) after: Option<i64>,
    pub(crate) limit: i64,
}

/// What was read for a stream: `None` if there is no such agentable.
pub(crate) type Page = Option<(StreamHead, Vec<Committed>)>;

/// How streams are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamReads;

impl Batch for StreamReads {
    type Item = StreamRead;
    type Done = Result<Page>;
    type Key = ();

    fn keys(_: &StreamRead) -> impl Iterator<Item = ()> {
        std::iter::empty()
    }

    async fn write(
        &self,
        connection: &mut PgConnection,
        items: &mut [StreamRead],
    ) -> Result<Vec<Option<Result<Page>>>> {
        Ok(read(connection, items).await?.into_iter().map(Some).collect())
    }
}

/// The parameters of the statement, one element for each stream.
#[derive(Default)]
struct Parameters {
    agentables: Vec<Uuid>,
    tenants: Vec<Uuid>,
    kinds: Vec<Option<String>>,
    after: Vec<Option<i64>>,
    limits: Vec<i64>,
}

impl Parameters {
    fn of(items: &[StreamRead]) -> Self {
        let mut all = Self::default();
        for StreamRead { agentable, tenant, kind, after, limit } in items {
            all.agentables.push(agentable.0);
            all.tenants.push(tenant.0);
            all.kinds.push(kind.clone());
            all.after.push(*after);
            all.limits.push(*limit);
        }
        all
    }
}

/// Reads the head of each stream and its next events.
pub(crate) async fn read(connection: &mut PgConnection, items: &[StreamRead]) -> Result<Vec<Result<Page>>> {
    let Parameters { agentables, tenants, kinds, after, limits } = Parameters::of(items);
    let rows = sqlx::query!(
        r#"-- store::event::batch::read
        with h as materialized (
            select i.n, i.events, l.agentable_id, l.last_seq, l.run_open, l.run_id, r.first_seq,
                   coalesce(i.after, r.first_seq - 1, 0) as after
              from unnest($1::uuid[], $2::uuid[], $3::text[], $4::bigint[], $5::bigint[])
                   with ordinality as i (agentable_id, tenant_id, kind, after, events, n)
             cross join lateral (select * from houston.run_locks l where l.agentable_id = i.agentable_id) l
              left join lateral (select r.first_seq from houston.runs r where r.id = l.run_id) r on true
             where l.tenant_id = i.tenant_id
               and (i.kind is null
                    or i.kind = (select a.kind from houston.agentables a where a.id = i.agentable_id)))
        select h.n as "n!", h.last_seq as "last_seq!", h.run_open as "run_open!", h.run_id as "open_run?",
               h.first_seq as "first_seq?", e.seq as "seq?", e.run_id as "run_id?", e.created_at as "created_at?",
               e.data as "data?: Json<Box<RawValue>>", m.source as "source?", m.message_type as "message_type?",
               m.content as "content?", m.metadata as "metadata?"
          from h
          left join lateral (
               select * from houston.events e where e.agentable_id = h.agentable_id and e.seq > h.after
                order by e.seq limit h.events) e on true
          left join lateral (select * from houston.messages m where m.id = e.message_id) m on true
         order by h.n, e.seq"#,
        &agentables,
        &tenants,
        &kinds as &[Option<String>],
        &after as &[Option<i64>],
        &limits
    )
    .fetch_all(connection)
    .await?;
    let mut rows = rows.into_iter().peekable();
    let mut pages = Vec::with_capacity(items.len());
    for (n, item) in (1..).zip(items) {
        let mut page: Result<Page> = Ok(None);
        while let Some(row) = rows.next_if(|row| row.n == n) {
            let Ok(read) = &mut page else { continue };
            let (_, events) = read.get_or_insert_with(|| {
                let run = row.open_run.zip(row.first_seq).map(|(run, seq)| (RunId(run), seq));
                (StreamHead { last_seq: row.last_seq, run_open: row.run_open, run }, Vec::new())
            });
            let body = body(row.source, row.message_type, row.content, row.metadata);
            let at: Option<DateTime<Utc>> = row.created_at;
            let (Some(seq), Some(run), Some(at), Some(data)) = (row.seq, row.run_id, at, row.data) else {
                continue;
            };
            match serde_json::from_str(data.0.get()) {
                Ok(event) => events.push(Committed { seq, run_id: RunId(run), at, event, body }),
                Err(source) => page = Err(undecodable(item.agentable, seq, source)),
            }
        }
        pages.push(page);
    }
    Ok(pages)
}

fn undecodable(agentable: AgentableId, seq: i64, source: serde_json::Error) -> Error {
    Error::Inconsistent { table: "events", column: "data", row: format!("{agentable} {seq}"), source }
}
