//! What follows from the end of a run, in the transaction that ends it: frames for the next run, the end of a session
//! that wrote a feed, the report of a task.

use houston_domain::frame::MessageBlock;
use houston_domain::id::{AgentableId, TenantId};
use houston_domain::run::RunStatus;
use houston_domain::session::CompletionReason;
use houston_domain::step::Step;
use houston_domain::step::decision::Changes;
use houston_domain::task_report::{TaskEnd, cancelled_tasks};
use sqlx::PgConnection;

use crate::claim::Fence;
use crate::error::Result;
use crate::settings::Fairness;
use crate::task_report::{EndedTask, report};

/// The agentable of a run, and what was stored about the run before the step.
pub(super) struct Reader {
    pub(super) tenant: TenantId,
    pub(super) kind: String,
    pub(super) title: String,
    /// The agentable that created it, if it is a task.
    pub(super) parent: Option<AgentableId>,
    /// Number of its own tasks that it waits for.
    pub(super) open_tasks: i32,
    /// The position of its newest history entry.
    pub(super) last_position: i64,
    /// Whether the run has asked questions.
    pub(super) asked: bool,
    /// Whether the run was to write a feed.
    pub(super) writes_feed: bool,
    pub(super) cancel_reason: Option<String>,
    /// Titles of the tasks that were cancelled with the run.
    pub(super) cancelled_tasks: Vec<String>,
    pub(super) cancelled_with_parent: bool,
}

impl Reader {
    /// The frames that a cancelled run leaves for the next one. A cancel discards unread messages, and a rollback also
    /// those that were read; the ends of tasks remain facts. `read_seq`: up to where messages had been read before.
    pub(super) async fn reports(
        &self,
        connection: &mut PgConnection,
        fence: &Fence,
        step: &Step,
        changes: &Changes<'_>,
        read_seq: i64,
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
            if rolls_back { 0 } else { read_seq },
            read_seq,
            step.run.0,
            changes.read_seq.unwrap_or(read_seq)
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
pub(super) async fn end(
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
    let Some(parent) = reader.parent else { return Ok(()) };
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
