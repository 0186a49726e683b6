//! What clients of OpenAI's conversations say of them, and the items that they add.
//!
//! Items that are added at once belong to a run that is completed, as those of an imported document do. Each is a message of the
//! thread. What the agent is to read of it is an entry of the user's side of its own, so that any order of items is a valid
//! history, and an item can be taken out again.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentId, AgentableId, MessageId, RunId};
use houston_domain::message::Source;
use serde_json::{Value, json};
use sqlx::PgConnection;
use sqlx::types::Json;

use super::{Idle, lock};
use crate::client_thread::ThreadTarget;
use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::idempotency::{Created, Once};
use crate::message::source;
use crate::statement::Statement as _;

/// An item to be added.
#[derive(Debug, Clone, Copy)]
pub struct NewItem<'a> {
    /// The id of its message.
    pub id: MessageId,
    /// Who wrote the message.
    pub source: Source,
    /// The text of the message.
    pub content: &'a str,
    /// The client's name of who wrote it, if the text is all there is of it.
    pub role: Option<&'a str>,
    /// What the agent reads; `None`: nothing.
    pub remembered: Option<&'a str>,
}

/// What a client has said of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientMetadata {
    /// When the conversation was created.
    pub created_at: DateTime<Utc>,
    /// What the client has said.
    pub metadata: BTreeMap<String, String>,
}

/// A message of a thread as an item.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadItem {
    /// The id of the message.
    pub id: MessageId,
    /// Who wrote it.
    pub source: Source,
    /// Its text.
    pub content: String,
    /// Its metadata.
    pub metadata: Value,
}

/// What became of an item that was to be taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// It is gone.
    Yes,
    /// It was not added by a client, but said in a run: other entries depend on it.
    OfRun,
}

/// Which items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemPage {
    /// Whether the oldest is first.
    pub ascending: bool,
    /// Those after the one at this position, in that order.
    pub after: Option<i64>,
    /// At most so many.
    pub limit: i64,
}

impl TenantStore<'_> {
    /// Adds items to a conversation of the tenant, under the id `run` of a run that is completed.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such agentable, [`Error::RunInProgress`] while a run is open.
    pub async fn add_client_items(
        self,
        agentable: AgentableId,
        (run, items): (RunId, &[NewItem<'_>]),
        once: Once<'_>,
    ) -> Result<Created<Value>> {
        let row = |NewItem { id, source, content, role, remembered }: &NewItem<'_>| json!({"id": id.0, "source": source, "content": content, "role": role, "remembered": remembered});
        let rows: Value = items.iter().map(row).collect();
        let entries = items.iter().filter(|item| item.remembered.is_some()).count();
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let add = async |tx: &mut PgConnection| {
            let Idle { last_seq, last_position, .. } = lock(tx, self, agentable).await?;
            sqlx::query!(
                "-- store::conversation::client_items::add
                with i as materialized (
                    select i.*, case when i.remembered is not null then $5 + count(i.remembered) over (order by i.n) end as position
                      from rows from (jsonb_to_recordset($4) as (id uuid, source text, content text, role text, remembered text))
                           with ordinality as i (id, source, content, role, remembered, n)),
                run as (
                    insert into houston.runs (id, tenant_id, agentable_id, status, first_seq, last_seq, last_xid, ended_at)
                    values ($3, $1, $2, 'completed', $6::bigint + 1, $6::bigint + 2 + $7::bigint, pg_current_xact_id()::text::bigint,
                            statement_timestamp())),
                history as (
                    insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, content)
                    select $2, i.position, $1, $3, 0, 'user',
                           jsonb_build_array(jsonb_build_object('type', 'text', 'text', i.remembered))
                      from i where i.position is not null),
                lock as (
                    update houston.run_locks
                       set last_seq = $6::bigint + 2 + $7::bigint, read_seq = $6::bigint + 2 + $7::bigint, last_position = $5 + $8, run_id = $3
                     where tenant_id = $1 and agentable_id = $2)
                insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, metadata, run_id)
                select i.id, $1, $2, $6::bigint + 1 + i.n, i.source, 'text', i.content,
                       jsonb_build_object('openai_item',
                                          jsonb_strip_nulls(jsonb_build_object('role', i.role, 'position', i.position))), $3
                  from i",
                self.tenant.0,
                agentable.0,
                run.0,
                rows,
                last_position,
                last_seq,
                count(items.len()),
                count(entries)
            )
            .run(tx)
            .await
        };
        self.create_once(run.0, once, add).await
    }

    /// The messages of a conversation of the tenant, without the items that were taken out.
    pub async fn thread_items(self, agentable: AgentableId, page: ItemPage) -> Result<Vec<ThreadItem>> {
        let ItemPage { ascending, after, limit } = page;
        // In either order one of the two parts is empty, and its index scan ends at once.
        let rows = sqlx::query!(
            r#"-- store::conversation::client_items::list
            (select m.id as "id!", m.source as "source!", m.content as "content!", m.metadata as "metadata!"
               from houston.messages m
              where m.tenant_id = $1 and m.agentable_id = $2 and $3 and m.seq > $4
                and not m.metadata @> '{"openai_item": {"removed": true}}'
              order by m.seq limit $5)
            union all
            (select m.id, m.source, m.content, m.metadata
               from houston.messages m
              where m.tenant_id = $1 and m.agentable_id = $2 and not $3 and m.seq < $4
                and not m.metadata @> '{"openai_item": {"removed": true}}'
              order by m.seq desc limit $5)"#,
            self.tenant.0,
            agentable.0,
            ascending,
            after.unwrap_or(if ascending { 0 } else { i64::MAX }),
            limit
        )
        .map(|row| ThreadItem {
            id: MessageId(row.id),
            source: source(&row.source),
            content: row.content,
            metadata: row.metadata,
        });
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Takes an item out that a client has added: neither the agent nor the thread has its text any more.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the conversation has no such item, [`Error::RunInProgress`] while a run is open.
    pub async fn remove_client_item(self, agentable: AgentableId, item: MessageId) -> Result<Removed> {
        let mut tx = self.pool.begin().await?;
        lock(&mut tx, self, agentable).await?;
        let row = sqlx::query!(
            r#"-- store::conversation::client_items::find
            select m.metadata -> 'openai_item' as item, (m.metadata -> 'openai_item' ->> 'position')::bigint as position
              from houston.messages m where m.tenant_id = $1 and m.agentable_id = $2 and m.id = $3"#,
            self.tenant.0,
            agentable.0,
            item.0
        )
        .fetch_optional(&mut *tx)
        .await?
        .ok_or(Error::NotFound { what: "item" })?;
        match row.item {
            None => return Ok(Removed::OfRun),
            Some(item) if item["removed"] == true => return Err(Error::NotFound { what: "item" }),
            Some(_) => {}
        }
        sqlx::query!(
            r#"-- store::conversation::client_items::remove
            with entry as (
                update houston.history
                   set rolled_back = true, content = '[{"type": "text", "text": "(removed)"}]'
                 where tenant_id = $1 and agentable_id = $2 and position = $4 and epoch = 0)
            update houston.messages
               set content = '(removed)', metadata = '{"rolled_back": true, "openai_item": {"removed": true}}'
             where tenant_id = $1 and agentable_id = $2 and id = $3"#,
            self.tenant.0,
            agentable.0,
            item.0,
            row.position
        )
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(Removed::Yes)
    }

    /// What a client has said of a conversation, and when that was created.
    pub async fn client_metadata(self, agentable: AgentableId) -> Result<ClientMetadata> {
        let row = sqlx::query!(
            r#"-- store::conversation::client_items::metadata
            select created_at, client_metadata as "metadata: Json<BTreeMap<String, String>>"
              from houston.agentables where tenant_id = $1 and id = $2"#,
            self.tenant.0,
            agentable.0
        )
        .fetch_optional(&self.pool)
        .await?
        .ok_or(Error::NotFound { what: "agentable" })?;
        let metadata = row.metadata.map(|json| json.0).unwrap_or_default();
        Ok(ClientMetadata { created_at: row.created_at, metadata })
    }

    /// Stores what a client says of a conversation, in place of what it has said.
    pub async fn set_client_metadata(
        self,
        agentable: AgentableId,
        metadata: &BTreeMap<String, String>,
    ) -> Result<()> {
        sqlx::query!(
            "-- store::conversation::client_items::set_metadata
            update houston.agentables set client_metadata = $3 where tenant_id = $1 and id = $2",
            self.tenant.0,
            agentable.0,
            Json(metadata) as Json<&BTreeMap<String, String>>
        )
        .run_or(&self.pool, Error::NotFound { what: "agentable" })
        .await
    }

    /// Lets an agent of its kind answer in a conversation that no agent has answered in yet, if it was created for whichever
    /// agent is asked first.
    pub async fn serve_first(self, agentable: AgentableId, target: ThreadTarget<'_>) -> Result<()> {
        let (name, id) = match target {
            ThreadTarget::Kind(_) => return Ok(()),
            ThreadTarget::AgentNamed(name) => (Some(name), None),
            ThreadTarget::Agent(AgentId(id)) => (None, Some(id)),
        };
        sqlx::query!(
            "-- store::conversation::client_items::serve_first
            update houston.agentables a set agent_id = g.id
              from houston.agents g
             where a.tenant_id = $1 and a.id = $2 and a.client_metadata is not null and a.agent_id is null
               and a.team_id is null and g.tenant_id = $1 and (g.name = $3 or g.id = $4) and g.kind = a.kind and g.enabled
               and not exists (select from houston.runs r where r.tenant_id = $1 and r.agentable_id = $2
                                  and r.started_seq is not null)",
            self.tenant.0,
            agentable.0,
            name,
            id
        )
        .run(&self.pool)
        .await
    }
}
