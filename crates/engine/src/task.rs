//! Creating tasks: their kind, tools, events and hints. Also the setup of runs whose agentable has its own tools (tasks), or
//! that no user message opened.

use std::sync::Arc;

use houston_domain::event::{Event, Live};
use houston_domain::id::{AgentableId, MessageId};
use houston_domain::step::{RunTransition, Step};
use houston_domain::task::TaskRequest;
use houston_domain::tool_call::{Record, ToolCall, ToolErrorCode, ToolResponse};
use houston_queue::Hint;
use houston_store::run_context::Setting;
use houston_store::task::NewTask;
use houston_tools::Offer;
use houston_tools::builtin::READ_RESULT;

use crate::commit::PendingRecord;
use crate::engine::{Setup, reply_of};
use crate::run_driver::RunDriver;

impl RunDriver<'_> {
    /// The row that a tool call will write.
    ///
    /// # Errors
    /// A failed [`ToolResponse`] when the agent may not create such a task.
    pub(crate) fn pending_record(
        &self,
        call: &ToolCall,
        record: Record,
    ) -> Result<PendingRecord, ToolResponse> {
        let task = match &record {
            Record::CreateTask(wanted) => Some(self.new_task(wanted)?),
            _ => None,
        };
        Ok(PendingRecord { call: call.id.clone(), id: self.engine.ids.next(), record, task })
    }

    fn new_task(&self, wanted: &TaskRequest) -> Result<NewTask, ToolResponse> {
        let creates = &self.setup.agent_type.creates;
        let kind = match &wanted.kind {
            Some(kind) => creates.iter().find(|known| *known == kind),
            None => creates.first(),
        };
        let setup = kind.and_then(|kind| self.engine.setup(kind)).ok_or_else(|| {
            let reason = match &wanted.kind {
                Some(kind) => format!("you cannot create a `{kind}`; there are: {}", creates.join(", ")),
                None => "you cannot create tasks: do it yourself, with your own tools".to_owned(),
            };
            ToolResponse::failure(ToolErrorCode::PermissionDenied, reason)
        })?;
        Ok(NewTask {
            id: self.engine.ids.next(),
            run: self.engine.ids.next(),
            message: self.engine.ids.next(),
            kind: setup.agent_type.kind.clone(),
            status: setup.agent_type.initial_status().map(str::to_owned),
            title: wanted.title.clone(),
            instructions: wanted.instructions.clone(),
            tools: tools_of_task(&self.setup.offer, &setup.offer, wanted.tools.as_deref())?,
        })
    }

    /// Sends hints for the tasks that a step created.
    pub(crate) fn send_task_hints(&self, step: &Step, records: &[PendingRecord]) {
        for task in records.iter().filter_map(|recorded| recorded.task.as_ref()) {
            let begun = |event: &Event| matches!(event, Event::TaskStarted { task_run_id, .. } if *task_run_id == task.run);
            if !step.events.iter().any(begun) {
                continue;
            }
            let urgency = self.engine.setup(&task.kind).map(|setup| setup.agent_type.urgency);
            self.engine.hints.send(urgency.unwrap_or_default().into(), Hint::run(task.id));
        }
    }

    /// Wakes streams of the agentable that created this task when a step ends the run; they read the events of the end from
    /// Postgres.
    pub(crate) fn nudge_parent(&self, step: &Step) {
        let ends =
            matches!(step.transition, RunTransition::Complete { .. } | RunTransition::Terminate { .. });
        if let Some(parent) = self.claimed.parent.filter(|_| ends) {
            self.engine.bus.publish(parent, Live::Nudge);
        }
    }
}

/// The setup of this run: limited to the agentable's own tools if it has some (a task), and without the need to reply if no
/// user message opened the run.
pub(crate) fn setup_of_run(setup: &Arc<Setup>, setting: &Setting) -> Arc<Setup> {
    if setting.tools.is_none() && setting.mode.is_none() {
        return Arc::clone(setup);
    }
    let mut setup = Setup::clone(setup);
    if let Some(tools) = &setting.tools {
        // Large results can always be read.
        let with_results: Vec<String> = tools.iter().cloned().chain([READ_RESULT.to_owned()]).collect();
        setup.offer_with_results = setup.offer_with_results.limited_to(&with_results);
        setup.offer = setup.offer.limited_to(tools);
        setup.policy.reply = reply_of(setup.policy.reply, &setup.offer);
    }
    setup.policy.expects_reply = setting.mode.is_none();
    Arc::new(setup)
}

/// The tools of a task: those of its kind which its creator may call as well; of these only the `wanted` ones, if given.
fn tools_of_task(
    creator: &Offer,
    kind: &Offer,
    wanted: Option<&[String]>,
) -> Result<Vec<String>, ToolResponse> {
    let names =
        |offer: &Offer| -> Vec<String> { offer.definitions().iter().map(|tool| tool.name.clone()).collect() };
    let allowed = names(&kind.limited_to(&names(creator)));
    let Some(wanted) = wanted else { return Ok(allowed) };
    match wanted.iter().find(|name| !allowed.contains(name)) {
        None => Ok(wanted.to_vec()),
        Some(name) => Err(ToolResponse::failure(
            ToolErrorCode::ValidationError,
            format!("create_task: a task cannot have `{name}`; there are: {}", allowed.join(", ")),
        )),
    }
}

/// Adds an event for each task that was created successfully.
pub(crate) fn tasks_started(
    step: &mut Step,
    records: &[PendingRecord],
    responses: &[(String, ToolResponse)],
    cells: &[(String, MessageId)],
) {
    for recorded in records {
        let Some(task) = &recorded.task else { continue };
        let created =
            responses.iter().any(|(call, response)| *call == recorded.call && response.is_success());
        let cell = cells.iter().find(|(call, _)| *call == recorded.call).map(|(_, cell)| *cell);
        if let Some(message_id) = cell.filter(|_| created) {
            step.events.push(Event::TaskStarted {
                task_id: AgentableId::public_id(task.id, &task.kind),
                task_run_id: task.run,
                title: task.title.clone(),
                message_id,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use houston_tools::{Registry, builtin};

    use super::*;

    fn offer(names: &[&str]) -> Offer {
        let mut registry = Registry::default();
        for tool in builtin::all() {
            registry.add(tool).unwrap();
        }
        registry.offer(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn task_gets_wanted_tools_its_kind_and_creator_have() {
        let creator = offer(&["send_message", "create_note", "list_notes", "create_task"]);
        let kind = offer(&["create_note", "list_notes", "read_note"]);
        let wanted = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            tools_of_task(&creator, &kind, Some(&names))
        };
        assert_eq!(tools_of_task(&creator, &kind, None).unwrap(), ["create_note", "list_notes"]);
        assert_eq!(wanted(&["list_notes"]).unwrap(), ["list_notes"]);
        assert_eq!(wanted(&[]).unwrap(), [""; 0]);
        for refused in ["read_note", "send_message", "create_task", "fly"] {
            let error = wanted(&["create_note", refused]).unwrap_err();
            assert!(
                error.text().contains(refused) && error.text().contains("create_note, list_notes"),
                "{error:?}"
            );
        }
    }
}
