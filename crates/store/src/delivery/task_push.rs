//! Push notifications of A2A: webhooks that are bound to one run. They are delivered like all others, and deleted when the last
//! event of the run was accepted.

use houston_domain::event::Event;
use houston_domain::id::{AgentableId, Ids, RunId, WebhookId};
use houston_domain::webhook::{MAX_OPEN_TASK_PUSHES, MAX_TASK_PUSHES, PUSHED_TOPICS};
use sqlx::PgConnection;
use uuid::Uuid;

use super::fan_out::{NewDeliveries, ensure_reader};
use crate::bound;
use crate::error::{Error, Result};
use crate::event::batch::{self, StreamRead};
use crate::handle::TenantStore;
use crate::statement::Statement as _;

/// Where updates of a task are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPush {
    /// As the client calls it, unique in its task.
    pub push_id: String,
    /// Where they are sent.
    pub url: String,
}

/// A push notification configuration to be stored.
#[derive(Debug, Clone, Copy)]
pub struct NewTaskPush<'a> {
    /// The webhook, if there is none with this run and `push_id`.
    pub id: WebhookId,
    /// The run.
    pub run: RunId,
    /// As the client calls it.
    pub push_id: &'a str,
    /// As the client calls the thread.
    pub context: &'a str,
    /// Where updates are sent.
    pub url: &'a str,
    /// The token and the credentials that are sent with each update, sealed; empty if there are none.
    pub sealed: &'a [u8],
    /// Events of the run after this position are delivered, too, although they have been committed. `None`: only later ones.
    pub after: Option<i64>,
}

/// What became of a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredPush {
    /// It gets what follows.
    Stored,
    /// The run has ended before: nothing was stored.
    RunIsOver,
}

/// Events of one read.
const PAGE: i64 = 500;
const NOT_FOUND: Error = Error::NotFound { what: "push notification configuration" };

impl TenantStore<'_> {
    /// Stores a push notification configuration, in the place of the one with the same id. Each event of the run from then on is
    /// delivered to it: the reader does not move on meanwhile.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such run, [`Error::Full`] when the run, or the tenant, has as many as
    /// it may.
    pub async fn put_task_push(self, ids: &Ids, new: &NewTaskPush<'_>) -> Result<StoredPush> {
        let mut tx = self.pool.begin().await?;
        bound::lock(&mut tx, "task pushes", self.tenant.0).await?;
        ensure_reader(&mut tx).await?;
        let (agentable, is_over) = self.push_target(&mut tx, new).await?;
        if is_over && new.after.is_none() {
            return Ok(StoredPush::RunIsOver);
        }
        let topics = PUSHED_TOPICS.map(str::to_owned);
        let webhook = sqlx::query_scalar!(
            "-- store::task_push::put
            insert into houston.webhooks (id, tenant_id, url, description, topics, user_id, kind, agentable_id, sealed, run_id,
                                          push_id, context, created_at, updated_at)
            select $2, $1, $3, '', $4, a.user_id, a.kind, a.id, $5, r.id, $7, $8, r.created_at, statement_timestamp()
              from houston.runs r join houston.agentables a on a.tenant_id = $1 and a.id = r.agentable_id
             where r.tenant_id = $1 and r.id = $6
                on conflict (agentable_id, run_id, push_id) where run_id is not null do update
               set url = excluded.url, sealed = excluded.sealed, context = excluded.context, topics = excluded.topics,
                   enabled = true, disabled_because = null, ended = false, updated_at = excluded.updated_at
            returning id",
            self.tenant.0,
            new.id.0,
            new.url,
            &topics[..],
            new.sealed,
            new.run.0,
            new.push_id,
            new.context
        )
        .fetch_one(&mut *tx)
        .await?;
        if let Some(after) = new.after {
            self.push_from(&mut tx, ids, WebhookId(webhook), (agentable, new.run), after).await?;
        }
        tx.commit().await?;
        Ok(StoredPush::Stored)
    }

    /// The agentable of the run, which may have one more, and whether the run is over.
    async fn push_target(
        self,
        connection: &mut PgConnection,
        new: &NewTaskPush<'_>,
    ) -> Result<(AgentableId, bool)> {
        let row = sqlx::query!(
            r#"-- store::task_push::target
            select r.agentable_id, r.ended_at is not null as "is_over!",
                   (select count(*) from houston.webhooks w
                     where w.tenant_id = $1 and w.agentable_id = r.agentable_id and w.run_id = r.id and w.push_id <> $3)
                   as "of_run!",
                   (select count(*) from houston.webhooks w
                     where w.tenant_id = $1 and w.run_id is not null and not w.ended) as "open!"
              from houston.runs r where r.tenant_id = $1 and r.id = $2"#,
            self.tenant.0,
            new.run.0,
            new.push_id
        )
        .fetch_optional(connection)
        .await?;
        let row = row.ok_or(Error::NotFound { what: "run" })?;
        if row.of_run >= MAX_TASK_PUSHES {
            let what = "push notification configurations of a task";
            return Err(Error::Full { what, limit: MAX_TASK_PUSHES });
        }
        if row.open >= MAX_OPEN_TASK_PUSHES {
            let what = "push notification configurations of open tasks of a tenant";
            return Err(Error::Full { what, limit: MAX_OPEN_TASK_PUSHES });
        }
        Ok((AgentableId(row.agentable_id), row.is_over))
    }

    /// Makes deliveries of the events of the run after a position.
    async fn push_from(
        self,
        connection: &mut PgConnection,
        ids: &Ids,
        webhook: WebhookId,
        (agentable, run): (AgentableId, RunId),
        mut after: i64,
    ) -> Result<()> {
        loop {
            let read =
                StreamRead { agentable, tenant: self.tenant, kind: None, after: Some(after), limit: PAGE };
            let page = batch::read(connection, std::slice::from_ref(&read)).await?.into_iter().next();
            let events = page.transpose()?.flatten().map_or_else(Vec::new, |(_, events)| events);
            let mut new = NewDeliveries::default();
            let mut is_over = false;
            for event in events.iter().filter(|event| event.run_id == run) {
                let topic = event.event.topic();
                if PUSHED_TOPICS.contains(&topic) {
                    new.push(ids, (self.tenant, webhook), (agentable, event.seq), topic);
                }
                is_over |= matches!(event.event, Event::RunFinished { .. });
            }
            new.insert(connection, ids.clock().now(), true).await?;
            let is_last = events.len() < usize::try_from(PAGE).unwrap_or(0);
            if is_over {
                end(connection, &[webhook.0]).await?;
            }
            match events.last() {
                Some(last) if !is_over && !is_last => after = last.seq,
                _ => return Ok(()),
            }
        }
    }

    /// The push notification configurations of a run, in the order of their ids; with `push_id`, the one with this id.
    pub async fn task_pushes(self, run: RunId, push_id: Option<&str>) -> Result<Vec<TaskPush>> {
        let rows = sqlx::query_as!(
            TaskPush,
            r#"-- store::task_push::list
            select w.push_id as "push_id!", w.url
              from houston.runs r
              join houston.webhooks w on w.tenant_id = $1 and w.agentable_id = r.agentable_id and w.run_id = r.id
             where r.tenant_id = $1 and r.id = $2 and ($3::text is null or w.push_id = $3)
             order by w.push_id"#,
            self.tenant.0,
            run.0,
            push_id
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Deletes a push notification configuration with what was not delivered.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the run has none with this id.
    pub async fn delete_task_push(self, run: RunId, push_id: &str) -> Result<()> {
        sqlx::query!(
            "-- store::task_push::delete
            delete from houston.webhooks w using houston.runs r
             where r.tenant_id = $1 and r.id = $2
               and w.tenant_id = $1 and w.agentable_id = r.agentable_id and w.run_id = r.id and w.push_id = $3",
            self.tenant.0,
            run.0,
            push_id
        )
        .run_or(&self.pool, NOT_FOUND)
        .await
    }
}

/// Notes that the last event of their runs was read.
pub(crate) async fn end(connection: &mut PgConnection, webhooks: &[Uuid]) -> Result<()> {
    if !webhooks.is_empty() {
        sqlx::query!(
            "-- store::task_push::end\nupdate houston.webhooks set ended = true where id = any ($1)",
            webhooks
        )
        .execute(connection)
        .await?;
    }
    Ok(())
}

/// Deletes one whose last event was accepted, unless an earlier one was given up: that one can be sent again.
pub(crate) async fn close(connection: &mut PgConnection, webhook: Uuid) -> Result<()> {
    sqlx::query!(
        "-- store::task_push::close
        delete from houston.webhooks w
         where w.id = $1 and w.run_id is not null and w.ended
           and not exists (select from houston.deliveries d where d.webhook_id = w.id and d.state = 'dead')
           and not exists (select from houston.open_deliveries o where o.webhook_id = w.id)",
        webhook
    )
    .run(connection)
    .await
}
