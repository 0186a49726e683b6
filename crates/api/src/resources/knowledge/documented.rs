//! What the OpenAPI document says of a [`KnowledgeResource`]: `#[utoipa::path]` cannot describe generic handlers.

use houston_domain::knowledge::{KnowledgeOwner, KnowledgeRules};
use houston_protocol::page::Page;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::path::{HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::{OpenApi, Ref, RefOr, Required};
use utoipa::{PartialSchema, ToSchema};

use super::KnowledgeResource;
use crate::request::endpoint::Endpoint;

type Schemas = Vec<(String, RefOr<Schema>)>;

/// Adds the operations of a resource's collection.
pub(super) fn collection<N: KnowledgeResource>(document: &mut OpenApi) {
    let KnowledgeRules { name, plural, .. } = N::KIND.rules();
    let mut schemas = Schemas::new();
    add::<N::Response>(&mut schemas);
    add::<N::New>(&mut schemas);
    <Page<N::Response>>::schemas(&mut schemas);
    let page = format!("Page_{}", N::Response::name());
    schemas.push((page.clone(), <Page<N::Response>>::schema()));

    let listed = operation("list", plural, &format!("List the {plural}, newest first."))
        .parameter(query("limit", number(), "Maximum number of items on the page; 20 by default."))
        .parameter(query("cursor", text(), "`next_cursor` of the previous page."));
    let listed = owner::<N>(listed).response("200", json(&page, "A page of items."));
    let created = operation("create", name, &format!("Create a {name}."))
        .parameter(
            ParameterBuilder::new()
                .name("Idempotency-Key")
                .parameter_in(ParameterIn::Header)
                .schema(Some(text()))
                .description(Some("Makes the request safe to repeat: the same request with the same key gets the first response again and creates nothing new. 1 to 255 printable ASCII characters, kept for a day.")),
        )
        .request_body(Some(body::<N::New>()))
        .response("409", ResponseBuilder::new().description("`full`: the maximum number of items exists."));
    let created = owner::<N>(created).response("201", json(&N::Response::name(), "The new item."));
    add_to(
        document,
        &super::collection::<N>(),
        schemas,
        [(HttpMethod::Get, listed), (HttpMethod::Post, created)],
    );
}

/// Adds the operations of one item of a resource.
pub(super) fn item<N: KnowledgeResource>(document: &mut OpenApi) {
    let name = N::KIND.rules().name;
    let mut schemas = Schemas::new();
    add::<N::Response>(&mut schemas);
    add::<N::Change>(&mut schemas);
    let response = || json(&N::Response::name(), "The item.");
    let read =
        operation("get", name, &format!("Get a {name}.")).parameter(path("id")).response("200", response());
    let changed = operation("update", name, &format!("Change a {name}; fields not given stay as they are."))
        .parameter(path("id"))
        .request_body(Some(body::<N::Change>()))
        .response("200", response());
    let deleted = operation("delete", name, &format!("Delete a {name}."))
        .parameter(path("id"))
        .response("204", ResponseBuilder::new().description("The item is deleted."));
    let operations = [(HttpMethod::Get, read), (HttpMethod::Patch, changed), (HttpMethod::Delete, deleted)];
    add_to(document, &super::item::<N>(), schemas, operations);
}

fn operation(verb: &str, noun: &str, summary: &str) -> OperationBuilder {
    OperationBuilder::new()
        .tag("knowledge")
        .operation_id(Some(format!("{verb}_{}", noun.replace(' ', "_"))))
        .summary(Some(summary))
}

fn owner<N: KnowledgeResource>(operation: OperationBuilder) -> OperationBuilder {
    let names: &[&str] = match N::KIND.rules().owner {
        KnowledgeOwner::Agentable => &["kinds", "id"],
        KnowledgeOwner::User => &["id"],
    };
    names.iter().fold(operation, |operation, name| operation.parameter(path(name)))
}

fn path(name: &str) -> ParameterBuilder {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .schema(Some(text()))
}

fn query(name: &str, schema: ObjectBuilder, description: &str) -> ParameterBuilder {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .schema(Some(schema))
        .description(Some(description))
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn number() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(100))
}

fn body<T: ToSchema>() -> utoipa::openapi::request_body::RequestBody {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(T::name()))).build();
    RequestBodyBuilder::new().content("application/json", content).required(Some(Required::True)).build()
}

fn json(schema: &str, description: &str) -> Response {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).build();
    ResponseBuilder::new().description(description).content("application/json", content).build()
}

fn add<T: ToSchema>(schemas: &mut Schemas) {
    T::schemas(schemas);
    schemas.push((T::name().into_owned(), T::schema()));
}

fn add_to<const N: usize>(
    document: &mut OpenApi,
    endpoint: &Endpoint,
    schemas: Schemas,
    operations: [(HttpMethod, OperationBuilder); N],
) {
    for (method, operation) in operations {
        document.paths.add_path_operation(&endpoint.path, vec![method], operation);
    }
    document.components.get_or_insert_default().schemas.extend(schemas);
}
