//! The OpenAPI document: generated from the handlers' `#[utoipa::path]` and completed here with the error responses. Tests
//! compare it with `openapi.json`, which is what servers answer with.
//!
//! Handlers name their success responses and the codes of their 409, 410 and 429. All errors have the same body, and most
//! follow from what a handler takes: a key (401, 403), an id (404), a body (400, 408, 413, 415, 422), a query or a name (422).
//! Those are added here.

mod facts;

use std::collections::HashMap;

use axum::http::Method;
use houston_protocol::problem::{Problem, ProblemCode};
use houston_protocol::schema;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{OpenApi, Ref, RefOr, Response};
use utoipa::{Modify, OpenApi as _};

use crate::access::Access;

/// The document without its paths.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Houston",
        description = "A durable runtime for AI agents. Errors are `application/problem+json` with a stable `code`. Lists \
                       have pages with `limit` and `cursor`. Event streams are AG-UI 1.0 over server-sent events.",
    ),
    modifiers(&ApiKey),
    security(("api_key" = [])),
    components(schemas(
        Problem,
        ProblemCode,
        schema::AgentableId,
        schema::UserId,
        schema::RunId,
        schema::ImageId,
        schema::MessageId,
        schema::AgentId,
        schema::TeamId,
        schema::SessionId,
        schema::CheckInId,
        schema::ApiKeyId,
        schema::Scope,
    ))
)]
struct Document;

struct ApiKey;

impl Modify for ApiKey {
    fn modify(&self, document: &mut OpenApi) {
        let key = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .bearer_format("hou_…")
            .description(Some("An API key, a client token, or a JWT of an issuer that the tenant trusts. `houston key create` creates a key; `houston dev` prints one. The names beside each operation are the scopes that it needs; `admin` allows all but what needs `installation` besides."));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("api_key", SecurityScheme::Http(key.build()));
    }
}

/// The document without paths; the router adds them.
pub(crate) fn document() -> OpenApi {
    Document::openapi()
}

/// Adds the shared error responses and the scopes to all operations.
pub(crate) fn complete(mut document: OpenApi, access: &HashMap<String, Access>) -> OpenApi {
    let components = document.components.get_or_insert_default();
    facts::name_facts(&mut components.schemas);
    for status in SHARED {
        let mut response = ResponseBuilder::new().description(meanings(status)).build();
        add_problem(&mut response);
        components.responses.insert(format!("problem_{status}"), RefOr::T(response));
    }
    for (path, item) in &mut document.paths.paths {
        let operations = [
            (Method::GET, &mut item.get),
            (Method::PUT, &mut item.put),
            (Method::POST, &mut item.post),
            (Method::PATCH, &mut item.patch),
            (Method::DELETE, &mut item.delete),
        ];
        for (method, operation) in operations {
            let Some(operation) = operation else { continue };
            add_error_responses(path, operation);
            if let Some(access) = access.get(path) {
                let scope = access.scope(&method).as_str();
                operation.security = Some(vec![SecurityRequirement::new("api_key", [scope])]);
            }
        }
    }
    document
}

/// The text of `openapi.json`.
fn json(document: &OpenApi) -> String {
    // Serialising the document cannot fail.
    serde_json::to_string_pretty(document).unwrap_or_default() + "\n"
}

/// The status codes whose errors mean the same for all operations.
const SHARED: [&str; 10] = ["400", "401", "403", "404", "408", "413", "415", "422", "500", "503"];

fn add_error_responses(path: &str, operation: &mut Operation) {
    let is_open = operation.security.is_some();
    let is_in = |location: &ParameterIn| {
        let parameters = operation.parameters.iter().flatten();
        parameters
            .into_iter()
            .any(|parameter| matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == *location))
    };
    let (has_query, has_header) = (is_in(&ParameterIn::Query), is_in(&ParameterIn::Header));
    let has_body = operation.request_body.is_some();
    let is_possible = |status| match status {
        "400" | "408" | "413" | "415" => has_body,
        "404" => path.contains('{'),
        "422" => has_body || has_query || has_header || path.contains("{name}"),
        _ => !is_open,
    };
    let responses = &mut operation.responses.responses;
    for status in SHARED.into_iter().filter(|status| is_possible(*status)) {
        let shared = || RefOr::Ref(Ref::from_response_name(format!("problem_{status}")));
        responses.entry(status.to_owned()).or_insert_with(shared);
    }
    for (_, response) in responses.iter_mut().filter(|(status, _)| status.starts_with(['4', '5'])) {
        if let RefOr::T(response) = response {
            add_problem(response);
        }
    }
}

fn add_problem(response: &mut Response) {
    if response.content.is_empty() {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        response.content.insert("application/problem+json".to_owned(), RefOr::T(content));
    }
}

/// The problem codes of a status with their meanings.
fn meanings(status: &str) -> String {
    let of_status = ProblemCode::ALL.iter().filter(|code| code.status().to_string() == status);
    of_status.map(|code| format!("`{code}`: {}", code.meaning())).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use crate::router::endpoints;

    fn generated() -> Value {
        serde_json::from_str(&super::json(&endpoints().into_document())).unwrap()
    }

    #[test]
    fn checked_in_document_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
        let generated = super::json(&endpoints().into_document());
        if std::fs::read_to_string(path).unwrap_or_default() != generated {
            std::fs::write(path, &generated).unwrap();
            panic!("crates/api/openapi.json was out of date and has been rewritten: commit it");
        }
    }

    #[test]
    fn every_route_is_documented() {
        let router = include_str!("router.rs");
        let by_hand: Vec<&str> = router.lines().filter(|line| line.contains(".route(")).collect();
        let reason = "add routes with `routes!`, except /openapi.json, inbound hooks, the page of approval links and the end of logins";
        assert_eq!(by_hand.len(), 4, "{reason}: {by_hand:?}");
    }

    #[test]
    fn references_resolve_and_operation_ids_are_unique() {
        let document = generated();
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
                    missing
                        .extend(named.filter(|name| !defined.iter().any(|names| names.contains_key(*name))));
                    values.extend(fields.values());
                }
                _ => {}
            }
        }
        assert!(missing.is_empty(), "schemas that are referenced but not defined: {missing:?}");
    }
}
