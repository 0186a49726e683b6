use serde_json::{Map, Value, json};

use super::from_openapi;
use crate::json_api::{Body, Credentials, Effect, Endpoint, Loaded, Scheme};

fn document() -> Value {
    json!({
        "openapi": "3.0.3",
        "servers": [{"url": "https://{region}.example.com/v1", "variables": {"region": {"default": "eu"}}}],
        "security": [{"two": [], "three": []}, {"bearer": []}],
        "paths": {
            "/orders/{id}": {
                "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
                "get": {
                    "operationId": "getOrder",
                    "summary": "One order.",
                    "parameters": [
                        {"$ref": "#/components/parameters/Fields"},
                        {"name": "id", "in": "query", "schema": {"type": "integer"}},
                        {"name": "session", "in": "cookie", "schema": {"type": "string"}},
                        {"name": "Accept", "in": "header", "schema": {"type": "string"}},
                    ],
                },
                "put": {
                    "operationId": "put.order",
                    "x-houston-effect": "effect",
                    "security": [{"key": []}],
                    "parameters": [{"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}}],
                    "requestBody": {"$ref": "#/components/requestBodies/Order"},
                },
            },
            "/upload": {"post": {"requestBody": {
                "required": true, "content": {"multipart/form-data": {"schema": {"type": "object"}}},
            }}},
            "/basic": {"post": {"security": [{"basic": []}]}},
            "/open": {"get": {"security": [{}]}},
            "/cookie": {"get": {"security": [{"cookie": []}]}},
            "/deep": {"get": {"parameters": [
                {"name": "filter", "in": "query", "required": true, "style": "deepObject", "schema": {"type": "object"}},
            ]}},
            "/other": {"get": {"parameters": [{"$ref": "common.yaml#/x"}]}},
        },
        "components": components(),
    })
}

fn components() -> Value {
    json!({
        "parameters": {"Fields": {
            "name": "fields[]", "in": "query", "explode": false, "description": "Which fields.",
            "schema": {"type": "array", "items": {"type": "string"}},
        }},
        "requestBodies": {"Order": {"required": true, "content": {
            "application/json; charset=utf-8": {"schema": {"$ref": "#/components/schemas/Order"}},
        }}},
        "schemas": {"Order": {
            "type": "object",
            "example": {"item": "x"},
            "properties": {
                "item": {"type": "string"},
                "example": {"type": "string"},
                "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Order"}},
            },
        }},
        "securitySchemes": {
            "bearer": {"type": "http", "scheme": "Bearer"},
            "basic": {"type": "http", "scheme": "basic"},
            "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "cookie": {"type": "apiKey", "in": "cookie", "name": "c"},
        },
    })
}

fn load(document: &Value) -> Loaded {
    from_openapi(&document.to_string(), "shop.json", None).unwrap()
}

fn endpoint(name: &str) -> Endpoint {
    load(&document()).endpoints.into_iter().find(|endpoint| endpoint.name == name).unwrap()
}

fn url(endpoint: &Endpoint, arguments: &Value) -> String {
    let secret = "u:p".into();
    let credentials = Credentials { secret: Some(&secret), idempotency_key: Some("k") };
    endpoint.request(arguments.as_object().unwrap(), credentials).unwrap().url
}

#[test]
fn operations_become_endpoints() {
    let get = endpoint("getOrder");
    assert_eq!((get.description.as_str(), get.effect), ("One order.", Effect::Read));
    assert_eq!(get.at, "shop.json#/paths/~1orders~1{id}/get");
    let names: Vec<&str> = get.parameters.iter().map(|parameter| parameter.argument.as_str()).collect();
    assert_eq!(names, ["id", "fields__", "id_query"]);
    assert_eq!(get.schema()["properties"]["fields__"]["description"], "Which fields.");
    let arguments = json!({"id": "7", "id_query": 8, "fields__": ["a", "b"]});
    assert_eq!(url(&get, &arguments), "https://eu.example.com/v1/orders/7?fields%5B%5D=a,b&id=8");
    let auth = get.auth.unwrap();
    assert_eq!((auth.secret.as_str(), auth.scheme), ("bearer", Scheme::Prefix("Bearer ".to_owned())));
}

#[test]
fn bodies_are_described_without_references() {
    let put = endpoint("put_order");
    let Body::Whole { schema, is_required: true } = &put.body else { panic!("{:?}", put.body) };
    assert_eq!(schema["properties"]["parts"]["items"], json!({}), "a schema within itself allows anything");
    assert!(schema["properties"]["example"].is_object() && schema.get("example").is_none());
    assert_eq!(put.effect, Effect::Effect);
    assert_eq!(put.idempotency_header.as_ref().unwrap(), "idempotency-key");
    assert_eq!(put.parameters.len(), 1);
    let secret = "k1".into();
    let credentials = Credentials { secret: Some(&secret), idempotency_key: Some("call-7") };
    let arguments = json!({"id": "7", "body": {"item": "x"}});
    let request = put.request(arguments.as_object().unwrap(), credentials).unwrap();
    assert_eq!(request.headers["x-key"], "k1");
    assert_eq!(request.body, r#"{"item":"x"}"#);
    assert_eq!(request.headers["idempotency-key"], "call-7");
    let error = put.request(json!({"id": "7"}).as_object().unwrap(), credentials).unwrap_err();
    assert_eq!(error.to_string(), "the argument `body` is missing");
}

#[test]
fn authorisations_that_are_headers_are_used() {
    assert_eq!(endpoint("post_basic").auth.as_ref().unwrap().scheme, Scheme::Basic);
    assert_eq!(endpoint("get_open").auth, None);
    let secret = "user:password".into();
    let credentials = Credentials { secret: Some(&secret), idempotency_key: None };
    let request = endpoint("post_basic").request(&Map::new(), credentials).unwrap();
    assert_eq!(request.headers["authorization"], "Basic dXNlcjpwYXNzd29yZA==");
}

#[test]
fn operations_that_cannot_be_sent_are_left_out() {
    let loaded = load(&document());
    let skipped: Vec<String> = loaded.skipped.iter().map(ToString::to_string).collect();
    for says in [
        "shop.json#/paths/~1upload/post/requestBody: the body must be multipart/form-data",
        "shop.json#/paths/~1cookie/get/security: `cookie` sends a key in the URL or a cookie",
        "shop.json#/paths/~1deep/get/parameters/0: the required parameter `filter` has a style",
        "shop.json#/paths/~1other/get/parameters/0: `common.yaml#/x` is in another document",
    ] {
        assert!(skipped.iter().any(|problem| problem.starts_with(says)), "{says}: {skipped:#?}");
    }
    assert_eq!((loaded.endpoints.len(), skipped.len()), (4, 4));
}

#[test]
fn documents_that_are_none_are_refused() {
    for (text, says) in [
        ("openapi: 3.0.0\npaths: {}", "f:1:1: this is not JSON"),
        ("{\n\"openapi\": \"3.0.0\",\n}", "f:3:1"),
        (r#"{"swagger": "2.0"}"#, "f#: there is no `openapi`"),
        (r#"{"openapi": "4.0"}"#, "f#/openapi: version 4.0: only 3.x"),
        (r#"{"openapi": "3.0.0"}"#, "f#/paths: there are no paths"),
    ] {
        let problem = from_openapi(text, "f", None).unwrap_err().to_string();
        assert!(problem.starts_with(says), "{problem}");
    }
}

#[test]
fn relative_servers_need_a_base() {
    let mut document = document();
    document["servers"] = json!([{"url": "/v1"}]);
    assert!(load(&document).skipped[0].message.contains("a base URL must be given"));
    let loaded = from_openapi(&document.to_string(), "f", Some("https://x.example.com/v9")).unwrap();
    let arguments = json!({"id": "7"});
    assert_eq!(url(&loaded.endpoints[0], &arguments), "https://x.example.com/v9/orders/7");
}

#[test]
fn a_schema_that_grows_without_bounds_is_refused() {
    let mut document = document();
    for level in 0..6 {
        let next = json!({"$ref": format!("#/components/schemas/L{}", level + 1)});
        document["components"]["schemas"][format!("L{level}")] = json!({"allOf": vec![next; 8]});
    }
    document["components"]["schemas"]["L6"] = json!({"type": "string"});
    document["components"]["schemas"]["Order"] = json!({"$ref": "#/components/schemas/L0"});
    let loaded = load(&document);
    assert!(
        loaded.skipped.iter().any(|problem| problem.message.contains("too large")),
        "{:?}",
        loaded.skipped
    );
}

#[test]
fn data_that_is_referred_to_often_is_refused() {
    let mut document = document();
    let of_all = json!({"$ref": "#/components/schemas/All"});
    document["components"]["schemas"]["All"] = json!({"enum": (0..20_000).collect::<Vec<_>>()});
    let properties: Map<String, Value> = (0..2000).map(|nth| (format!("p{nth}"), of_all.clone())).collect();
    document["components"]["schemas"]["Order"] = json!({"type": "object", "properties": properties});
    let loaded = load(&document);
    let is_told = loaded.skipped.iter().any(|problem| problem.message.contains("too large"));
    assert!(is_told, "{:?}", loaded.skipped);
}

/// A real document: Houston's own API.
#[test]
fn every_operation_of_houstons_own_api_can_be_called() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../api/openapi.json");
    let text = std::fs::read_to_string(path).unwrap();
    let loaded = from_openapi(&text, "openapi.json", Some("https://houston.example.com")).unwrap();
    let skipped: Vec<&str> = loaded.skipped.iter().map(|skipped| skipped.at.as_str()).collect();
    let no_json = [
        "openapi.json#/paths/~1v1~1tables~1{id}~1import/post/requestBody",
        "openapi.json#/paths/~1v1~1users~1{id}~1attachments/post/requestBody",
    ];
    assert_eq!(skipped, no_json, "bodies of CSV and of files");
    let operations = text.matches("\"operationId\":").count();
    assert_eq!((loaded.endpoints.len(), operations > 50), (operations - skipped.len(), true));
    assert!(loaded.endpoints.iter().all(|endpoint| !endpoint.description.is_empty()));
}
