//! Deleting by age: events, history and model calls, tasks that ended long ago, idempotency keys, and what counted against the limits
//! of agents that reach other conversations.
//!
//! A walk goes over the ended runs by the time of their end, and deletes what is old of the agentable of each, or of the run. So a
//! run is marked nowhere and in no further index, and an agentable that is passed, because it runs, is found again by the run that
//! it was passed for, when that is old. What was passed for other reasons is found when the walk begins again, after a week.
//!
//! Each batch is one transaction, which also moves the walk on: it may be repeated, and be killed in the middle.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::Result;
use crate::handle::RunStore;

/// Agentables whose lock rows one batch takes: a message that is posted to one of them waits until the batch is written.
const STREAMS: i64 = 500;
/// The same for histories, of which whole sessions are deleted, however long.
const HISTORIES: i64 = 100;

/// What is deleted by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aged {
    /// Stored events of runs that ended, up to the end of the run. What follows from messages and runs stays.
    Events,
    /// Entries of closed sessions that have their summary.
    History,
    /// Model calls of ended runs, and of closed sessions. Sums stay.
    ModelCalls,
}

impl Aged {
    fn as_str(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::History => "history",
            Self::ModelCalls => "model_calls",
        }
    }
}

/// What a batch has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trimmed {
    /// Rows that were deleted.
    pub rows: u64,
    /// Whether nothing more can be deleted now.
    pub is_done: bool,
}

/// An ended run.
struct Ended {
    run: Uuid,
    agentable: Uuid,
    at: DateTime<Utc>,
    /// Whether every reader of events has passed its end.
    is_read: bool,
}

/// What the batches of a walk have in common.
#[derive(Debug, Clone, Copy)]
struct Walk<'k> {
    what: Aged,
    kinds: &'k [String],
    /// Seconds since the end.
    after: f64,
    batch: i64,
}

impl RunStore {
    /// Deletes what ended longer than `after` ago of agentables of these kinds: of `batch` runs about `batch` rows, in one transaction. An
    /// agentable with an open run is passed; of events also one of which a webhook has something to deliver, and the walk stops
    /// where a reader of events has not been.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses a statement; then nothing was
    /// deleted.
    pub async fn trim(&self, what: Aged, kinds: &[String], after: Duration, batch: i64) -> Result<Trimmed> {
        let walk = Walk { what, kinds, after: after.as_secs_f64(), batch };
        let mut tx = self.pool.begin().await?;
        let Some(from) = walk.take(&mut tx).await? else {
            // Another monitor is at it.
            return Ok(Trimmed { rows: 0, is_done: true });
        };
        let mut runs = walk.ended(&mut tx, from).await?;
        let is_last = i64::try_from(runs.len()).is_ok_and(|count| count < batch);
        let unread = runs.iter().position(|run| what == Aged::Events && !run.is_read);
        runs.truncate(unread.unwrap_or(runs.len()));
        let Some(last) = runs.last() else {
            if unread.is_none() {
                // At the end of a walk that began long ago.
                sqlx::query!(
                    "-- store::health::retention::begin_again
                    update houston.retention_walks
                       set ended_at = 'epoch', run_id = '00000000-0000-0000-0000-000000000000', began_at = now()
                     where what = $1 and kind = any ($2) and began_at < now() - interval '7 days'",
                    walk.what.as_str(),
                    walk.kinds
                )
                .execute(&mut *tx)
                .await?;
            }
            tx.commit().await?;
            return Ok(Trimmed { rows: 0, is_done: true });
        };
        let (rows, is_whole) = match what {
            Aged::Events => walk.events(&mut tx, &runs).await?,
            Aged::History => walk.history(&mut tx, &runs).await?,
            Aged::ModelCalls => walk.model_calls(&mut tx, &runs).await?,
        };
        if is_whole {
            sqlx::query!(
                "-- store::health::retention::move
                update houston.retention_walks set ended_at = $3, run_id = $4 where what = $1 and kind = any ($2)",
                walk.what.as_str(),
                walk.kinds,
                last.at,
                last.run
            )
            .execute(&mut *tx)
            .await?;
        }
        tx.commit().await?;
        Ok(Trimmed { rows, is_done: is_whole && (is_last || unread.is_some()) })
    }
}

impl Walk<'_> {
    /// Takes the walk, and returns the run that it has passed; `None` if another process has it.
    async fn take(&self, connection: &mut PgConnection) -> Result<Option<(DateTime<Utc>, Uuid)>> {
        sqlx::query!(
            "-- store::health::retention::begin
            insert into houston.retention_walks (what, kind, ended_at, run_id, began_at)
            select $1, k.kind, 'epoch', '00000000-0000-0000-0000-000000000000', now()
              from unnest($2::text[]) as k (kind) order by k.kind
                on conflict (what, kind) do nothing",
            self.what.as_str(),
            self.kinds
        )
        .execute(&mut *connection)
        .await?;
        let rows = sqlx::query!(
            "-- store::health::retention::take
            select ended_at, run_id from houston.retention_walks
             where what = $1 and kind = any ($2) order by ended_at, run_id for update skip locked",
            self.what.as_str(),
            self.kinds
        )
        .fetch_all(connection)
        .await?;
        let is_whole = rows.len() == self.kinds.len();
        // Of kinds that have not come equally far, from the one that is behind.
        Ok(rows.into_iter().next().filter(|_| is_whole).map(|row| (row.ended_at, row.run_id)))
    }

    /// The next ended runs, of whichever kind.
    async fn ended(&self, connection: &mut PgConnection, from: (DateTime<Utc>, Uuid)) -> Result<Vec<Ended>> {
        let rows = sqlx::query_as!(
            Ended,
            r#"-- store::health::retention::ended
            with d as materialized (
                select split_part(d.position, '~', 1)::pg_snapshot as seen from houston.readers d)
            select r.id as run, r.agentable_id as agentable, r.ended_at as "at!",
                   not exists (select from d
                                where not pg_visible_in_snapshot(coalesce(r.last_xid, r.first_xid)::text::xid8,
                                                                 d.seen)) as "is_read!"
              from houston.runs r
             where r.ended_at >= $1 and (r.ended_at, r.id) > ($1, $2)
               and r.ended_at < now() - make_interval(secs => $3)
             order by r.ended_at, r.id limit $4"#,
            from.0,
            from.1,
            self.after,
            self.batch
        );
        Ok(rows.fetch_all(connection).await?)
    }

    /// Deletes events of the agentables of these runs. Runs of one never overlap: those before an old one are
    /// older. Returns how many, and whether none is left that may be deleted.
    async fn events(&self, connection: &mut PgConnection, runs: &[Ended]) -> Result<(u64, bool)> {
        let agentables = agentables(runs);
        // Under its lock row nothing begins to run. What was found before it was taken is looked at again.
        let locked = sqlx::query!(
            r#"-- store::health::retention::lock_streams
            select l.agentable_id, o.last_seq as "upto!", o.xid as "xid!"
              from houston.run_locks l
              join houston.agentables a on a.id = l.agentable_id
             cross join lateral (
                   select r.last_seq, coalesce(r.last_xid, r.first_xid) as xid from houston.runs r
                    where r.agentable_id = l.agentable_id and r.ended_at < now() - make_interval(secs => $3)
                    order by r.first_seq desc limit 1) o
             where l.agentable_id = any ($1) and a.kind = any ($2) and a.tenant_id is not null
               and not l.run_open and l.holder is null
               and (select e.seq from houston.events e where e.agentable_id = l.agentable_id order by e.seq limit 1) <= o.last_seq
               and not exists (select from houston.readers d
                                where not pg_visible_in_snapshot(o.xid::text::xid8,
                                                                 split_part(d.position, '~', 1)::pg_snapshot))
               and not exists (select from houston.open_deliveries p where p.agentable_id = l.agentable_id)
               and not exists (select from houston.replays p where p.tenant_id = l.tenant_id)
             order by l.agentable_id limit $4 for update of l skip locked"#,
            &agentables,
            self.kinds,
            self.after,
            STREAMS
        )
        .fetch_all(&mut *connection)
        .await?;
        let is_last = i64::try_from(locked.len()).is_ok_and(|count| count < STREAMS);
        if locked.is_empty() {
            return Ok((0, true));
        }
        // Events up to this transaction are deleted.
        sqlx::query!(
            "-- store::health::retention::reach
            update houston.retention_walks set xid = greatest(xid, $3) where what = $1 and kind = any ($2)",
            self.what.as_str(),
            self.kinds,
            locked.iter().map(|row| row.xid).max()
        )
        .execute(&mut *connection)
        .await?;
        let (ids, upto): (Vec<Uuid>, Vec<i64>) =
            locked.into_iter().map(|row| (row.agentable_id, row.upto)).unzip();
        sqlx::query!(
            "-- store::health::retention::mark_streams
            update houston.run_locks l set events_from = greatest(l.events_from, o.upto + 1)
              from unnest($1::uuid[], $2::bigint[]) as o (id, upto) where l.agentable_id = o.id",
            &ids,
            &upto
        )
        .execute(&mut *connection)
        .await?;
        let deleted = sqlx::query!(
            "-- store::health::retention::events
            delete from houston.events where ctid = any (array(
                   select e.ctid from unnest($1::uuid[], $2::bigint[]) as o (id, upto)
                    cross join lateral (select e.ctid from houston.events e
                                         where e.agentable_id = o.id and e.seq <= o.upto limit $3) e
                    limit $3))",
            &ids,
            &upto,
            self.batch
        )
        .execute(connection)
        .await?
        .rows_affected();
        Ok((deleted, is_last && i64::try_from(deleted).is_ok_and(|count| count < self.batch)))
    }

    /// Deletes the oldest closed session of the histories of the agentables of these runs, whole sessions, so that a document of
    /// what is left begins with a turn. The row of a session stays, with its summary and what a search finds.
    async fn history(&self, connection: &mut PgConnection, runs: &[Ended]) -> Result<(u64, bool)> {
        let agentables = agentables(runs);
        let locked = sqlx::query!(
            r#"-- store::health::retention::lock_histories
            select l.agentable_id, s.last_position as "upto!"
              from houston.run_locks l
              join houston.agentables a on a.id = l.agentable_id
             cross join lateral (
                   select h.position from houston.history h where h.agentable_id = l.agentable_id
                    order by h.position limit 1) h
             cross join lateral (
                   select s.last_position, s.completed_at, s.summary_due_at from houston.sessions s
                    where s.agentable_id = l.agentable_id and s.last_position >= h.position
                    order by s.number limit 1) s
             where l.agentable_id = any ($1) and a.kind = any ($2) and a.tenant_id is not null
               and not l.run_open and l.holder is null
               and s.completed_at < now() - make_interval(secs => $3) and s.summary_due_at is null
               and s.last_position <= l.session_position
             order by l.agentable_id limit $4 for update of l skip locked"#,
            &agentables,
            self.kinds,
            self.after,
            HISTORIES
        )
        .fetch_all(&mut *connection)
        .await?;
        let (ids, upto): (Vec<Uuid>, Vec<i64>) =
            locked.into_iter().map(|row| (row.agentable_id, row.upto)).unzip();
        if ids.is_empty() {
            return Ok((0, true));
        }
        let deleted = sqlx::query!(
            "-- store::health::retention::history
            delete from houston.history h using unnest($1::uuid[], $2::bigint[]) as o (id, upto)
             where h.agentable_id = o.id and h.position <= o.upto",
            &ids,
            &upto
        )
        .execute(connection)
        .await?;
        // Some may have another old session.
        Ok((deleted.rows_affected(), false))
    }

    /// Deletes the calls of these runs, and those with which the sessions of their agentables were summarised.
    async fn model_calls(&self, connection: &mut PgConnection, runs: &[Ended]) -> Result<(u64, bool)> {
        let (ids, agentables): (Vec<Uuid>, _) = (runs.iter().map(|run| run.run).collect(), agentables(runs));
        let deleted = sqlx::query!(
            "-- store::health::retention::model_calls
            with a as materialized (
                select a.id from houston.agentables a where a.id = any ($2) and a.kind = any ($3)),
            k as materialized (
                select r.id from houston.runs r where r.id = any ($1) and r.agentable_id in (select a.id from a)
                union all
                select s.id from a join houston.sessions s on s.agentable_id = a.id
                 where s.completed_at < now() - make_interval(secs => $4))
            delete from houston.model_calls where ctid = any (array(
                   select c.ctid from k
                    cross join lateral (select c.ctid from houston.model_calls c
                                         where c.run_id = k.id and c.created_at < now() - make_interval(secs => $4)
                                         limit $5) c
                    limit $5))",
            &ids,
            &agentables,
            self.kinds,
            self.after,
            self.batch
        )
        .execute(connection)
        .await?
        .rows_affected();
        Ok((deleted, i64::try_from(deleted).is_ok_and(|count| count < self.batch)))
    }
}

/// The agentables of the runs, each once.
fn agentables(runs: &[Ended]) -> Vec<Uuid> {
    let mut ids: Vec<Uuid> = runs.iter().map(|run| run.agentable).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

impl RunStore {
    /// Deletes tasks whose latest run ended longer than `after` ago, at most `batch`, with all their rows, in one
    /// transaction. `tasks` are the kinds that do not chat. Notes and learnings are the tasks' results: they move
    /// to the agentable that created the task, or to the user's own. Returns the number of deleted tasks.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses a statement; then
    /// nothing was deleted.
    pub async fn delete_finished(&self, tasks: &[String], after: Duration, batch: i64) -> Result<usize> {
        let mut tx = self.pool.begin().await?;
        // Under its lock row no message can be posted to a task; a post that waits for the lock then finds no
        // agentable.
        let ids: Vec<Uuid> = sqlx::query_scalar!(
            "-- store::health::finished::lock
            select a.id from houston.agentables a
              join houston.run_locks l on l.agentable_id = a.id
              join houston.runs r on r.id = l.run_id
             where a.kind = any ($1) and a.created_at < now() - make_interval(secs => $2)
               and r.ended_at < now() - make_interval(secs => $2)
               and not l.run_open and l.holder is null
               and not exists (select from houston.agentables c where c.parent_id = a.id)
             order by a.created_at limit $3 for update of l skip locked",
            tasks,
            after.as_secs_f64(),
            batch
        )
        .fetch_all(&mut *tx)
        .await?;
        if ids.is_empty() {
            return Ok(0);
        }
        sqlx::query!(
            "-- store::health::finished::bequeath
            with heirs as (
                select a.id, coalesce(a.parent_id, (select u.id from houston.agentables u
                                                     where u.user_id = a.user_id and u.made_with_user
                                                     order by u.id limit 1)) as heir
                  from houston.agentables a where a.id = any ($1))
            update houston.knowledge_items n set agentable_id = h.heir from heirs h where n.agentable_id = h.id",
            &ids
        )
        .execute(&mut *tx)
        .await?;
        sqlx::query!(
            "-- store::health::finished::delete
            with calls as (delete from houston.tool_calls t using houston.runs r
                            where r.agentable_id = any ($1) and t.run_id = r.id),
            model_calls as (delete from houston.model_calls c using houston.runs r
                             where r.agentable_id = any ($1) and c.run_id = r.id),
            session_calls as (delete from houston.model_calls c using houston.sessions s
                               where s.agentable_id = any ($1) and c.run_id = s.id),
            sessions as (delete from houston.sessions where agentable_id = any ($1)),
            session_states as (delete from houston.session_states where agentable_id = any ($1)),
            events as (delete from houston.events where agentable_id = any ($1)),
            messages as (delete from houston.messages where agentable_id = any ($1)),
            history as (delete from houston.history where agentable_id = any ($1)),
            runs as (delete from houston.runs where agentable_id = any ($1)),
            files as (delete from houston.workspace_files where agentable_id = any ($1)),
            locks as (delete from houston.run_locks where agentable_id = any ($1))
            delete from houston.agentables where id = any ($1)",
            &ids
        )
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        if let Some(folders) = &self.folders {
            // Folders that are not removed now are by `tidy_folders`.
            folders.remove_soon(&ids).await;
        }
        Ok(ids.len())
    }

    /// Deletes idempotency keys older than `after`, the oldest first, at most `batch`. A request repeated under one
    /// of them counts as new. What the requests created stays. Returns the number of deleted keys.
    pub async fn delete_idempotency_keys(&self, after: Duration, batch: i64) -> Result<u64> {
        // By `ctid`: a join might read the whole table instead of its oldest rows.
        let done = sqlx::query!(
            "-- store::health::request::forget_keys
            delete from houston.idempotency_keys
             where ctid = any (array(
                   select ctid from houston.idempotency_keys
                    where created_at < now() - make_interval(secs => $1)
                    order by created_at limit $2 for update skip locked))",
            after.as_secs_f64(),
            batch
        )
        .execute(&self.pool)
        .await?;
        Ok(done.rows_affected())
    }

    /// Deletes what was noted of messages that agents posted and of conversations that they made, longer than `after` ago, at
    /// most `batch` of each. What an open run has posted or made stays, and so does a message that an open run reads: they
    /// count until it ends. The messages and conversations themselves stay. Returns how many were deleted.
    pub async fn delete_reach_counts(&self, after: Duration, batch: i64) -> Result<(u64, u64)> {
        let posted = sqlx::query!(
            "-- store::health::reach::forget_posted
            delete from houston.agent_messages
             where message_id = any (array(
                   select p.message_id from houston.agent_messages p
                     left join houston.runs r on r.id = p.from_run
                     left join houston.messages m on m.id = p.message_id and m.tenant_id = p.tenant_id
                     left join houston.runs reader on reader.id = m.run_id
                    where p.created_at < now() - make_interval(secs => $1)
                      and (r.id is null or r.ended_at is not null)
                      and (reader.id is null or reader.ended_at is not null)
                    order by p.created_at limit $2))",
            after.as_secs_f64(),
            batch
        )
        .execute(&self.pool)
        .await?;
        let made = sqlx::query!(
            "-- store::health::reach::forget_made
            delete from houston.made_conversations
             where agentable_id = any (array(
                   select p.agentable_id from houston.made_conversations p
                     left join houston.runs r on r.id = p.from_run
                    where p.created_at < now() - make_interval(secs => $1)
                      and (r.id is null or r.ended_at is not null)
                    order by p.created_at limit $2))",
            after.as_secs_f64(),
            batch
        )
        .execute(&self.pool)
        .await?;
        Ok((posted.rows_affected(), made.rows_affected()))
    }
}
