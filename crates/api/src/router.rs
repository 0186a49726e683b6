//! The routes of all endpoints.

use std::sync::Arc;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use houston_domain::mcp_server::LOGIN_PATH;

use crate::dialects::{a2a, ag_ui, ai_sdk, openai};
use crate::envelope::envelope;
use crate::error::ApiError;
use crate::etag::etag;
use crate::request::endpoint::{DOCUMENT, Endpoint, erase, routed};
use crate::resources::{
    agentables, agents, approve, attachments, audit, check_ins, client_tokens, conversation, erasures,
    errors, feed, fields, files, grants, guards, health, images, inbound_hooks, insight, kinds, knowledge,
    mcp_servers, messages, models, overview, plans, profile, questions, queues, read_marks, runs, sessions,
    shared_state, skills, snippets, table_records, tables, teams, tenant_keys, todos, tool_sources, triggers,
    usage, users, webhooks, workers,
};
use crate::state::{App, State};
use crate::{events, mcp};

/// A router with all endpoints. Its streams read Postgres when an item on the bus asks for it; the poll that finds
/// events the bus has lost, and the check for revoked keys, run only in [`crate::serve()`].
pub fn router(state: State) -> Router {
    routes(Arc::clone(App::of_cells(&state.into()).home()))
}

pub(crate) fn routes(app: Arc<App>) -> Router {
    let cors = app.state.config.cors.clone();
    let others = OF_OTHERS.concat().into_iter().chain(conversation::UNDOCUMENTED.to_vec());
    let all = routed(others.chain(endpoints()))
        .route(a2a::CARD, get(erase(a2a::card::main)))
        .route(inbound_hooks::PATH, post(erase(inbound_hooks::receive)))
        .route(approve::PATH, get(erase(approve::show)).post(erase(approve::decide)))
        .route(LOGIN_PATH, get(erase(mcp_servers::login::finish)))
        .route("/openapi.json", get(erase(async || ([(CONTENT_TYPE, "application/json")], DOCUMENT))))
        .fallback(async || ApiError::NotFound("route"))
        .method_not_allowed_fallback(async || ApiError::MethodNotAllowed)
        .layer(from_fn_with_state(Arc::clone(&app), audit::recorded))
        .layer(from_fn(etag))
        .layer(from_fn_with_state(Arc::clone(&app), envelope))
        .with_state(Arc::clone(&app));
    mcp::over(&app, cors.allow(all))
}

/// The lists of endpoints of these modules.
macro_rules! of {
    ($($($module:ident)::+),+) => { &[$($($module::)+ENDPOINTS),+] };
}

/// The endpoints of other protocols, whose contract is another document.
const OF_OTHERS: [&[Endpoint]; 2] = [openai::UNDOCUMENTED, a2a::UNDOCUMENTED];

/// All endpoints that are in the document. Not in it are [`OF_OTHERS`], the earlier path of the import, and some that need no key:
/// the page of approval links, what is posted to inbound hooks, where browsers come back after a login, the agent card, and the
/// document itself.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    let lists: &[&[&[Endpoint]]] = of! {
        ag_ui, agentables, agentables::create, agentables::result, agents, ai_sdk, attachments, audit,
        check_ins, client_tokens, conversation, erasures, errors, events, events::all, feed, fields, files,
        grants, guards, health, images, inbound_hooks, insight, kinds, mcp_servers, messages, models, overview,
        plans, plans::create, plans::steps, profile, questions, queues, read_marks, runs, runs::many, sessions,
        shared_state, skills, snippets, table_records, tables, teams, tenant_keys, todos, tool_sources,
        triggers, usage, users, webhooks, workers, knowledge::notes, knowledge::learnings,
        knowledge::custom_instructions, knowledge::memories, knowledge::feed_items
    };
    lists.concat().concat()
}

/// The paths of the endpoints that `/openapi.json` does not have, because another document is their contract. A test tries each of
/// them, as it does those of the document, with the keys of strangers.
pub fn undocumented_paths() -> Vec<String> {
    let mut paths: Vec<_> = OF_OTHERS.concat().iter().map(|endpoint| endpoint.path.to_owned()).collect();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests;
