//! What the trace of a run is made of. It is read with the statements that lists use: a run stores nothing for it.

use std::collections::HashMap;

use houston_domain::event::Committed;
use houston_domain::id::{CompressionId, RunId};
use houston_domain::trace::record::{Committing, RecordedCall, RecordedEntry};
use houston_domain::trace::{Compressed, Header, Trace, record};
use serde::Serialize;

use crate::compression::Compression;
use crate::cost::StoredModelCall;
use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::run::Run;

mod outline;

/// Rows of one page.
const PAGE: i64 = 200;

/// Counts the bytes that are held.
struct Room {
    bytes: usize,
    most: usize,
}

impl Room {
    fn take(&mut self, value: &impl Serialize) -> Result<()> {
        self.bytes += serde_json::to_vec(value).map_or(0, |json| json.len());
        match self.bytes > self.most {
            true => Err(Error::TooLarge { what: "trace", limit: self.most }),
            false => Ok(()),
        }
    }
}

impl TenantStore<'_> {
    /// The trace of a run of the tenant. `header` makes its first line.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such run, [`Error::TooLarge`] when it has more than `max_bytes`,
    /// [`Error::Database`] when Postgres cannot be reached or refuses a statement, [`Error::Inconsistent`] when an event
    /// cannot be decoded.
    pub async fn trace(
        self,
        run: RunId,
        max_bytes: usize,
        header: impl FnOnce(&Run) -> Header + Send,
    ) -> Result<Trace> {
        let run = self.run(run).await?;
        let mut room = Room { bytes: 0, most: max_bytes };
        let events = self.events_of(&run, &mut room).await?;
        let (summaries, earlier) = self.summaries_of(&run, &mut room).await?;
        let (position, history, replaced) = self.session_of(&run, earlier.as_ref(), &mut room).await?;
        let calls = self.model_calls(run.id).await?.into_iter().map(recorded_call).collect();
        let compressed = earlier.filter(|_| replaced > 0);
        let compressed = compressed.map(|of| Compressed { entries: replaced, summary: of.summary });
        let header = Header { cost: run.cost.total, position, compressed, ..header(&run) };
        let plan = Vec::new();
        Ok(record::trace(Committing { header, history, events, calls, summaries, plan }))
    }

    async fn events_of(self, run: &Run, room: &mut Room) -> Result<Vec<Committed>> {
        let mut events: Vec<Committed> = Vec::new();
        let mut after = run.first_seq - 1;
        loop {
            let page = self.events_after(run.agentable, after, PAGE).await?;
            let is_last = is_last(page.len(), PAGE);
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

    /// The entries of the session that the run belongs to, up to its own last one; the position of the first, and how many of
    /// them were compressed before the run.
    async fn session_of(
        self,
        run: &Run,
        earlier: Option<&Compression>,
        room: &mut Room,
    ) -> Result<(i64, Vec<RecordedEntry>, usize)> {
        let through = earlier.map_or(0, |of| of.through_position);
        let mut replaced = 0;
        let sessions = self.sessions(run.agentable, None, i64::from(u16::MAX)).await?;
        let before = sessions.iter().find(|session| session.completed_at < run.created_at);
        let mut after = before.map_or(0, |session| session.positions.1);
        let mut history: Vec<RecordedEntry> = Vec::new();
        let mut first = after + 1;
        loop {
            let page = self.history(run.agentable, after, PAGE).await?;
            let is_last = is_last(page.len(), PAGE);
            for placed in page {
                after = placed.position;
                let is_own = placed.run == run.id;
                if !is_own && history.last().is_some_and(|last| last.is_own) {
                    return Ok((first, history, replaced));
                }
                replaced += usize::from(!is_own && placed.position <= through);
                if history.is_empty() {
                    first = placed.position;
                }
                room.take(&placed.entry)?;
                history.push(RecordedEntry { is_own, at: placed.created_at, entry: placed.entry });
            }
            if is_last {
                return Ok((first, history, replaced));
            }
        }
    }

    /// The summaries of the run, and the newest one from before it.
    async fn summaries_of(
        self,
        run: &Run,
        room: &mut Room,
    ) -> Result<(HashMap<CompressionId, String>, Option<Compression>)> {
        let (mut summaries, mut earlier) = (HashMap::new(), None::<Compression>);
        let mut before = None;
        loop {
            let page = self.compressions(run.agentable, before, PAGE).await?;
            let is_last = is_last(page.len(), PAGE);
            for compression in page {
                before = Some(compression.id);
                if compression.run == run.id {
                    room.take(&compression.summary)?;
                    summaries.insert(compression.id, compression.summary);
                } else if compression.created_at < run.created_at && earlier.is_none() {
                    room.take(&compression.summary)?;
                    earlier = Some(compression);
                }
            }
            if is_last {
                return Ok((summaries, earlier));
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
