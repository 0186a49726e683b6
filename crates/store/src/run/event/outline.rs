//! The events of one run without the texts of its model and its tools: for those who want to know what happened when.

use chrono::{DateTime, Utc};
use houston_domain::event::Committed;
use houston_domain::id::RunId;
use serde_json::value::RawValue;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::Stretch;
use super::asked::AskedQuestions;
use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::row_security::with_connection;
use crate::run::Run;

/// Which events have their texts.
#[derive(Debug, Default)]
pub(crate) struct Whole {
    /// Those from the first of these times up to the second one.
    pub(crate) between: Option<(DateTime<Utc>, DateTime<Utc>)>,
    /// Those of these tool calls.
    pub(crate) calls: Vec<String>,
}

/// A stored event, or the row of the run, from which others follow.
struct Row {
    seq: i64,
    at: DateTime<Utc>,
    is_run: bool,
    data: Json<Box<RawValue>>,
    /// The position of the first event of the agentable that is kept.
    events_from: i64,
}

impl TenantStore<'_> {
    /// The events of a run of the tenant, in order, of those that are stored at most `limit`, after position `after`. Arguments and
    /// results of tools and thoughts are empty, except where `whole` says so, and events of messages are left out.
    ///
    /// # Errors
    /// [`Error::EventsExpired`] when some of them were deleted by age, [`Error::Database`] when Postgres cannot be reached
    /// or refuses the statement, [`Error::Inconsistent`] when an event cannot be decoded.
    pub(crate) async fn event_outline(
        self,
        run: &Run,
        whole: &Whole,
        (after, limit): (i64, i64),
    ) -> Result<Vec<Committed>> {
        let tenant = self.tenant.0;
        Ok(with_connection!(self.pool, |c| outline(c, tenant, (run, whole), (after, limit))))
    }
}

async fn outline(
    connection: &mut PgConnection,
    tenant: Uuid,
    (run, whole): (&Run, &Whole),
    (after, limit): (i64, i64),
) -> Result<Vec<Committed>> {
    let rows = rows(&mut *connection, tenant, (run, whole), (after, limit)).await?;
    if let Some(from) = rows.first().map(|row| row.events_from).filter(|from| run.first_seq < *from) {
        return Err(Error::EventsExpired { from });
    }
    let events = rows.iter().filter(|row| !row.is_run).map(|row| &*row.data.0);
    let asked = AskedQuestions::of(connection, &[tenant], events).await?;
    let mut stretch = Stretch::default();
    let mut last = after;
    for Row { seq, at, is_run, data, .. } in rows {
        let undecodable = |source| Error::Inconsistent {
            table: if is_run { "runs" } else { "events" },
            column: "data",
            row: format!("{} {seq}", run.agentable),
            source,
        };
        if is_run {
            stretch.runs.push(serde_json::from_str(data.0.get()).map_err(undecodable)?);
            continue;
        }
        last = seq;
        let event = asked.event(&data.0).map_err(undecodable)?;
        stretch.events.push(Committed { seq, run_id: run.id, at, event, body: None });
    }
    // The end of the run is that of its last page.
    let is_last = i64::try_from(stretch.events.len()).is_ok_and(|count| count < limit);
    Ok(stretch.events(after, if is_last { i64::MAX } else { last }))
}

async fn rows(
    connection: &mut PgConnection,
    tenant: Uuid,
    (run, whole): (&Run, &Whole),
    (after, limit): (i64, i64),
) -> Result<Vec<Row>> {
    let RunId(id) = run.id;
    let (since, until) = whole.between.unzip();
    let rows = sqlx::query_as!(
        Row,
        r#"-- store::event::outline::read
        select s.seq as "seq!", s.at as "at!", s.is_run as "is_run!", s.data as "data!: Json<Box<RawValue>>",
               coalesce((select l.events_from from houston.run_locks l where l.agentable_id = $2 and l.tenant_id = $1), 1)
                   as "events_from!"
          from ((select o.first_seq as seq, o.created_at as at, true as is_run, to_jsonb(o) as data
                   from (select r.id, r.first_seq, r.created_at, r.started_seq, r.started_at, r.started_message_id, r.last_seq,
                                r.ended_at, r.status, r.iterations, r.input_tokens, r.output_tokens, r.cache_read_tokens,
                                r.cache_write_tokens, r.reasoning_tokens, r.last_cost::text, r.error_code, r.error_message
                           from houston.runs r where r.id = $3 and r.tenant_id = $1) o)
                union all
                (select e.seq, e.created_at, false,
                        case when e.created_at between $7::timestamptz and $8::timestamptz
                                  or e.data ->> 'call_id' = any($9::text[]) then e.data
                             when e.data ->> 'type' = 'tool_called' then jsonb_set(e.data, '{input}', '{}')
                             when e.data ->> 'type' = 'tool_returned' then jsonb_set(e.data, '{content}', '""')
                             when e.data ->> 'type' = 'thought' then jsonb_set(e.data, '{text}', '""')
                             else e.data end
                   from houston.events e
                  where e.tenant_id = $1 and e.agentable_id = $2 and e.run_id = $3 and e.seq > $5
                        -- Up to the next run: later ones have many events.
                    and e.seq < coalesce((select n.first_seq from houston.runs n
                                           where n.agentable_id = $2 and n.first_seq > $4 order by n.first_seq limit 1),
                                         9223372036854775807)
                  order by e.seq limit $6)) as s
         order by s.is_run desc, s.seq"#,
        tenant,
        run.agentable.0,
        id,
        run.first_seq,
        after,
        limit,
        since,
        until,
        &whole.calls
    )
    .fetch_all(connection)
    .await?;
    Ok(rows)
}
