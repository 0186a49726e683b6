use houston_domain::model::{ModelAnswer, StopReason, Usage};
use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::protocol::Wire;

mod published;

const WIRES: [Wire; 6] =
    [Wire::Anthropic, Wire::OpenAiChat, Wire::OpenAiResponses, Wire::Gemini, Wire::Cohere, Wire::Ollama];

/// A tool of a public repository: see `tests/recordings/tool_schemas.md`.
#[derive(Deserialize)]
struct Recorded {
    source: String,
    name: String,
    schema: Value,
}

fn corpus() -> Vec<Recorded> {
    let lines = include_str!("../../tests/recordings/tool_schemas.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn tool(schema: Value) -> ToolDefinition {
    let definition = json!({"name": "t", "description": "", "input_schema": schema});
    serde_json::from_value(definition).unwrap()
}

fn sent(wire: Wire, schema: Value) -> Value {
    Value::clone(&wire.tool_rules().parameters(&tool(schema)).unwrap())
}

/// Arguments that a schema allows: each property, an item of each list, the first of alternatives.
fn arguments(schema: &Value) -> Value {
    let Value::Object(fields) = schema else { return json!("any") };
    if let Some(branch) = ["anyOf", "oneOf"].iter().find_map(|key| fields.get(*key)?.get(0)) {
        return arguments(branch);
    }
    let kind =
        fields.get("type").map(|kind| kind.as_str().or_else(|| kind.get(0)?.as_str()).unwrap_or_default());
    match kind {
        Some("object") => {
            let named = fields.get("properties").and_then(Value::as_object).into_iter().flatten();
            let mut values: Map<String, Value> =
                named.map(|(name, schema)| (name.clone(), arguments(schema))).collect();
            if let Some(rest) = fields.get("additionalProperties").filter(|rest| rest.is_object()) {
                values.insert("extra".to_owned(), arguments(rest));
            }
            Value::Object(values)
        }
        Some("array") => {
            let listed = fields.get("prefixItems").and_then(Value::as_array).into_iter().flatten();
            listed.chain(fields.get("items")).map(arguments).collect()
        }
        _ => json!("any"),
    }
}

fn restored(wire: Wire, tool: &ToolDefinition, input: Value) -> Value {
    let tools = std::slice::from_ref(tool);
    let Some(originals) = Originals::of(wire.tool_rules(), &Request { tools, ..Request::default() }) else {
        return input;
    };
    let call = Block::ToolUse { id: "1".into(), name: tool.name.clone(), input, raw: None };
    let answer = ModelAnswer {
        content: vec![call],
        malformed: Vec::new(),
        stop: StopReason::ToolUse,
        usage: Usage::default(),
    };
    match originals.restore(Event::Done(Box::new(answer))) {
        Event::Done(answer) => match answer.content.into_iter().next() {
            Some(Block::ToolUse { input, .. }) => input,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// What is sent satisfies what the provider publishes, and the model's arguments come back with the names of the tool.
fn complaint(wire: Wire, schema: &Value) -> Option<String> {
    let tool = tool(schema.clone());
    let written = wire.tool_rules().parameters(&tool)?;
    if let Some(refusal) = published::refusal(wire, &written) {
        return Some(format!("{refusal}: {written}"));
    }
    let read = read(schema).unwrap();
    // Without the rules of keywords, so that both have the same alternatives.
    let renamed = Rules { names: wire.tool_rules().names, ..Rules::default() };
    let called = arguments(&renamed.renamed(&read, &Whole::of(&read, renamed.names)));
    let (restored, meant) = (restored(wire, &tool, called), arguments(&read));
    (restored != meant).then(|| format!("{restored} is not {meant}"))
}

#[test]
fn every_provider_takes_the_schemas_of_real_tools() {
    let all = corpus();
    assert!(all.len() >= 300, "{}", all.len());
    let (mut wrong, mut unreadable) = (Vec::new(), Vec::new());
    for Recorded { source, name, schema } in &all {
        unreadable.extend(read(schema).is_err().then_some(name.as_str()));
        for wire in WIRES {
            wrong.extend(complaint(wire, schema).map(|why| format!("{wire:?} {source} {name}: {why}")));
        }
    }
    // Its body is a list.
    assert_eq!(unreadable, ["SubmitServiceCheck"]);
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n"));
}

/// How many of the schemas would be refused as they are: otherwise the corpus would prove nothing.
#[test]
fn many_real_schemas_would_be_refused_as_they_are() {
    let all = corpus();
    let refused = |wire| all.iter().filter(|tool| published::refusal(wire, &tool.schema).is_some()).count();
    for wire in WIRES {
        assert!(refused(wire) > 100, "{wire:?}: {}", refused(wire));
    }
}

#[test]
fn properties_of_real_tools_are_all_sent() {
    for Recorded { source, name, schema } in corpus() {
        let Some(named) = schema.get("properties").and_then(Value::as_object) else { continue };
        for wire in WIRES {
            let sent = sent(wire, schema.clone());
            let sent = sent["properties"].as_object().unwrap().len();
            assert!(sent >= named.len(), "{wire:?} {source} {name}: {sent} of {}", named.len());
        }
    }
}

#[test]
fn refused_names_are_replaced_and_put_back() {
    let schema = json!({"type": "object", "required": ["$top", "filter[id]"], "properties": {
        "$top": {"type": "integer"}, "top": {"type": "integer"}, "filter[id]": {"type": "string"}, "3d": {}, "äöü": {},
        "a.b-c": {"type": "array", "items": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"@odata.type": {}}}]}},
        "free": {"type": "object", "additionalProperties": {"type": "object", "properties": {"$x": {}}}},
        "x".repeat(70): {}, format!("{}1", "x".repeat(70)): {},
    }});
    let tool = tool(schema.clone());
    for (wire, names) in [(Wire::Anthropic, ["a.b-c", "3d"]), (Wire::Gemini, ["a_b_c", "p_3d"])] {
        let sent = sent(wire, schema.clone());
        let named = sent["properties"].as_object().unwrap();
        assert_eq!(named.len(), 9, "{sent}");
        assert!(names.iter().all(|name| named.contains_key(*name)), "{sent}");
        assert_eq!(published::refusal(wire, &sent), None);
        assert_eq!(sent["required"].as_array().unwrap().len(), 2);
        let top = sent["required"][0].as_str().unwrap();
        assert!(top != "top" && named.contains_key(top), "{sent}");
        let list = names[0];
        let called = json!({top: 1, "top": 2, list: [null, {"odata_type": "T", "mine": {"odata_type": 1}}],
            "free": {"odata_type": {"x": 3, "odata_type": 4}}});
        // Names that the schema does not have there are the caller's own.
        let meant = json!({"$top": 1, "top": 2, "a.b-c": [null, {"@odata.type": "T", "mine": {"odata_type": 1}}],
            "free": {"odata_type": {"$x": 3, "odata_type": 4}}});
        assert_eq!(restored(wire, &tool, called), meant.clone());
        // A model may know the original name from the history.
        assert_eq!(restored(wire, &tool, meant.clone()), meant);
    }
    assert_eq!(sent(Wire::OpenAiChat, schema)["properties"].as_object().unwrap().len(), 9);
}

#[test]
fn keywords_that_are_not_sent_are_described() {
    let schema = json!({"type": "object", "properties": {
        "n": {"type": "integer", "minimum": 1, "multipleOf": 5, "description": "A number."},
        "s": {"type": "string", "pattern": "^(?!x)\\p{L}+$", "maxLength": 3},
        "kind": {"const": "a"}, "flag": {"enum": [true]}, "either": {"oneOf": [{"type": "string"}, {"type": "null"}]},
    }});
    let gemini = &sent(Wire::Gemini, schema.clone())["properties"];
    assert_eq!(
        gemini["n"],
        json!({"type": "integer", "minimum": 1, "description": "A number. {\"multipleOf\":5}"})
    );
    assert_eq!(gemini["kind"], json!({"type": "string", "enum": ["a"]}));
    assert_eq!(gemini["flag"], json!({"type": "boolean", "description": "{\"enum\":[true]}"}));
    assert_eq!(gemini["either"], json!({"anyOf": [{"type": "string"}, {"type": "null"}]}));
    let openai = &sent(Wire::OpenAiResponses, schema.clone())["properties"]["s"];
    assert_eq!(openai["maxLength"], 3);
    assert_eq!(openai["description"], "{\"pattern\":\"^(?!x)\\\\p{L}+$\"}");
    assert_eq!(sent(Wire::Anthropic, schema.clone())["properties"]["s"], schema["properties"]["s"]);
}

#[test]
fn a_schema_that_is_accepted_is_sent_as_it_is() {
    let schema = json!({"properties": {"b": {"description": "B.", "type": "string"}, "a": {"type": "integer"}},
        "required": ["b"], "type": "object"});
    for wire in WIRES {
        let tool = tool(schema.clone());
        assert!(Arc::ptr_eq(&wire.tool_rules().parameters(&tool).unwrap(), &tool.input_schema), "{wire:?}");
    }
}

#[test]
fn a_tool_that_cannot_be_read_is_left_out() {
    let mut bad = tool(json!({"type": "array", "items": {}}));
    bad.name = "bad".into();
    let tools = [tool(json!({"type": "object"})), bad];
    let model = crate::Description {
        provider: "x".into(),
        model: "m".into(),
        simulated: false,
        supports_tools: true,
    };
    let request =
        Request { tools: &tools, must_call: Some("bad"), max_output_tokens: 9, ..Request::default() };
    for wire in WIRES {
        let body = wire.encode(&model, &crate::Profile::on(wire, "x", "m"), &request);
        let body = String::from_utf8(body).unwrap();
        assert!(body.contains("\"t\"") && !body.contains("\"bad\""), "{wire:?}: {body}");
    }
}

/// Schemas with the shapes and the names that were refused.
fn schemas() -> impl Strategy<Value = Value> {
    let name = prop_oneof!["[a-c$@. \\[\\]0-9_-]{0,4}", Just("x".repeat(66)), Just("é".to_owned())];
    let leaf = prop_oneof![
        Just(json!({"type": "string", "pattern": "^(?=a)", "format": "email", "minLength": 1})),
        Just(json!({"type": ["integer", "null"], "enum": [1, null], "exclusiveMinimum": 0})),
        Just(json!({"enum": [true, "x", null]})),
        Just(json!({"const": {"a": 1}})),
        Just(json!({"const": "k"})),
        Just(json!({"type": "array"})),
        Just(json!({})),
        Just(json!(true)),
        Just(json!(false)),
        Just(json!({"not": {"type": "null"}})),
        Just(json!({"type": "number", "nullable": true, "maximum": 3, "multipleOf": 0.5})),
    ];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        let named = proptest::collection::vec((name.clone(), inner.clone()), 0..4)
            .prop_map(|named| named.into_iter().collect::<Map<String, Value>>());
        let several = proptest::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            named.clone().prop_map(
                |named| json!({"type": "object", "properties": named, "additionalProperties": false})
            ),
            (named.clone(), inner.clone())
                .prop_map(|(named, rest)| json!({"properties": named, "additionalProperties": rest})),
            (named.clone(), inner.clone()).prop_map(
                |(named, rest)| json!({"properties": named, "patternProperties": {"^\\p{L}": rest}})
            ),
            several.clone().prop_map(|all| json!({"type": "array", "items": all, "uniqueItems": true})),
            several.clone().prop_map(|all| json!({"anyOf": all, "description": "Either."})),
            (named, several)
                .prop_map(|(named, all)| json!({"properties": named, "oneOf": all, "required": ["$a"]})),
        ]
    })
}

proptest! {
    #[test]
    fn every_provider_takes_what_is_written(schema in schemas()) {
        for wire in WIRES {
            prop_assert_eq!(complaint(wire, &schema), None, "{:?}", wire);
        }
    }
}

#[test]
fn closed_schema_moves_unsupported_rules_to_description() {
    let open = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "age": {"type": "integer", "minimum": 0, "description": "In years."},
            "minimum": {"oneOf": [{"type": "object", "properties": {}}, {"type": "null"}]},
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
        },
        "required": ["age"],
    });
    assert_eq!(
        RULES.anthropic_answers.written(&open),
        json!({
            "type": "object",
            "properties": {
                "age": {"type": "integer", "description": "In years. {\"minimum\":0}"},
                "minimum": {"anyOf": [
                    {"type": "object", "properties": {}, "additionalProperties": false}, {"type": "null"},
                ]},
                "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1,
                    "description": "{\"maxItems\":3}"},
            },
            "required": ["age"],
            "additionalProperties": false,
        })
    );
}
