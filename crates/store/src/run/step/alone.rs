//! Committing a step by itself: its row is locked first, and its changes are decided from what is found under the lock.
//!
//! Such a step is disturbed by messages that arrived, by a request to cancel or by a slow transaction, ends a task, or
//! belongs to a transaction that also writes rows of tools.
//!
//! What follows from the end of a run is done in the transaction that ends it: frames for the next run, the end of a session
//! that wrote a feed, the report of a task.

use std::borrow::Cow;

use houston_domain::frame::MessageBlock;
use houston_domain::id::{AgentableId, RunId, TenantId};
use houston_domain::run::RunStatus;
use houston_domain::session::CompletionReason;
use houston_domain::step::decision::{Cancellation, Changes, Found, decide};
use houston_domain::step::{RunTransition, Step};
use houston_domain::task::{TaskEnd, cancelled_tasks};
use houston_domain::unread::Unread;
use houston_faults::mutation::{self, Mutation};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::batch::{Steps, Written};
use super::{Commit, CommittedStep, StepRows};
use crate::batcher::Batch as _;
use crate::claim::Fence;
use crate::cost::count_call;
use crate::error::{Error, Result, not_json};
use crate::handle::RunStore;
use crate::message::move_messages;
use crate::settings::Fairness;
use crate::statement::Statement as _;
use crate::task_report::{EndedTask, report};
use crate::{plan, question, tool_result};

/// The lock of a run as it is found.
struct Lock {
    epoch: i64,
    token: Option<Uuid>,
    is_held: bool,
    last_write: Option<Uuid>,
    version: String,
}

impl Lock {
    /// Whether the step has been written already; if not, it may be written now.
    ///
    /// # Errors
    /// [`Error::Fenced`] when another worker has claimed the run.
    fn has(&self, fence: &Fence, step: &Step) -> Result<bool> {
        let is_ours = self.epoch == fence.epoch && self.token == Some(fence.token.0);
        let is_written = self.last_write == Some(step.write.0);
        if is_ours && (is_written || self.is_held) { Ok(is_written) } else { Err(Error::Fenced) }
    }
}

impl RunStore {
    /// Commits a step in a transaction of its own.
    pub(super) async fn commit_alone(&self, fence: &Fence, step: &Step) -> Result<Commit> {
        let mut tx = self.pool.begin().await?;
        let done = commit(&mut tx, fence, step, self.fairness).await?;
        match done {
            Commit::Done(_) => tx.commit().await?,
            Commit::AlreadyCommitted => tx.rollback().await?,
        }
        Ok(done)
    }
}

/// Commits a step in the caller's transaction.
pub(crate) async fn commit(
    connection: &mut PgConnection,
    fence: &Fence,
    step: &Step,
    fairness: Fairness,
) -> Result<Commit> {
    if mutation::is(Mutation::RowLock) {
        // Checked, but not locked: a takeover can happen in between.
        let unlocked = lock(connection, fence, false).await?;
        if unlocked.has(fence, step)? {
            return Err(Error::Fenced);
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    let lock = lock(connection, fence, true).await?;
    let weakened = mutation::is(Mutation::Fence) || mutation::is(Mutation::RowLock);
    match lock.has(fence, step) {
        Ok(true) => return Ok(Commit::AlreadyCommitted),
        Err(fenced) if !weakened => return Err(fenced),
        Ok(false) | Err(_) => {}
    }
    let reader = read(connection, fence).await?;
    let mut found = Found {
        is_awake: reader.is_awake,
        read_seq: reader.read_seq,
        unread_count: reader.unread,
        cancel_seq: reader.cancel_seq,
        cancel_reason: reader.cancel_reason.clone(),
        ..Found::default()
    };
    if let Some(after) = found.reads_after(step) {
        read_unread(connection, fence, &mut found, after, fairness).await?;
    }
    let closes_all = reader.asked && decide(step, found.clone(), fairness.read_limits()).ends();
    let step = &*write_for_driver(connection, fence, step, closes_all, &mut found).await?;
    let changes = decide(step, found, fairness.read_limits());
    let plan = match step.plan.as_deref() {
        Some(of_plan) => Some((of_plan, plan::read(connection, fence.agentable, of_plan).await?)),
        None => None,
    };

    let mut rows = StepRows::of(fence, step, &changes).map_err(not_json)?;
    rows.version = Some(lock.version);
    if weakened {
        (rows.fence, rows.token) = (lock.epoch, lock.token.unwrap_or_default());
    }
    // Counted last: other steps of the user wait for that, and the end of a task takes another lock first.
    rows.call = None;
    let report = reader.reports(connection, fence, step, &changes).await?;
    for (entry, last) in [(&changes.read, changes.read_seq), (&report, None)] {
        if !entry.is_empty() {
            rows.add_entry(entry, last).map_err(not_json)?;
        }
    }
    if !step.large_results.is_empty() {
        tool_result::insert(connection, fence.agentable, step.run, &step.large_results).await?;
    }
    let written = Steps { max_running: fairness.running() }.write(connection, &mut [rows]).await?;
    // The row is locked, so only a weakened step can miss it.
    let written = written.into_iter().next().flatten().ok_or(Error::Fenced)?;
    // Executors that begin are counted in the row whose version the statement before has checked.
    if let Some((of_plan, before)) = plan {
        plan::write(connection, fence, step, (of_plan, before)).await?;
    }
    assign_messages(connection, fence, step, &changes, &written).await?;
    let own_entries = step.entries.len() + usize::from(!step.frames.is_empty());
    let last_position = reader.last_position + i64::try_from(own_entries).unwrap_or(i64::MAX);
    if let Some(Cancellation { through, .. }) = changes.cancelled.as_ref().filter(|of| of.rolls_back()) {
        roll_back(connection, fence, step.run, last_position, *through).await?;
    }
    if changes.ends() {
        end(connection, fence, step, &changes, &reader, fairness).await?;
    }
    if let Some(call) = &step.call {
        count_call(connection, fence.agentable, step.run.0, step.write, call).await?;
    }
    for (id, call) in &step.more_calls {
        count_call(connection, fence.agentable, step.run.0, *id, call).await?;
    }
    Ok(Commit::Done(CommittedStep::new(step, changes, reader.cancel_seq, written)))
}

/// Assigns messages to the runs that have read them, or that they open.
async fn assign_messages(
    connection: &mut PgConnection,
    fence: &Fence,
    step: &Step,
    changes: &Changes<'_>,
    written: &Written,
) -> Result<()> {
    for moved in &changes.moved {
        move_messages(connection, fence.agentable, moved).await?;
    }
    if let Some(next_run) = changes.next_run {
        // Messages beyond the first batch are assigned to it when they are read.
        let events = i64::try_from(step.events.len() + 1).unwrap_or(i64::MAX);
        sqlx::query!(
            "-- store::step::alone::open_next_run
            insert into houston.runs (id, tenant_id, agentable_id, first_seq, created_at)
            select $2, k.tenant_id, k.agentable_id, $3, $4 from houston.run_locks k where k.agentable_id = $1",
            fence.agentable.0,
            next_run.0,
            written.last_seq + events + 1,
            written.at
        )
        .execute(connection)
        .await?;
    }
    Ok(())
}

/// Reads the lock's row. Nothing else is read with it: other rows could be older than the lock, if it was waited for.
async fn lock(connection: &mut PgConnection, fence: &Fence, locks: bool) -> Result<Lock> {
    macro_rules! found {
        ($before:literal, $after:literal) => {
            sqlx::query_as!(
                Lock,
                $before + r#"
                select epoch, run_token as token, holder is not null as "is_held!", last_write_id as last_write,
                       xmin::text as "version!"
                  from houston.run_locks where agentable_id = $1"# + $after,
                fence.agentable.0
            )
            .fetch_optional(connection)
            .await?
        };
    }
    let row = match locks {
        true => found!("-- store::step::alone::lock", " for no key update"),
        false => found!("-- store::step::alone::lock_skipped", ""),
    };
    row.ok_or(Error::Fenced)
}

/// Reads what has happened since the step before, under the lock.
async fn read(connection: &mut PgConnection, fence: &Fence) -> Result<Reader> {
    let reader = sqlx::query_as!(
        Reader,
        r#"-- store::step::alone::read
        select k.wake as is_awake, k.read_seq, k.unread, k.open_tasks, k.last_position, r.cancel_seq, r.cancel_reason,
               coalesce(r.cancelled_tasks, '{}') as "cancelled_tasks!", r.cancelled_with_parent,
               r.mode is not distinct from 'feed_generation' as "writes_feed!", r.asked, k.tenant_id as tenant, a.kind,
               a.title, a.parent_id as parent
          from houston.run_locks k
          join houston.runs r on r.id = k.run_id
          join houston.agentables a on a.id = k.agentable_id
         where k.agentable_id = $1"#,
        fence.agentable.0
    );
    Ok(reader.fetch_one(connection).await?)
}

/// Reads the first unread messages after `after`.
async fn read_unread(
    connection: &mut PgConnection,
    fence: &Fence,
    found: &mut Found,
    after: i64,
    fairness: Fairness,
) -> Result<()> {
    let row = sqlx::query!(
        r#"-- store::step::alone::unread
        select case when $5 then (
                    select count(*)::integer from houston.messages c
                     where c.agentable_id = k.agentable_id and houston.is_for_agent(c.source) and c.seq > $2) end as count,
               (select json_agg(json_build_object('seq', n.seq, 'source', n.source, 'metadata_type', n.metadata ->> 'type',
                                                  'content', n.content, 'is_for_run', n.run_id = k.run_id)
                                order by n.seq)
                  from (select o.*, row_number() over (order by o.seq) as nth,
                               sum(octet_length(o.content)) over (order by o.seq) - octet_length(o.content) as before
                          from (select c.seq, c.source, c.metadata, c.content, c.run_id from houston.messages c
                                 where c.agentable_id = k.agentable_id and houston.is_for_agent(c.source) and c.seq > $2
                                 order by c.seq limit $3 + 1) o) n
                 -- The second one shows that there are more, however long the first is.
                 where n.before <= $4 or n.nth = 2) as "unread: Json<Vec<Unread>>"
          from houston.run_locks k where k.agentable_id = $1"#,
        fence.agentable.0,
        after,
        fairness.messages(),
        i64::from(fairness.read_bytes),
        after != found.read_seq
    )
    .fetch_one(connection)
    .await?;
    found.unread = row.unread.map_or_else(Vec::new, |unread| unread.0);
    found.unread_after = row.count;
    Ok(())
}

/// Writes what only runs have that ask questions or remember something; `closes_all`: the run ends, and its open questions
/// are closed. Returns the step with the events that report this.
async fn write_for_driver<'s>(
    connection: &mut PgConnection,
    fence: &Fence,
    step: &'s Step,
    closes_all: bool,
    found: &mut Found,
) -> Result<Cow<'s, Step>> {
    if let Some(state) = step.state.as_deref() {
        sqlx::query!(
            "-- store::step::alone::set_driver_state
            update houston.runs set driver_state = $2 where id = $1",
            step.run.0,
            state
        )
        .execute(&mut *connection)
        .await?;
    }
    let step = question::write(connection, fence.agentable, step, closes_all).await?;
    if let RunTransition::Wait { questions, .. } = &step.transition {
        found.is_answered = question::has_closed(connection, questions).await?;
    }
    Ok(step)
}

/// Takes back what the run wrote and read. The end of a task remains a fact: the next run reads it in an entry after
/// `last_position`.
async fn roll_back(
    connection: &mut PgConnection,
    fence: &Fence,
    run: RunId,
    last_position: i64,
    through: i64,
) -> Result<()> {
    sqlx::query!(
        r#"-- store::step::alone::roll_back
        with entries as (
            update houston.history h set rolled_back = true
              from houston.run_locks k
             where k.agentable_id = $1 and h.agentable_id = $1 and h.position > k.session_position and h.position <= $3
               and h.run_id = $2)
        update houston.messages m set metadata = m.metadata || '{"rolled_back": true}'
         where m.agentable_id = $1 and m.run_id = $2
           and (not houston.is_for_agent(m.source)
                or m.seq <= $4 and (m.metadata ->> 'type') is distinct from 'task_ended')"#,
        fence.agentable.0,
        run.0,
        last_position,
        through
    )
    .run(connection)
    .await
}

/// The agentable of a run, and what was stored about the run before the step.
struct Reader {
    tenant: TenantId,
    kind: String,
    title: String,
    /// The agentable that created it, if it is a task.
    parent: Option<Uuid>,
    is_awake: bool,
    /// Up to where messages have been read, and how many have not.
    read_seq: i64,
    unread: i32,
    /// Number of its own tasks that it waits for.
    open_tasks: i32,
    /// The position of its newest history entry.
    last_position: i64,
    /// Whether the run has asked questions.
    asked: bool,
    /// Whether the run was to write a feed.
    writes_feed: bool,
    cancel_seq: Option<i64>,
    cancel_reason: Option<String>,
    /// Titles of the tasks that were cancelled with the run.
    cancelled_tasks: Vec<String>,
    cancelled_with_parent: bool,
}

impl Reader {
    /// The frames that a cancelled run leaves for the next one. A cancel discards unread messages, and a rollback also
    /// those that were read; the ends of tasks remain facts.
    async fn reports(
        &self,
        connection: &mut PgConnection,
        fence: &Fence,
        step: &Step,
        changes: &Changes<'_>,
    ) -> Result<Vec<MessageBlock>> {
        if changes.status() != Some(RunStatus::Cancelled) {
            return Ok(Vec::new());
        }
        let rolls_back = self.cancel_reason.as_deref() == Some("rollback");
        let mut frames = sqlx::query_scalar!(
            "-- store::step::end::discarded_reports
            select m.content from houston.messages m
             where m.agentable_id = $1 and m.source = 'system' and m.seq > $2 and (m.seq > $3 or m.run_id = $4)
               and m.seq <= $5 and m.metadata ->> 'type' = 'task_ended' order by m.seq",
            fence.agentable.0,
            if rolls_back { 0 } else { self.read_seq },
            self.read_seq,
            step.run.0,
            changes.read_seq.unwrap_or(self.read_seq)
        )
        .fetch_all(connection)
        .await?;
        if !self.cancelled_tasks.is_empty() {
            frames.push(cancelled_tasks(&self.cancelled_tasks));
        }
        Ok(frames.into_iter().map(|text| MessageBlock { text, frame: true }).collect())
    }
}

/// Does what follows from the end of the run, after its step was written.
async fn end(
    connection: &mut PgConnection,
    fence: &Fence,
    step: &Step,
    changes: &Changes<'_>,
    reader: &Reader,
    fairness: Fairness,
) -> Result<()> {
    let status = changes.status().unwrap_or(RunStatus::Failed);
    let is_failed = matches!(status, RunStatus::Failed | RunStatus::DeadLettered | RunStatus::Cancelled);
    if reader.writes_feed && !is_failed {
        // What the run collected does not belong to the next conversation.
        sqlx::query!(
            "-- store::step::end::close_session
            select houston.close_session($1, $2)",
            fence.agentable.0,
            CompletionReason::FeedGenerationComplete.as_str()
        )
        .fetch_one(&mut *connection)
        .await?;
    }
    let Some(parent) = reader.parent.map(AgentableId) else { return Ok(()) };
    let plan = step.plan.as_ref().and_then(|changes| changes.end.as_ref());
    let waits_for_tasks = plan.is_none() && reader.open_tasks > 0 && status != RunStatus::Cancelled;
    if changes.next_run.is_some() || waits_for_tasks {
        // It has not ended: the next run, or the one that the last of its tasks starts, goes on.
        return Ok(());
    }
    let (error_code, error_message) = changes.error();
    let ended = EndedTask {
        id: fence.agentable,
        tenant: reader.tenant,
        parent,
        end: TaskEnd {
            task: fence.agentable.public_id(&reader.kind),
            run: step.run,
            title: reader.title.clone(),
            status,
            error_code: error_code.map(str::to_owned),
            error_message: error_message.map(str::to_owned),
            cancelled_by: if reader.cancelled_with_parent {
                Some("parent".to_owned())
            } else {
                reader.cancel_reason.clone()
            },
        },
        position: reader.last_position + i64::try_from(step.entries.len()).unwrap_or(i64::MAX),
        is_known: reader.cancelled_with_parent,
        untrusted: step.untrusted,
        plan,
    };
    report(connection, &ended, fairness).await
}
