//! Writing claims.

use chrono::{DateTime, Utc};
use houston_domain::claim::Start;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::ClaimedRun;
use super::batch::{ClaimRequest, Claims};
use super::read::Candidate;
use crate::error::Result;
use crate::stored_block::NewText;

/// A claim as its rows.
#[derive(Debug, Serialize)]
pub(super) struct ClaimRow {
    /// Index of the request in its batch.
    n: usize,
    agentable_id: Uuid,
    version: String,
    worker_id: Uuid,
    token: Uuid,
    slot: i32,
    /// The entry with the messages that are read.
    content: Option<Box<RawValue>>,
    event: Box<RawValue>,
    read: usize,
    read_to: Option<i64>,
    has_more: bool,
    stays_awake: bool,
    schedules_session: bool,
}

impl ClaimRow {
    /// The rows of the claim in slot `slot`; `n` is its index in its batch.
    pub(super) fn of(
        n: usize,
        request: &ClaimRequest,
        candidate: &Candidate,
        start: &Start,
        slot: i32,
    ) -> serde_json::Result<Self> {
        let read = &candidate.claimable.unread[..start.read];
        let blocks: Vec<NewText<'_>> = read
            .iter()
            .map(|unread| NewText { r#type: "text", text: &unread.content, frame: unread.is_frame() })
            .collect();
        Ok(Self {
            n,
            agentable_id: request.agentable.0,
            version: candidate.version.clone(),
            worker_id: request.worker.0,
            token: request.token.0,
            slot,
            content: if blocks.is_empty() { None } else { Some(to_raw_value(&blocks)?) },
            event: to_raw_value(&candidate.run.event.event)?,
            read: start.read,
            read_to: start.read_to,
            has_more: start.has_more,
            stays_awake: start.stays_awake,
            schedules_session: start.turn.schedules && start.turn.is_plain(),
        })
    }
}

/// A claim that was written.
pub(super) struct Claimed {
    /// Its index in its batch.
    pub(super) n: usize,
    epoch: i64,
    seq: i64,
    at: DateTime<Utc>,
}

impl Candidate {
    /// The run after its claim was written.
    pub(super) fn claimed(self, start: &Start, claimed: &Claimed) -> ClaimedRun {
        let mut run = self.run;
        run.fence.epoch = claimed.epoch;
        run.deaths = i32::try_from(start.deaths).unwrap_or(i32::MAX);
        (run.event.seq, run.event.at) = (claimed.seq, claimed.at);
        run
    }
}

impl Claims {
    /// Writes the claims of agentables that have not changed since they were read. The advisory lock
    /// serialises the claims of one user.
    pub(super) async fn claim(
        &self,
        connection: &mut PgConnection,
        claims: &[ClaimRow],
    ) -> Result<Vec<Claimed>> {
        let rows = sqlx::query!(
            r#"-- store::claim::write::claims
            with i as materialized (
                select * from jsonb_to_recordset($1) as i (
                    n integer, agentable_id uuid, version text, worker_id uuid, token uuid, slot integer, content jsonb,
                    event jsonb, read integer, read_to bigint, has_more boolean, stays_awake boolean,
                    schedules_session boolean)),
            l as materialized (
                select i.*, k.tenant_id, k.user_id, k.run_id, k.epoch + 1 as epoch, k.last_seq + 1 as seq,
                       k.last_position + (i.content is not null)::integer as position
                  from i cross join lateral (
                       select k.* from houston.run_locks k
                        where k.agentable_id = i.agentable_id and k.xmin::text = i.version
                          and not exists (select from houston.workers w
                                           where w.id = k.holder and w.alive_until > clock_timestamp())
                          and exists (select from houston.workers w
                                       where w.id = i.worker_id and w.alive_until > clock_timestamp())
                          for no key update skip locked) k
                 where pg_try_advisory_xact_lock(1, hashtext(k.user_id::text))),
            t as materialized (select clock_timestamp() as at),
            history as (
                insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, content)
                select l.agentable_id, l.position, l.tenant_id, l.run_id, l.epoch, 'user', l.content from l where l.content is not null),
            events as (
                insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data, created_at)
                select l.agentable_id, l.seq, l.tenant_id, l.run_id, l.epoch, l.event, t.at from l cross join t),
            sessions as (
                insert into houston.session_states as s (agentable_id, tenant_id, look_at)
                select l.agentable_id, l.tenant_id, t.at + make_interval(secs => $2)
                  from l cross join t where l.schedules_session order by l.agentable_id
                on conflict (agentable_id) do update set look_at = excluded.look_at),
            runs as (
                update houston.runs r
                   set status = 'running', attempt = r.attempt + 1, epoch = l.epoch, worker_id = l.worker_id,
                       held_for = l.user_id, slot = l.slot, started_at = coalesce(r.started_at, t.at)
                  from l cross join t where r.id = l.run_id),
            locks as (
                update houston.run_locks k
                   set epoch = l.epoch, run_token = l.token, holder = l.worker_id, crash_count = k.crash_count + 1,
                       died_with = case when k.holder is null then k.died_with else k.died_with || k.holder end,
                       next_attempt_at = null, last_seq = l.seq, wake = l.stays_awake,
                       read_seq = coalesce(l.read_to, k.read_seq),
                       unread = case when l.read_to is null then k.unread
                                     when l.has_more then k.unread - l.read else 0 end,
                       last_position = l.position
                  from l where k.agentable_id = l.agentable_id)
            select l.n as "n!", l.epoch as "epoch!", l.seq as "seq!", t.at as "at!" from l cross join t"#,
            Json(claims) as Json<&[ClaimRow]>,
            self.archiving.settings.quiet().as_secs_f64()
        )
        .fetch_all(connection)
        .await?;
        let claimed = rows.into_iter().filter_map(|row| {
            Some(Claimed { n: usize::try_from(row.n).ok()?, epoch: row.epoch, seq: row.seq, at: row.at })
        });
        Ok(claimed.collect())
    }
}
