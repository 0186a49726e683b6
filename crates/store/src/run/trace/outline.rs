//! The trace of a run without texts: what happened when. Of a long run it is a hundredth of the whole.

use std::collections::HashMap;

use houston_domain::event::Committed;
use houston_domain::history::Entry;
use houston_domain::id::RunId;
use houston_domain::trace::record::{Committing, RecordedEntry};
use houston_domain::trace::{Header, Trace, record};
use sqlx::types::Json;

use super::{Room, is_last, recorded_call};
use crate::error::Result;
use crate::handle::TenantStore;
use crate::run::Run;
use crate::run::history::role;

/// Rows of one page.
const PAGE: i64 = 1_000;

impl TenantStore<'_> {
    /// As [`trace`](Self::trace), without what messages, models and tools say: their texts are empty, arguments are `{}`, and there
    /// are no entries from before the run. It cannot be replayed.
    ///
    /// # Errors
    /// See [`trace`](Self::trace).
    pub async fn trace_outline(
        self,
        run: RunId,
        max_bytes: usize,
        header: impl FnOnce(&Run) -> Header + Send,
    ) -> Result<Trace> {
        let run = self.run(run).await?;
        let mut room = Room { bytes: 0, most: max_bytes };
        let events = self.outline_of_events(&run, &mut room).await?;
        let history = self.outline_of_history(&run, &mut room).await?;
        let calls = self.model_calls(run.id).await?.into_iter().map(recorded_call).collect();
        let header = Header { cost: run.cost.total, ..header(&run) };
        let (summaries, plan) = (HashMap::new(), Vec::new());
        Ok(record::trace(Committing { header, history, events, calls, summaries, plan }))
    }

    async fn outline_of_events(self, run: &Run, room: &mut Room) -> Result<Vec<Committed>> {
        let (mut events, mut after): (Vec<Committed>, i64) = (Vec::new(), run.first_seq - 1);
        loop {
            let page = self.event_outline(run, after, PAGE).await?;
            let is_last = is_last(page.len(), PAGE);
            for event in page {
                after = event.seq;
                room.take(&event)?;
                events.push(event);
            }
            if is_last {
                return Ok(events);
            }
        }
    }

    /// The entries of the run. Those before it in its session are only looked at.
    async fn outline_of_history(self, run: &Run, room: &mut Room) -> Result<Vec<RecordedEntry>> {
        let mut history: Vec<RecordedEntry> = Vec::new();
        let mut after: Option<i64> = None;
        loop {
            let rows = sqlx::query!(
                r#"-- store::trace::outline::history
                select h.position, h.role, h.created_at, h.run_id = $3 as "is_own!",
                       case when h.run_id = $3 then
                            (select coalesce(jsonb_agg(
                                        case b.block ->> 'type'
                                             when 'tool_use' then jsonb_set(b.block - 'raw', '{input}', '{}')
                                             when 'tool_result' then jsonb_set(b.block, '{content}', '""')
                                             else '{"type": "text", "text": ""}' end order by b.nth), '[]')
                               from jsonb_array_elements(h.content) with ordinality as b (block, nth)) end
                           as "content: Json<Vec<houston_domain::history::Block>>"
                  from houston.history h
                 where h.tenant_id = $1 and h.agentable_id = $2 and not h.rolled_back
                   and h.position > coalesce($4, (select s.last_position from houston.sessions s
                                                   where s.tenant_id = $1 and s.agentable_id = $2 and s.completed_at < $5
                                                   order by s.number desc limit 1), 0)
                 order by h.position limit $6"#,
                self.tenant.0,
                run.agentable.0,
                run.id.0,
                after,
                run.created_at,
                PAGE
            )
            .fetch_all(&self.pool)
            .await?;
            let is_last = is_last(rows.len(), PAGE);
            for row in rows {
                after = Some(row.position);
                let Some(Json(content)) = row.content.filter(|_| row.is_own) else {
                    // The entries of a run follow one another.
                    if history.is_empty() {
                        continue;
                    }
                    return Ok(history);
                };
                let entry = Entry { role: role(&row.role), content };
                room.take(&entry)?;
                history.push(RecordedEntry { is_own: true, at: row.created_at, entry });
            }
            if is_last {
                return Ok(history);
            }
        }
    }
}
