//! The kinds of task that an agent may create, each with the tools that such a task may call.

use std::sync::Arc;

use houston_domain::tool_call::EffectClass;
use houston_tools::{Offer, TaskKind};

use super::ToolRunner;
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;
use crate::setup::Drive;

impl ToolRunner {
    /// The kinds in the order of the agent type: the first is the usual one.
    pub(crate) fn task_kinds<S: RunStorage>(&self, journal: &Journal<'_, S>) -> Arc<[TaskKind]> {
        let kinds = self.task_kinds.get_or_init(|| {
            let creates = self.setup.agent_type.creates.iter();
            let setups = creates.filter_map(|kind| journal.services.setup(kind));
            let kind = |setup: &Arc<crate::setup::Setup>| {
                let tools = common_tools(&self.setup.offer, &setup.offer);
                let acts = |tool: &&String| {
                    let tool = setup.offer.get(tool);
                    tool.is_some_and(|tool| tool.definition().effect == EffectClass::Effect)
                };
                let is_plan = matches!(setup.drive, Drive::PlanGraph);
                TaskKind {
                    kind: setup.agent_type.kind.clone(),
                    is_plan,
                    status: setup.agent_type.initial_status().map(str::to_owned),
                    acting: if is_plan { tools.iter().filter(acts).cloned().collect() } else { Vec::new() },
                    autonomy: self.setup.agent_type.autonomy,
                    tools,
                }
            };
            setups.map(kind).collect()
        });
        Arc::clone(kinds)
    }
}

/// The tools of a kind of task which its creator may call as well.
fn common_tools(creator: &Offer, kind: &Offer) -> Vec<String> {
    let names = |offer: &Offer| -> Vec<String> {
        offer.tools().iter().map(|tool| tool.definition().name.clone()).collect()
    };
    names(&kind.limited_to(&names(creator)))
}

#[cfg(test)]
mod tests {
    use houston_tools::{Outside, Registry, builtin};

    use super::*;

    fn offer(names: &[&str]) -> Offer {
        let mut registry = Registry::default();
        for tool in builtin::all(&Outside::default()) {
            registry.add(tool).unwrap();
        }
        registry.offer(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn task_gets_tools_its_kind_and_creator_have() {
        let creator = offer(&["send_message", "create_note", "list_notes", "create_task"]);
        let kind = offer(&["create_note", "list_notes", "read_note"]);
        assert_eq!(common_tools(&creator, &kind), ["create_note", "list_notes"]);
    }
}
