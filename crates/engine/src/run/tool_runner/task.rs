//! Creating tasks: their kind and their tools.

use houston_domain::task::TaskRequest;
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use houston_store::task::NewTask;
use houston_tools::Offer;

use super::ToolRunner;
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;

impl ToolRunner {
    /// The task that a tool call will create.
    ///
    /// # Errors
    /// A failed [`ToolResponse`] when the agent may not create such a task.
    pub(super) fn new_task<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        wanted: &TaskRequest,
    ) -> Result<NewTask, ToolResponse> {
        let creates = &self.setup.agent_type.creates;
        let kind = match &wanted.kind {
            Some(kind) => creates.iter().find(|known| *known == kind),
            None => creates.first(),
        };
        let setup = kind.and_then(|kind| journal.services.setup(kind)).ok_or_else(|| {
            let reason = match &wanted.kind {
                Some(kind) => format!("you cannot create a `{kind}`; there are: {}", creates.join(", ")),
                None => "you cannot create tasks: do it yourself, with your own tools".to_owned(),
            };
            ToolResponse::failure(ToolErrorCode::PermissionDenied, reason)
        })?;
        Ok(NewTask {
            id: journal.new_id(),
            run: journal.new_id(),
            message: journal.new_id(),
            kind: setup.agent_type.kind.clone(),
            status: setup.agent_type.initial_status().map(str::to_owned),
            title: wanted.title.clone(),
            instructions: wanted.instructions.clone(),
            tools: tools_of_task(&self.setup.offer, &setup.offer, wanted.tools.as_deref())?,
        })
    }
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
