//! Work that waits: how much and for how long; runs that have waited too long for a worker or for their next attempt, plans that wait
//! for nothing that can come, and closed sessions whose summary is overdue.

use std::time::Duration;

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentableId, SessionId};
use houston_domain::intervention::Intervention;

use crate::error::Result;
use crate::handle::RunStore;
use crate::sweep::Due;

/// How many of the oldest waiting runs or sessions are examined; a longer queue is late in any case.
const LOOKED_AT: i64 = 5000;
/// Agentables that are counted in one state. A longer queue is too long in any case.
const COUNTED: i64 = 10_000;

/// An agentable that has waited too long for a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateAgentable {
    /// The agentable and its kind.
    pub due: Due,
    /// How long it has waited, in seconds.
    pub waited_s: i64,
}

/// The amount of waiting work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    /// Awake agentables, including those held by a worker.
    pub agentables: i64,
    /// Unread messages, counted up to a thousand.
    pub messages: i64,
    /// When the oldest open run that no worker holds was accepted.
    pub oldest: Option<DateTime<Utc>>,
}

/// Runs that wait for their next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// Number of such runs.
    pub waiting: i64,
    /// How many of them are due.
    pub due: i64,
}

impl RunStore {
    /// Agentables that could have been claimed for longer than `after`, not counting those over the limit of their
    /// user; the longest waiting first, at most `batch`.
    pub async fn late(&self, after: Duration, batch: i64) -> Result<Vec<LateAgentable>> {
        let rows = sqlx::query!(
            r#"-- store::health::waiting::late
            select l.agentable_id, a.kind,
                   extract(epoch from clock_timestamp() - w.since)::bigint as "waited_s!"
              from ((select id, agentable_id, created_at, started_at, attempt from houston.runs
                      where status in ('queued', 'retrying') order by created_at limit $3)
                    union all
                    select id, agentable_id, created_at, started_at, attempt from houston.runs
                     where status = 'running'
                    union all
                    -- Runs that waited for something that has arrived.
                    select o.id, o.agentable_id, o.created_at, o.started_at, o.attempt from houston.run_locks k
                      join houston.runs o on o.id = k.run_id
                     where k.wake and o.status = 'waiting') as r
              join houston.run_locks l on l.agentable_id = r.agentable_id and l.run_id = r.id
              join houston.agentables a on a.id = l.agentable_id
             cross join lateral (
                   -- Since its latest event: a stored one, or a message.
                   select greatest(r.created_at, l.next_attempt_at, l.woken_at,
                                   case when r.attempt > 0 then greatest(
                                        r.started_at,
                                        (select e.created_at from houston.events e
                                          where e.agentable_id = l.agentable_id and e.seq <= l.last_seq
                                          order by e.seq desc limit 1),
                                        (select m.created_at from houston.messages m
                                          where m.agentable_id = l.agentable_id and m.seq <= l.last_seq
                                          order by m.seq desc limit 1)) end) as since) as w
             where l.wake and l.run_open and l.holder is null
               and (l.next_attempt_at is null or l.next_attempt_at <= clock_timestamp())
               and w.since < now() - make_interval(secs => $1)
               -- Those of a user who has as many runs as may be wait for their turn.
               and houston.free_slots(l.user_id, l.agentable_id, $4) > 0
             order by w.since limit $2"#,
            after.as_secs_f64(),
            batch,
            LOOKED_AT,
            self.fairness.running()
        )
        .map(|row| LateAgentable {
            due: Due { agentable: AgentableId(row.agentable_id), kind: row.kind },
            waited_s: row.waited_s,
        });
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Wakes open runs that no worker holds and no sweep would find. Every write that releases a run also wakes it,
    /// so there should be none.
    pub async fn wake_forgotten(&self, batch: i64) -> Result<Vec<Due>> {
        let rows = sqlx::query_as!(
            Due,
            "-- store::health::waiting::wake_forgotten
            with forgotten as (
                select l.agentable_id
                  from (select id, agentable_id from houston.runs where status in ('queued', 'retrying')
                        union all
                        select id, agentable_id from houston.runs where status = 'running') as r
                  join houston.run_locks l on l.agentable_id = r.agentable_id and l.run_id = r.id
                 where l.run_open and not l.wake and l.holder is null
                 limit $1 for no key update of l skip locked)
            update houston.run_locks l set wake = true, woken_at = statement_timestamp()
              from forgotten f join houston.agentables a on a.id = f.agentable_id
             where l.agentable_id = f.agentable_id
            returning l.agentable_id as agentable, a.kind",
            batch
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// The amount of work that waits for a worker.
    pub async fn depth(&self) -> Result<Depth> {
        let row = sqlx::query_as!(
            Depth,
            r#"-- store::health::waiting::depth
            select (select count(*) from houston.run_locks where wake) as "agentables!",
                   (select count(*)
                      from (select agentable_id, read_seq from houston.run_locks where wake limit 1000) as l
                     cross join lateral (
                           select 1 from houston.messages m
                            where m.agentable_id = l.agentable_id and m.seq > l.read_seq and houston.is_for_agent(m.source)
                            limit 1000) as m) as "messages!",
                   (select min(created_at) from houston.runs where status in ('queued', 'retrying')) as oldest"#
        );
        Ok(row.fetch_one(&self.pool).await?)
    }

    /// Runs that wait for their next attempt, counted among the oldest waiting ones.
    pub async fn retries(&self) -> Result<Retries> {
        let row = sqlx::query_as!(
            Retries,
            r#"-- store::health::waiting::retries
            select count(*) as "waiting!",
                   count(*) filter (where l.next_attempt_at <= clock_timestamp()) as "due!"
              from (select id, agentable_id from houston.runs where status = 'retrying'
                     order by created_at limit $1) as r
              join houston.run_locks l on l.agentable_id = r.agentable_id and l.run_id = r.id
             where l.run_open"#,
            LOOKED_AT
        );
        Ok(row.fetch_one(&self.pool).await?)
    }
}

/// The agentables of one kind in one state.
#[derive(Debug, Clone, PartialEq)]
pub struct KindDepth {
    /// Their kind.
    pub kind: String,
    /// What they do.
    pub state: QueueState,
    /// How many they are.
    pub agentables: i64,
    /// Seconds for which the first of them has been in this state.
    pub oldest_s: f64,
}

/// What agentables of a queue do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueState {
    /// They wait for a worker, or for the turn of their user.
    Ready,
    /// They wait for the time of their next attempt.
    Retrying,
    /// A worker drives their run.
    Running,
}

/// Marks runs to be ended that no worker holds and to which nothing has happened for so many seconds: those of the list with which
/// `$before` ends, of `$kinds`. Its parameters are the seconds, the kinds, the most runs, the reason, and more of `$kinds`.
macro_rules! query_stopped {
    ($before:literal, $kinds:literal $(, $parameter:expr)* $(,)?) => {
        sqlx::query_as!(
            Due,
            $before + ") as r
                  join houston.agentables a on a.id = r.agentable_id
                  join houston.run_locks l on l.agentable_id = r.agentable_id and l.run_id = r.id
                 cross join lateral (
                       -- When it had its latest event: a stored one, or a message.
                       select greatest(r.created_at, r.started_at,
                                       (select s.created_at from houston.events s
                                         where s.agentable_id = l.agentable_id and s.seq <= l.last_seq
                                         order by s.seq desc limit 1),
                                       (select m.created_at from houston.messages m
                                         where m.agentable_id = l.agentable_id and m.seq <= l.last_seq
                                         order by m.seq desc limit 1)) as created_at) as e
                 where r.cancel_seq is null and " + $kinds + " and l.run_open and l.holder is null
                   -- Until it is due, it waits for what its provider asked for.
                   and greatest(e.created_at, l.woken_at, l.next_attempt_at) < now() - make_interval(secs => $1)
                 limit $3 for no key update of l skip locked),
            marked as (
                update houston.runs r set cancel_seq = x.last_seq, cancel_reason = $4
                  from late x where r.id = x.run_id and r.ended_at is null and r.cancel_seq is null)
            update houston.run_locks l
               set wake = true, next_attempt_at = null, woken_at = statement_timestamp()
              from late x where l.agentable_id = x.agentable_id
            returning l.agentable_id as agentable, x.kind"
            $(, $parameter)*
        )
    };
}

impl RunStore {
    /// The queues of all tenants, counted up to 10,000 agentables that wait and as many that run.
    pub async fn queues(&self) -> Result<Vec<KindDepth>> {
        let rows = sqlx::query!(
            r#"-- store::health::queues::queues
            select a.kind, s.is_running as "is_running!", s.is_due as "is_due!", count(*) as "agentables!",
                   extract(epoch from clock_timestamp() - min(s.since))::float8 as "oldest_s!"
              from ((select l.agentable_id, false as is_running,
                            l.next_attempt_at is null or l.next_attempt_at <= clock_timestamp() as is_due,
                            greatest(l.due_at, l.woken_at) as since
                       from houston.run_locks l where l.wake and l.run_open and l.holder is null limit $1)
                    union all
                    (select r.agentable_id, true, true, coalesce(r.started_at, r.created_at)
                       from houston.runs r where r.status = 'running' limit $1)) as s
              join houston.agentables a on a.id = s.agentable_id
             group by a.kind, s.is_running, s.is_due"#,
            COUNTED
        )
        .map(|row| KindDepth {
            state: match (row.is_running, row.is_due) {
                (true, _) => QueueState::Running,
                (false, true) => QueueState::Ready,
                (false, false) => QueueState::Retrying,
            },
            kind: row.kind,
            agentables: row.agentables,
            oldest_s: row.oldest_s,
        });
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Marks runs of tasks to be ended whose next attempt has been due for longer than `after`, at most `batch`. `tasks`
    /// are kinds that do not chat, and whose lane was served all that time.
    pub async fn stop_expired(&self, tasks: &[String], after: Duration, batch: i64) -> Result<Vec<Due>> {
        let rows = query_stopped!(
            r#"-- store::health::stale::expire
            with late as (
                select l.agentable_id, l.run_id, l.last_seq, a.kind
                  from (select id, agentable_id, created_at, started_at, cancel_seq from houston.runs
                         where status = 'retrying' and created_at < now() - make_interval(secs => $1)"#,
            "a.kind = any ($2)",
            after.as_secs_f64(),
            tasks,
            batch,
            Intervention::Expired.as_str()
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Marks open runs to be ended that no worker has claimed for longer than `after`: runs of `kinds`, or of all other
    /// kinds if `others`; at most `batch`. The caller has made sure that their [lanes](crate::paused_lane::LaneServices) were
    /// served all that time. A run that waits for a person or for a later attempt is not stale.
    pub async fn stop_stale(
        &self,
        kinds: &[String],
        others: bool,
        after: Duration,
        reason: Intervention,
        batch: i64,
    ) -> Result<Vec<Due>> {
        let rows = query_stopped!(
            r#"-- store::health::stale::stop
            with late as (
                select l.agentable_id, l.run_id, l.last_seq, a.kind
                  from ((select id, agentable_id, created_at, started_at, cancel_seq from houston.runs
                          where status in ('queued', 'retrying')
                            and created_at < now() - make_interval(secs => $1))
                        union all
                        select id, agentable_id, created_at, started_at, cancel_seq from houston.runs
                         where status = 'running'
                           and created_at < now() - make_interval(secs => $1)
                        union all
                        -- Runs that waited for something that has arrived; the others may wait for as long as they like.
                        select o.id, o.agentable_id, o.created_at, o.started_at, o.cancel_seq from houston.run_locks k
                          join houston.runs o on o.id = k.run_id
                         where k.wake and o.status = 'waiting'
                           and o.created_at < now() - make_interval(secs => $1)"#,
            "(a.kind = any ($2)) <> $5",
            after.as_secs_f64(),
            kinds,
            batch,
            reason.as_str(),
            others
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Wakes plans whose run has waited for longer than `after` although no executor works, no question is open, no step
    /// has a time, and none is paused; at most `batch`. Every write that something can come of wakes the plan
    /// itself, so there should be none. Their run looks again at what is next, and waits again if that is nothing.
    pub async fn wake_stalled_plans(&self, after: Duration, batch: i64) -> Result<Vec<Due>> {
        let rows = sqlx::query_as!(
            Due,
            "-- store::health::plan::wake_stalled
            with stalled as (
                select l.agentable_id, a.kind
                  from houston.plans p
                  join houston.run_locks l on l.agentable_id = p.agentable_id
                  join houston.runs r on r.id = l.run_id
                  join houston.agentables a on a.id = p.agentable_id
                 where p.ended_at is null and not p.paused and p.created_at < now() - make_interval(secs => $1)
                   and r.status = 'waiting' and l.run_open and not l.wake and l.holder is null
                   -- The deadline of the plan is no reason to wait.
                   and coalesce(l.next_attempt_at, p.deadline_at) >= p.deadline_at
                   and (l.woken_at is null or l.woken_at < now() - make_interval(secs => $1))
                   -- It waits since its latest event.
                   and not exists (
                       select from houston.events e
                        where e.agentable_id = l.agentable_id and e.seq = l.last_seq
                          and e.created_at >= now() - make_interval(secs => $1))
                   and not exists (
                       select from houston.plan_steps s join houston.run_locks x on x.agentable_id = s.task_id
                        where s.plan_id = p.agentable_id and s.status = 'running' and s.outcome is null and x.run_open)
                   and not exists (
                       select from houston.questions q
                        where q.agentable_id = l.agentable_id and q.run_id = l.run_id and q.state = 'open')
                 limit $2 for no key update of l skip locked)
            update houston.run_locks l
               set wake = true, next_attempt_at = null, woken_at = statement_timestamp(),
                   waiting_since = statement_timestamp()
              from stalled s where l.agentable_id = s.agentable_id
            returning l.agentable_id as agentable, s.kind",
            after.as_secs_f64(),
            batch
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }
}

/// Closed sessions whose summary is overdue and that no worker is writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateSummaries {
    /// Number of sessions, counted among at most 5,000 waiting ones.
    pub sessions: i64,
    /// How long ago the oldest of them was closed, in seconds; 0 when there is none.
    pub waited_s: i64,
}

impl RunStore {
    /// Closed sessions that have waited for their summary for longer than `after` and that no worker is writing.
    pub async fn late_summaries(&self, after: Duration) -> Result<LateSummaries> {
        let row = sqlx::query_as!(
            LateSummaries,
            r#"-- store::health::unsummarised::late
            select count(*) as "sessions!",
                   coalesce(extract(epoch from clock_timestamp() - min(d.closed_at)), 0)::bigint as "waited_s!"
              from (select closed_at from houston.sessions where summary_due_at <= now()
                     order by summary_due_at limit $2) as d
             where d.closed_at < now() - make_interval(secs => $1)"#,
            after.as_secs_f64(),
            LOOKED_AT
        );
        Ok(row.fetch_one(&self.pool).await?)
    }

    /// Makes the extract the final summary of sessions whose summary was started `attempts` times and never
    /// written, at most `batch`. From then on a search finds them by the extract; their messages and tokens stay
    /// uncounted.
    pub async fn accept_extracts(&self, attempts: i32, batch: i64) -> Result<Vec<SessionId>> {
        let settled = sqlx::query_scalar!(
            "-- store::health::unsummarised::settle
            update houston.sessions s
               set summary_due_at = null, search = houston.session_vector(s.agentable_id, s.summary, '')
              from (select u.id from houston.sessions u where u.summary_due_at <= now() and u.summary_attempts >= $1
                     order by u.summary_due_at limit $2 for no key update skip locked) given_up
             where s.id = given_up.id
            returning s.id",
            attempts,
            batch
        );
        Ok(settled.fetch_all(&self.pool).await?.into_iter().map(SessionId).collect())
    }
}
