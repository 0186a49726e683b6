//! What the trace of a run is made of. It is read with the statements that lists use: a run stores nothing for it.
//!
//! Without texts, or with those of a part of the run, it tells what happened when. Of a long run that is a hundredth of the whole.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use houston_domain::event::{Committed, Event};
use houston_domain::history::{Block, Entry, Role};
use houston_domain::id::{CompressionId, RunId};
use houston_domain::run::Run;
use houston_domain::trace::record::{Committing, RecordedCall, RecordedEntry};
use houston_domain::trace::{Compressed, Header, Trace, record};
use serde::Serialize;
use sqlx::types::Json;

use crate::compression::Compression;
use crate::cost::StoredModelCall;
use crate::error::{Error, Result};
use crate::event::Whole;
use crate::handle::TenantStore;
use crate::history::role;

/// Rows of one page.
const PAGE: i64 = 200;
/// Rows of one page without texts.
const OUTLINE_PAGE: i64 = 1_000;

/// Entries of the session that a run belongs to.
struct SessionEntries {
    /// The position of the first.
    first: i64,
    entries: Vec<RecordedEntry>,
    /// How many of them were compressed before the run.
    replaced: usize,
}

/// The summaries of a run.
struct Summaries {
    own: HashMap<CompressionId, String>,
    /// The newest one from before it.
    earlier: Option<Compression>,
}

/// Counts the bytes that are held.
struct Room {
    bytes: usize,
    most: usize,
}

impl Room {
    fn take(&mut self, value: &impl Serialize) -> Result<()> {
        self.bytes += serde_json::to_vec(value).map_or(0, |json| json.len());
        if self.bytes > self.most {
            return Err(Error::TooLarge { what: "trace", limit: self.most });
        }
        Ok(())
    }
}

impl TenantStore<'_> {
    /// The trace of a run of the tenant. `header`: its first line, without what is read here.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such run, [`Error::TooLarge`] when it has more than `max_bytes`,
    /// [`Error::Database`] when Postgres cannot be reached or refuses a statement, [`Error::Inconsistent`] when an event
    /// cannot be decoded.
    pub async fn trace(self, run: RunId, max_bytes: usize, header: Header) -> Result<Trace> {
        let run = self.run(run).await?;
        let mut room = Room { bytes: 0, most: max_bytes };
        let events = self.events_of(&run, None, &mut room).await?;
        let Summaries { own: summaries, earlier } = self.summaries_of(&run, &mut room).await?;
        let SessionEntries { first: position, entries: history, replaced } =
            self.session_of(&run, earlier.as_ref(), &mut room).await?;
        let calls = self.model_calls(run.id).await?.into_iter().map(recorded_call).collect();
        let compressed = earlier.filter(|_| replaced > 0);
        let compressed = compressed.map(|of| Compressed { entries: replaced, summary: of.summary });
        let header = Header { cost: run.cost, position, compressed, ..header };
        let plan = Vec::new();
        Ok(record::trace(Committing { header, history, events, calls, summaries, plan }))
    }

    /// `whole`: without texts, except those that it names.
    async fn events_of(self, run: &Run, whole: Option<&Whole>, room: &mut Room) -> Result<Vec<Committed>> {
        let (mut events, mut after): (Vec<Committed>, i64) = (Vec::new(), run.first_seq - 1);
        loop {
            let (page, most) = match whole {
                Some(whole) => (self.event_outline(run, whole, (after, OUTLINE_PAGE)).await?, OUTLINE_PAGE),
                None => (self.events_after(run.owner.id, after, PAGE).await?, PAGE),
            };
            let is_last = is_last(page.len(), most);
            for event in page {
                after = event.seq;
                if event.run_id != run.id && !events.is_empty() {
                    return Ok(events);
                }
                room.take(&event)?;
                events.push(event);
            }
            if is_last {
                return Ok(events);
            }
        }
    }

    /// The entries of the session that the run belongs to, up to its own last one.
    async fn session_of(
        self,
        run: &Run,
        earlier: Option<&Compression>,
        room: &mut Room,
    ) -> Result<SessionEntries> {
        let through = earlier.map_or(0, |of| of.through_position);
        let mut replaced = 0;
        let sessions = self.sessions(run.owner.id, None, i64::from(u16::MAX)).await?;
        let before = sessions.iter().find(|session| session.completed_at < run.created_at);
        let mut after = before.map_or(0, |session| session.last_position);
        let mut history: Vec<RecordedEntry> = Vec::new();
        let mut first = after + 1;
        loop {
            let page = self.history(run.owner.id, after, PAGE).await?;
            let is_last = is_last(page.len(), PAGE);
            for placed in page {
                after = placed.position;
                let is_own = placed.run == run.id;
                if !is_own && history.last().is_some_and(|last| last.is_own) {
                    return Ok(SessionEntries { first, entries: history, replaced });
                }
                replaced += usize::from(!is_own && placed.position <= through);
                if history.is_empty() {
                    first = placed.position;
                }
                room.take(&placed.entry)?;
                history.push(RecordedEntry { is_own, at: placed.created_at, entry: placed.entry });
            }
            if is_last {
                return Ok(SessionEntries { first, entries: history, replaced });
            }
        }
    }

    async fn summaries_of(self, run: &Run, room: &mut Room) -> Result<Summaries> {
        let (mut own, mut earlier) = (HashMap::new(), None::<Compression>);
        let mut before = None;
        loop {
            let page = self.compressions(run.owner.id, before, PAGE).await?;
            let is_last = is_last(page.len(), PAGE);
            for compression in page {
                before = Some(compression.id);
                if compression.run == run.id {
                    room.take(&compression.summary)?;
                    own.insert(compression.id, compression.summary);
                } else if compression.created_at < run.created_at && earlier.is_none() {
                    room.take(&compression.summary)?;
                    earlier = Some(compression);
                }
            }
            if is_last {
                return Ok(Summaries { own, earlier });
            }
        }
    }
}

/// Whether no other page follows one with so many of at most `most` rows.
fn is_last(rows: usize, most: i64) -> bool {
    i64::try_from(rows).is_ok_and(|rows| rows < most)
}

fn recorded_call(StoredModelCall { call, .. }: StoredModelCall) -> RecordedCall {
    let usage = call.usage.priced();
    RecordedCall { iteration: call.iteration, model: format!("{}/{}", call.provider, call.model), usage }
}

impl TenantStore<'_> {
    /// As [`trace`](Self::trace), without what messages, models and tools say: their texts are empty, arguments are `{}`, and there
    /// are no entries from before the run. What was committed from the first of the times `between` up to the second one has its
    /// texts, but there are no lines of messages of the thread. It cannot be replayed.
    ///
    /// # Errors
    /// See [`trace`](Self::trace).
    pub async fn trace_outline(
        self,
        run: RunId,
        max_bytes: usize,
        between: Option<(DateTime<Utc>, DateTime<Utc>)>,
        header: Header,
    ) -> Result<Trace> {
        let run = self.run(run).await?;
        let mut room = Room { bytes: 0, most: max_bytes };
        let history = self.outline_of_history(&run, between, &mut room).await?;
        let whole = Whole { between, calls: between.map_or_else(Vec::new, |_| answered(&history)) };
        let events = self.events_of(&run, Some(&whole), &mut room).await?;
        let calls = self.model_calls(run.id).await?.into_iter().map(recorded_call).collect();
        let is_compressed = |placed: &Committed| {
            matches!(placed.event, Event::ContextCompressed { .. })
                && between.is_some_and(|(since, until)| since <= placed.at && placed.at <= until)
        };
        let summaries = match events.iter().any(is_compressed) {
            true => self.summaries_of(&run, &mut room).await?.own,
            false => HashMap::new(),
        };
        let header = Header { cost: run.cost, ..header };
        let plan = Vec::new();
        Ok(record::trace(Committing { header, history, events, calls, summaries, plan }))
    }

    /// The entries of the run. With `between`, those of these times are whole, and what calls their tools is; others are empty.
    async fn outline_of_history(
        self,
        run: &Run,
        between: Option<(DateTime<Utc>, DateTime<Utc>)>,
        room: &mut Room,
    ) -> Result<Vec<RecordedEntry>> {
        let mut history: Vec<RecordedEntry> = Vec::new();
        let mut after: Option<i64> = None;
        // The last answer before these times: its place here, and its position.
        let mut before: Option<(usize, i64)> = None;
        'pages: loop {
            let page = self.page_of_history(run, between, after).await?;
            let is_last = is_last(page.len(), OUTLINE_PAGE);
            for (position, own) in page {
                after = Some(position);
                let Some(entry) = own else {
                    // The entries of a run follow one another.
                    if history.is_empty() {
                        continue;
                    }
                    break 'pages;
                };
                room.take(&entry.entry)?;
                let is_before = between.is_some_and(|(since, _)| entry.at < since);
                if is_before && entry.entry.role == Role::Assistant {
                    before = Some((history.len(), position));
                }
                history.push(entry);
            }
            if is_last {
                break;
            }
        }
        // Results have the arguments of their calls.
        if let Some((nth, position)) = before {
            let found = self.history(run.owner.id, position - 1, 1).await?.pop();
            let found = found.filter(|found| found.position == position);
            if let Some((answer, found)) = history.get_mut(nth).zip(found) {
                room.take(&found.entry)?;
                answer.entry = found.entry;
            }
        }
        Ok(history)
    }

    /// Positions, with their entries if they are of the run. Those of others in its session are only looked at.
    async fn page_of_history(
        self,
        run: &Run,
        between: Option<(DateTime<Utc>, DateTime<Utc>)>,
        after: Option<i64>,
    ) -> Result<Vec<(i64, Option<RecordedEntry>)>> {
        let (since, until) = between.unzip();
        let recorded = |is_own: bool, name: &str, at: DateTime<Utc>, content: Option<Json<Vec<Block>>>| {
            let Json(content) = content.filter(|_| is_own)?;
            Some(RecordedEntry { is_own: true, at, entry: Entry { role: role(name), content } })
        };
        let rows = sqlx::query!(
            r#"-- store::trace::outline::history
            select h.position, h.role, h.created_at, h.run_id = $3 as "is_own!",
                   case when h.run_id <> $3 then null
                        when $7::timestamptz is null then
                            (select coalesce(jsonb_agg(
                                        case b.block ->> 'type'
                                             when 'tool_use' then jsonb_set(b.block - 'raw', '{input}', '{}')
                                             when 'tool_result' then jsonb_set(b.block, '{content}', '""')
                                             else '{"type": "text", "text": ""}' end order by b.nth), '[]')
                               from jsonb_array_elements(h.content) with ordinality as b (block, nth))
                        when h.created_at between $7 and $8::timestamptz then
                            coalesce(h.content,
                                     (select jsonb_build_array(jsonb_build_object('type', 'text', 'text', m.content))
                                        from houston.messages m
                                       where m.tenant_id = $1 and m.agentable_id = $2 and m.seq = h.message_seq))
                        else '[]' end
                       as "content: Json<Vec<Block>>"
              from houston.history h
             where h.tenant_id = $1 and h.agentable_id = $2 and not h.rolled_back
               and h.position > coalesce($4, (select s.last_position from houston.sessions s
                                               where s.tenant_id = $1 and s.agentable_id = $2 and s.completed_at < $5
                                               order by s.number desc limit 1), 0)
             order by h.position limit $6"#,
            self.tenant.0,
            run.owner.id.0,
            run.id.0,
            after,
            run.created_at.0,
            OUTLINE_PAGE,
            since,
            until
        )
        .map(|row| (row.position, recorded(row.is_own, &row.role, row.created_at, row.content)));
        Ok(rows.fetch_all(&self.pool).await?)
    }
}

/// The calls that these entries have results of.
fn answered(history: &[RecordedEntry]) -> Vec<String> {
    let blocks = history.iter().flat_map(|recorded| &recorded.entry.content);
    let ids = blocks.filter_map(|block| match block {
        Block::ToolResult { tool_use_id, .. } => Some(tool_use_id.clone()),
        _ => None,
    });
    ids.collect()
}
