//! Reading the durable event stream: whole, or of one run without the texts of its model and its tools, for those who want to know
//! what happened when.
//!
//! Of a question that a run asks, the event stores the id, and the message that shows the call which asks: the
//! row of the question has the rest, and a run that waits for an answer keeps both.

pub(crate) mod batch;
pub(crate) mod position;

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use houston_domain::event::derived::{RunEnd, of_first_attempt, of_message};
use houston_domain::event::{Committed, Event, MessageBody};
use houston_domain::id::{AgentableId, MessageId, QuestionId, RunId};
use houston_domain::model::Usage;
use houston_domain::question::NewQuestion;
use houston_domain::run::{Run, RunStatus};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use self::batch::{Page, StreamRead};
use crate::error::{Error, Result};
use crate::handle::{ApiStore, TenantStore};
use crate::message::{message_type, source};
use crate::question::question_row;
use crate::row_security::with_connection;

pub(crate) use position::owned_page;
pub use position::{EventPosition, InvalidPosition, OwnedEvent, OwnedPage};

/// The type of an event that stores no text of its question.
const QUESTION_ASKED: &str = "question_asked";

/// The end of an agentable's event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamHead {
    /// The position of the newest event.
    pub last_seq: i64,
    /// Whether a run is open.
    pub run_open: bool,
    /// The open run, or the latest one, and the position of its first event.
    pub run: Option<(RunId, i64)>,
    /// The position of the first event that is kept: those before it were deleted by age.
    pub events_from: i64,
}

/// The iteration that was in progress at some position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenIteration {
    /// The id reserved for the iteration's message.
    pub message: MessageId,
    /// The iteration's number, from 1.
    pub number: u32,
    /// Whether its thought, a tool call or its message had been committed by then.
    pub thought_committed: bool,
    /// Whether its message had been committed by then.
    pub message_committed: bool,
}

/// Metadata as streams send it: `null` instead of an empty object.
pub(crate) fn stream_metadata(metadata: Value) -> Value {
    if metadata.as_object().is_some_and(serde_json::Map::is_empty) { Value::Null } else { metadata }
}

impl TenantStore<'_> {
    /// Events of an agentable of the tenant after position `after`, in order, at most `limit`.
    ///
    /// # Errors
    /// [`Error::EventsExpired`] when some of them were deleted by age, [`Error::Database`] when Postgres cannot be reached
    /// or refuses the statement, [`Error::Inconsistent`] when an event cannot be decoded.
    pub async fn events_after(
        self,
        agentable: AgentableId,
        after: i64,
        limit: i64,
    ) -> Result<Vec<Committed>> {
        let read = StreamRead { agentable, tenant: self.tenant, kind: None, after: Some(after), limit };
        let page = self.read_stream(read).await?;
        Ok(page.map_or_else(Vec::new, |(_, events)| events))
    }

    /// The end of the event stream of an agentable of the tenant, and its events after position `after`, in order, at
    /// most `limit`; without `after`, those of its open or latest run that are kept.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such agentable of this kind, [`Error::EventsExpired`] when some of the
    /// events were deleted by age, [`Error::Database`] when Postgres cannot be reached or refuses the statement,
    /// [`Error::Inconsistent`] when an event cannot be decoded.
    pub async fn open_stream(
        self,
        kind: &str,
        agentable: AgentableId,
        after: Option<i64>,
        limit: i64,
    ) -> Result<(StreamHead, Vec<Committed>)> {
        let kind = Some(kind.to_owned());
        let read = StreamRead { agentable, tenant: self.tenant, kind, after, limit };
        let page = self.read_stream(read).await?;
        page.ok_or(Error::NotFound { what: "agentable" })
    }

    async fn read_stream(self, read: StreamRead) -> Result<Page> {
        let after = read.after;
        let page = match self.batchers.streams.submit(read.clone()).await {
            Some(page) => page,
            None => with_connection!(self.pool, |c| batch::read(c, &[read])).pop().unwrap_or(Ok(None)),
        }?;
        // Without the deleted ones, what is left would look like the whole.
        let from = page.as_ref().map_or(1, |(head, _)| head.events_from);
        match after.filter(|after| *after < from - 1) {
            Some(_) => Err(Error::EventsExpired { from }),
            None => Ok(page),
        }
    }

    /// Thread events of an agentable of the tenant before position `before` (messages, tool calls and results), newest
    /// first, at most `limit`.
    pub async fn thread_events_before(
        self,
        agentable: AgentableId,
        before: i64,
        limit: i64,
    ) -> Result<Vec<Committed>> {
        let rows = sqlx::query!(
            r#"-- store::event::thread_before
            select t.seq as "seq!", t.at as "at!", t.data as "data: Json<Event>", t.id as "id!", t.source as "source!",
                   t.message_type as "message_type!", t.content as "content!", t.metadata as "metadata!",
                   (select r.id from houston.runs r where r.agentable_id = $1 and r.first_seq <= t.seq
                     order by r.first_seq desc limit 1) as "run_id!"
              from ((select e.seq, e.created_at as at, e.data, m.id, m.source, m.message_type, m.content, m.metadata
                       from houston.events e join houston.messages m on m.id = e.message_id
                      where e.tenant_id = $4 and e.agentable_id = $1 and e.seq < $2
                      order by e.seq desc limit $3)
                    union all
                    (select m.seq, m.created_at, null, m.id, m.source, m.message_type, m.content, m.metadata
                       from houston.messages m
                      where m.tenant_id = $4 and m.agentable_id = $1 and m.seq < $2
                        and not exists (select from houston.events e where e.agentable_id = $1 and e.seq = m.seq)
                      order by m.seq desc limit $3)) as t
             order by t.seq desc limit $3"#,
            agentable.0,
            before,
            limit,
            self.tenant.0
        )
        .fetch_all(&self.pool)
        .await?;
        let committed = rows.into_iter().filter_map(|row| {
            let body = body(&row.source, &row.message_type, row.content, row.metadata);
            let event = match row.data {
                Some(event) => event.0,
                // It follows from the message.
                None => of_message(body.source, body.message_type, MessageId(row.id))?,
            };
            Some(Committed { seq: row.seq, run_id: RunId(row.run_id), at: row.at, event, body: Some(body) })
        });
        Ok(committed.collect())
    }
}

impl ApiStore {
    /// The newest positions of these agentables, for streams that may have missed a nudge.
    pub async fn last_seqs(&self, agentables: &[Uuid]) -> Result<Vec<(AgentableId, i64)>> {
        let rows = sqlx::query!(
            "-- store::event::last_seqs
            select agentable_id, last_seq from houston.run_locks where agentable_id = any($1)",
            agentables
        )
        .map(|row| (AgentableId(row.agentable_id), row.last_seq));
        Ok(rows.fetch_all(&self.pool).await?)
    }
}

impl TenantStore<'_> {
    /// The iteration of an agentable of the tenant that was open at position `seq`, if one was: where a stream resumes.
    pub async fn open_iteration_at(self, agentable: AgentableId, seq: i64) -> Result<Option<OpenIteration>> {
        let row = sqlx::query!(
            r#"-- store::event::open_iteration_at
            with run as (
                select * from houston.runs where tenant_id = $3 and agentable_id = $1 and first_seq <= $2
                 order by first_seq desc limit 1),
            begun as (
                (select e.seq, e.data, replace(e.data ->> 'next_message_id', 'msg_', '')::uuid as next_message
                   from run r join houston.events e on e.agentable_id = $1 and e.seq >= r.first_seq and e.seq <= $2
                  where e.data ->> 'type' in ('attempt_started', 'step_finished', 'retry_scheduled', 'run_waiting',
                                              'handed_over')
                  order by e.seq desc limit 1)
                union all
                (select r.started_seq, null, r.started_message_id from run r where r.started_seq <= $2)
                order by seq desc limit 1),
            sent as (
                select m.id from begun b join houston.messages m on m.agentable_id = $1 and m.seq > b.seq and m.seq <= $2
                 where m.source = 'agent' and m.message_type = 'text')
            select b.data as "data?: Json<Event>", b.next_message as "next_message?",
                   exists (select from sent) or exists (
                       select from houston.events e
                        where e.agentable_id = $1 and e.seq > b.seq and e.seq <= $2
                          and e.data ->> 'type' in ('thought', 'tool_called', 'message_sent')) as "thought!",
                   exists (select from sent s where s.id = b.next_message) as "said!"
              from begun b join run r on r.last_seq is null or r.last_seq > $2"#,
            agentable.0,
            seq,
            self.tenant.0
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.and_then(|row| {
            let begun = match row.data {
                Some(event) => event.0,
                None => of_first_attempt(MessageId(row.next_message?)),
            };
            let (message, number) = next_message(&begun)?;
            Some(OpenIteration {
                message,
                number,
                thought_committed: row.thought,
                message_committed: row.said,
            })
        }))
    }
}

/// The content of a message, for its event.
fn body(from: &str, kind: &str, content: String, metadata: Value) -> MessageBody {
    MessageBody {
        source: source(from),
        message_type: message_type(kind),
        content,
        metadata: stream_metadata(metadata),
    }
}

/// A run as it is read for a stream.
#[derive(Debug, Deserialize)]
pub(crate) struct StreamRun {
    id: Uuid,
    first_seq: i64,
    created_at: DateTime<Utc>,
    started_seq: Option<i64>,
    started_at: Option<DateTime<Utc>>,
    started_message_id: Option<Uuid>,
    last_seq: Option<i64>,
    ended_at: Option<DateTime<Utc>>,
    status: String,
    iterations: u32,
    /// Without its cost.
    #[serde(flatten)]
    usage: Usage,
    /// As a decimal number, with its trailing zeros.
    last_cost: Option<String>,
    error_code: Option<String>,
    error_message: Option<String>,
}

impl StreamRun {
    /// The events that follow from it, in order.
    fn events(self) -> impl Iterator<Item = Committed> {
        let run_id = RunId(self.id);
        let of = move |seq, at, event| Committed { seq, run_id, at, event, body: None };
        let end = RunEnd {
            status: RunStatus::from_name(&self.status).unwrap_or(RunStatus::Failed),
            iterations: self.iterations,
            usage: Usage { cost: self.last_cost.and_then(|cost| cost.parse().ok()), ..self.usage },
            error_code: self.error_code,
            error_message: self.error_message,
        };
        let first = self.started_seq.zip(self.started_at).zip(self.started_message_id);
        let first = first.map(|((seq, at), message)| of(seq, at, of_first_attempt(MessageId(message))));
        let last = self.last_seq.zip(self.ended_at).map(|(seq, at)| of(seq, at, end.event()));
        std::iter::once(of(self.first_seq, self.created_at, Event::RunQueued {})).chain(first).chain(last)
    }
}

/// Rows of a stretch of a stream.
#[derive(Debug, Default)]
pub(crate) struct Stretch {
    /// Stored events, with their runs.
    events: Vec<Committed>,
    /// Events that follow from messages; their runs are not known yet.
    of_messages: Vec<Committed>,
    /// The runs that the stretch is part of.
    runs: Vec<StreamRun>,
}

impl Stretch {
    /// The events at positions above `after`, up to `to`, in order.
    fn events(self, after: i64, to: i64) -> Vec<Committed> {
        let mut begins: Vec<(i64, RunId)> =
            self.runs.iter().map(|run| (run.first_seq, RunId(run.id))).collect();
        begins.sort_unstable_by_key(|(first_seq, _)| *first_seq);
        // Runs of an agentable never overlap.
        let run_at = |seq: i64| {
            let before = begins.partition_point(|(first_seq, _)| *first_seq <= seq);
            before.checked_sub(1).and_then(|nth| begins.get(nth)).map(|(_, run)| *run)
        };
        let of_runs = self.runs.into_iter().flat_map(StreamRun::events);
        let mut events: BTreeMap<i64, Committed> = of_runs.map(|event| (event.seq, event)).collect();
        let of_messages = self.of_messages.into_iter().filter_map(|event| {
            let run_id = run_at(event.seq)?;
            Some(Committed { run_id, ..event })
        });
        // A stored event takes precedence over one that follows.
        for event in of_messages.chain(self.events) {
            events.insert(event.seq, event);
        }
        events.into_values().filter(|event| event.seq > after && event.seq <= to).collect()
    }
}

/// The id reserved for the message of the iteration that begins with the event, and the iteration's number; `None` if
/// none begins.
fn next_message(event: &Event) -> Option<(MessageId, u32)> {
    match event {
        Event::AttemptStarted { next_message_id, iteration, .. } => Some((*next_message_id, *iteration)),
        Event::StepFinished { next_message_id, iteration } => Some((*next_message_id, iteration + 1)),
        _ => None,
    }
}

/// Which events have their texts.
#[derive(Debug, Default)]
pub(crate) struct Whole {
    /// Those from the first of these times up to the second one.
    pub(crate) between: Option<(DateTime<Utc>, DateTime<Utc>)>,
    /// Those of these tool calls.
    pub(crate) calls: Vec<String>,
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
        let mut tx = self.pool.begin().await?;
        let (since, until) = whole.between.unzip();
        let rows = sqlx::query!(
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
            self.tenant.0,
            run.owner.id.0,
            run.id.0,
            run.first_seq,
            after,
            limit,
            since,
            until,
            &whole.calls
        )
        .fetch_all(&mut *tx)
        .await?;
        if let Some(from) = rows.first().map(|row| row.events_from).filter(|from| run.first_seq < *from) {
            return Err(Error::EventsExpired { from });
        }
        let events = rows.iter().filter(|row| !row.is_run).map(|row| &*row.data.0);
        let asked = AskedQuestions::of(&mut tx, &[self.tenant.0], events).await?;
        tx.commit().await?;
        let mut stretch = Stretch::default();
        let mut last = after;
        for row in rows {
            let undecodable = |source| Error::Inconsistent {
                table: if row.is_run { "runs" } else { "events" },
                column: "data",
                row: format!("{} {}", run.owner.id, row.seq),
                source,
            };
            if row.is_run {
                stretch.runs.push(serde_json::from_str(row.data.0.get()).map_err(undecodable)?);
                continue;
            }
            last = row.seq;
            let event = asked.event(&row.data.0).map_err(undecodable)?;
            stretch.events.push(Committed { seq: row.seq, run_id: run.id, at: row.at, event, body: None });
        }
        // The end of the run is that of its last page.
        let is_last = i64::try_from(stretch.events.len()).is_ok_and(|count| count < limit);
        Ok(stretch.events(after, if is_last { i64::MAX } else { last }))
    }
}

/// The event as it is stored.
#[derive(Serialize, Deserialize)]
pub(crate) struct Asked<'a> {
    #[serde(rename = "type")]
    of_type: &'a str,
    question_id: QuestionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message_id: Option<MessageId>,
    /// Of an event that has the whole question, as those of imported conversations do.
    #[serde(default, skip_serializing)]
    text: Option<IgnoredAny>,
}

/// An event as it is stored: without the question that it asks, which has a row of its own.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum StoredEvent<'a> {
    Asked(Asked<'a>),
    Whole(&'a Event),
}

pub(crate) fn stored(event: &Event) -> StoredEvent<'_> {
    match event {
        Event::QuestionAsked(question) => {
            let NewQuestion { id, message_id, .. } = **question;
            StoredEvent::Asked(Asked { of_type: QUESTION_ASKED, question_id: id, message_id, text: None })
        }
        event => StoredEvent::Whole(event),
    }
}

/// The question that a stored event refers to, and the message that shows the call which asks it.
fn question_of(data: &RawValue) -> Option<(QuestionId, Option<MessageId>)> {
    // Most events have no such word, so that they are not parsed twice.
    let asked =
        data.get().contains(QUESTION_ASKED).then(|| serde_json::from_str::<Asked<'_>>(data.get()))?.ok()?;
    (asked.of_type == QUESTION_ASKED && asked.text.is_none()).then_some((asked.question_id, asked.message_id))
}

/// The questions that stored events refer to.
#[derive(Debug, Default)]
struct AskedQuestions(HashMap<Uuid, NewQuestion>);

impl AskedQuestions {
    /// Reads them, if they are of these tenants; executes a statement only if there are any.
    async fn of(
        connection: &mut PgConnection,
        tenants: &[Uuid],
        events: impl Iterator<Item = &RawValue>,
    ) -> Result<Self> {
        let ids: Vec<Uuid> = events.filter_map(question_of).map(|(id, _)| id.0).collect();
        if ids.is_empty() {
            return Ok(Self::default());
        }
        let rows = sqlx::query!(
            "-- store::event::asked::questions
            select id, kind, subject, text, schema, default_value, expires_at, state, answer, answered_by, created_at, closed_at,
                   approval
              from houston.questions where id = any ($1) and tenant_id = any ($2)",
            &ids,
            tenants
        )
        .fetch_all(connection)
        .await?;
        Ok(Self(rows.into_iter().map(|row| (row.id, question_row!(row).asked)).collect()))
    }

    /// The event that is stored as `data`.
    ///
    /// # Errors
    /// When `data` is no event, or that of a question that does not exist.
    fn event(&self, data: &RawValue) -> serde_json::Result<Event> {
        match question_of(data).and_then(|(id, message)| Some((self.0.get(&id.0)?, message))) {
            Some((question, message_id)) => {
                Ok(Event::QuestionAsked(Box::new(NewQuestion { message_id, ..question.clone() })))
            }
            None => serde_json::from_str(data.get()),
        }
    }
}

#[cfg(test)]
mod tests {
    use houston_domain::question::QuestionKind;
    use serde_json::value::to_raw_value;

    use super::*;

    fn asked() -> NewQuestion {
        NewQuestion {
            id: QuestionId(Uuid::from_u128(7)),
            kind: QuestionKind::Input,
            subject: None,
            text: "Which hotel?".into(),
            schema: None,
            default_value: None,
            expires_at: None,
            approval: None,
            message_id: Some(MessageId(Uuid::from_u128(8))),
        }
    }

    #[test]
    fn an_event_refers_to_its_question() {
        let event = Event::QuestionAsked(Box::new(asked()));
        let data = to_raw_value(&stored(&event)).unwrap();
        assert_eq!(question_of(&data), Some((asked().id, asked().message_id)), "{data}");
        let of_row = NewQuestion { message_id: None, ..asked() };
        let questions = AskedQuestions([(asked().id.0, of_row)].into());
        assert_eq!(questions.event(&data).unwrap(), event);
        assert!(AskedQuestions::default().event(&data).is_err(), "its question was deleted");
    }

    #[test]
    fn other_events_and_whole_questions_are_read_as_they_are() {
        let whole = Event::QuestionAsked(Box::new(asked()));
        let called = Event::ToolCalled {
            call_id: format!(r#"{{"type": "{QUESTION_ASKED}"}}"#),
            name: QUESTION_ASKED.into(),
            input: serde_json::json!({"question_id": asked().id}),
            message_id: MessageId(Uuid::nil()),
            decided_by: None,
        };
        for event in [whole, called] {
            let data = to_raw_value(&event).unwrap();
            assert_eq!(question_of(&data), None, "{data}");
            assert_eq!(AskedQuestions::default().event(&data).unwrap(), event);
        }
    }
}
