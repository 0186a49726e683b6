//! Posting a message by itself: under the locks of its key and its agentable, so that what is decided is still true when it is
//! written. It is written by the statement of the [batches](super::batch).

use houston_domain::agentable::DoubleTexting;
use houston_domain::id::{AgentableId, MessageId, RunId, TenantId};
use houston_domain::post::{Decision, Recipient, Refusal, decide};
use sqlx::PgConnection;

use super::batch::{PostRow, write};
use super::{Joined, NewPost, Posted, joined};
use crate::error::{Error, Result};
use crate::handle::Shared;
use crate::idempotency::{Created, IdempotencyKey};

impl Shared {
    /// Posts a message by itself, in the caller's transaction. Nothing is written unless the result is [`Created::New`].
    ///
    /// # Errors
    /// Those of [`post_message`](Self::post_message).
    pub(crate) async fn post_alone(
        &self,
        connection: &mut PgConnection,
        tenant: TenantId,
        agentable: AgentableId,
        post: &NewPost<'_>,
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Created<Posted>> {
        if let Some(key) = key {
            lock_key(connection, tenant, key).await?;
            if let Some(before) = posted_under(connection, tenant, agentable, key).await? {
                return Ok(before);
            }
        }
        let limit = self.fairness.max_pending;
        let recipient = lock(connection, tenant, agentable, limit).await?;
        let cancelled = match decide(recipient, post.double_texting, i64::from(limit)) {
            Decision::Opens | Decision::Joins => None,
            Decision::Cancels(run) => Some(run),
            Decision::Refused(Refusal::NotFound) => return Err(Error::NotFound { what: "agentable" }),
            Decision::Refused(Refusal::RunOpen(run)) => return Err(Error::RunInProgress { run }),
            Decision::Refused(Refusal::TooManyUnread(pending)) => {
                let pending = u32::try_from(pending).unwrap_or(u32::MAX);
                return Err(Error::TooManyPending { pending, limit });
            }
        };
        let row = PostRow::of(tenant, agentable, post, key)
            .map_err(|error| Error::Database(sqlx::Error::Encode(error.into())))?;
        // Decided above, so without a limit.
        let written = write(connection, &mut [row.decided()], self.fairness.running(), i32::MAX).await?;
        let Some(written) = written.into_iter().next().flatten() else {
            // Another request took the key without its lock.
            let before = match key {
                Some(key) => posted_under(connection, tenant, agentable, key).await?,
                None => None,
            };
            return before.ok_or(Error::NotFound { what: "agentable" });
        };
        let mut posted = written.posted(post.id);
        if let Some(run) = cancelled {
            cancel(connection, tenant, (agentable, run), posted.seq - 1, post.double_texting).await?;
            posted.answered_by = run.answering(posted.seq, Some(posted.seq - 1));
        }
        Ok(Created::New(posted))
    }
}

/// Waits for the key, which belongs to this transaction then. Batches leave out a request whose key another transaction has
/// locked; `houston.post_message` takes the same lock.
async fn lock_key(connection: &mut PgConnection, tenant: TenantId, key: IdempotencyKey<'_>) -> Result<()> {
    sqlx::query!(
        "-- store::message::alone::lock_key
        select pg_advisory_xact_lock(3, hashtext($1::uuid::text || $2::text))::text as locked",
        tenant.0,
        key.key
    )
    .fetch_one(connection)
    .await?;
    Ok(())
}

/// What was posted under the key before.
async fn posted_under(
    connection: &mut PgConnection,
    tenant: TenantId,
    agentable: AgentableId,
    key: IdempotencyKey<'_>,
) -> Result<Option<Created<Posted>>> {
    let used = sqlx::query!(
        r#"-- store::message::alone::posted_under
        select k.request_sha256 = $3 as "is_same!", m.id as "id?", m.agentable_id as "agentable_id?", m.seq as "seq?",
               m.created_at as "created_at?"
          from houston.idempotency_keys k left join houston.messages m on m.id = k.resource_id
         where k.tenant_id = $1 and k.key = $2"#,
        tenant.0,
        key.key,
        key.request_sha256
    )
    .fetch_optional(&mut *connection)
    .await?;
    let Some(used) = used else { return Ok(None) };
    let is_same = used.is_same && used.agentable_id == Some(agentable.0);
    let message = used.id.zip(used.seq).zip(used.created_at).filter(|_| is_same);
    let Some(((id, seq), created_at)) = message else { return Ok(Some(Created::KeyReused)) };
    let Joined { run, run_seq, answered_by } = joined(connection, agentable, seq).await?;
    Ok(Some(Created::Replayed(Posted {
        id: MessageId(id),
        run,
        answered_by,
        seq,
        run_seq,
        opened: false,
        created_at,
        needs_hint: false,
        is_started: false,
    })))
}

/// Locks the agentable and reads what the decision needs; unread messages are counted up to the limit. Of a row that was waited
/// for, this is its latest version.
async fn lock(
    connection: &mut PgConnection,
    tenant: TenantId,
    agentable: AgentableId,
    limit: u32,
) -> Result<Option<Recipient>> {
    let row = sqlx::query!(
        r#"-- store::message::alone::lock
        select case when k.run_open then k.run_id end as open_run,
               (select coalesce(sum(u.unread), 0)
                  from (select o.unread from houston.run_locks o where o.user_id = k.user_id and o.wake limit $3) u)
                    as "unread!"
          from houston.run_locks k where k.agentable_id = $1 and k.tenant_id = $2 for no key update"#,
        agentable.0,
        tenant.0,
        i64::from(limit)
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(|row| Recipient { open_run: row.open_run.map(RunId), unread: row.unread }))
}

/// Requests to cancel the open run of an agentable, because of the message after `seq`. All workers are notified.
async fn cancel(
    connection: &mut PgConnection,
    tenant: TenantId,
    (agentable, run): (AgentableId, RunId),
    seq: i64,
    double_texting: DoubleTexting,
) -> Result<()> {
    sqlx::query!(
        "-- store::message::alone::cancel
        with runs as (
            -- The reason of the first request stays, unless this one rolls the run back.
            update houston.runs r
               set cancel_seq = $4,
                   cancel_reason = case when $5 = 'rollback' or r.cancel_seq is null then $5 else r.cancel_reason end
             where r.id = $3 and r.tenant_id = $1),
        locks as (update houston.run_locks set next_attempt_at = null where agentable_id = $2 and tenant_id = $1)
        select pg_notify('houston', format('1 cancel %s %s', $2::uuid, $3::uuid))::text as notified",
        tenant.0,
        agentable.0,
        run.0,
        seq,
        double_texting.as_str()
    )
    .fetch_one(connection)
    .await?;
    Ok(())
}
