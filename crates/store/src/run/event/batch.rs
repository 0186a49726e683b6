//! Reading the events of many streams in one statement. They are of several tenants, so it is not under
//! [`row_security`](crate::row_security): each stream is found by its tenant and its agentable.
//!
//! And waits in an event stream: what a run waited for at a position, and where it began to wait.

use chrono::{DateTime, Utc};
use houston_domain::event::Committed;
use houston_domain::event::derived::of_message;
use houston_domain::id::{AgentableId, MessageId, QuestionId, RunId, TenantId};
use houston_domain::question::{NewQuestion, Question};
use serde_json::Value;
use serde_json::value::RawValue;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::{AskedQuestions, StreamHead, Stretch, body};
use crate::batcher::Batch;
use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::question::question_row;

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

    async fn write(
        &self,
        connection: &mut PgConnection,
        items: &mut [StreamRead],
    ) -> Result<Vec<Option<Result<Page>>>> {
        Ok(read(connection, items).await?.into_iter().map(Some).collect())
    }
}

/// A stream, and a row of what its events are made from.
struct Row {
    /// The number of the stream in its batch, from 1.
    n: i64,
    last_seq: i64,
    run_open: bool,
    open_run: Option<Uuid>,
    first_seq: Option<i64>,
    events_from: Option<i64>,
    /// Its events are read at positions above `after`, up to `upto`.
    after: i64,
    upto: i64,
    /// `message`, `event` or `run`; `None` if there is nothing to read.
    what: Option<String>,
    seq: Option<i64>,
    /// The message, or the run.
    id: Option<Uuid>,
    at: Option<DateTime<Utc>>,
    data: Option<Json<Box<RawValue>>>,
    source: Option<String>,
    message_type: Option<String>,
    content: Option<String>,
    metadata: Option<Value>,
}

impl Row {
    fn head(&self) -> StreamHead {
        let run = self.open_run.zip(self.first_seq).map(|(run, seq)| (RunId(run), seq));
        let events_from = self.events_from.unwrap_or(1);
        StreamHead { last_seq: self.last_seq, run_open: self.run_open, run, events_from }
    }

    /// Adds what the row is to the stretch of the stream.
    fn take(self, asked: &AskedQuestions, stretch: &mut Stretch) -> serde_json::Result<()> {
        let (Some(what), Some(seq), Some(id), Some(at)) = (self.what, self.seq, self.id, self.at) else {
            return Ok(());
        };
        let metadata = self.metadata.unwrap_or_default();
        let message = self.source.zip(self.message_type).zip(self.content);
        let body = message.map(|((source, kind), content)| body(&source, &kind, content, metadata));
        match (what.as_str(), self.data, body) {
            ("message", _, Some(body)) => {
                let event = of_message(body.source, body.message_type, MessageId(id));
                let run_id = RunId(Uuid::nil());
                let of = |event| Committed { seq, run_id, at, event, body: Some(body) };
                stretch.of_messages.extend(event.map(of));
            }
            ("run", Some(data), _) => stretch.runs.push(serde_json::from_str(data.0.get())?),
            ("event", Some(data), body) => {
                let event = asked.event(&data.0)?;
                stretch.events.push(Committed { seq, run_id: RunId(id), at, event, body });
            }
            _ => {}
        }
        Ok(())
    }
}

/// Reads the head of each stream and its next events.
pub(crate) async fn read(connection: &mut PgConnection, items: &[StreamRead]) -> Result<Vec<Result<Page>>> {
    let rows = rows(connection, items).await?;
    let tenants: Vec<Uuid> = items.iter().map(|item| item.tenant.0).collect();
    let events = rows.iter().filter(|row| row.what.as_deref() == Some("event"));
    let events = events.filter_map(|row| row.data.as_ref().map(|data| &*data.0));
    let asked = AskedQuestions::of(connection, &tenants, events).await?;
    let mut rows = rows.into_iter().peekable();
    let mut pages = Vec::with_capacity(items.len());
    for (n, item) in (1..).zip(items) {
        let (mut head, mut stretch) = (None, Ok(Stretch::default()));
        while let Some(row) = rows.next_if(|row| row.n == n) {
            head = Some((row.head(), row.after, row.upto));
            let seq = row.seq.unwrap_or(0);
            if let Err(source) = stretch.as_mut().map_or(Ok(()), |stretch| row.take(&asked, stretch)) {
                stretch = Err(undecodable(item.agentable, seq, source));
            }
        }
        pages.push(match head {
            Some((head, after, upto)) => stretch.map(|stretch| Some((head, stretch.events(after, upto)))),
            None => Ok(None),
        });
    }
    Ok(pages)
}

async fn rows(connection: &mut PgConnection, items: &[StreamRead]) -> Result<Vec<Row>> {
    let agentables: Vec<_> = items.iter().map(|item| item.agentable.0).collect();
    let tenants: Vec<_> = items.iter().map(|item| item.tenant.0).collect();
    let kinds: Vec<_> = items.iter().map(|item| item.kind.clone()).collect();
    let after: Vec<_> = items.iter().map(|item| item.after).collect();
    let limits: Vec<_> = items.iter().map(|item| item.limit).collect();
    let rows = sqlx::query_as!(
        Row,
        r#"-- store::event::batch::read
        with h as materialized (
            select i.n, i.events, l.agentable_id, l.last_seq, l.run_open, l.run_id, r.first_seq, l.events_from,
                   coalesce(i.after, greatest(r.first_seq, l.events_from) - 1, 0) as after
              from unnest($1::uuid[], $2::uuid[], $3::text[], $4::bigint[], $5::bigint[])
                   with ordinality as i (agentable_id, tenant_id, kind, after, events, n)
             cross join lateral (select * from houston.run_locks l where l.agentable_id = i.agentable_id) l
              left join lateral (select r.first_seq from houston.runs r where r.id = l.run_id) r on true
             where l.tenant_id = i.tenant_id
               and (i.kind is null
                    or i.kind = (select a.kind from houston.agentables a where a.id = i.agentable_id))),
        -- Positions that are kept have no gap, so the next events are those of a range of positions.
        g as materialized (select h.*, least(h.after, h.last_seq) + h.events as upto from h)
        select g.n as "n!", g.last_seq as "last_seq!", g.run_open as "run_open!", g.run_id as "open_run?",
               g.first_seq as "first_seq?", g.events_from as "events_from?", g.after as "after!", g.upto as "upto!", s.what as "what?", s.seq as "seq?",
               s.id as "id?", s.at as "at?", s.data as "data?: Json<Box<RawValue>>", s.source as "source?",
               s.message_type as "message_type?", s.content as "content?", s.metadata as "metadata?"
          from g
          left join lateral (
               (select 'message' as what, m.seq, m.id, m.created_at as at, null::jsonb as data, m.source, m.message_type,
                       m.content, m.metadata
                  from houston.messages m
                 where m.agentable_id = g.agentable_id and m.seq > g.after and m.seq <= g.upto)
                union all
               (select 'event', e.seq, e.run_id, e.created_at, e.data, m.source, m.message_type, m.content, m.metadata
                  from houston.events e
                  left join lateral (select * from houston.messages m where m.id = e.message_id) m on true
                 where e.agentable_id = g.agentable_id and e.seq > g.after and e.seq <= g.upto)
                union all
               (select 'run', o.first_seq, o.id, o.created_at, to_jsonb(o), null, null, null, null
                  from (
                       -- The run at the beginning of the range, and those that begin in it.
                       (select r.id, r.first_seq, r.created_at, r.started_seq, r.started_at, r.started_message_id, r.last_seq,
                               r.ended_at, r.status, r.iterations, r.input_tokens, r.output_tokens, r.cache_read_tokens,
                               r.cache_write_tokens, r.reasoning_tokens, r.last_cost::text, r.error_code, r.error_message
                          from houston.runs r
                         where r.agentable_id = g.agentable_id and r.first_seq <= g.after and g.after < g.last_seq
                         order by r.first_seq desc limit 1)
                        union all
                       (select r.id, r.first_seq, r.created_at, r.started_seq, r.started_at, r.started_message_id, r.last_seq,
                               r.ended_at, r.status, r.iterations, r.input_tokens, r.output_tokens, r.cache_read_tokens,
                               r.cache_write_tokens, r.reasoning_tokens, r.last_cost::text, r.error_code, r.error_message
                          from houston.runs r
                         where r.agentable_id = g.agentable_id and r.first_seq > g.after and r.first_seq <= g.upto)) o)
               ) s on true
         order by g.n"#,
        &agentables,
        &tenants,
        &kinds as &[Option<String>],
        &after as &[Option<i64>],
        &limits
    );
    Ok(rows.fetch_all(connection).await?)
}

fn undecodable(agentable: AgentableId, seq: i64, source: serde_json::Error) -> Error {
    Error::Inconsistent { table: "events", column: "data", row: format!("{agentable} {seq}"), source }
}

impl TenantStore<'_> {
    /// The questions that were open when a run of the agentable began to wait with the event at position `seq`, the oldest
    /// first. None if that event is another one.
    pub async fn questions_at_wait(self, agentable: AgentableId, seq: i64) -> Result<Vec<NewQuestion>> {
        let questions = sqlx::query!(
            r#"-- store::event::wait::questions_at_wait
            select q.id, q.kind, q.subject, q.text, q.schema, q.default_value, q.expires_at, q.state, q.answer, q.answered_by,
                   q.created_at, q.closed_at, q.approval,
                   replace(a.data ->> 'message_id', 'msg_', '')::uuid as message_id
              from houston.events w
              join houston.runs r on r.id = w.run_id
              join houston.events a on a.agentable_id = $1 and a.seq >= r.first_seq and a.seq < $2
              join houston.questions q on q.agentable_id = $1
                                      and q.id = replace(a.data ->> 'question_id', 'question_', '')::uuid
             where w.tenant_id = $3 and w.agentable_id = $1 and w.seq = $2 and w.data ->> 'type' = 'run_waiting'
               and a.data ->> 'type' = 'question_asked'
               and not exists (select from houston.events c
                                where c.agentable_id = $1 and c.seq > a.seq and c.seq < $2
                                  and c.data ->> 'type' = 'question_closed'
                                  and c.data ->> 'question_id' = a.data ->> 'question_id')
             order by a.seq"#,
            agentable.0,
            seq,
            self.tenant.0
        )
        .map(|row| NewQuestion {
            message_id: row.message_id.map(MessageId),
            ..question_row!(row).asked
        });
        Ok(questions.fetch_all(&self.pool).await?)
    }

    /// The questions about calls of the agentable's latest run that these thread messages (tool cells) show, open or closed.
    pub async fn questions_of_calls(
        self,
        agentable: AgentableId,
        cells: &[MessageId],
    ) -> Result<Vec<(MessageId, Question)>> {
        let cells: Vec<String> = cells.iter().map(ToString::to_string).collect();
        let rows = sqlx::query!(
            r#"-- store::event::wait::questions_of_calls
            select q.id, q.kind, q.subject, q.text, q.schema, q.default_value, q.expires_at, q.state, q.answer, q.answered_by,
                   q.created_at, q.closed_at, q.approval,
                   replace(coalesce(a.data ->> 'message_id', a.data -> 'approval' ->> 'message_id'), 'msg_', '')::uuid
                       as "cell!"
              from (select first_seq from houston.runs where tenant_id = $1 and agentable_id = $2
                     order by first_seq desc limit 1) r
              join houston.events a on a.agentable_id = $2 and a.seq >= r.first_seq
              join houston.questions q on q.tenant_id = $1 and q.agentable_id = $2
                                      and q.id = replace(a.data ->> 'question_id', 'question_', '')::uuid
             where a.tenant_id = $1 and a.data ->> 'type' = 'question_asked'
               and coalesce(a.data ->> 'message_id', a.data -> 'approval' ->> 'message_id') = any ($3)
             order by a.seq"#,
            self.tenant.0,
            agentable.0,
            &cells
        )
        .map(|row| (MessageId(row.cell), question_row!(row)));
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// The position of the event with which the latest run of the agentable began to wait before position `seq`, if it had not
    /// gone on by then.
    pub async fn wait_before(self, agentable: AgentableId, seq: i64) -> Result<Option<i64>> {
        let waits = sqlx::query_scalar!(
            r#"-- store::event::wait::before
            select w.seq
              from (select e.seq, e.data ->> 'type' as type
                      from houston.runs r
                      join houston.events e on e.agentable_id = $1 and e.seq >= r.first_seq and e.seq < $2
                     where r.id = (select id from houston.runs
                                    where tenant_id = $3 and agentable_id = $1 and first_seq < $2
                                    order by first_seq desc limit 1)
                       and e.data ->> 'type' in ('run_waiting', 'attempt_started')
                     order by e.seq desc limit 1) w
             where w.type = 'run_waiting'"#,
            agentable.0,
            seq,
            self.tenant.0
        );
        Ok(waits.fetch_optional(&self.pool).await?)
    }

    /// The position of the event that closed a question of the agentable, if it is closed.
    pub async fn closed_at(self, agentable: AgentableId, question: QuestionId) -> Result<Option<i64>> {
        let seq = sqlx::query_scalar!(
            r#"-- store::event::wait::closed_at
            select c.seq
              from houston.questions q
              join houston.runs r on r.id = q.run_id
              join houston.events c on c.agentable_id = $1 and c.seq >= r.first_seq
             where q.tenant_id = $3 and q.agentable_id = $1 and q.id = $2 and c.data ->> 'type' = 'question_closed'
               and c.data ->> 'question_id' = $4
             limit 1"#,
            agentable.0,
            question.0,
            self.tenant.0,
            question.to_string()
        );
        Ok(seq.fetch_optional(&self.pool).await?)
    }
}
