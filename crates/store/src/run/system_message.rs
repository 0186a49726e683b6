//! System messages: thread messages with source `system` that Houston posts (a check-in is due, a feed is to be
//! written, a task has ended). An agent reads them like a user's message.

use houston_domain::event::Event;
use houston_domain::id::{AgentableId, MessageId, RunId};
pub(crate) use houston_domain::message::Delivery;
use houston_domain::message::delivery;
use houston_domain::mode::Mode;
use serde_json::Value;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::cancel::ARCHIVED;
use crate::error::Result;
use crate::history::NewText;
use crate::settings::Fairness;
use crate::statement::Statement as _;

/// A system message about to be posted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewSystemMessage<'a> {
    /// The agentable that reads it.
    pub(crate) agentable: AgentableId,
    /// The message's id.
    pub(crate) message: MessageId,
    /// The id of the run that it may open.
    pub(crate) run: RunId,
    /// Why it must open a run; `None`: it is a report, which an open run reads too.
    pub(crate) mode: Option<Mode>,
    /// The text the model reads.
    pub(crate) content: &'a str,
    /// Metadata for clients, a JSON object.
    pub(crate) metadata: &'a Value,
    /// An event before that of the message.
    pub(crate) event: Option<&'a Event>,
    /// Where the run that it opens belongs in a trace: a `traceparent`.
    pub(crate) traceparent: Option<&'a str>,
}

impl<'a> NewSystemMessage<'a> {
    /// A report without an event.
    pub(crate) fn report(
        agentable: AgentableId,
        (message, run): (MessageId, RunId),
        content: &'a str,
        metadata: &'a Value,
    ) -> Self {
        let (mode, event, traceparent) = (None, None, None);
        Self { agentable, message, run, mode, content, metadata, event, traceparent }
    }
}

/// The row of an agentable's lock, which the caller's transaction holds.
#[derive(Debug)]
pub(crate) struct LockedRow {
    pub(crate) agentable: AgentableId,
    pub(crate) tenant_id: Uuid,
    user_id: Uuid,
    /// Whether a run is open.
    pub(crate) run_open: bool,
    /// The open run, or the latest one.
    pub(crate) run_id: Option<Uuid>,
    is_held: bool,
    epoch: i64,
    last_seq: i64,
    last_position: i64,
}

/// Takes the lock's row of an agentable; `None` if it was erased.
pub(crate) async fn lock(connection: &mut PgConnection, agentable: AgentableId) -> Result<Option<LockedRow>> {
    let row = sqlx::query_as!(
        LockedRow,
        r#"-- store::system_message::lock
        select agentable_id as agentable, tenant_id, user_id, run_open, run_id, holder is not null as "is_held!", epoch,
               last_seq, last_position
          from houston.run_locks where agentable_id = $1 for no key update"#,
        agentable.0
    );
    Ok(row.fetch_optional(connection).await?)
}

/// Takes the lock's row of an agentable below one whose row the caller holds: against the order, so it does not wait.
///
/// # Errors
/// [`Error::Database`](crate::Error::Database), a transient one, when the row is locked.
pub(crate) async fn lock_at_once(connection: &mut PgConnection, agentable: AgentableId) -> Result<()> {
    sqlx::query!(
        "-- store::system_message::lock_at_once
        select from houston.run_locks where agentable_id = $1 for no key update nowait",
        agentable.0
    )
    .run(connection)
    .await
}

/// Posts the message in the caller's transaction; workers are notified at commit. Returns `false`, and changes
/// nothing, when a run of the agentable is already open, or the agentable is archived or was erased.
pub(crate) async fn post_system_message(
    connection: &mut PgConnection,
    message: &NewSystemMessage<'_>,
    fairness: Fairness,
) -> Result<bool> {
    let Some(row) = lock(connection, message.agentable).await? else { return Ok(false) };
    Ok(deliver(connection, &row, message, fairness).await? == Delivery::Posted)
}

/// Posts the message under the lock, or adds it to the history: see [`delivery`].
pub(crate) async fn deliver(
    connection: &mut PgConnection,
    row: &LockedRow,
    message: &NewSystemMessage<'_>,
    fairness: Fairness,
) -> Result<Delivery> {
    // Archiving takes the same lock, so the status cannot change after this.
    let is_archived = sqlx::query_scalar!(
        r#"-- store::system_message::is_archived
        select status is not distinct from $2 as "archived!" from houston.agentables where id = $1"#,
        row.agentable.0,
        ARCHIVED
    )
    .fetch_one(&mut *connection)
    .await?;
    row.deliver(connection, is_archived, message, fairness).await
}

impl LockedRow {
    /// As [`deliver`], if it is known whether the agentable is archived.
    pub(crate) async fn deliver(
        &self,
        connection: &mut PgConnection,
        is_archived: bool,
        message: &NewSystemMessage<'_>,
        fairness: Fairness,
    ) -> Result<Delivery> {
        let delivery = delivery(self.run_open, is_archived, message.mode.is_some());
        match delivery {
            Delivery::Posted => self.post(connection, message, fairness).await?,
            Delivery::Noted => self.add_frames(connection, &[message.content.to_owned()]).await?,
            Delivery::Refused => {}
        }
        Ok(delivery)
    }

    async fn post(
        &self,
        connection: &mut PgConnection,
        message: &NewSystemMessage<'_>,
        fairness: Fairness,
    ) -> Result<()> {
        let opens = !self.run_open;
        // The run that it opens, the event before it, and the message itself take one position each.
        let seq = self.last_seq + i64::from(opens) + i64::from(message.event.is_some()) + 1;
        let run = self.run_id.filter(|_| self.run_open).unwrap_or(message.run.0);
        sqlx::query!(
            r#"-- store::system_message::post
            with t as (select clock_timestamp() as at),
            lock as (
                update houston.run_locks l
                   set last_seq = $4, waiting_since = case when l.wake then l.waiting_since else t.at end, wake = true,
                       unread = l.unread + 1, run_id = $3, failed_attempts = case when $5 then 0 else l.failed_attempts end,
                       crash_count = case when $5 then 0 else l.crash_count end,
                       next_attempt_at = case when not $5 and l.wake then l.next_attempt_at end, run_open = true
                  from t where l.agentable_id = $1),
            run as (
                insert into houston.runs (id, tenant_id, agentable_id, first_seq, mode, created_at, traceparent)
                select $3, $6, $1, $7, $8, t.at, $15 from t where $5),
            message as (
                insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, metadata,
                                              run_id, created_at)
                select $2, $6, $1, $4, 'system', 'text', $9, $10, $3, t.at from t),
            event as (
                insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data, created_at)
                select $1, $4::bigint - 1, $6, $3, 0, $11, t.at from t where $11::jsonb is not null)
            select case when $12 and houston.free_slots($13, $1, $14) > 0
                        then pg_notify('houston', format('1 post %s', $1::uuid))::text end as notified"#,
            self.agentable.0,
            message.message.0,
            run,
            seq,
            opens,
            self.tenant_id,
            self.last_seq + 1,
            message.mode.map(Mode::as_str),
            message.content,
            message.metadata,
            message.event.map(Json) as Option<Json<&Event>>,
            !self.is_held,
            self.user_id,
            fairness.running(),
            message.traceparent
        )
        .fetch_one(connection)
        .await?;
        Ok(())
    }

    /// Gives an open run that waits a reason to go on, without a message; workers are notified at commit.
    pub(crate) async fn wake(&self, connection: &mut PgConnection) -> Result<()> {
        sqlx::query!(
            "-- store::system_message::wake
            with lock as (
                update houston.run_locks
                   set wake = true, next_attempt_at = null, waiting_since = statement_timestamp()
                 where agentable_id = $1 and run_open and (not wake or next_attempt_at is not null))
            select case when $2 then pg_notify('houston', format('1 post %s', $1::uuid))::text end as notified",
            self.agentable.0,
            !self.is_held
        )
        .fetch_one(connection)
        .await?;
        Ok(())
    }

    /// Adds an event to the stream of the open run.
    pub(crate) async fn add_event(&self, connection: &mut PgConnection, event: &Event) -> Result<()> {
        sqlx::query!(
            "-- store::system_message::add_event
            with lock as (update houston.run_locks set last_seq = $2 where agentable_id = $1)
            insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data)
            values ($1, $2, $3, $4, 0, $5)",
            self.agentable.0,
            self.last_seq + 1,
            self.tenant_id,
            self.run_id,
            Json(event) as Json<&Event>
        )
        .run(connection)
        .await
    }

    /// Adds frames to the history of an agentable without an open run, for its next run.
    pub(crate) async fn add_frames(&self, connection: &mut PgConnection, frames: &[String]) -> Result<()> {
        let frame = |text| NewText { r#type: "text", text, frame: true };
        let content: Vec<NewText<'_>> = frames.iter().map(String::as_str).map(frame).collect();
        sqlx::query!(
            "-- store::system_message::add_frames
            with lock as (update houston.run_locks set last_position = $2 where agentable_id = $1)
            insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, content)
            values ($1, $2, $3, $4, $5, 'user', $6)",
            self.agentable.0,
            self.last_position + 1,
            self.tenant_id,
            self.run_id,
            self.epoch,
            Json(&content) as Json<&Vec<NewText<'_>>>
        )
        .run(connection)
        .await
    }
}
