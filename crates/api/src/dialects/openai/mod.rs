//! `/compat/openai/v1`: OpenAI's Responses, Conversations and Chat Completions, for clients that are made for them.
//!
//! A response is a run, or the part of one up to where it needs an answer; a conversation is a thread; a `model` is a kind or
//! an agent. Their ids are made from Houston's ([`id`]), and what a request says besides its text is in the metadata of its
//! message ([`replay::Said`]), so that nothing is stored for this protocol but the `metadata` of conversations. Items that a client
//! adds itself are messages of the thread ([`conversations`]). [`translate`] makes events from those of AG-UI;
//! [`stream`] numbers them; [`replay`] and [`responses`] make a response, or the state of a stream, from the event log.
//!
//! The tools of an agent appear as calls of an MCP server named `houston`: clients carry out what is a `function_call`.
//! A run that waits for a person ends its response as `completed`: its last items are what needs an answer.
//!
//! These endpoints are not in Houston's OpenAPI document: their contract is OpenAI's. Errors have OpenAI's shape ([`error`]).

mod answers;
mod begin;
mod chat;
mod conversations;
pub(crate) mod error;
mod id;
mod items;
mod offer;
mod replay;
mod responses;
mod stream;
mod translate;

use axum::extract::Path;
use houston_protocol::openai::response::list;
use serde_json::{Value, json};

use self::begin::target;
use crate::dialects::threads::Asker;
use crate::request::access::{ROW, THREAD};
use crate::request::endpoint::undocumented;
use crate::request::prelude::*;

/// The base of all paths.
pub(crate) const BASE: &str = "/compat/openai/v1";

/// Whether the path is one of this protocol.
pub(crate) fn is_path(path: &str) -> bool {
    path.strip_prefix(BASE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

undocumented! {
    post "/compat/openai/v1/responses" for THREAD => responses::create;
    get "/compat/openai/v1/responses/{id}" for ROW => responses::get;
    delete "/compat/openai/v1/responses/{id}" for ROW => responses::delete;
    post "/compat/openai/v1/responses/{id}/cancel" for ROW => responses::cancel;
    get "/compat/openai/v1/responses/{id}/input_items" for ROW => responses::input_items;
    post "/compat/openai/v1/conversations" for THREAD => conversations::create;
    get "/compat/openai/v1/conversations/{id}" for THREAD => conversations::get;
    post "/compat/openai/v1/conversations/{id}" for THREAD => conversations::change;
    delete "/compat/openai/v1/conversations/{id}" for THREAD => conversations::delete;
    get "/compat/openai/v1/conversations/{id}/items" for THREAD => conversations::list_items;
    post "/compat/openai/v1/conversations/{id}/items" for THREAD => conversations::create_items;
    get "/compat/openai/v1/conversations/{id}/items/{item}" for THREAD => conversations::get_item;
    delete "/compat/openai/v1/conversations/{id}/items/{item}" for THREAD => conversations::delete_item;
    post "/compat/openai/v1/chat/completions" for THREAD => chat::create;
    get "/compat/openai/v1/models" for THREAD => list_models;
    get "/compat/openai/v1/models/{*id}" for THREAD => get_model;
}

/// The most agents that are listed, newest first; others can be named all the same.
const MAX_AGENTS: i64 = 200;

/// The models: the kinds, and the agents of the tenant.
async fn models(ctx: &Ctx) -> Result<Vec<Value>> {
    let model = |id: &str, created: i64, owned_by: &str| json!({"id": id, "object": "model", "created": created, "owned_by": owned_by});
    let types = ctx.state.agent_types.values();
    let talks = |kind: &str| ctx.state.agent_types.get(kind).is_some_and(|kind| kind.conversational);
    let kinds = types.filter(|kind| kind.conversational && (kind.user_creatable() || kind.made_with_user));
    let kinds = kinds.map(|kind| model(&kind.kind, 0, "houston"));
    let agents = ctx.store().agents(None, MAX_AGENTS).await?;
    let agents = agents.iter().filter(|agent| agent.enabled && !agent.is_default && talks(&agent.kind));
    let agents =
        agents.map(|agent| model(&format!("agent/{}", agent.name), agent.created_at.timestamp(), "tenant"));
    Ok(kinds.chain(agents).collect())
}

/// `GET /models`.
async fn list_models(asker: Asker) -> Result<Response> {
    Ok(Json(list(&models(&asker.ctx).await?, false)).into_response())
}

/// `GET /models/{id}`.
async fn get_model(asker: Asker, Path(id): Path<String>) -> Result<Response> {
    let is_named = |model: &Value| model["id"].as_str().map(target) == Some(target(&id));
    let found = models(&asker.ctx).await?.into_iter().find(is_named);
    found.map(|model| Json(model).into_response()).ok_or(ApiError::NotFound("model"))
}

#[cfg(test)]
mod tests;
