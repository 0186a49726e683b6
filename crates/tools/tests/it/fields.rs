//! The tables of fields, the bodies of requests as the OpenAPI document has them, and the schemas of the tools say the same.

use std::collections::BTreeSet;

use houston_domain::field::{Entity, Field, FieldType, Max, UpdatableBy};
use houston_tools::{Outside, SharedTool, builtin};
use serde_json::{Map, Value, json};

use crate::test_run::TestRun;

/// Bodies of a PATCH without a table: one sentence, what the user's own table or the kind's own schema describes, and the
/// changes of a plan's document, which has its own schema.
const WITHOUT_TABLE: [&str; 3] = ["ChangePlan", "Sentence", "UpdateRecord"];
/// The fields of bodies that change nothing of the thing itself.
const OF_REQUESTS: [&str; 3] = ["version", "allow_unlisted_model", "kind"];

fn body(entity: Entity) -> &'static str {
    match entity {
        Entity::Goal | Entity::Task => "UpdateAgentable",
        Entity::Agent => "AgentSettingsRequest",
        Entity::Team => "TeamSettingsRequest",
        Entity::User => "UpdateUser",
        Entity::Profile => "UpdateProfile",
        Entity::Todo => "UpdateTodo",
        Entity::Note => "UpdateNote",
        Entity::FeedItem => "UpdateFeedItem",
        Entity::Webhook => "UpdateWebhook",
        Entity::Trigger => "UpdateTrigger",
    }
}

/// What a field looks like in the document: its type, and the one that it refers to.
fn resolved<'d>(document: &'d Value, schema: &'d Value) -> &'d Value {
    let alternatives = schema["oneOf"].as_array().into_iter().flatten();
    let schema = alternatives.into_iter().find(|one| one["type"] != "null").unwrap_or(schema);
    match schema["$ref"].as_str() {
        Some(path) => document.pointer(path.trim_start_matches('#')).unwrap(),
        None => schema,
    }
}

fn has_type(schema: &Value, wanted: &str) -> bool {
    // One of several objects.
    let is_one_of = wanted == "object" && schema["oneOf"].is_array();
    is_one_of
        || schema["type"] == wanted
        || schema["type"].as_array().is_some_and(|types| types.contains(&json!(wanted)))
}

fn agrees(document: &Value, field: &Field, schema: &Value) {
    let schema = resolved(document, schema);
    let wanted = match field.kind {
        FieldType::String => "string",
        FieldType::Boolean => "boolean",
        FieldType::StringList => "array",
        FieldType::Object => "object",
    };
    assert!(has_type(schema, wanted), "{}: {schema}", field.name);
    if let Some(values) = schema["enum"].as_array() {
        assert_eq!(json!(values), json!(field.values), "{}", field.name);
    }
    if let Some(most) = schema["maxLength"].as_u64() {
        assert_eq!(field.max, Some(Max::Chars(usize::try_from(most).unwrap())), "{}", field.name);
    }
}

#[test]
fn tables_are_those_of_requests() {
    let document = document();
    for entity in Entity::ALL {
        let name = body(entity);
        let properties = document["components"]["schemas"][name]["properties"].as_object().unwrap();
        let in_requests: BTreeSet<&str> =
            properties.keys().map(String::as_str).filter(|name| !OF_REQUESTS.contains(name)).collect();
        let of_api: BTreeSet<&str> = entity
            .fields()
            .iter()
            .filter(|field| field.updatable_by != UpdatableBy::Agent)
            .map(|field| field.name)
            .collect();
        if entity == Entity::Task {
            assert!(of_api.is_subset(&in_requests), "{entity:?}");
        } else {
            assert_eq!(of_api, in_requests, "{entity:?}");
        }
        for field in entity.fields() {
            agrees(&document, field, &properties[field.name]);
        }
    }
}

fn document() -> Value {
    serde_json::from_str(include_str!("../../../api/openapi.json")).unwrap()
}

#[test]
fn every_change_by_a_request_has_a_table() {
    let document = document();
    let paths = document["paths"].as_object().unwrap();
    let schemas = paths.values().filter_map(|path| {
        let schema = &path.get("patch")?["requestBody"]["content"]["application/json"]["schema"];
        Some(schema["$ref"].as_str()?.rsplit('/').next().unwrap())
    });
    let changed: BTreeSet<&str> = schemas.filter(|name| !WITHOUT_TABLE.contains(name)).collect();
    assert_eq!(changed, Entity::ALL.into_iter().map(body).collect());
}

/// The properties of a tool's arguments.
fn properties(tools: &[SharedTool], tool: &str) -> Map<String, Value> {
    let tool = tools.iter().find(|one| one.definition().name == tool).unwrap();
    tool.definition().input_schema["properties"].as_object().unwrap().clone()
}

#[test]
fn tables_are_those_of_tools() {
    let tools = builtin::all(&Outside::default());
    for (tool, id, entity) in
        [("update_goal", "conversation_id", Entity::Goal), ("update_note", "note_id", Entity::Note)]
    {
        let mut properties = properties(&tools, tool);
        properties.remove(id).unwrap();
        assert_eq!(Value::Object(properties), entity.properties(json!({})), "{entity:?}");
    }
    let of_agent = |entity: Entity| -> BTreeSet<String> {
        let fields = entity.fields().iter().filter(|field| field.updatable_by.is_agent());
        fields.map(|field| field.name.to_owned()).collect()
    };
    // Several at once, and `done` by an action of its own.
    let mut todo: BTreeSet<String> =
        properties(&tools, "manage_todos").into_iter().map(|(name, _)| name).collect();
    for (argument, field) in [("titles", Some("title")), ("action", Some("done")), ("ids", None)] {
        assert!(todo.remove(argument), "{argument}");
        todo.extend(field.map(str::to_owned));
    }
    assert_eq!(todo, of_agent(Entity::Todo));
    let lists = &properties(&tools, "update_profile")["list"]["enum"];
    let lists: BTreeSet<String> = serde_json::from_value(lists.clone()).unwrap();
    assert_eq!(lists, of_agent(Entity::Profile));
    for entity in Entity::ALL {
        let has_tool = matches!(entity, Entity::Goal | Entity::Note | Entity::Todo | Entity::Profile);
        assert_eq!(!of_agent(entity).is_empty(), has_tool, "{entity:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_say_what_may_be_changed_and_by_whom() {
    let run = TestRun::start().await;
    let read =
        |input: Value| -> Value { serde_json::from_str(run.answer("get_field_info", input).text()).unwrap() };
    assert_eq!(read(json!({"entity": "goal"})).as_array().unwrap().len(), Entity::Goal.fields().len());
    let one = read(json!({"entity": "goal", "field": "agent_id"}));
    assert_eq!((&one["updatable_by"], &one["nullable"]), (&json!("api"), &json!(true)));
    let unknown = run.answer("get_field_info", json!({"entity": "goal", "field": "owner"}));
    assert!(
        unknown.text().contains("title (both)") && unknown.text().contains("agent_id (api)"),
        "{unknown:?}"
    );
    let refused =
        run.answer("update_note", json!({"note_id": format!("note_{}", "0".repeat(32)), "owner": "me"}));
    assert!(refused.text().contains("unknown field `owner`"), "{refused:?}");
    assert!(refused.text().contains("updatable are title (both), content (both)"), "{refused:?}");
}
