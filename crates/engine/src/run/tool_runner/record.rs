//! Tool calls that write rows of Houston's own tables: the rows and the step with their results are one commit.

use std::sync::Arc;

use houston_domain::event::Event;
use houston_domain::id::AgentableId;
use houston_domain::step::{LargeResult, Step};
use houston_domain::tool_call::{ToolCall, ToolResponse};
use houston_queue::Hint;
use houston_spans::Span;
use houston_store::record::{Owner, RecordIds, RecordLimits};
use houston_store::step::CommittedStep;
use houston_tools::builtin::{READ_RESULT, preview};
use houston_tools::{NewTaskInfo, Record};

use super::cells::cell_of;
use super::execution::{noted, parent};
use super::{Cells, Responses, ToolRunner, cut};
use crate::config::Config;
use crate::error::Result;
use crate::run::journal::{Journal, Rows};
use crate::run::storage::{RecordOf, RunStorage, RunTransaction};

/// A tool call that writes a row of Houston's own tables, before the row is written.
#[derive(Debug, Clone)]
pub(crate) struct PendingRecord {
    /// The id of the tool call.
    call: String,
    /// The ids of what it creates.
    ids: RecordIds,
    record: Arc<dyn Record>,
    /// What the model reads before the result.
    note: Option<String>,
    /// Whether the session had read what strangers wrote when the call was carried out.
    untrusted: bool,
    /// The span of the call, in which the task or plan is begun that it starts.
    traceparent: Option<String>,
    /// Whether the call succeeded when the row was written. The step contains the result.
    succeeded: bool,
}

/// The rows that are committed with a step, if there are some.
pub(crate) type StepRows<S> = Option<WrittenRecords<<S as RunStorage>::Transaction>>;

/// Rows written in an open transaction, whose step is not committed yet.
pub(crate) struct WrittenRecords<T> {
    rows: T,
    records: Vec<PendingRecord>,
}

impl PendingRecord {
    pub(super) fn new<S: RunStorage>(
        journal: &Journal<'_, S>,
        call: String,
        record: Arc<dyn Record>,
        note: Option<String>,
    ) -> Self {
        let ids = RecordIds { row: journal.new_id(), run: journal.new_id(), message: journal.new_id() };
        Self { call, ids, record, note, untrusted: false, traceparent: None, succeeded: false }
    }
}

/// Begins the spans of calls that start tasks or plans, before these are stored: their runs are parts of them. Returns the ids
/// of the calls with their spans; without a tracer there are none.
pub(super) fn begin_spans<S: RunStorage>(
    journal: &Journal<'_, S>,
    calls: &[ToolCall],
    records: &mut [PendingRecord],
) -> Vec<(String, Span)> {
    let parent = parent(journal);
    let mut begun = Vec::new();
    if !parent.is_on() {
        return begun;
    }
    for record in records.iter_mut().filter(|record| record.record.task().is_some()) {
        if let Some(call) = calls.iter().find(|call| call.id == record.call) {
            let span = parent.tool(call);
            record.traceparent = span.parent().map(|parent| parent.to_string());
            begun.push((call.id.clone(), span));
        }
    }
    begun
}

impl ToolRunner {
    /// The response of a plan's step as the plan keeps it.
    pub(crate) fn step_response<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        response: ToolResponse,
    ) -> ToolResponse {
        self.taint.add_result(response.text());
        cut(journal, response)
    }

    /// Writes the records in a transaction behind the fence. Returns them with the open transaction, and the response to each
    /// call.
    pub(crate) async fn write_records<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        mut records: Vec<PendingRecord>,
    ) -> Result<(WrittenRecords<S::Transaction>, Responses)> {
        for record in &mut records {
            record.untrusted = self.taint.untrusted;
        }
        let (rows, responses) = write(journal, &records).await?;
        for (record, (_, response)) in records.iter_mut().zip(&responses) {
            record.succeeded = response.is_success();
        }
        Ok((WrittenRecords { rows, records }, responses))
    }
}

async fn write<S: RunStorage>(
    journal: &Journal<'_, S>,
    records: &[PendingRecord],
) -> Result<(S::Transaction, Responses)> {
    let write = |_| async move {
        let mut rows = journal.begin().await?;
        let mut responses = Responses::with_capacity(records.len());
        for PendingRecord { call, ids, record, note, untrusted, traceparent, .. } in records {
            rows.set_traceparent(traceparent.as_deref());
            let of = record_of(journal, *ids);
            let owner = Owner { untrusted: *untrusted, ..of.owner };
            let response = rows.record(RecordOf { owner, ..of }, &**record).await?;
            responses.push((call.clone(), cut(journal, noted(response, note.as_deref()))));
        }
        Ok((rows, responses))
    };
    journal.retrying(write).await
}

/// What the records would change. Nothing is written.
pub(super) async fn previews<S: RunStorage>(
    journal: &Journal<'_, S>,
    records: &[&PendingRecord],
) -> Result<Vec<Option<String>>> {
    let preview = |_| async move {
        let mut rows = journal.begin().await?;
        let mut previews = Vec::with_capacity(records.len());
        for PendingRecord { ids, record, .. } in records {
            previews.push(rows.preview(record_of(journal, *ids), &**record).await?);
        }
        Ok(previews)
    };
    journal.retrying(preview).await
}

/// What a record reads; what it writes is not kept.
pub(super) async fn read_record<S: RunStorage>(
    journal: &Journal<'_, S>,
    ids: RecordIds,
    record: &dyn Record,
) -> houston_store::Result<ToolResponse> {
    journal.begin().await?.record(record_of(journal, ids), record).await
}

fn record_of<S: RunStorage>(journal: &Journal<'_, S>, ids: RecordIds) -> RecordOf {
    let Config { tasks, reach, check_ins, context, .. } = journal.services.config;
    let limits = RecordLimits { tasks, reach, check_ins, page_bytes: context.results.page_bytes };
    RecordOf { owner: journal.owner, ids, limits }
}

/// The tasks that were created.
fn tasks(records: &[PendingRecord]) -> impl Iterator<Item = (&PendingRecord, NewTaskInfo<'_>)> {
    let written = records.iter().filter(|record| record.succeeded);
    written.filter_map(|record| Some((record, record.record.task()?)))
}

impl<S: RunStorage> Rows<S> for Vec<PendingRecord> {
    async fn write(&self, journal: &Journal<'_, S>) -> Result<Option<S::Transaction>> {
        let (rows, responses) = write(journal, self).await?;
        let mut written = self.iter().zip(&responses);
        let is_same = written.all(|(record, (_, response))| record.succeeded == response.is_success());
        Ok(is_same.then_some(rows))
    }
}

impl<T> WrittenRecords<T> {
    /// Adds an event for each task that was created.
    pub(super) fn add_task_events(&self, step: &mut Step, cells: &Cells) {
        for (PendingRecord { call, ids, .. }, task) in tasks(&self.records) {
            let id = AgentableId(ids.row).public_id(task.kind);
            if let Some(plan) = task.plan {
                let (checklist, goal) = (plan.checklist(&id), task.title.to_owned());
                step.events.push(Event::PlanCreated { plan_id: id, goal, checklist });
            } else if let Some(message_id) = cell_of(cells, call) {
                step.events.push(Event::TaskStarted {
                    task_id: id,
                    task_run_id: ids.run,
                    title: task.title.to_owned(),
                    message_id,
                });
            }
        }
    }

    /// Whether a plan was made that the run waits for.
    pub(crate) fn has_attached_plan(&self) -> bool {
        tasks(&self.records).any(|(_, task)| task.plan.is_some_and(|plan| plan.attached))
    }
}

/// Commits a step together with the records, and sends hints for the tasks among them.
pub(crate) async fn commit_with<S: RunStorage>(
    journal: &mut Journal<'_, S>,
    step: Step,
    records: StepRows<S>,
) -> Result<CommittedStep> {
    let Some(WrittenRecords { rows, records }) = records else { return journal.commit(step).await };
    let done = journal.commit_with_rows(rows, step, &records).await?;
    for (pending, task) in tasks(&records) {
        let hint = Hint::run(AgentableId(pending.ids.row));
        journal.services.hints.send(journal.services.lane(task.kind), hint);
    }
    Ok(done)
}

impl ToolRunner {
    /// The response of the tool `tool` for events and history. A response longer than `inline_bytes` becomes a preview, and
    /// `step` stores the whole as a [`LargeResult`].
    pub(super) fn store_large_result<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        step: &mut Step,
        tool: &str,
        call: &str,
        response: ToolResponse,
    ) -> ToolResponse {
        let response = cut(journal, response);
        let limits = journal.services.config.context.results;
        let can_read_on = self.setup.offer_with_results.get(READ_RESULT).is_some();
        if response.text().len() <= limits.inline_bytes || !can_read_on {
            return response;
        }
        let large = LargeResult {
            id: journal.new_id(),
            call: call.to_owned(),
            tool: tool.to_owned(),
            content: response.text().to_owned(),
        };
        let preview = preview(&response, large.id, limits.beginning_bytes);
        step.large_results.push(large);
        self.has_results = true;
        preview
    }
}
