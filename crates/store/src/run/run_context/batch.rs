//! The contexts of many runs in one statement.

use std::sync::Arc;

use houston_domain::id::{AgentableId, RunId};
use houston_domain::knowledge::PromptLimits;
use houston_domain::session::SessionArchive;
use serde_json::value::RawValue;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::RunContext;
use super::rows::{ContextRow, Reading, query_with_context};
use crate::batcher::Batch;
use crate::error::Result;
use crate::reach::Reach;

/// A run whose context is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContextRequest {
    pub(crate) agentable: AgentableId,
    pub(crate) run: RunId,
    pub(crate) notes: i64,
    pub(crate) limits: PromptLimits,
}

/// How contexts are read.
#[derive(Debug, Clone)]
pub(crate) struct Contexts {
    pub(crate) archive: SessionArchive,
    pub(crate) reach: Arc<Reach>,
}

impl Batch for Contexts {
    type Item = ContextRequest;
    type Done = Result<RunContext>;
    type Key = ();

    fn keys(_: &ContextRequest) -> impl Iterator<Item = ()> {
        std::iter::empty()
    }

    fn bytes(_: &ContextRequest) -> usize {
        0
    }

    async fn write(
        &self,
        connection: &mut PgConnection,
        items: &mut [ContextRequest],
    ) -> Result<Vec<Option<Result<RunContext>>>> {
        self.read(connection, items).await
    }
}

impl Contexts {
    /// Reads the contexts of runs whose limits are those of the first; `None` for the others.
    pub(crate) async fn read(
        &self,
        connection: &mut PgConnection,
        items: &[ContextRequest],
    ) -> Result<Vec<Option<Result<RunContext>>>> {
        let Some(ContextRequest { notes, limits, .. }) = items.first() else { return Ok(Vec::new()) };
        let same = |item: &&ContextRequest| item.notes == *notes && item.limits == *limits;
        let (agentables, runs): (Vec<Uuid>, Vec<Uuid>) =
            items.iter().filter(same).map(|item| (item.agentable.0, item.run.0)).unzip();
        let rows = query_with_context!(
            r#"-- store::run_context::batch::read
            with i as materialized (
                select i.n, i.run_id, k.agentable_id, k.session_position, k.last_position, k.user_id, a.tenant_id, a.kind,
                       a.parent_id, a.depth, a.agent_id, a.team_id, a.tools, a.guards, a.untrusted
                  from unnest($1::uuid[], $2::uuid[]) with ordinality as i (agentable_id, run_id, n)
                 cross join lateral (select * from houston.run_locks k where k.agentable_id = i.agentable_id) k
                 cross join lateral (select * from houston.agentables a where a.id = k.agentable_id) a)
            select i.n as "n!", p.what as "what!", p.place as "place!", p.text as "text!", p.id as "id!",
                   p.content as "content: Json<Box<RawValue>>"
              from i"#,
            "order by 1, 2, 3",
            &agentables,
            &runs,
            *notes,
            limits.learning_chars,
            limits.profile_entries,
            limits.profile_chars,
            limits.custom_instructions,
            limits.custom_instruction_chars,
            limits.memories,
            limits.memory_chars,
            self.archive.prompt_summaries,
            self.archive.prompt_summary_chars,
            &self.reach.kinds,
            &self.reach.reached,
            i64::from(limits.conversations)
        )
        .fetch_all(connection)
        .await?;
        let mut rows = rows.into_iter().peekable();
        let mut n = 0;
        Ok(items
            .iter()
            .map(|item| {
                if !same(&item) {
                    return None;
                }
                n += 1;
                let mut reading = Ok(Reading::new((item.agentable, item.run), limits, &self.archive));
                while let Some(row) = rows.next_if(|row| row.n == n) {
                    let content = row.content.map(|content| content.0);
                    let row =
                        ContextRow { what: row.what, place: row.place, text: row.text, id: row.id, content };
                    reading = reading.and_then(|mut reading| reading.take(row).map(|()| reading));
                }
                Some(reading.map(Reading::context))
            })
            .collect())
    }
}
