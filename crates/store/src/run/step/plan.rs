//! What a step changes in the plan whose run it is of, as rows of its statement.

use chrono::{DateTime, Utc};
use houston_domain::event::Event;
use houston_domain::plan::{ChangedStep, PlanChanges};
use houston_domain::run::RunStatus;
use houston_domain::step::Step;
use houston_domain::step::decision::Changes;
use houston_domain::task::TaskEnd;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::task_report::plan_event;

/// A plan's part of a step.
#[derive(Debug, Serialize)]
pub(super) struct PlanRows {
    /// See [`PlanChanges::seen`].
    seen: i64,
    calls: i32,
    deadline: Option<DateTime<Utc>>,
    document: Option<Box<RawValue>>,
    steps: Box<RawValue>,
    ends: bool,
    output: Option<Box<RawValue>>,
    /// The agentable that the plan works for, if the statement tells it.
    pub(super) parent_id: Option<Uuid>,
    /// The event for its stream. `None`: it needs the whole list of steps, if a run of it is open.
    event: Option<Box<RawValue>>,
    /// The message that reports the end of the plan, and its metadata.
    pub(super) report: Option<String>,
    metadata: Option<Box<RawValue>>,
}

impl PlanRows {
    /// The rows of the plan itself. The caller tells others.
    pub(super) fn of(changes: &PlanChanges) -> serde_json::Result<Self> {
        let step = |ChangedStep { path, state, executor, question }: &ChangedStep| {
            let (task, question) = (executor.as_ref().map(|of| of.id.0), question.map(|of| of.0));
            let settled = state.status.is_settled();
            json!({"path": path, "state": state, "task_id": task, "question_id": question, "settled": settled})
        };
        let steps: Value = changes.steps.iter().map(step).collect();
        Ok(Self {
            seen: changes.seen,
            calls: i32::try_from(changes.calls).unwrap_or(i32::MAX),
            deadline: changes.deadline,
            document: changes.document.as_ref().map(|(document, _)| to_raw_value(document)).transpose()?,
            steps: to_raw_value(&steps)?,
            ends: changes.end.is_some(),
            output: changes.end.as_ref().map(|end| to_raw_value(&end.output)).transpose()?,
            parent_id: None,
            event: None,
            report: None,
            metadata: None,
        })
    }

    /// Lets the statement tell the agentable that the plan works for what people see, and its agent of the end. Returns false if
    /// it cannot.
    pub(super) fn tell(
        &mut self,
        step: &Step,
        plan: &PlanChanges,
        changes: &Changes<'_>,
    ) -> serde_json::Result<bool> {
        if self.ends != changes.ends() {
            return Ok(false);
        }
        if let Some(end) = &plan.end {
            let (code, message) = changes.error();
            let task = TaskEnd {
                task: plan.plan_id.clone(),
                run: step.run,
                // Neither the event nor the metadata has it.
                title: String::new(),
                status: changes.status().unwrap_or(RunStatus::Failed),
                error_code: code.map(str::to_owned),
                error_message: message.map(str::to_owned),
                cancelled_by: None,
            };
            self.parent_id = Some(plan.parent.0);
            self.event = Some(to_raw_value(&plan_event(&task, end))?);
            self.report = Some(end.report.clone());
            self.metadata = Some(to_raw_value(&task.metadata())?);
        } else if let Some(listed) = &plan.listed {
            self.parent_id = Some(plan.parent.0);
            if !listed.delta.is_empty() {
                let (plan_id, delta) = (plan.plan_id.clone(), listed.delta.clone());
                self.event = Some(to_raw_value(&Event::PlanProgress { plan_id, delta, checklist: None })?);
            }
        }
        Ok(true)
    }

    /// The bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        let json = |json: &Option<Box<RawValue>>| json.as_ref().map_or(0, |json| json.get().len());
        let (steps, report) = (self.steps.get().len(), self.report.as_ref().map_or(0, String::len));
        steps + report + json(&self.document) + json(&self.output) + json(&self.event)
    }
}
