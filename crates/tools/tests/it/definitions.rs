//! The definitions of the built-in tools, as they are in `definitions.json`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use houston_domain::guard::ToolFacts;
use houston_domain::plan::{Template, Templates};
use houston_domain::tool_call::ToolDefinition;
use houston_sandbox::{Program, Sandbox};
use houston_testkit::snapshot;
use houston_tools::outside::{Provider, SearchSettings, Web};
use houston_tools::{Outside, Registry, SharedTool, Situation, builtin};
use serde_json::{Map, Value, json};

/// The settings of `jobs/`, on a machine that can build the walls of the sandbox. Two tools are not offered with these, and
/// are defined nevertheless: `create_tool` and `run_shell`.
fn outside() -> Outside {
    let names: Vec<String> =
        builtin::all(&Outside::default()).iter().map(|tool| tool.definition().name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let templates = [
        ("compare", include_str!("../../../../jobs/plans/compare.json")),
        ("research", include_str!("../../../../jobs/plans/research.json")),
    ];
    let search = SearchSettings { provider: Provider::Tavily, url: None, key: None };
    Outside {
        web: Arc::new(Web::new(Vec::new(), houston_web::Limits::default(), Some(search))),
        sandbox: Some(Sandbox::new(Program::this(), 4)),
        code_time: Duration::from_secs(5),
        code_calls: 100,
        snippet_tools: 0,
        shell: None,
        shell_time: Duration::from_secs(30),
        keeps_files: false,
        plan_templates: Arc::new(Templates::new(
            templates.map(|(name, text)| Template::parse(text, name, &names).unwrap()),
        )),
    }
}

/// When the tool is offered: `always`, `never` with these settings, or what must be the case.
fn offered(tool: &SharedTool) -> Value {
    let all = Situation { has_sessions: true, has_skills: true, makes_plans: true };
    if !tool.offered(all) {
        return json!("never");
    }
    let lacking = [
        ("has_sessions", Situation { has_sessions: false, ..all }),
        ("has_skills", Situation { has_skills: false, ..all }),
        ("makes_plans", Situation { makes_plans: false, ..all }),
    ];
    let needs: Vec<&str> =
        lacking.iter().filter(|(_, without)| !tool.offered(*without)).map(|(name, _)| *name).collect();
    if needs.is_empty() { json!("always") } else { json!(needs) }
}

/// What guards rely on, without what is empty.
fn facts(facts: &ToolFacts) -> Value {
    let mut all = match json!(facts) {
        Value::Object(fields) => fields,
        other => panic!("{other}"),
    };
    // Fields that settings cannot change are not serialised.
    all.insert("in_place_of_host".to_owned(), json!(facts.in_place_of_host));
    all.insert("asks_each_time".to_owned(), json!(facts.asks_each_time));
    let is_empty = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    Value::Object(all.into_iter().filter(|(_, value)| !is_empty(value)).collect())
}

fn definition(definition: &ToolDefinition) -> Map<String, Value> {
    let ToolDefinition { name, description, input_schema, effect, timeout } = definition;
    let Value::Object(fields) = json!({
        "name": name,
        "description": description,
        "input_schema": **input_schema,
        "effect": effect,
        "timeout_ms": u64::try_from(timeout.as_millis()).unwrap(),
    }) else {
        unreachable!()
    };
    fields
}

fn described(tool: &SharedTool) -> Value {
    let mut fields = definition(tool.definition());
    let more = json!({
        "stop_within_ms": u64::try_from(tool.stop_within().as_millis()).unwrap(),
        "offered": offered(tool),
        "for_code": tool.is_for_code(),
        "capability": tool.capability(),
        "facts": facts(&tool.facts()),
    });
    fields.extend(more.as_object().unwrap().clone());
    Value::Object(fields)
}

#[test]
fn definitions_of_built_in_tools_are_as_recorded() {
    let mut tools = builtin::all(&outside());
    tools.sort_by(|one, other| one.definition().name.cmp(&other.definition().name));
    let mut registry = Registry::default();
    tools.iter().for_each(|tool| registry.add(Arc::clone(tool)).unwrap());
    let find = |name: &str| tools.iter().find(|tool| tool.definition().name == name).unwrap();
    // The tools that find the others are sent at the end of a list that is searched.
    let searched = registry.offer(&registry.names()).unwrap().searched_above(0, &[], |_| 1);
    let finding: Vec<Value> = searched.definitions()
        [searched.definitions().len() - houston_tools::FINDING_TOOLS..]
        .iter()
        .map(|found| described(searched.get(&found.name).unwrap()))
        .collect();
    // Code that may call tools: the definition has the signature of each of them.
    let callable = ["get_current_time", "search_web"].map(|name| find(name).definition().clone());
    let in_code_mode: Vec<Value> = tools
        .iter()
        .filter_map(|tool| tool.calling(&callable))
        .map(|tool| Value::Object(definition(tool.definition())))
        .collect();
    let all = json!({
        "tools": tools.iter().map(described).collect::<Vec<_>>(),
        "tools_that_find_others": finding,
        "in_code_mode_with_get_current_time_and_search_web": in_code_mode,
    });
    let text = serde_json::to_string_pretty(&all).unwrap() + "\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/definitions.json");
    if let Err(difference) = snapshot::compare(&file, &text) {
        panic!("{difference}");
    }
}
