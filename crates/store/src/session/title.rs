//! Titles for agentables without one: requesting a title, taking the request, and setting the title once.

use houston_domain::event::{Committed, Event};
use houston_domain::id::{AgentableId, RunId, TenantId, WriteId};
use sqlx::types::Json;
use std::time::Duration;

use crate::cost::count_call;
use crate::error::Result;
use crate::handle::RunStore;
use crate::system_message::lock;
use houston_domain::step::ModelCall;

/// A request for a title, taken by a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TitleRequest {
    /// The agentable's id.
    pub agentable: AgentableId,
    /// The tenant it belongs to.
    pub tenant: TenantId,
    /// The kind of that agentable.
    pub kind: String,
    /// Its description; may be empty.
    pub description: String,
    /// Its latest run, under which the cost of finding the title is counted.
    pub run: RunId,
    /// Its first messages, oldest first, shortened: whether the user wrote it, and the text.
    pub messages: Vec<(bool, String)>,
}

impl RunStore {
    /// Requests a title for `agentable`, if it has none and its user has written `messages` messages. The
    /// requesting worker may take the request at once, others after `patience`. Returns whether a title was
    /// requested.
    pub async fn request_title(
        &self,
        agentable: AgentableId,
        messages: i64,
        patience: Duration,
    ) -> Result<bool> {
        let wanted = sqlx::query_scalar!(
            r#"-- store::title::request
            with made as (
                insert into houston.title_requests (agentable_id, tenant_id, due_at)
                select a.id, a.tenant_id, clock_timestamp() + make_interval(secs => $3) from houston.agentables a
                 where a.id = $1 and a.title = '' and a.tenant_id is not null
                   and (select count(*) from (select from houston.messages m
                                               where m.agentable_id = $1 and m.source = 'user' limit $2) as said) >= $2
                on conflict (agentable_id) do nothing
                returning agentable_id)
            select exists (select from made)
                or exists (select from houston.title_requests where agentable_id = $1) as "wanted!""#,
            agentable.0,
            messages,
            patience.as_secs_f64()
        );
        Ok(wanted.fetch_one(&self.pool).await?)
    }

    /// Takes the request of `agentable`, if no worker has it, or without an agentable up to `limit` requests that
    /// were not fulfilled in time; no other worker gets them for `within`. Each has up to `messages` messages of up
    /// to `chars` characters.
    pub async fn take_title_requests(
        &self,
        agentable: Option<AgentableId>,
        within: Duration,
        (messages, chars): (i64, i32),
        limit: i64,
    ) -> Result<Vec<TitleRequest>> {
        let rows = sqlx::query!(
            r#"-- store::title::take
            with own as (
                select agentable_id from houston.title_requests
                 where agentable_id = $1 and (not taken or due_at <= now()) for update skip locked),
            late as (
                select agentable_id from houston.title_requests
                 where $1::uuid is null and due_at <= now() order by due_at limit $5 for update skip locked),
            due as (select agentable_id from own union all select agentable_id from late),
            taken as (
                update houston.title_requests t set taken = true, due_at = statement_timestamp() + make_interval(secs => $2)
                  from due where t.agentable_id = due.agentable_id
                returning t.agentable_id)
            select a.id, a.tenant_id as "tenant_id!", a.kind, a.description, l.run_id as "run_id!",
                   array(select m.source = 'user' from houston.messages m
                          where m.agentable_id = a.id and m.message_type = 'text' and m.source <> 'error'
                          order by m.seq limit $3) as "said!: Vec<bool>",
                   array(select left(m.content, $4) from houston.messages m
                          where m.agentable_id = a.id and m.message_type = 'text' and m.source <> 'error'
                          order by m.seq limit $3) as "texts!: Vec<String>"
              from taken t join houston.agentables a on a.id = t.agentable_id
              join houston.run_locks l on l.agentable_id = a.id and l.run_id is not null"#,
            agentable.map(|agentable| agentable.0),
            within.as_secs_f64(),
            messages,
            chars,
            limit
        )
        .map(|row| TitleRequest {
            agentable: AgentableId(row.id),
            tenant: TenantId(row.tenant_id),
            kind: row.kind,
            description: row.description,
            run: RunId(row.run_id),
            messages: row.said.into_iter().zip(row.texts).collect(),
        });
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Sets the title of an agentable that has none, and counts the model calls that were made to
    /// find it. Returns the event for
    /// live streams; `None` when the agentable has a title by now.
    pub async fn set_title(
        &self,
        agentable: AgentableId,
        title: &str,
        calls: &[(WriteId, ModelCall)],
    ) -> Result<Option<Committed>> {
        let mut tx = self.pool.begin().await?;
        let Some(run) = lock(&mut tx, agentable).await?.and_then(|row| row.run_id).map(RunId) else {
            return Ok(None);
        };
        let event = |between_runs| Event::TitleSet { title: title.to_owned(), between_runs };
        let row = sqlx::query!(
            r#"-- store::title::set
            with request as (delete from houston.title_requests where agentable_id = $1),
            titled as (
                update houston.agentables a
                   set title = $2,
                       -- What strangers wrote may be in the messages of which the title was made.
                       untrusted = a.untrusted or exists (
                           select from houston.messages m
                            where m.agentable_id = $1 and m.metadata @> '{"untrusted": true}')
                 where a.id = $1 and a.title = '' returning a.id),
            lock as (
                update houston.run_locks k set last_seq = k.last_seq + 1 from titled t where k.agentable_id = t.id
                returning k.agentable_id, k.last_seq, k.tenant_id, k.run_id, k.epoch, k.run_open)
            insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data)
            select l.agentable_id, l.last_seq, l.tenant_id, l.run_id, l.epoch,
                   case when l.run_open then $3::jsonb else $4::jsonb end
              from lock l
            returning seq, created_at, data"#,
            agentable.0,
            title,
            Json(&event(false)) as Json<&Event>,
            Json(&event(true)) as Json<&Event>
        )
        .fetch_optional(&mut *tx)
        .await?;
        for (id, call) in calls {
            count_call(&mut tx, agentable, run.0, *id, call).await?;
        }
        tx.commit().await?;
        row.map(|row| {
            let event =
                serde_json::from_value(row.data).map_err(|error| sqlx::Error::Decode(error.into()))?;
            Ok(Committed { seq: row.seq, run_id: run, at: row.created_at, event, body: None })
        })
        .transpose()
    }
}
