//! Tests of the routes, and of the document that the server answers with.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::request::endpoint::DOCUMENT;

#[test]
fn only_probes_and_the_version_need_no_key() {
    let open = super::endpoints().into_iter().filter(|endpoint| endpoint.access.is_none());
    let open: Vec<&str> = open.map(|endpoint| endpoint.path).collect();
    assert_eq!(open, ["/livez", "/healthz", "/readyz", "/version"]);
}

#[test]
fn every_route_is_documented() {
    let router = include_str!("../router.rs");
    let by_hand: Vec<&str> = router.lines().filter(|line| line.contains(".route(")).collect();
    let reason = "add routes with `endpoints!` or `undocumented`; these need no key: /openapi.json, inbound hooks, the page of approval \
                  links, the end of logins and the agent card";
    assert_eq!(by_hand.len(), 5, "{reason}: {by_hand:?}");
}

#[test]
fn references_resolve_and_operation_ids_are_unique() {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let mut names = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{method} {path}: `{name}` twice");
            for field in ["summary", "tags", "responses"] {
                assert!(!operation[field].is_null(), "{method} {path} has no {field}");
            }
        }
    }
    assert!(names.len() > 60, "this test finds only {} operations", names.len());
    let components = &document["components"];
    let defined = ["schemas", "responses"].map(|kind| components[kind].as_object().unwrap());
    let mut missing = BTreeSet::new();
    let mut values = vec![&document];
    while let Some(value) = values.pop() {
        match value {
            Value::Array(items) => values.extend(items),
            Value::Object(fields) => {
                let named = fields
                    .get("$ref")
                    .and_then(Value::as_str)
                    .map(|name| name.rsplit('/').next().unwrap_or(name));
                missing.extend(named.filter(|name| !defined.iter().any(|names| names.contains_key(*name))));
                values.extend(fields.values());
            }
            _ => {}
        }
    }
    assert!(missing.is_empty(), "schemas that are referenced but not defined: {missing:?}");
}

/// Checks the names of an enum that is described by hand.
fn check<D: DeserializeOwned>(document: &Value, schema: &str) {
    let names = document["components"]["schemas"][schema]["enum"].as_array().unwrap();
    assert!(!names.is_empty());
    for name in names {
        assert!(serde_json::from_value::<D>(name.clone()).is_ok(), "{name} in {schema}");
    }
}

#[test]
fn enum_names_exist_in_the_domain() {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    check::<houston_domain::message::Source>(&document, "Source");
    check::<houston_domain::message::MessageType>(&document, "MessageType");
    check::<houston_domain::message::MessageStatus>(&document, "MessageStatus");
    check::<houston_domain::run::RunStatus>(&document, "RunStatus");
    check::<houston_domain::agentable::DoubleTexting>(&document, "DoubleTexting");
    check::<houston_domain::session::CompletionReason>(&document, "CompletionReason");
    check::<houston_domain::compression::CompressionReason>(&document, "CompressionReason");
    check::<houston_domain::team::RoutedBy>(&document, "RoutedBy");
    check::<houston_domain::team::RouterKind>(&document, "RouterKind");
    check::<houston_domain::health::HealthStatus>(&document, "HealthStatus");
    check::<houston_domain::history::Role>(&document, "EntryRole");
}

#[test]
fn ids_match_the_pattern_of_their_schema() {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let schema = &document["components"]["schemas"]["RunId"];
    assert_eq!(schema["pattern"], "^run_[0-9a-f]{32}$");
    let example: houston_domain::id::RunId = serde_json::from_value(schema["examples"][0].clone()).unwrap();
    assert_eq!(serde_json::json!(example), "run_019ab3c4d5e67f8091a2b3c4d5e6f708");
}
