use proptest::prelude::*;
use serde_json::json;

use super::*;

fn of(schema: Value) -> Value {
    read(&schema).unwrap()
}

fn property(schema: Value) -> Value {
    of(json!({"type": "object", "properties": {"a": schema}}))["properties"]["a"].clone()
}

#[test]
fn schemas_of_no_object_are_refused_with_a_reason() {
    for (schema, word) in [
        (json!([]), "a list"),
        (json!("object"), "a text"),
        (json!({"type": "array", "items": {"type": "string"}}), "`array`"),
        (json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), "`string`"),
        (json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}), "`integer`"),
        (json!({"type": "object", "description": "x".repeat(MAX_WRITTEN_BYTES)}), "at most 524288"),
        (json!({"type": "object", "description": "x".repeat(MAX_BYTES)}), "65536 bytes"),
    ] {
        let reason = read(&schema).unwrap_err().to_string();
        assert!(reason.contains(word), "{reason}");
    }
}

#[test]
fn a_tool_without_arguments_has_an_empty_object() {
    let empty = json!({"type": "object", "properties": {}});
    for schema in [
        json!(null),
        json!({}),
        json!({"type": "object"}),
        json!({"type": ["object", "null"], "properties": []}),
    ] {
        assert_eq!(of(schema), empty);
    }
}

#[test]
fn alternatives_at_the_root_become_one_object() {
    let schema = of(json!({
        "type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"],
        "oneOf": [
            {"properties": {"kind": {"const": "file"}, "path": {"type": "string"}}, "required": ["kind", "path"]},
            {"properties": {"kind": {"const": "web"}, "url": {"type": "string"}}, "required": ["kind", "url"]},
        ],
    }));
    assert_eq!(schema["required"], json!(["id", "kind"]));
    assert_eq!(schema["properties"]["kind"], json!({"type": "string", "enum": ["file", "web"]}));
    assert_eq!(schema["properties"].as_object().unwrap().len(), 4);
    let description = schema["description"].as_str().unwrap();
    assert!(description.contains("`kind` = \"web\" with `url`"), "{description}");
    for keyword in ["anyOf", "oneOf", "allOf"] {
        assert!(schema.get(keyword).is_none());
    }
    let by_requirement = of(json!({"type": "object", "properties": {"from": {}, "to": {}},
        "anyOf": [{"required": ["from"]}, {"required": ["to"]}]}));
    assert_eq!(by_requirement["description"], "Give one of: `from`; or `to`.");
    assert!(by_requirement.get("required").is_none());
}

#[test]
fn parts_of_all_of_are_merged() {
    let schema = of(json!({"allOf": [
        {"type": "object", "properties": {"a": {"type": "number", "minimum": 1}}, "required": ["a"]},
        {"properties": {"a": {"type": "integer", "minimum": 5}, "b": {"type": "string"}}, "required": ["b"]},
    ]}));
    let expected = json!({"type": "object", "required": ["a", "b"],
        "properties": {"a": {"type": "integer", "minimum": 5}, "b": {"type": "string"}}});
    assert_eq!(schema, expected);
}

#[test]
fn references_are_replaced_and_recursion_ends() {
    let schema = of(json!({
        "type": "object", "properties": {"tree": {"$ref": "#/definitions/node", "description": "The tree."},
            "far": {"$ref": "https://example.com/s", "description": "Elsewhere."}, "lost": {"$ref": "#/$defs/no"}},
        "definitions": {"node": {"type": "object", "description": "A node.", "properties": {
            "name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/definitions/node"}}}}},
    }));
    assert_eq!(schema["properties"]["tree"]["description"], "The tree.");
    let child = &schema["properties"]["tree"]["properties"]["children"]["items"];
    assert_eq!(child["properties"]["name"], json!({"type": "string"}));
    let grandchild = &child["properties"]["children"]["items"];
    assert_eq!(*grandchild, json!({"type": "object", "description": "A node."}));
    assert_eq!(schema["properties"]["far"], json!({"description": "Elsewhere."}));
    assert_eq!(schema["properties"]["lost"], json!({}));
    assert!(!schema.to_string().contains("$ref") && schema.get("definitions").is_none());
}

/// Each definition refers to the next one twice: followed to the end, there would be 2^40 schemas.
#[test]
fn references_that_multiply_are_cut() {
    let mut definitions = Map::new();
    for nth in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", nth + 1)});
        definitions
            .insert(format!("d{nth}"), json!({"type": "object", "properties": {"a": next, "b": next}}));
    }
    let schema = of(json!({"$ref": "#/$defs/d0", "$defs": definitions}));
    assert!(schema["properties"]["a"]["properties"]["b"]["type"] == "object");
    assert!(size(&schema) <= MAX_BYTES);
}

#[test]
fn old_and_foreign_forms_are_read() {
    for (written, read) in [
        (json!({"type": "array"}), json!({"type": "array", "items": {}})),
        (json!({"type": "ARRAY", "items": "STRING"}), json!({"type": "array", "items": {"type": "string"}})),
        (
            json!({"type": "array", "items": [{"type": "number"}, true]}),
            json!({"type": "array", "prefixItems": [{"type": "number"}, {}], "items": {}}),
        ),
        (
            json!({"type": "array", "enum": ["x", "y"]}),
            json!({"type": "array", "items": {"type": "string", "enum": ["x", "y"]}}),
        ),
        (json!({"type": ["string"]}), json!({"type": "string"})),
        (json!({"type": "string", "nullable": true}), json!({"type": ["string", "null"]})),
        (
            json!({"type": "string", "enum": ["x"], "nullable": true}),
            json!({"type": ["string", "null"], "enum": ["x", null]}),
        ),
        (
            json!({"type": "integer", "minimum": 3, "exclusiveMinimum": true, "exclusiveMaximum": false, "maximum": "9"}),
            json!({"type": "integer", "exclusiveMinimum": 3, "maximum": 9}),
        ),
        (json!({"type": "dict", "properties": []}), json!({"type": "object", "properties": {}})),
        (json!({"type": "any"}), json!({})),
        (json!(true), json!({})),
        (json!(false), json!({"not": {}})),
        (json!("float"), json!({"type": "number"})),
        (
            json!({"type": "string", "example": "x", "id": "q", "readOnly": true, "x-order": 1}),
            json!({"type": "string", "examples": ["x"]}),
        ),
        (json!({"type": "string", "properties": {}, "items": {}}), json!({"type": "string"})),
        (
            json!({"properties": {"b": {"type": "string", "required": true}}}),
            json!({"type": "object",
            "properties": {"b": {"type": "string"}}, "required": ["b"]}),
        ),
        (json!({"anyOf": [{"type": "string"}]}), json!({"type": "string"})),
        (
            json!({"type": "object", "additionalProperties": {}}),
            json!({"type": "object", "additionalProperties": true}),
        ),
        (
            json!({"type": "number", "divisibleBy": 2, "minLength": 4}),
            json!({"type": "number", "multipleOf": 2}),
        ),
    ] {
        assert_eq!(property(written.clone()), read, "{written}");
    }
}

#[test]
fn names_that_are_required_are_properties() {
    let schema = of(json!({"properties": {"a": {"type": "string"}, "required": ["a"]}}));
    assert_eq!(schema, json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}));
    let open = of(json!({"type": "object", "required": ["b", "b"]}));
    assert_eq!(open, json!({"type": "object", "properties": {"b": {}}, "required": ["b"]}));
    let closed = of(json!({"type": "object", "required": ["b"], "additionalProperties": false}));
    assert!(closed.get("required").is_none());
}

#[test]
fn conditions_are_described_and_their_properties_allowed() {
    let schema = of(json!({"type": "object", "properties": {"kind": {"type": "string"}},
        "if": {"properties": {"kind": {"const": "x"}}}, "then": {"properties": {"more": {"type": "integer"}}}}));
    assert_eq!(schema["properties"]["more"], json!({"type": "integer"}));
    assert!(schema["description"].as_str().unwrap().contains("\"then\""));
    assert!(schema.get("if").is_none() && schema.get("then").is_none());
}

/// Any JSON that looks like a schema.
fn schemas() -> impl Strategy<Value = Value> {
    let names = proptest::sample::select(vec!["a", "b", "$top", "required", "type", "x y", ""]);
    let types = proptest::sample::select(vec![
        json!("object"),
        json!("array"),
        json!("string"),
        json!(["integer", "null"]),
        json!("dict"),
        json!(7),
        json!(["object"]),
    ]);
    let leaf = prop_oneof![
        types.clone().prop_map(|kind| json!({"type": kind})),
        Just(json!(true)),
        Just(json!(false)),
        Just(json!({})),
        Just(json!([])),
        Just(json!(null)),
        Just(json!("string")),
        Just(json!({"$ref": "#/$defs/a"})),
        Just(json!({"$ref": "#"})),
        Just(json!({"$ref": "https://x"})),
        Just(json!({"const": 1})),
        Just(json!({"enum": ["x", 2, null]})),
        Just(json!({"type": "array", "enum": ["x"]})),
        Just(json!({"type": "number", "minimum": 1, "exclusiveMinimum": true, "nullable": true})),
        Just(json!({"required": ["a", "zz"]})),
    ];
    leaf.prop_recursive(4, 40, 4, move |inner| {
        let named = proptest::collection::hash_map(names.clone(), inner.clone(), 0..4).prop_map(|named| {
            named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>()
        });
        let several = proptest::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            (named.clone(), types.clone(), any::<bool>()).prop_map(|(named, kind, nullable)| {
                json!({"type": kind, "properties": named, "required": ["a", "b"], "nullable": nullable})
            }),
            (named.clone(), inner.clone())
                .prop_map(|(named, rest)| json!({"properties": named, "additionalProperties": rest})),
            (named.clone(), several.clone())
                .prop_map(|(named, all)| json!({"properties": named, "anyOf": all})),
            (named, several.clone(), several.clone()).prop_map(|(named, all, one)| {
                json!({"$defs": named, "allOf": all, "oneOf": one, "description": "D."})
            }),
            (several, inner.clone())
                .prop_map(|(items, not)| json!({"type": "array", "items": items, "not": not})),
            (inner.clone(), inner).prop_map(
                |(one, other)| json!({"items": one, "if": other, "then": {"properties": {"t": {}}}})
            ),
        ]
    })
}

/// Whether the schema and all in it have the one form.
fn is_in_form(schema: &Value, depth: usize) -> Result<(), String> {
    let Value::Object(fields) = schema else { return Err(format!("{schema} is no object")) };
    let wrong = |what: &str| Err(format!("{what}: {schema}"));
    if depth > MAX_DEPTH + 2 {
        return wrong("too deep");
    }
    for gone in ["$ref", "$defs", "definitions", "allOf", "if", "nullable", "$schema", "id"] {
        if fields.contains_key(gone) {
            return wrong(gone);
        }
    }
    let types: Vec<&str> = form::types_of(fields).collect();
    if fields.get("type").is_some_and(|kind| kind.as_array().is_some_and(|several| several.len() < 2)) {
        return wrong("a list of one type");
    }
    if types.contains(&"array") && !fields.contains_key("items") {
        return wrong("no items");
    }
    let named = form::properties(fields);
    if form::texts(fields.get("required")).any(|name| named.is_none_or(|named| !named.contains_key(&name))) {
        return wrong("required is no property");
    }
    let several =
        ["anyOf", "oneOf", "prefixItems"].iter().filter_map(|key| fields.get(*key)?.as_array()).flatten();
    let one = ["items", "not", "contains", "propertyNames"].iter().filter_map(|key| fields.get(*key));
    let rest = fields.get("additionalProperties").filter(|rest| !rest.is_boolean());
    let mut inner = named.into_iter().flat_map(Map::values).chain(several).chain(one).chain(rest);
    inner.try_for_each(|inner| is_in_form(inner, depth + 1))
}

proptest! {
    #[test]
    fn what_was_read_has_the_one_form(schema in schemas()) {
        let Ok(once) = read(&schema) else { return Ok(()) };
        prop_assert_eq!(is_in_form(&once, 0), Ok(()));
        prop_assert_eq!(&once["type"], "object");
        for keyword in ["anyOf", "oneOf", "allOf", "not", "enum", "const"] {
            prop_assert!(once.get(keyword).is_none(), "{keyword}");
        }
        prop_assert_eq!(read(&once).unwrap(), once);
    }
}
