//! What the checker reads: the rows of the database, and what was recorded outside the service.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::{Context, Result};
use houston_testkit::event_stream::EVENTS;
use houston_testkit::model_server::Ending;
use houston_testkit::tool_ledger::{Execution, ToolLedger};
use serde::Deserialize;
use serde_json::Value;

use super::client::Post;
use super::databases::Databases;
use super::decider::Decisions;
use super::installation::ChaosInstallation;
use super::model::ModelCall;
use super::nemesis::FaultLog;
use super::reader::ReceivedStream;

/// A durable event.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct EventRow {
    pub(crate) goal: String,
    pub(crate) seq: i64,
    pub(crate) epoch: i64,
    pub(crate) run: String,
    pub(crate) kind: String,
    pub(crate) message: Option<String>,
    /// Number of the closed session, in `session_archived` events.
    pub(crate) session: Option<i64>,
    /// Seconds since 1970.
    pub(crate) at: f64,
}

/// A thread message.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct MessageRow {
    pub(crate) id: String,
    pub(crate) goal: String,
    pub(crate) source: String,
    pub(crate) content: String,
    pub(crate) run: String,
}

/// A run.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RunRow {
    pub(crate) id: String,
    pub(crate) goal: String,
    pub(crate) status: String,
    pub(crate) attempt: i64,
}

/// An entry of the history.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct EntryRow {
    pub(crate) goal: String,
    pub(crate) position: i64,
    pub(crate) run: String,
    pub(crate) epoch: i64,
    pub(crate) role: String,
    pub(crate) content: Value,
}

/// A closed session.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SessionRow {
    pub(crate) goal: String,
    pub(crate) number: i64,
    /// Positions of its first and last history entry.
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) by_model: bool,
    /// Whether its summary is still missing.
    pub(crate) pending: bool,
}

/// A question whether a call may be carried out.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct ApprovalRow {
    pub(crate) id: String,
    pub(crate) state: String,
    pub(crate) answer: Option<Value>,
    /// The operation that the model asked for.
    pub(crate) op: Option<String>,
    /// Whether its run has ended.
    pub(crate) run_ended: bool,
}

/// A plan.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct PlanRow {
    pub(crate) id: String,
    pub(crate) ended: bool,
    /// The status of its run.
    pub(crate) status: String,
    pub(crate) steps: i64,
    /// Steps that have begun and not settled.
    pub(crate) open_steps: i64,
    /// The most often that one of its steps has settled.
    pub(crate) settled: i64,
    /// Messages, and events in the stream of its goal, that say that it has ended.
    pub(crate) reports: i64,
    pub(crate) ends: i64,
    pub(crate) executors: i64,
    /// Executors that have not ended.
    pub(crate) working: i64,
    /// Attempts at steps that executors work on.
    pub(crate) attempts: i64,
}

/// The lock of an agentable.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct LockRow {
    pub(crate) goal: String,
    pub(crate) last_seq: i64,
    /// The position of the first event that is kept.
    pub(crate) events_from: i64,
    pub(crate) run_open: bool,
    /// How long its run has been open, in seconds.
    pub(crate) open_for: f64,
    /// Whether its holder has no valid lease.
    pub(crate) holder_is_dead: bool,
    /// Number of unread messages for the agent.
    pub(crate) unread: i64,
    /// Position of the last entry in a closed session; 0 without one.
    pub(crate) session_position: i64,
}

/// The rows of the database, each table in the order of its positions.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Rows {
    pub(crate) events: Vec<EventRow>,
    pub(crate) messages: Vec<MessageRow>,
    pub(crate) runs: Vec<RunRow>,
    pub(crate) history: Vec<EntryRow>,
    pub(crate) sessions: Vec<SessionRow>,
    pub(crate) locks: Vec<LockRow>,
    pub(crate) approvals: Vec<ApprovalRow>,
    pub(crate) plans: Vec<PlanRow>,
    /// Titles of the notes.
    pub(crate) notes: Vec<String>,
}

impl Rows {
    /// Reads a cell by one statement, which sees one state: sessions are closed, and runs may end, while it is read.
    pub(crate) fn read(psql: &Databases) -> Result<Self> {
        let tables = [
            ("events", EVENT_ROWS.replace("EVENTS", EVENTS).as_str()),
            ("messages", MESSAGES),
            (
                "runs",
                "select id, replace(agentable_id::text, '-', '') as goal, status, attempt from houston.runs",
            ),
            ("history", HISTORY),
            ("sessions", SESSIONS),
            ("locks", LOCKS),
            ("approvals", APPROVALS),
            ("plans", PLANS),
            ("notes", "select title as t from houston.knowledge_items where kind = 'note'"),
        ]
        .map(|(name, rows)| format!("'{name}', (select coalesce(json_agg(t), '[]') from ({rows}) t)"));
        let cells = psql.rows(&format!("select json_build_object({})", tables.join(", ")))?;
        let mut all = Self::default();
        for cell in serde_json::Deserializer::from_str(&cells).into_iter() {
            let Self { events, messages, runs, history, sessions, locks, approvals, plans, notes } =
                cell.context("a cell returned unreadable rows")?;
            all.events.extend(events);
            all.messages.extend(messages);
            all.runs.extend(runs);
            all.history.extend(history);
            all.sessions.extend(sessions);
            all.locks.extend(locks);
            all.approvals.extend(approvals);
            all.plans.extend(plans);
            all.notes.extend(notes);
        }
        Ok(all)
    }
}

const EVENT_ROWS: &str = "
    select replace(agentable_id::text, '-', '') as goal, seq, epoch, run_id as run, data->>'type' as kind, message_id as message,
           case when data->>'type' = 'session_archived' then (data->>'number')::bigint end as session,
           extract(epoch from created_at) as at
      from (EVENTS) as events order by agentable_id, seq";

const MESSAGES: &str = "
    select m.id, replace(m.agentable_id::text, '-', '') as goal, m.source, m.content, m.run_id as run
      from houston.messages m join houston.agentables a on a.id = m.agentable_id
     where m.message_type = 'text' and a.kind = 'goal' order by m.agentable_id, m.seq";

const HISTORY: &str = "
    select replace(agentable_id::text, '-', '') as goal, position, run_id as run, epoch, role, content
      from houston.entries order by agentable_id, position";

const SESSIONS: &str = "
    select replace(agentable_id::text, '-', '') as goal, number, first_position as first, last_position as last,
           summarised_by = 'model' as by_model,
           -- A session that is quiet may be closed after the quiet phase.
           summary_due_at is not null and closed_at < clock_timestamp() - interval '30 s' as pending
      from houston.sessions order by agentable_id, first_position, number";

const LOCKS: &str = "
    select replace(l.agentable_id::text, '-', '') as goal, l.last_seq, coalesce(l.events_from, 1) as events_from, l.run_open,
           coalesce(extract(epoch from clock_timestamp() - r.created_at), 0) as open_for,
           l.holder is not null and not exists (
               select from houston.workers w where w.id = l.holder and w.alive_until > clock_timestamp()) as holder_is_dead,
           (select count(*) from houston.messages m
             where m.agentable_id = l.agentable_id and houston.is_for_agent(m.source) and m.seq > l.read_seq) as unread,
           l.session_position
      from houston.run_locks l left join houston.runs r on r.id = l.run_id";

const APPROVALS: &str = "
    select replace(q.id::text, '-', '') as id, q.state, q.answer, q.approval->'input'->>'op' as op,
           r.ended_at is not null as run_ended
      from houston.questions q join houston.runs r on r.id = q.run_id where q.approval is not null";

const PLANS: &str = "
    select p.id, p.ended, r.status,
           (select count(*) from houston.plan_steps s where s.plan_id = p.agentable_id) as steps,
           (select count(*) from houston.plan_steps s where s.plan_id = p.agentable_id
               and s.status not in ('succeeded', 'failed', 'cancelled', 'skipped')) as open_steps,
           (select coalesce(max(n), 0) from (
               select count(*) as n from houston.events e
                where e.agentable_id = p.agentable_id
                  and (e.data->>'type' = 'plan_step_finished'
                       or e.data->>'type' = 'plan_step_failed' and e.data->>'retry_at' is null)
                group by e.data->>'path') as settled) as settled,
           (select count(*) from houston.messages m
             where m.agentable_id = p.parent_id and m.source = 'system' and m.metadata->>'task_id' = 'plan_' || p.id)
               as reports,
           (select count(*) from houston.events e
             where e.agentable_id = p.parent_id and e.data->>'type' = 'plan_ended' and e.data->>'plan_id' = 'plan_' || p.id)
               as ends,
           (select count(*) from houston.agentables x where x.parent_id = p.agentable_id) as executors,
           (select count(*) from houston.agentables x join houston.run_locks k on k.agentable_id = x.id
             where x.parent_id = p.agentable_id and k.run_open) as working,
           (select coalesce(sum(s.attempt), 0) from houston.plan_steps s
             where s.plan_id = p.agentable_id and s.task_id is not null) as attempts
      from (select agentable_id, parent_id, replace(agentable_id::text, '-', '') as id, ended_at is not null as ended
              from houston.plans) p
      join houston.run_locks l on l.agentable_id = p.agentable_id
      join houston.runs r on r.id = l.run_id";

/// Everything the checker uses.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) rows: Rows,
    pub(crate) posts: Vec<Post>,
    /// Runs that clients cancelled.
    pub(crate) cancels: usize,
    /// Ids of the goals, without prefix and hyphens.
    pub(crate) goals: Vec<String>,
    /// What each reader received, with its goal's id.
    pub(crate) streams: Vec<(String, ReceivedStream)>,
    pub(crate) model_calls: Vec<ModelCall>,
    /// How each model call ended, by its number.
    pub(crate) endings: HashMap<usize, Ending>,
    /// Conversations that a provider would refuse.
    pub(crate) invalid_conversations: Vec<String>,
    pub(crate) faults: FaultLog,
    /// Executions, by tool.
    pub(crate) ledgers: BTreeMap<String, Vec<Execution>>,
    pub(crate) decisions: Decisions,
}

impl Evidence {
    /// Rows, model calls and ledgers. The caller adds the other fields.
    pub(crate) fn gather(installation: &ChaosInstallation) -> Result<Self> {
        let endings = installation.model.journal().exchanges();
        // Before the rows, so that they have the yes to each execution.
        let ledgers = ledgers(&installation.folder)?;
        Ok(Self {
            rows: Rows::read(&installation.databases)?,
            model_calls: installation.scripted_model.calls(),
            endings: endings.into_iter().map(|exchange| (exchange.number, exchange.ending)).collect(),
            invalid_conversations: installation.scripted_model.invalid_conversations(),
            ledgers,
            ..Self::default()
        })
    }
}

fn ledgers(folder: &Path) -> Result<BTreeMap<String, Vec<Execution>>> {
    let read = |tool: &str| {
        let executions = ToolLedger::open(folder.join(tool))?.executions();
        Ok((tool.to_owned(), executions.with_context(|| format!("the ledger of {tool} cannot be read"))?))
    };
    ["charge", "upsert", "look", "poison"].into_iter().map(read).collect()
}
