//! What the tools are: their definitions in `tools.json`, each with the scope that a key needs to see it.

use std::sync::OnceLock;

use houston_domain::scope::Scope;
use serde_json::Value;

/// The definitions as clients get them, except `scope`.
const DEFINITIONS: &str = include_str!("tools.json");

/// One tool.
#[derive(Debug)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) scope: Scope,
    definition: Value,
}

fn all() -> &'static [Tool] {
    static ALL: OnceLock<Vec<Tool>> = OnceLock::new();
    ALL.get_or_init(|| {
        // A test reads the same file.
        let definitions: Vec<Value> = serde_json::from_str(DEFINITIONS).unwrap_or_default();
        definitions.into_iter().filter_map(read).collect()
    })
}

fn read(mut definition: Value) -> Option<Tool> {
    let scope = definition.as_object_mut()?.remove("scope")?;
    Some(Tool {
        name: definition["name"].as_str()?.to_owned(),
        scope: scope.as_str()?.parse().ok()?,
        definition,
    })
}

/// The definitions of the tools for which a key has the scope.
pub(super) fn listed(allows: impl Fn(Scope) -> bool) -> Vec<&'static Value> {
    all().iter().filter(|tool| allows(tool.scope)).map(|tool| &tool.definition).collect()
}

pub(super) fn find(name: &str) -> Option<&'static Tool> {
    all().iter().find(|tool| tool.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_is_complete() {
        let definitions: Vec<Value> = serde_json::from_str(DEFINITIONS).unwrap();
        assert_eq!(all().len(), definitions.len());
        assert_eq!(all().len(), 8);
        for Tool { name, scope, definition } in all() {
            let annotations = &definition["annotations"];
            assert_eq!(annotations["readOnlyHint"], *scope == Scope::Read, "{name}");
            assert!(annotations["destructiveHint"].is_boolean() || *scope == Scope::Read, "{name}");
            assert_eq!(annotations["openWorldHint"], *scope == Scope::Post, "{name}: agents reach the world");
            for schema in ["inputSchema", "outputSchema"] {
                assert_eq!(definition[schema]["type"], "object", "{name}");
            }
            assert_eq!(definition["inputSchema"]["additionalProperties"], false, "{name}");
            assert!(definition["description"].as_str().unwrap().len() > 20, "{name}");
        }
    }

    #[test]
    fn keys_see_the_tools_of_their_scopes() {
        let names =
            |scope| listed(|of| of == scope).iter().map(|tool| tool["name"].clone()).collect::<Vec<_>>();
        assert_eq!(names(Scope::Read), ["list_threads", "read_thread", "wait_for_run", "list_questions"]);
        assert_eq!(names(Scope::Post), ["start_thread", "post_message", "answer_question", "cancel_run"]);
        assert!(names(Scope::Operate).is_empty());
    }
}
