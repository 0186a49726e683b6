//! Creating an agentable from a document: its rows, and one finished run that owns them. The questions of the document
//! belong to that run, and are closed.

mod past;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use chrono::{DateTime, Utc};
use houston_domain::conversation::{
    Conversation, ExportedFile, ExportedQuestion, HistoryEntry, ThreadMessage,
};
use houston_domain::event::Event;
use houston_domain::event::derived::{RunEnd, of_message};
use houston_domain::history::Block;
use houston_domain::id::{AgentableId, Ids, MessageId, RunId, TenantId};
use houston_domain::inner_call::inner_call;
use houston_domain::message::{MessageType, Source};
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_domain::tool_call::ToolErrorCode;
use serde::Serialize;
use serde_json::{Map, Value};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::read::seal;
use crate::agentable::{NewAgentable, insert};
use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::idempotency::{Created, Once};
use crate::image;
use crate::serving::{self, ServedBy, ServingChange};
use crate::statement::Statement as _;

/// Rows of one statement, which must finish within the statement time-out.
const ROWS: usize = 500;
/// Bytes of the contents of files of one statement, which must finish within the statement time-out.
const FILE_BYTES: usize = 4 * 1024 * 1024;
/// Files of one statement.
const FILES: usize = 500;

/// A conversation to be created.
#[derive(Debug, Clone, Copy)]
pub struct NewConversation<'a> {
    /// The agentable.
    pub agentable: NewAgentable<'a>,
    /// Its content: a valid document in the current version.
    pub conversation: &'a Conversation,
    /// The [digest](Conversation::digest) of the document as it was received, with which its seal is checked; `None`: it is a
    /// fork, and was read within the installation.
    pub digest: Option<[u8; 32]>,
    /// The id of its first run, which is completed and owns all of the document's rows.
    pub run: RunId,
    /// The agentable it is a copy of, for a fork.
    pub origin: Option<Origin>,
}

/// The original of a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The original's id.
    pub id: AgentableId,
    /// The agent or team that answers for the original, and for the copy.
    pub served_by: ServedBy,
}

/// Makes the rows of a document in one transaction.
struct Maker<'t> {
    connection: &'t mut PgConnection,
    tenant: TenantId,
    agentable: AgentableId,
    run: RunId,
    conversation: &'t Conversation,
    ids: &'t Ids,
}

impl TenantStore<'_> {
    /// Creates an agentable for a user of the tenant that continues where the document ends.
    pub async fn create_conversation(
        self,
        new: &NewConversation<'_>,
        ids: &Ids,
        once: Once<'_>,
    ) -> Result<Created<Value>> {
        let NewConversation { agentable, conversation, digest, run, origin } = new;
        let make = async |tx: &mut PgConnection| {
            if let Some(Origin { id, .. }) = origin {
                // So that it cannot be erased meanwhile: a later copy would preserve what was to be erased.
                sqlx::query!(
                    "-- store::conversation::make::original
                    select agentable_id from houston.run_locks where tenant_id = $1 and agentable_id = $2 for key share",
                    self.tenant.0,
                    id.0
                )
                .fetch_optional(&mut *tx)
                .await?
                .ok_or(Error::NotFound { what: "agentable" })?;
            }
            sqlx::query!(
                "-- store::conversation::make::owner
                select id from houston.users where tenant_id = $1 and id = $2 for key share",
                self.tenant.0,
                agentable.user.0
            )
            .fetch_optional(&mut *tx)
            .await?
            .ok_or(Error::NotFound { what: "user" })?;
            insert(tx, self.tenant, agentable, false).await?;
            if let Some(Origin { served_by, .. }) = origin {
                let change = ServingChange { served_by: Some(*served_by), tools: None };
                serving::set(tx, self.tenant, agentable.id, &change).await?;
            }
            let (tenant, agentable_id, run) = (self.tenant, agentable.id, *run);
            let mut maker = Maker { connection: tx, tenant, agentable: agentable_id, run, conversation, ids };
            maker.history().await?;
            if let Some(Origin { id, .. }) = origin {
                maker.frames(*id).await?;
            }
            let owner = (agentable.id, agentable.user);
            image::use_in(maker.connection, self.tenant, owner, conversation).await?;
            let last_seq = maker.thread(agentable.created_at).await?;
            maker.items("note", &conversation.notes).await?;
            maker.items("learning", &conversation.learnings).await?;
            maker.files().await?;
            maker.sessions().await?;
            maker.compressions().await?;
            maker.results().await?;
            maker.questions().await?;
            let is_ours = match (digest, &conversation.seal) {
                (Some(digest), Some(found)) => *found == seal(maker.connection, self.tenant, digest).await?,
                (digest, _) => digest.is_none(),
            };
            let untrusted = conversation.untrusted || !is_ours;
            maker.begin(new, (last_seq, untrusted)).await
        };
        self.create_once(agentable.id.0, once, make).await
    }
}

/// Chunks of [`ROWS`] rows, each with the index of its first row.
fn pieces<T>(rows: &[T]) -> impl Iterator<Item = (i64, &[T])> {
    let first = |nth: usize| i64::try_from(nth * ROWS).unwrap_or(i64::MAX);
    rows.chunks(ROWS).enumerate().map(move |(nth, rows)| (first(nth), rows))
}

impl Maker<'_> {
    /// `count` new ids of things of the agentable, in ascending order, since lists are sorted by id.
    fn rising(&self, count: usize) -> Vec<Uuid> {
        let mut new: Vec<Uuid> = (0..count).map(|_| self.ids.beside(self.agentable)).collect();
        new.sort_unstable();
        new
    }

    /// Inserts the completed run, and sets where the open session begins.
    async fn begin(&mut self, new: &NewConversation<'_>, (last_seq, untrusted): (i64, bool)) -> Result<()> {
        let position = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        sqlx::query!(
            "-- store::conversation::make::begin
            with origin as (
                update houston.agentables
                   set forked_from = $8, untrusted = $10,
                       guards = (select o.guards from houston.agentables o where o.tenant_id = $3 and o.id = $8)
                 where tenant_id = $3 and id = $1),
            states as (
                insert into houston.session_states (agentable_id, tenant_id, last_number, reported_number)
                select $1, $3, $9, $9 where $9 > 0),
            run as (
                insert into houston.runs (id, tenant_id, agentable_id, status, first_seq, last_seq, last_xid,
                                          created_at, ended_at)
                values ($2, $3, $1, 'completed', 1, $5, pg_current_xact_id()::text::bigint, $4, $4))
            update houston.run_locks
               set last_seq = $5, read_seq = $5, last_position = $6, session_position = $7, run_id = $2
             where tenant_id = $3 and agentable_id = $1",
            self.agentable.0,
            self.run.0,
            self.tenant.0,
            new.agentable.created_at,
            last_seq,
            position(new.conversation.history.len()),
            position(new.conversation.closed_entry_count()),
            new.origin.map(|origin| origin.id.0),
            i32::try_from(new.conversation.sessions.len()).unwrap_or(i32::MAX),
            untrusted
        )
        .run(&mut *self.connection)
        .await
    }

    async fn history(&mut self) -> Result<()> {
        for (first, entries) in pieces(&self.conversation.history) {
            sqlx::query!(
                "-- store::conversation::make::history
                insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, content, created_at)
                select $1, $4 + e.n, $2, $3, 0, e.role, e.content, e.created_at
                  from rows from (jsonb_to_recordset($5) as (role text, content jsonb, created_at timestamptz))
                       with ordinality as e (role, content, created_at, n)",
                self.agentable.0,
                self.tenant.0,
                self.run.0,
                first,
                Json(entries) as Json<&[HistoryEntry]>
            )
            .execute(&mut *self.connection)
            .await?;
        }
        Ok(())
    }

    /// Marks the copied frames as Houston's. A document says nothing of them, since its author could mark any text; the
    /// original's rows do. The text of a message is no frame of a history.
    async fn frames(&mut self, original: AgentableId) -> Result<()> {
        sqlx::query!(
            r#"-- store::conversation::make::frames
            update houston.history copy set content = original.content
              from houston.history original
             where copy.tenant_id = $3 and copy.agentable_id = $1
               and original.tenant_id = $3 and original.agentable_id = $2 and original.position = copy.position
               and original.content @> '[{"frame": true}]'
               and copy.content = (select jsonb_agg(b.block - 'frame' order by b.nth)
                                     from jsonb_array_elements(original.content) with ordinality as b (block, nth))"#,
            self.agentable.0,
            original.0,
            self.tenant.0
        )
        .run(&mut *self.connection)
        .await
    }

    /// Inserts the messages and their events. Returns the position of the last event.
    async fn thread(&mut self, at: DateTime<Utc>) -> Result<i64> {
        let conversation = self.conversation;
        let ids = self.rising(conversation.messages.len());
        // Position 1 is the event that the run was queued.
        let mut seqs = Vec::with_capacity(ids.len());
        let mut next = 2;
        for message in &conversation.messages {
            seqs.push(next);
            next += event_count(message);
        }
        self.messages(&ids, &seqs).await?;
        let ids: Vec<MessageId> = ids.into_iter().map(MessageId).collect();
        self.events(events_of(conversation, &ids), at).await
    }

    async fn messages(&mut self, ids: &[Uuid], seqs: &[i64]) -> Result<()> {
        for (first, messages) in pieces(&self.conversation.messages) {
            let first = usize::try_from(first).unwrap_or(0);
            let here = first..first + messages.len();
            sqlx::query!(
                "-- store::conversation::make::messages
                insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, metadata,
                                              run_id, created_at)
                select m.id, $2, $1, m.seq, m.source, m.type, m.content, coalesce(m.metadata, '{}'), $3, m.created_at
                  from rows from (unnest($4::uuid[]), unnest($5::int8[]), jsonb_to_recordset($6) as (
                                  source text, message_type text, content text, metadata jsonb, created_at timestamptz))
                       as m (id, seq, source, type, content, metadata, created_at)",
                self.agentable.0,
                self.tenant.0,
                self.run.0,
                &ids[here.clone()],
                &seqs[here],
                Json(messages) as Json<&[ThreadMessage]>
            )
            .execute(&mut *self.connection)
            .await?;
        }
        Ok(())
    }

    /// Inserts the events that are stored. Returns the position of the last event.
    async fn events(&mut self, mut events: impl Iterator<Item = Imported>, at: DateTime<Utc>) -> Result<i64> {
        let mut first = 0;
        loop {
            // In chunks, because events repeat the content of the history.
            let events: Vec<Imported> = events.by_ref().take(ROWS).collect();
            if events.is_empty() {
                return Ok(first);
            }
            let stored = || (first + 1..).zip(&events).filter(|(_, imported)| !imported.follows);
            let seqs: Vec<i64> = stored().map(|(seq, _)| seq).collect();
            let named: Vec<Option<Uuid>> =
                stored().map(|(_, imported)| imported.message.map(|id| id.0)).collect();
            let data: Vec<Json<&Event>> = stored().map(|(_, imported)| Json(&imported.event)).collect();
            sqlx::query!(
                "-- store::conversation::make::events
                insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, message_id, data, created_at)
                select $1, e.seq, $2, $3, 0, e.message_id, e.data, coalesce(m.created_at, $7)
                  from unnest($4::bigint[], $5::uuid[], $6::jsonb[]) as e (seq, message_id, data)
                  left join houston.messages m on m.id = e.message_id",
                self.agentable.0,
                self.tenant.0,
                self.run.0,
                &seqs,
                &named as &[Option<Uuid>],
                &data as &[Json<&Event>],
                at
            )
            .execute(&mut *self.connection)
            .await?;
            first += i64::try_from(events.len()).unwrap_or(0);
        }
    }

    /// Inserts notes or learnings, which have no titles.
    async fn items<T: Serialize + Sync>(&mut self, kind: &str, items: &[T]) -> Result<()> {
        let ids = self.rising(items.len());
        for (items, ids) in items.chunks(ROWS).zip(ids.chunks(ROWS)) {
            sqlx::query!(
                "-- store::conversation::make::items
                insert into houston.knowledge_items (id, tenant_id, kind, agentable_id, title, content, created_at,
                                                     updated_at)
                select n.id, $2, $3, $1, n.title, n.content, n.made, n.changed
                  from rows from (unnest($4::uuid[]), jsonb_to_recordset($5) as (
                                  title text, content text, created_at timestamptz, updated_at timestamptz))
                       as n (id, title, content, made, changed)",
                self.agentable.0,
                self.tenant.0,
                kind,
                ids,
                Json(items) as Json<&[T]>
            )
            .execute(&mut *self.connection)
            .await?;
        }
        Ok(())
    }
}

/// A tool call of the history, for its cell in the thread.
struct Call<'c> {
    input: Cow<'c, Value>,
    /// The result's text, and whether it is an error.
    result: Option<(&'c str, bool, Option<ToolErrorCode>)>,
}

/// An event of an imported thread.
struct Imported {
    pub(super) event: Event,
    /// The message it names.
    pub(super) message: Option<MessageId>,
    /// Whether it follows from the run or from a message, so that it is not stored.
    pub(super) follows: bool,
}

/// The events of a conversation. The first event of a message is the one it is stored with.
fn events_of<'c>(
    conversation: &'c Conversation,
    ids: &'c [MessageId],
) -> impl Iterator<Item = Imported> + use<'c> {
    let mut calls = calls(conversation);
    let messages = conversation.messages.iter().zip(ids).flat_map(move |(message, id)| {
        let (own, returned) = match (message.source, message.message_type) {
            (Source::User | Source::System, _) => (Event::MessagePosted { message_id: *id }, None),
            (Source::Agent, MessageType::Text) => (Event::MessageSent { message_id: *id }, None),
            (Source::Error, _) => {
                let metadata = Value::Object(message.metadata.clone());
                let content = message.content.clone();
                (Event::ErrorShown { message_id: *id, content, metadata }, None)
            }
            (Source::Agent, MessageType::Tool) => {
                let (called, returned) = tool(message, *id, &mut calls);
                (called, Some(returned))
            }
        };
        let follows = of_message(message.source, message.message_type, *id).as_ref() == Some(&own);
        let named = |event, follows| Imported { event, message: Some(*id), follows };
        std::iter::once(named(own, follows)).chain(returned.map(|event| named(event, false)))
    });
    let end = RunEnd {
        status: RunStatus::Completed,
        iterations: 0,
        usage: Usage::default(),
        error_code: None,
        error_message: None,
    };
    let of_run = |event| Imported { event, message: None, follows: true };
    std::iter::once(of_run(Event::RunQueued {})).chain(messages).chain([of_run(end.event())])
}

/// How many events a message has.
fn event_count(message: &ThreadMessage) -> i64 {
    1 + i64::from(message.message_type == MessageType::Tool)
}

/// The tool calls of the history by call id, in order: an id may occur again in a later run.
fn calls(conversation: &Conversation) -> HashMap<&str, VecDeque<Call<'_>>> {
    let mut calls: HashMap<&str, VecDeque<Call<'_>>> = HashMap::new();
    for block in conversation.history.iter().flat_map(|entry| &entry.content) {
        match block {
            Block::ToolUse { id, name, input, .. } => {
                let (_, input) = inner_call(name, input);
                calls.entry(id).or_default().push_back(Call { input, result: None });
            }
            Block::ToolResult { tool_use_id, content, is_error, code } => {
                let asked = calls.get_mut(tool_use_id.as_str()).and_then(VecDeque::back_mut);
                if let Some(call) = asked {
                    call.result = Some((content, *is_error, *code));
                }
            }
            _ => {}
        }
    }
    calls
}

/// The events for a tool's call and its result.
fn tool(
    message: &ThreadMessage,
    id: MessageId,
    calls: &mut HashMap<&str, VecDeque<Call<'_>>>,
) -> (Event, Event) {
    let field = |name: &str| message.metadata.get(name).and_then(Value::as_str);
    let call_id = field("call_id").unwrap_or_default().to_owned();
    let call = calls.get_mut(call_id.as_str()).and_then(VecDeque::pop_front);
    let failed = field("status") == Some("failed");
    let (content, is_error, code) = call.as_ref().and_then(|call| call.result).unwrap_or(("", failed, None));
    let returned = Event::ToolReturned {
        call_id: call_id.clone(),
        content: content.to_owned(),
        is_error,
        code,
        message_id: id,
    };
    let called = Event::ToolCalled {
        call_id,
        name: field("tool").unwrap_or(&message.content).to_owned(),
        input: call.map_or_else(|| Value::Object(Map::new()), |call| call.input.into_owned()),
        message_id: id,
        decided_by: None,
    };
    (called, returned)
}

impl Maker<'_> {
    async fn files(&mut self) -> Result<()> {
        let mut rest = &self.conversation.files[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |file: &&ExportedFile| {
                bytes += file.content.len();
                bytes <= FILE_BYTES
            };
            // One file always fits.
            let count = rest.iter().take(FILES).take_while(fits).count().max(1);
            let (files, later) = rest.split_at(count);
            sqlx::query!(
                "-- store::conversation::make::files::insert
                insert into houston.workspace_files (agentable_id, tenant_id, path, content, sha256, bytes, created_at,
                                                     updated_at)
                select $1, $2, f.path, f.content, sha256(convert_to(f.content, 'UTF8')), octet_length(f.content),
                       f.created_at, f.updated_at
                  from jsonb_to_recordset($3) as f (path text, content text, created_at timestamptz, updated_at timestamptz)",
                self.agentable.0,
                self.tenant.0,
                Json(files) as Json<&[ExportedFile]>
            )
            .execute(&mut *self.connection)
            .await?;
            rest = later;
        }
        Ok(())
    }

    async fn questions(&mut self) -> Result<()> {
        let ids = self.rising(self.conversation.questions.len());
        for ((_, questions), ids) in pieces(&self.conversation.questions).zip(ids.chunks(ROWS)) {
            // Call ids are unique within a run only: of several cells the one that came with the question.
            sqlx::query!(
                "-- store::conversation::make::questions::questions
                insert into houston.questions (id, tenant_id, user_id, agentable_id, run_id, kind, subject, text, schema,
                                               default_value, expires_at, state, answer, answered_by, created_at,
                                               closed_at, approval)
                select e.id, $2, k.user_id, $1, $3, q.kind, q.subject, q.text, e.row -> 'schema', e.row -> 'default_value',
                       q.expires_at, q.state, e.row -> 'answer', q.answered_by, q.created_at, q.closed_at,
                       (select q.approval || jsonb_build_object('message_id', 'msg_' || replace(m.id::text, '-', ''))
                          from houston.messages m
                         where m.agentable_id = $1 and m.message_type = 'tool' and m.metadata ->> 'call_id' = q.subject
                         order by abs(extract(epoch from m.created_at - q.created_at)) limit 1)
                  from houston.run_locks k
                 cross join rows from (unnest($4::uuid[]), jsonb_array_elements($5)) as e (id, row)
                 cross join lateral jsonb_to_record(e.row) as q (
                       kind text, subject text, text text, expires_at timestamptz, state text, answered_by text,
                       created_at timestamptz, closed_at timestamptz, approval jsonb)
                 where k.tenant_id = $2 and k.agentable_id = $1",
                self.agentable.0,
                self.tenant.0,
                self.run.0,
                ids,
                Json(questions) as Json<&[ExportedQuestion]>
            )
            .execute(&mut *self.connection)
            .await?;
        }
        Ok(())
    }
}
