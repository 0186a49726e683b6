//! Tool calls that write rows of Houston's own tables: the rows and the step with their results are one commit.

use houston_domain::event::Event;
use houston_domain::id::{AgentableId, CheckInId};
use houston_domain::step::Step;
use houston_domain::tool_call::{Record, ToolCall, ToolResponse};
use houston_queue::Hint;
use houston_store::step::CommittedStep;
use houston_store::task::NewTask;
use uuid::Uuid;

use super::{Cells, Responses, ToolRunner, cell_of, cut};
use crate::error::Interrupted;
use crate::run::journal::{Journal, Rows};
use crate::run::storage::{RunStorage, RunTransaction};

/// A tool call that writes a row of Houston's own tables, before the row is written.
#[derive(Debug, Clone)]
pub(super) struct PendingRecord {
    /// The id of the tool call.
    call: String,
    /// The id the row will have.
    id: Uuid,
    record: Record,
    /// The task that `record` asks for, if it asks for one.
    task: Option<NewTask>,
}

/// Rows written in an open transaction, whose step is not committed yet.
pub(crate) struct WrittenRecords<T> {
    rows: T,
    records: Records,
}

struct Records {
    pending: Vec<PendingRecord>,
    /// For each record, whether its call succeeded. The step contains the results.
    succeeded: Vec<bool>,
}

impl ToolRunner {
    /// The row that a tool call will write.
    ///
    /// # Errors
    /// A failed [`ToolResponse`] when the agent may not write it.
    pub(super) fn pending_record<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        call: &ToolCall,
        record: Record,
    ) -> Result<PendingRecord, ToolResponse> {
        let record = match record {
            // Only the settings know the size of a page.
            Record::ReadResult { id, query, .. } => {
                let max_bytes = journal.services.config.context.results.page_bytes;
                Record::ReadResult { id, query, max_bytes }
            }
            record => record,
        };
        let task = match &record {
            Record::CreateTask(wanted) => Some(self.new_task(journal, wanted)?),
            _ => None,
        };
        Ok(PendingRecord { call: call.id.clone(), id: journal.new_id(), record, task })
    }

    /// Writes the records in a transaction behind the fence. Returns them with the open transaction, and the response to each
    /// call.
    pub(super) async fn write_records<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        records: Vec<PendingRecord>,
    ) -> Result<(WrittenRecords<S::Transaction>, Responses), Interrupted> {
        let (rows, responses) = write(journal, &records).await?;
        let records = Records { succeeded: succeeded(&responses), pending: records };
        Ok((WrittenRecords { rows, records }, responses))
    }
}

async fn write<S: RunStorage>(
    journal: &Journal<'_, S>,
    records: &[PendingRecord],
) -> Result<(S::Transaction, Responses), Interrupted> {
    journal.retrying(|_| try_write(journal, records)).await
}

async fn try_write<S: RunStorage>(
    journal: &Journal<'_, S>,
    records: &[PendingRecord],
) -> houston_store::Result<(S::Transaction, Responses)> {
    let (owner, config) = (journal.owner, &journal.services.config);
    let mut rows = journal.begin().await?;
    let mut responses = Responses::with_capacity(records.len());
    for PendingRecord { call, id, record, task } in records {
        let response = match (record, task) {
            (_, Some(task)) => rows.create_task(owner, task, &config.tasks).await?,
            (Record::ScheduleCheckIn(wanted), _) => {
                rows.schedule_check_in(owner, CheckInId(*id), wanted, &config.check_ins).await?
            }
            (record, None) => rows.record(owner, *id, record).await?,
        };
        responses.push((call.clone(), cut(journal, response)));
    }
    Ok((rows, responses))
}

/// For each response, whether the call succeeded.
fn succeeded(responses: &Responses) -> Vec<bool> {
    responses.iter().map(|(_, response)| response.is_success()).collect()
}

impl Records {
    /// The records whose call succeeded, with a task or without.
    fn written(&self) -> impl Iterator<Item = &PendingRecord> {
        self.pending
            .iter()
            .zip(&self.succeeded)
            .filter(|(_, succeeded)| **succeeded)
            .map(|(pending, _)| pending)
    }
}

impl<S: RunStorage> Rows<S> for Records {
    async fn write(&self, journal: &Journal<'_, S>) -> Result<Option<S::Transaction>, Interrupted> {
        let (rows, responses) = write(journal, &self.pending).await?;
        Ok((succeeded(&responses) == self.succeeded).then_some(rows))
    }
}

impl<T> WrittenRecords<T> {
    /// Adds an event for each task that was created.
    pub(super) fn add_task_events(&self, step: &mut Step, cells: &Cells) {
        for pending in self.records.written() {
            let Some(task) = &pending.task else { continue };
            if let Some(message_id) = cell_of(cells, &pending.call) {
                step.events.push(Event::TaskStarted {
                    task_id: AgentableId::public_id(task.id, &task.kind),
                    task_run_id: task.run,
                    title: task.title.clone(),
                    message_id,
                });
            }
        }
    }

    /// Commits a step together with the records, and sends hints for the tasks among them.
    ///
    /// # Errors
    /// As [`Journal::commit_with_rows`].
    pub(crate) async fn commit<S: RunStorage<Transaction = T>>(
        self,
        journal: &mut Journal<'_, S>,
        step: Step,
    ) -> Result<CommittedStep, Interrupted> {
        let Self { rows, records } = self;
        let done = journal.commit_with_rows(rows, step, &records).await?;
        for task in records.written().filter_map(|pending| pending.task.as_ref()) {
            journal.services.hints.send(journal.services.lane(&task.kind), Hint::run(task.id));
        }
        Ok(done)
    }
}
