//! What is true of the rows of all agentables, whatever happened, while nothing is being written.

use std::sync::LazyLock;

use houston_testkit::event_stream::EVENTS;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::Scene;
use super::rows::ids;
use super::twin::Twin;

/// Queries for the agentables that break a law. `l` has their locks, `r` their runs, `m` their messages, `e` their events,
/// `h` their history, `c` their model calls; `$2` is how many runs a user may have at once.
const LAWS: &[(&str, &str)] = &[
    (
        "events have the positions from 1 on, each once",
        "select l.agentable_id from l
           left join lateral (select count(*) as n, count(distinct e.seq) as d, max(e.seq) as last from e
                               where e.agentable_id = l.agentable_id) e on true
          where (e.n, e.d, coalesce(e.last, 0)) is distinct from (l.last_seq, l.last_seq, l.last_seq)",
    ),
    (
        "entries have the positions from 1 on, each once",
        "select l.agentable_id from l
           left join lateral (select count(*) as n, max(h.position) as last from h
                               where h.agentable_id = l.agentable_id) h on true
          where (h.n, coalesce(h.last, 0)) is distinct from (l.last_position, l.last_position)",
    ),
    (
        "each run has its first and its last event once, and no other event is outside of it",
        "select r.agentable_id from r
           left join lateral (
                select count(*) filter (where e.data ->> 'type' = 'run_queued' and e.seq = r.first_seq) as queued,
                       count(*) filter (where e.data ->> 'type' = 'run_finished' and e.seq = r.last_seq
                                          and e.data ->> 'status' = r.status) as finished,
                       count(*) filter (where e.data ->> 'type' in ('run_queued', 'run_finished')) as both,
                       count(*) filter (where not e.seq between r.first_seq and coalesce(r.last_seq, e.seq)) as outside
                  from e where e.run_id = r.id) e on true
          where (e.queued, e.finished, e.both, e.outside)
                is distinct from (1::bigint, (r.ended_at is not null)::int::bigint,
                                  1 + (r.ended_at is not null)::int::bigint, 0::bigint)",
    ),
    (
        "each attempt has its event, and the epoch counts all",
        "select l.agentable_id from l
           left join lateral (select sum(r.attempt) as n from r where r.agentable_id = l.agentable_id) a on true
          where coalesce(a.n, 0) <> l.epoch
          union all
         select r.agentable_id from r
          where r.attempt <> (select count(*) from e where e.run_id = r.id and e.data ->> 'type' = 'attempt_started')",
    ),
    (
        "of the runs only the open one has not ended",
        "select l.agentable_id from l
          where array(select r.id from r where r.agentable_id = l.agentable_id and r.ended_at is null)
                is distinct from case when l.run_open then array[l.run_id] else '{}'::uuid[] end",
    ),
    (
        "the status of a run says what becomes of it",
        "select l.agentable_id from r join l on l.agentable_id = r.agentable_id
          where case when r.ended_at is not null
                     then r.status in ('completed', 'failed', 'cancelled', 'max_iterations', 'dead_lettered')
                          and r.held_for is null
                     when l.holder is not null then r.status = 'running' and r.held_for = l.user_id
                     -- A run whose dead worker was found keeps its status.
                     else (r.status in ('queued', 'retrying') or r.status = 'running' and l.died_with <> '{}')
                          and r.held_for is null end is not true",
    ),
    (
        "what is unread, requested or due wakes, and nothing wakes without an open run",
        "select l.agentable_id from l left join r on r.id = l.run_id and r.ended_at is null
          where (l.unread > 0 or r.cancel_seq is not null or l.run_open and l.holder is null) and not l.wake
             or l.wake and not l.run_open",
    ),
    (
        "unread messages are counted",
        "select l.agentable_id from l
           left join lateral (select count(*) as n from m where m.agentable_id = l.agentable_id and m.seq > l.read_seq
                                 and m.source in ('user', 'system')) u on true
          where l.unread <> u.n",
    ),
    (
        "with the end of a run its deaths, claims and failures are forgotten",
        "select l.agentable_id from l
          where not l.run_open and (l.died_with <> '{}' or l.crash_count > 0 or l.failed_attempts > 0
                                    or l.next_attempt_at is not null or l.holder is not null)",
    ),
    (
        "a user has no more runs at once than allowed",
        "select max(l.agentable_id::text)::uuid from l join houston.workers w on w.id = l.holder
          group by l.user_id having count(*) > $2",
    ),
    (
        "costs are the sums of the model calls",
        "select r.agentable_id from r
           left join lateral (select coalesce(sum(c.cost), 0) as cost, count(*) - count(c.cost) as unpriced
                                from c where c.run_id = r.id) c on true
          where (r.cost, r.unpriced_calls) is distinct from (c.cost, c.unpriced)
          union all
         select l.agentable_id from l
           left join lateral (select coalesce(sum(c.cost), 0) as cost, count(*) - count(c.cost) as unpriced
                                from c where c.agentable_id = l.agentable_id) c on true
          where (l.cost, l.unpriced_calls) is distinct from (c.cost, c.unpriced)
          union all
         select $1[1] where (select (sum(s.cost), sum(s.model_calls)::numeric, sum(s.unpriced_calls)::numeric) from houston.spending s
                              where s.user_id = (select l.user_id from l limit 1))
                is distinct from (select (sum(c.cost), nullif(count(*), 0)::numeric,
                                          case when count(*) > 0 then (count(*) - count(c.cost))::numeric end) from c)",
    ),
    (
        "what agents wrote is taken back if their run was rolled back, and only then",
        "select h.agentable_id from h join r on r.id = h.run_id
          where (r.status = 'cancelled' and r.cancel_reason = 'rollback') is not true and h.rolled_back
             or r.status = 'cancelled' and r.cancel_reason = 'rollback' and h.role = 'assistant' and not h.rolled_back
          union all
         select m.agentable_id from m join r on r.id = m.run_id
          where (r.status = 'cancelled' and r.cancel_reason = 'rollback') is not true and m.metadata ? 'rolled_back'
             or r.status = 'cancelled' and r.cancel_reason = 'rollback' and m.source in ('agent', 'error')
                and not m.metadata ? 'rolled_back'",
    ),
    (
        "a goal waits for its open tasks, and each that has ended by itself is reported once",
        "select l.agentable_id from l
          where l.open_tasks <> (select count(*) from houston.agentables t join l o on o.agentable_id = t.id
                                  where t.parent_id = l.agentable_id and o.run_open)
          union all
         select t.id from houston.agentables t join l o on o.agentable_id = t.id join r on r.id = o.run_id
          where t.parent_id is not null
            and (not o.run_open and not r.cancelled_with_parent)::int
                <> (select count(*) from m where m.agentable_id = t.parent_id
                       and m.metadata ->> 'task_id' = t.kind || '_' || replace(t.id::text, '-', ''))",
    ),
    (
        "closed sessions follow each other, and each is reported once",
        "select l.agentable_id from l
           left join houston.session_states s on s.agentable_id = l.agentable_id
           left join lateral (select count(*) as n, max(o.number) as number, max(o.last_position) as last
                                from houston.sessions o where o.agentable_id = l.agentable_id) o on true
          where (o.n, coalesce(o.number, 0), coalesce(o.last, 0))
                is distinct from (coalesce(s.last_number, 0)::bigint, coalesce(s.last_number, 0), l.session_position)
             or coalesce(s.reported_number, 0) <> (select count(*) from e where e.agentable_id = l.agentable_id
                                                      and e.data ->> 'type' = 'session_archived')
          union all
         select s.agentable_id from (
                select o.agentable_id, o.first_position, o.last_position,
                       lag(o.last_position, 1, 0::bigint) over (partition by o.agentable_id order by o.number) as before
                  from houston.sessions o where o.agentable_id = any ($1)) s
          where s.first_position <> s.before + 1 or s.last_position < s.first_position",
    ),
    (
        "each call has its message, which says whether it has ended with a response",
        "select m.agentable_id from m left join houston.tool_calls t on t.message_id = m.id and t.run_id = m.run_id
          where m.message_type = 'tool'
            and (case when t.response is null then 'running' when t.response ? 'observation' then 'done'
                      else 'failed' end, t.response is null, t.agentable_id)
                is distinct from (m.metadata ->> 'status', t.finished_at is null, m.agentable_id)",
    ),
];

/// One statement for all laws.
static BROKEN: LazyLock<String> = LazyLock::new(|| {
    let laws: Vec<_> = LAWS
        .iter()
        .map(|(law, query)| format!("select '{law}' as law from ({query}) as broken (agentable_id)"))
        .collect();
    format!(
        "with l as materialized (select * from houston.run_locks where agentable_id = any ($1)),
              r as materialized (select * from houston.runs where agentable_id = any ($1)),
              m as materialized (select * from houston.messages where agentable_id = any ($1)),
              h as materialized (select * from houston.history where agentable_id = any ($1)),
              c as materialized (select * from houston.model_calls where agentable_id = any ($1)),
              e as materialized (select * from ({EVENTS}) e where e.agentable_id = any ($1))
         select distinct law from ({}) as all_laws",
        laws.join(" union all ")
    )
});

/// Asserts that all rows of a user obey the laws.
pub(super) async fn assert_laws(scene: &Scene<'_>, of: &[Twin], seed: u64) {
    let agentables: Vec<Uuid> = ids(of);
    let broken = sqlx::query_scalar(AssertSqlSafe(BROKEN.as_str()));
    let broken = broken.bind(agentables).bind(i64::from(scene.store.fairness.max_running));
    let broken: Vec<String> = broken.fetch_all(scene.pool()).await.unwrap();
    assert!(broken.is_empty(), "seed {seed} breaks: {broken:?}");
}
