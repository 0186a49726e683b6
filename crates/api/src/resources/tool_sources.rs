//! `/v1/endpoints`: a tenant's own HTTP endpoints as tools of its agents. A change applies from the next run on.

use std::collections::{BTreeMap, BTreeSet};

use houston_domain::inner_call::USE_TOOL;
use houston_domain::tool_source::{
    MAX_DOCUMENT_BYTES, MAX_SECRET_BYTES, MAX_SECRETS, SourceType, name_problem, purpose,
};
use houston_protocol::tool_source::{EndpointsList, EndpointsResponse, PutEndpoints};
use houston_store::tool_source::{NewSource, Placed, ToolSource};
use houston_web::json_api::{Loaded, Problem, from_document, not_public};
use serde_json::Value;

use crate::request::agentable_path::from_path;
use crate::request::checks::truncated;
use crate::request::prelude::*;
use crate::resources::webhooks::secret;

endpoints! {
    get "/v1/endpoints" for TENANT => list,
    "list_endpoints" in "tools": "List the documents of endpoints of the tenant, without their secrets.",
    200 "All documents, by name; at most 50." [EndpointsList];

    get "/v1/endpoints/{name}" for TENANT => get,
    "get_endpoints" in "tools": "Get a document of endpoints, without its secrets.",
    params(("name" = String, Path, description = "Name of the document.", example = "crm")),
    200 "The document." [EndpointsResponse];

    put "/v1/endpoints/{name}" for TENANT => put,
    "put_endpoints" in "tools": "Make HTTP endpoints of the tenant tools of its agents; replaces the document with this name.",
    params(("name" = String, Path, description = "Name of the document: a-z, 0-9, _ and -.", example = "crm")),
    body [PutEndpoints],
    200 "The document, without its secrets." [EndpointsResponse],
    409 "`full`: the tenant has the maximum number of tool sources.";

    delete "/v1/endpoints/{name}" for TENANT =>
        async |ctx: Ctx, SourceName(name): SourceName|
            gone(ctx.store().delete_tool_source(SourceType::Endpoints, &name).await),
    "delete_endpoints" in "tools": "Delete a document of endpoints and its secrets.",
    params(("name" = String, Path, description = "Name of the document.", example = "crm")),
    204 "It is deleted.";
}

/// The name of a source in a path.
#[derive(Debug)]
struct SourceName(String);

from_path! { SourceName, |parts| {
    let name = param(parts, "name").unwrap_or_default();
    match name_problem(&name) {
        Some(problem) => Err(ApiError::field("", format!("the name in the path is not allowed: {problem}"))),
        None => Ok(Self(name)),
    }
} }

async fn list(ctx: Ctx) -> Result<Json<EndpointsList>> {
    let mut data = Vec::new();
    for source in ctx.store().tool_sources(SourceType::Endpoints).await? {
        data.push(response(&ctx, source).await?);
    }
    Ok(Json(EndpointsList { data }))
}

async fn get(ctx: Ctx, SourceName(name): SourceName) -> Result<Json<EndpointsResponse>> {
    let source = ctx.store().tool_source(SourceType::Endpoints, &name).await?;
    Ok(Json(response(&ctx, source).await?))
}

/// Stores a document of endpoints, in the place of the one with its name.
async fn put(
    ctx: Ctx,
    SourceName(name): SourceName,
    Sent(PutEndpoints { document, kinds, secrets }): Sent<PutEndpoints>,
) -> Result<Json<EndpointsResponse>> {
    let document = match document {
        Value::String(text) => text,
        Value::Object(_) => document.to_string(),
        _ => return Err(ApiError::field("/document", "must be a text or an object")),
    };
    check_size("/document", document.len(), MAX_DOCUMENT_BYTES)?;
    check_kinds(&ctx, &kinds)?;
    let sealed = secrets.as_ref().map(|secrets| {
        let what = purpose(SourceType::Endpoints, &name);
        seal(&ctx, &what, "/secrets", secrets)
    });
    let sealed = sealed.transpose()?;
    let (text, of) = (document.clone(), name.clone());
    let loaded = ctx.offload.compute(move || read(&text, &of)).await?;
    let loaded = loaded.map_err(|problem| ApiError::field("/document", problem.to_string()))?;
    let tools: Vec<String> = loaded.endpoints.iter().map(|endpoint| endpoint.name.clone()).collect();
    let is_taken = |tool: &&String| *tool == USE_TOOL || ctx.state.agents.tools.contains(tool);
    if let Some(tool) = tools.iter().find(is_taken) {
        let why = format!("`{tool}` is the name of a tool of this installation: rename yours");
        return Err(ApiError::field("/document", why));
    }
    let names: Vec<String> = secrets.iter().flat_map(BTreeMap::keys).cloned().collect();
    let secrets = sealed.as_ref().map(|sealed| (names.as_slice(), sealed.as_deref()));
    let (source, kinds) = (SourceType::Endpoints, kinds.as_slice());
    let new = NewSource { source, name: &name, document: &document, kinds, tools: &tools, secrets };
    match ctx.store().put_tool_source(&new).await? {
        Placed::Done(stored) => Ok(Json(response_of(stored, &loaded))),
        Placed::Taken { source, tool } => {
            let why = format!("`{tool}` is a tool of `{source}`, too: rename one");
            Err(ApiError::field("/document", why))
        }
    }
}

fn read(text: &str, name: &str) -> Result<Loaded, Problem> {
    let loaded = from_document(text, name)?;
    if loaded.endpoints.is_empty() {
        let why = loaded.skipped.first().map_or_else(String::new, |problem| format!("; {problem}"));
        let message = format!("the document has no endpoint that can be a tool{why}");
        return Err(Problem { at: name.to_owned(), message });
    }
    not_public(&loaded).map_or(Ok(loaded), Err)
}

/// Checks that all kinds exist.
///
/// # Errors
/// [`ApiError::InvalidRequest`] that names the first that does not.
pub(crate) fn check_kinds(app: &App, kinds: &[String]) -> Result<()> {
    let existing = &app.state.agent_types;
    for (nth, kind) in kinds.iter().enumerate() {
        if !existing.contains_key(kind) {
            let all: Vec<&str> = existing.keys().map(String::as_str).collect();
            let why = format!("there is no kind `{}`; there are: {}", truncated(kind), all.join(", "));
            return Err(ApiError::field(&format!("/kinds/{nth}"), why));
        }
    }
    Ok(())
}

/// The secrets, which are `at` this place of the body, sealed for `what`; `None` if there are none. No error contains one.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when there are too many, or no key to seal them with.
pub(crate) fn seal(
    ctx: &Ctx,
    what: &str,
    at: &str,
    secrets: &BTreeMap<String, String>,
) -> Result<Option<Vec<u8>>> {
    if secrets.is_empty() {
        return Ok(None);
    }
    secret::keys(ctx, at)?;
    ensure!(secrets.len() <= MAX_SECRETS, ApiError::field(at, format!("at most {MAX_SECRETS} are allowed")));
    if secrets
        .iter()
        .any(|(name, secret)| name.len().max(secret.len()) > MAX_SECRET_BYTES || secret.is_empty())
    {
        let why = format!("each value, and its name, have 1 to {MAX_SECRET_BYTES} bytes");
        return Err(ApiError::field(at, why));
    }
    let text = serde_json::to_string(secrets).unwrap_or_default();
    secret::seal(ctx, ctx.caller.tenant(), what, &text).map(Some)
}

/// The response for a stored document.
async fn response(app: &App, source: ToolSource) -> Result<EndpointsResponse> {
    // Reading a long document takes too long for a thread of the runtime.
    let read = move || {
        let loaded = from_document(&source.document, &source.name).unwrap_or_default();
        response_of(source, &loaded)
    };
    app.offload.compute(read).await
}

fn response_of(source: ToolSource, loaded: &Loaded) -> EndpointsResponse {
    let needed: BTreeSet<&String> = loaded
        .endpoints
        .iter()
        .flat_map(|endpoint| endpoint.auth.iter().map(|auth| &auth.secret).chain(&endpoint.signed_with))
        .collect();
    let missing = needed.into_iter().filter(|name| !source.secret_names.contains(name));
    EndpointsResponse {
        missing_secrets: missing.cloned().collect(),
        skipped: loaded.skipped.iter().map(ToString::to_string).collect(),
        name: source.name,
        document: source.document,
        kinds: source.kinds,
        tools: source.tools,
        secrets: source.secret_names,
        created_at: Time(source.created_at),
        updated_at: Time(source.updated_at),
    }
}
