//! The OpenAPI document: made of the handlers' `#[utoipa::path]`, completed here with what is the same for all.
//!
//! Handlers name their answers and the codes of their 409 and 429. Every refusal has the same body, and most come from
//! what handlers take: a key (401), an id (404), a body (400, 408, 413, 415, 422), a query (422). Those are added here.

use bytes::Bytes;
use houston_protocol::problem::{Problem, ProblemCode};
use houston_protocol::schema;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{OpenApi, Ref, RefOr, Response};
use utoipa::{Modify, OpenApi as _};

/// The document without its paths.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Houston",
        description = "A durable runtime for agents. Refusals are `application/problem+json` with a stable `code`. \
                       Lists are read with `limit` and `cursor`. Streams are server-sent events in AG-UI 1.0.",
    ),
    modifiers(&ApiKey),
    security(("api_key" = [])),
    components(schemas(
        Problem,
        ProblemCode,
        schema::AgentableId,
        schema::UserId,
        schema::RunId,
        schema::MessageId,
        schema::AgentId,
        schema::TeamId,
        schema::SessionId,
        schema::CheckInId,
    ))
)]
struct Document;

struct ApiKey;

impl Modify for ApiKey {
    fn modify(&self, document: &mut OpenApi) {
        let key = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .bearer_format("hou_…")
            .description(Some("An API key: `houston key create` makes one, `houston dev` prints one."));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("api_key", SecurityScheme::Http(key.build()));
    }
}

/// The document, to which a router adds its paths.
pub(crate) fn document() -> OpenApi {
    Document::openapi()
}

/// Adds the refusals to all operations.
pub(crate) fn complete(mut document: OpenApi) -> OpenApi {
    let components = document.components.get_or_insert_default();
    for status in SHARED {
        let mut response = ResponseBuilder::new().description(meanings(status)).build();
        add_problem(&mut response);
        components.responses.insert(format!("problem_{status}"), RefOr::T(response));
    }
    for (path, item) in &mut document.paths.paths {
        let operations = [&mut item.get, &mut item.post, &mut item.patch, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            add_refusals(path, operation);
        }
    }
    document
}

/// The document as it is served.
pub(crate) fn json(document: &OpenApi) -> Bytes {
    // Strings and numbers always become JSON.
    let mut json = serde_json::to_vec_pretty(document).unwrap_or_default();
    json.push(b'\n');
    json.into()
}

/// The refusals that mean the same for all operations.
const SHARED: [&str; 9] = ["400", "401", "404", "408", "413", "415", "422", "500", "503"];

fn add_refusals(path: &str, operation: &mut Operation) {
    let is_open = operation.security.is_some();
    let is_in = |place: &ParameterIn| {
        let parameters = operation.parameters.iter().flatten();
        parameters
            .into_iter()
            .any(|parameter| matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == *place))
    };
    let (has_query, has_header) = (is_in(&ParameterIn::Query), is_in(&ParameterIn::Header));
    let has_body = operation.request_body.is_some();
    let is_possible = |status| match status {
        "400" | "408" | "413" | "415" => has_body,
        "404" => path.contains('{'),
        "422" => has_body || has_query || has_header,
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

/// The codes that come with a status.
fn meanings(status: &str) -> String {
    let of_status = ProblemCode::ALL.iter().filter(|code| code.status().to_string() == status);
    of_status.map(|code| format!("`{code}`: {}", code.meaning())).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use crate::router::documented;

    fn generated() -> Value {
        serde_json::from_slice(&super::json(&documented().1)).unwrap()
    }

    #[test]
    fn the_checked_in_document_is_fresh() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
        let generated = super::json(&documented().1);
        if std::fs::read(path).unwrap_or_default() != generated {
            std::fs::write(path, &generated).unwrap();
            panic!("crates/api/openapi.json was out of date and has been written anew: commit it");
        }
    }

    #[test]
    fn no_route_is_undocumented() {
        let router = include_str!("router.rs");
        let by_hand: Vec<&str> = router.lines().filter(|line| line.contains(".route(")).collect();
        assert_eq!(
            by_hand.len(),
            1,
            "routes are added with `routes!`, but for the document's own: {by_hand:?}"
        );
    }

    #[test]
    fn references_are_whole_and_operations_have_names_of_their_own() {
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
        assert!(names.len() > 60, "this test has lost sight of the operations: {}", names.len());
        let components = &document["components"];
        let known = ["schemas", "responses"].map(|kind| components[kind].as_object().unwrap());
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
                    missing.extend(named.filter(|name| !known.iter().any(|known| known.contains_key(*name))));
                    values.extend(fields.values());
                }
                _ => {}
            }
        }
        assert!(missing.is_empty(), "schemas that are named and not there: {missing:?}");
    }
}
