use proptest::prelude::*;
use secrecy::SecretString;
use serde_json::{Map, Value, json};
use url::Url;

use super::{Credentials, Effect, Endpoint, from_openapi, from_toml};
use crate::error::Fault;

const FILE: &str = r#"
base = "https://api.example.com/v2/"
idempotency_header = "Idempotency-Key"
signed_with = "hook"
auth = { secret = "crm" }

[[endpoint]]
name = "list_orders"
description = "Orders of a customer."
method = "GET"
path = "/customers/{customer}/orders/{year}-{month}"
parameter = [
    { name = "customer", in = "path", description = "The number." },
    { name = "year", in = "path", type = "integer" },
    { name = "month", in = "path", type = "integer" },
    { name = "status", in = "query", enum = ["open", "closed"] },
    { name = "tag", in = "query", type = "array" },
    { name = "id", in = "query", type = "array", items = "integer", repeats = false },
    { name = "X-Trace", in = "header", argument = "trace" },
]

[[endpoint]]
name = "create_order"
description = "Creates an order."
method = "POST"
path = "/orders"
parameter = [
    { name = "item", in = "body", required = true },
    { name = "count", in = "body", type = "integer" },
]

[[endpoint]]
name = "read_file"
description = "A file."
method = "GET"
path = "/files/{path}"
parameter = [{ name = "path", in = "path", slashes = true }]
"#;

pub(super) fn endpoint(name: &str) -> Endpoint {
    let endpoints = from_toml(FILE, "crm.toml").unwrap();
    endpoints.into_iter().find(|endpoint| endpoint.name == name).unwrap()
}

fn arguments(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn secret() -> SecretString {
    SecretString::from("s3cret")
}

/// A request with a secret, or the error's text.
fn request(name: &str, values: &Value) -> Result<crate::Request, String> {
    let secret = secret();
    let credentials = Credentials { secret: Some(&secret), idempotency_key: Some("call-7") };
    endpoint(name).request(&arguments(values), credentials).map_err(|error| error.to_string())
}

#[test]
fn arguments_become_path_query_and_headers() {
    let values = json!({
        "customer": "a b&c", "year": 2026, "month": 11, "status": "open", "tag": ["x,y", "z"], "id": [1, 2],
        "trace": "t 1",
    });
    let request = request("list_orders", &values).unwrap();
    assert_eq!(
        request.url,
        "https://api.example.com/v2/customers/a%20b%26c/orders/2026-11?status=open&tag=x%2Cy&tag=z&id=1,2"
    );
    assert_eq!(request.headers["x-trace"], "t 1");
    assert_eq!(request.headers["authorization"], "Bearer s3cret");
    assert!(request.headers["authorization"].is_sensitive());
    assert!(request.body.is_empty() && !request.headers.contains_key("idempotency-key"));
}

#[test]
fn fields_become_a_json_body() {
    let request = request("create_order", &json!({"item": "x\"y", "count": null})).unwrap();
    assert_eq!(request.body, r#"{"item":"x\"y"}"#);
    assert_eq!(request.headers["content-type"], "application/json");
    assert_eq!(request.headers["idempotency-key"], "call-7");
    assert_eq!(endpoint("create_order").signed_with.as_deref(), Some("hook"));
}

#[test]
fn effects_follow_from_the_method_unless_stated() {
    assert_eq!(endpoint("list_orders").effect, Effect::Read);
    assert_eq!(endpoint("create_order").effect, Effect::Effect);
    for (method, effect) in
        [("PUT", Effect::Idempotent), ("DELETE", Effect::Idempotent), ("PATCH", Effect::Effect)]
    {
        let file = FILE.replace("\"POST\"", &format!("\"{method}\""));
        assert_eq!(from_toml(&file, "f").unwrap()[1].effect, effect, "{method}");
    }
    let file = FILE.replace("path = \"/orders\"", "path = \"/orders\"\neffect = \"read\"");
    assert_eq!(from_toml(&file, "f").unwrap()[1].effect, Effect::Read);
}

#[test]
fn schemas_name_every_argument_and_allow_no_others() {
    let schema = endpoint("list_orders").schema();
    let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["customer", "year", "month", "status", "tag", "id", "trace"]);
    assert_eq!(schema["required"], json!(["customer", "year", "month"]));
    assert_eq!(schema["additionalProperties"], json!(false));
    assert_eq!(schema["properties"]["customer"], json!({"type": "string", "description": "The number."}));
    assert_eq!(schema["properties"]["id"], json!({"type": "array", "items": {"type": "integer"}}));
}

#[test]
fn wrong_arguments_are_refused_with_what_is_allowed() {
    let right = json!({"customer": "c", "year": 2026, "month": 1});
    for (name, value, says) in [
        ("customer", Value::Null, "`customer` is missing"),
        ("customer", json!(7), "`customer` must be of type string"),
        ("customer", json!("../admin"), "must not contain slashes"),
        ("customer", json!("a\\b"), "must not contain slashes"),
        ("customer", json!(""), "must not be empty"),
        ("customer", json!(".."), "`.` or `..`"),
        ("customer", json!("a\nb"), "control characters"),
        ("year", json!(1.5), "`year` must be of type integer"),
        ("status", json!("all"), r#"must be one of "open", "closed""#),
        ("tag", json!([{"a": 1}]), "must be a string, a number or a boolean"),
        ("trace", json!("a\r\nX-Admin: 1"), "visible ASCII"),
        ("trace", json!("ü"), "visible ASCII"),
        ("host", json!("evil.example.com"), "no argument `host`; allowed are: `customer`, `year`"),
    ] {
        let mut values = right.clone();
        values[name] = value;
        let error = request("list_orders", &values).unwrap_err();
        assert!(error.contains(says), "{name}: {error}");
    }
    assert!(request("read_file", &json!({"path": "a/b"})).unwrap().url.ends_with("/files/a%2Fb"));
    for path in ["a/../b", "..", "../x", "a/..", "a\\..\\b"] {
        assert!(request("read_file", &json!({"path": path})).is_err(), "{path}");
    }
}

#[test]
fn values_beside_each_other_make_no_other_path() {
    let file =
        FILE.replace("/customers/{customer}/orders/{year}-{month}", "/a/{customer}{trace}/.{year}/{month}");
    let file = file.replace("in = \"header\", argument = \"trace\"", "in = \"path\", argument = \"trace\"");
    let file = file.replace("X-Trace", "trace").replace("type = \"integer\" }", "type = \"string\" }");
    let endpoint = &from_toml(&file, "f").unwrap()[0];
    let secret = secret();
    let credentials = Credentials { secret: Some(&secret), idempotency_key: None };
    let url = |customer: &str, trace: &str, year: &str| {
        let values = json!({"customer": customer, "trace": trace, "year": year, "month": "m"});
        endpoint.request(&arguments(&values), credentials).map(|request| request.url)
    };
    assert_eq!(url("a", "b", "c").unwrap(), "https://api.example.com/v2/a/ab/.c/m");
    assert_eq!(url("%2", "e", "%2e").unwrap(), "https://api.example.com/v2/a/%252e/.%252e/m");
    for (customer, trace, year) in [(".", ".", "c"), ("a", "b", "."), (".", "", "c")] {
        assert!(url(customer, trace, year).is_err(), "{customer} {trace} {year}");
    }
}

#[test]
fn a_missing_secret_is_named_and_never_printed() {
    let values = arguments(&json!({"item": "x"}));
    let error = endpoint("create_order").request(&values, Credentials::default()).unwrap_err();
    assert_eq!((error.fault, error.to_string().contains("`crm`")), (Fault::Config, true));
    let secret = SecretString::from("a\nb-secret");
    let credentials = Credentials { secret: Some(&secret), idempotency_key: None };
    let error = endpoint("create_order").request(&values, credentials).unwrap_err();
    assert!(!format!("{error:?} {error}").contains("b-secret"), "{error:?}");
    let printed = format!("{:?}", request("create_order", &json!({"item": "x"})).unwrap());
    assert!(!printed.contains("s3cret"), "{printed}");
}

#[test]
fn mistakes_in_a_file_are_reported_with_their_line() {
    for (from, to, line, says) in [
        ("[[endpoint]]\nname = \"read_file\"", "[[endpoint]\nname = \"read_file\"", 32, ""),
        ("method = \"POST\"", "method = \"SEND\"", 25, "GET, HEAD, POST"),
        ("path = \"/orders\"", "path = \"/orders/{id}\"", 22, "the path contains `{id}`"),
        ("path = \"/orders\"", "path = \"/orders/{id\"", 26, "without a `}`"),
        ("path = \"/orders\"", "path = \"/orders/../admin\"", 26, "the segment `..`"),
        ("path = \"/orders\"", "path = \"/orders/%2e%2E\"", 26, "the segment"),
        ("path = \"/orders\"", "path = \"/orders?a=1\"", 26, "as parameters"),
        ("\"create_order\"", "\"create order\"", 22, "1 to 64 of the characters"),
        ("\"create_order\"", "\"list_orders\"", 22, "two endpoints"),
        ("base = \"https", "base = \"ftp", 2, "only http and https"),
        ("base = \"https://", "base = \"https://user:pw@", 2, "has a user"),
        ("secret = \"crm\"", "secret = \"crm\", header = \"a b\"", 5, "is not the name of a header"),
        ("secret = \"crm\"", "secret = \"crm\", header = \"Host\"", 7, "cannot carry a secret"),
        ("X-Trace", "Authorization", 7, "cannot be a parameter"),
        ("X-Trace", "webhook-id", 7, "cannot be a parameter"),
        ("X-Trace", "Idempotency Key", 7, "is not the name of a header"),
        ("argument = \"trace\"", "argument = \"tag\"", 7, "two arguments have the name `tag`"),
        ("name = \"item\", in = \"body\"", "name = \"item\", in = \"path\"", 22, "is not in the path"),
        ("name = \"tag\", in = \"query\"", "name = \"tag\", in = \"cookie\"", 17, "cookie"),
        ("type = \"array\" },", "type = \"object\" },", 17, "cannot be an array or an object"),
    ] {
        let file = FILE.replacen(from, to, 1);
        let problem = from_toml(&file, "crm.toml").expect_err(to);
        assert_eq!(problem.at, format!("crm.toml:{line}"), "{to}: {problem}");
        assert!(problem.message.contains(says), "{to}: {problem}");
        assert!(!problem.to_string().contains("pw@"), "{problem}");
    }
}

#[test]
fn descriptions_contain_no_hidden_characters() {
    let file = FILE.replace("Creates an order.", r"Creates\u0000 an\u200B \u202Eorder\U000E0041.");
    let endpoint = &from_toml(&file, "f").unwrap()[1];
    assert_eq!(endpoint.description, "Creates an order.");
    let file = FILE.replace("Creates an order.", &"x".repeat(5000));
    assert_eq!(from_toml(&file, "f").unwrap()[1].description.len(), 1024);
}

#[test]
fn a_get_request_cannot_have_a_body() {
    let file = FILE.replace("\"POST\"", "\"GET\"");
    assert!(from_toml(&file, "f").unwrap_err().message.contains("has no body"));
}

/// The URL without any value of a model: what must not change.
fn skeleton(url: &str) -> (String, usize, Vec<String>) {
    let url = Url::parse(url).unwrap();
    let names = url.query_pairs().map(|(name, _)| name.into_owned()).collect();
    (url.origin().ascii_serialization(), url.path_segments().unwrap().count(), names)
}

proptest! {
    /// Whatever a model writes, host, path and names are those of the definition, and values arrive as they are.
    #[test]
    fn values_change_nothing_but_themselves(
        customer in r"(\PC|[./\\%?#&=@:]|\.\.|%2e|%2f|\s){0,12}",
        status in "open|closed",
        tag in r"(\PC|[&=?#%+;]|\s){0,12}",
        trace in r"[ -~\r\n]{0,12}",
    ) {
        let values = json!({"customer": customer, "year": 1, "month": 2, "status": status, "tag": [tag], "trace": trace});
        if let Ok(request) = request("list_orders", &values) {
            let names = vec!["status".to_owned(), "tag".to_owned()];
            prop_assert_eq!(skeleton(&request.url), ("https://api.example.com".to_owned(), 5, names));
            let url = Url::parse(&request.url).unwrap();
            let segment = url.path_segments().unwrap().nth(2).unwrap();
            let pair = format!("a={}", segment.replace('+', "%2B"));
            let decoded = url::form_urlencoded::parse(pair.as_bytes()).next();
            prop_assert_eq!(decoded.unwrap().1, customer);
            prop_assert_eq!(url.query_pairs().nth(1).unwrap().1, tag);
            prop_assert_eq!(url.fragment(), None);
            let mut headers: Vec<&str> = request.headers.keys().map(http::HeaderName::as_str).collect();
            headers.sort_unstable();
            prop_assert_eq!(headers, ["accept", "authorization", "x-trace"]);
            prop_assert_eq!(request.headers["x-trace"].to_str().unwrap(), trace);
        }
    }

    #[test]
    fn paths_with_slashes_keep_their_structure(path in r"([a-z]|[./\\%?#]|\.\.|%2e|%2f){1,12}") {
        if let Ok(request) = request("read_file", &json!({"path": path})) {
            prop_assert_eq!(skeleton(&request.url), ("https://api.example.com".to_owned(), 3, Vec::new()));
            prop_assert!(request.url.starts_with("https://api.example.com/v2/files/"));
            prop_assert!(!path.split(['/', '\\']).any(|part| part == "." || part == ".."));
        }
    }

    /// Documents come from tenants: whatever they contain, reading them ends, and what is read is valid.
    #[test]
    fn any_document_is_read_or_refused(
        path in r"(/|[a-z]|\{[a-z]{0,2}\}|[{}.%]){0,10}",
        name in r"[a-zA-Z -]{0,6}",
        location in "path|query|header|cookie|body|",
        reference in r"#/components/schemas/[ab]|#/|other\.yaml|#/paths",
    ) {
        let text = json!({
            "openapi": "3.1.0",
            "servers": [{"url": "https://api.example.com"}],
            "paths": {path: {"post": {
                "parameters": [{"name": name, "in": location, "required": true, "schema": {"$ref": reference.as_str()}}],
                "requestBody": {"content": {"application/json": {"schema": {"$ref": reference.as_str()}}}},
            }}},
            "components": {"schemas": {
                "a": {"type": "object", "properties": {"b": {"$ref": "#/components/schemas/b"}}},
                "b": {"allOf": [{"$ref": "#/components/schemas/a"}, {"$ref": "#/components/schemas/b"}]},
            }},
        });
        let loaded = from_openapi(&text.to_string(), "f.json", None).unwrap();
        prop_assert_eq!(loaded.endpoints.len() + loaded.skipped.len(), 1);
        for endpoint in loaded.endpoints {
            prop_assert_eq!(endpoint.check(), Ok(()));
        }
    }
}
