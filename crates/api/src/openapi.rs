//! The OpenAPI document: generated from the descriptions of the endpoints and completed here with the error responses. A
//! test compares it with `openapi.json`, which is what servers answer with.
//!
//! Endpoints name their success responses and the codes of their 409, 410 and 429. All errors have the same body, and most
//! follow from what a handler takes: a key (401, 403), an id (404), a body (400, 408, 413, 415, 422), a query or a name (422).
//! Those are added here.

use std::collections::{BTreeMap, HashMap};

use axum::http::Method;
use houston_domain::id;
use houston_domain::scope::Scope;
use houston_protocol::problem::{Problem, ProblemCode};
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ArrayBuilder, Object, ObjectBuilder, Schema, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{OpenApi, Ref, RefOr, Response};
use utoipa::{Modify, OpenApi as _};

use crate::request::access::Access;

/// The document without its paths.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Houston",
        description = "A durable runtime for AI agents. Errors are `application/problem+json` with a stable `code`. Lists \
                       have pages with `limit` and `cursor`. Event streams are AG-UI 1.0 over server-sent events.",
    ),
    servers((url = "/", description = "The server that this document was read from.")),
    modifiers(&ApiKey),
    security(("api_key" = [])),
    components(schemas(
        Problem,
        ProblemCode,
        id::AgentableId,
        id::UserId,
        id::RunId,
        id::ImageId,
        id::MessageId,
        id::AgentId,
        id::TeamId,
        id::SessionId,
        id::CheckInId,
        id::ApiKeyId,
        Scope,
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

/// The text of `openapi.json`, generated from the endpoints.
pub fn generate() -> String {
    let mut document = Document::openapi();
    let mut access = HashMap::new();
    for endpoint in crate::router::endpoints() {
        (endpoint.describe)(&mut document);
        access.extend(endpoint.access.map(|needed| (endpoint.path, needed)));
    }
    complete(&mut document, &access);
    leave_out_unused(&mut document);
    // Serialising the document cannot fail.
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

/// Leaves out the schemas that nothing refers to: items of lists, which are written into their lists.
fn leave_out_unused(document: &mut OpenApi) {
    loop {
        // Serialising the document cannot fail.
        let text = serde_json::to_string(document).unwrap_or_default();
        let schemas = &mut document.components.get_or_insert_default().schemas;
        let before = schemas.len();
        schemas.retain(|name, _| text.contains(&format!("\"#/components/schemas/{name}\"")));
        if schemas.len() == before {
            return;
        }
    }
}

/// Adds the shared error responses and the scopes to all operations.
fn complete(document: &mut OpenApi, access: &HashMap<&str, Access>) {
    let components = document.components.get_or_insert_default();
    name_facts(&mut components.schemas);
    for name in OF_PAGES {
        let Some(RefOr::T(Schema::Object(page))) = components.schemas.get_mut(&format!("Page_{name}")) else {
            continue;
        };
        let items = ArrayBuilder::new().items(Ref::from_schema_name(name)).description(Some("The items."));
        page.properties.insert("data".to_owned(), items.into());
    }
    for name in OPEN {
        if let Some(RefOr::T(Schema::Object(schema))) = components.schemas.get_mut(name) {
            schema.additional_properties = None;
        }
    }
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
            add_path_parameters(path, operation);
            let access = access.get(path.as_str());
            add_error_responses(path, operation, access.is_none());
            let security =
                access.map(|access| SecurityRequirement::new("api_key", [access.scope(&method).as_str()]));
            operation.security = Some(vec![security.unwrap_or_default()]);
            if access.is_some_and(|access| access.unshown) {
                let description = operation.description.get_or_insert_default();
                let space = if description.is_empty() { "" } else { "\n\n" };
                description.push_str(space);
                description.push_str(UNSHOWN);
            }
        }
    }
}

/// Describes `{kinds}` and `{id}` of a path, if its endpoint does not: an id is that of the first thing in the path.
fn add_path_parameters(path: &str, operation: &mut Operation) {
    let lacks = |name: &str| {
        let is_named = |of: &RefOr<Parameter>| matches!(of, RefOr::T(of) if of.name == name);
        path.contains(&format!("{{{name}}}")) && !operation.parameters.iter().flatten().any(is_named)
    };
    let in_path = |name: &str| ParameterBuilder::from(Parameter::new(name));
    let kinds = lacks("kinds").then(|| {
        let text = ObjectBuilder::new().schema_type(Type::String).build();
        let kinds = in_path("kinds").description(Some("Kind of the agentable, in the plural."));
        kinds.schema(Some(text)).example(Some("goals".into()))
    });
    let id = lacks("id").then(|| {
        let (noun, schema) = match path.split('/').nth(2).unwrap_or_default() {
            "{kinds}" => ("agentable", "AgentableId".to_owned()),
            "plans" => ("plan", "AgentableId".to_owned()),
            "keys" => ("key", "ApiKeyId".to_owned()),
            "client-tokens" => ("token", "ApiKeyId".to_owned()),
            "inbound-hooks" => ("hook", "InboundHookId".to_owned()),
            "attachments" => ("file", "AttachmentId".to_owned()),
            things => {
                let thing = things.trim_end_matches('s');
                (thing, capitalised(thing.split('-')) + "Id")
            }
        };
        let id = in_path("id").description(Some(format!("Id of the {noun}.")));
        id.schema(Some(Ref::from_schema_name(schema)))
    });
    let added: Vec<_> = kinds.into_iter().chain(id).map(|of| RefOr::T(of.build())).collect();
    if !added.is_empty() {
        operation.parameters.get_or_insert_default().splice(0..0, added);
    }
}

/// Items of lists that are not written into their lists.
const OF_PAGES: [&str; 5] =
    ["CustomInstructionResponse", "FeedItemResponse", "LearningResponse", "MemoryResponse", "NoteResponse"];

/// Types that refuse what they do not know, which the document does not say of them.
const OPEN: [&str; 3] = ["Condition", "Router", "Rule"];

/// What is said of operations that answer with what models read.
const UNSHOWN: &str = "Never shown to users: client tokens and JWTs are refused with 403.";

/// The status codes whose errors mean the same for all operations.
const SHARED: [&str; 10] = ["400", "401", "403", "404", "408", "413", "415", "422", "500", "503"];

/// `is_open`: for everybody.
fn add_error_responses(path: &str, operation: &mut Operation, is_open: bool) {
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

type Schemas = BTreeMap<String, RefOr<Schema>>;

/// Changes `Event` and `Fact`, if the document has them.
fn name_facts(schemas: &mut Schemas) {
    let Some(RefOr::T(Schema::OneOf(events))) = schemas.get_mut("Event") else { return };
    let is_fact = |part: &RefOr<Schema>| matches!(part, RefOr::Ref(part) if part.ref_location == "#/components/schemas/Fact");
    let custom = events
        .items
        .iter_mut()
        .find(|item| matches!(item, RefOr::T(Schema::AllOf(parts)) if parts.items.iter().any(is_fact)));
    let Some(custom) = custom else { return };
    let fact = RefOr::Ref(Ref::from_schema_name("Fact"));
    let RefOr::T(Schema::AllOf(parts)) = std::mem::replace(custom, fact) else { return };
    let of_all_events: Vec<Object> = parts.items.into_iter().filter_map(object).collect();

    let Some(RefOr::T(Schema::OneOf(facts))) = schemas.get_mut("Fact") else { return };
    let mut named = Schemas::new();
    for item in std::mem::take(&mut facts.items) {
        let Some(mut fact) = object(item) else { continue };
        for part in &of_all_events {
            fact.properties.extend(part.properties.clone());
            fact.required.extend(part.required.iter().cloned());
        }
        let name = schema_name(&fact);
        facts.items.push(RefOr::Ref(Ref::from_schema_name(name.clone())));
        named.insert(name, RefOr::T(Schema::Object(fact)));
    }
    schemas.extend(named);
}

fn object(schema: RefOr<Schema>) -> Option<Object> {
    if let RefOr::T(Schema::Object(object)) = schema { Some(object) } else { None }
}

/// `TitleSetEvent` for the fact with the `name` `houston.title.set`.
fn schema_name(fact: &Object) -> String {
    let Some(RefOr::T(Schema::Object(name))) = fact.properties.get("name") else { return String::new() };
    let name = name.enum_values.iter().flatten().find_map(|value| value.as_str()).unwrap_or_default();
    capitalised(name.trim_start_matches("houston.").split(['.', '_'])) + "Event"
}

fn capitalised<'w>(words: impl Iterator<Item = &'w str>) -> String {
    words.filter_map(|word| Some(word.get(..1)?.to_uppercase() + word.get(1..)?)).collect()
}
