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
use crate::request::access::NAMED;
use crate::request::endpoint::{DOCUMENT, Endpoint, Endpoints, erase};
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
    routes(App::new(state))
}

pub(crate) fn routes(app: Arc<App>) -> Router {
    let cors = app.state.config.cors.clone();
    let all = endpoints()
        .into_router()
        .route(a2a::CARD, a2a::main_card())
        .route(inbound_hooks::PATH, post(erase(inbound_hooks::receive)))
        .route(approve::PATH, get(erase(approve::show)).post(erase(approve::decide)))
        .route(LOGIN_PATH, get(erase(mcp_servers::login::finish)))
        .route("/openapi.json", get(erase(async || ([(CONTENT_TYPE, "application/json")], DOCUMENT))))
        .fallback(async || ApiError::NotFound { what: "route" })
        .method_not_allowed_fallback(async || ApiError::MethodNotAllowed)
        .layer(from_fn_with_state(Arc::clone(&app), audit::recorded))
        .layer(from_fn(etag))
        .layer(from_fn_with_state(Arc::clone(&app), envelope))
        .with_state(Arc::clone(&app));
    mcp::over(&app, cors.allow(all))
}

/// All endpoints except those that need no key and are not in the document: the page of approval links, what is posted to inbound
/// hooks, where browsers come back after a login, the agent card, and the document itself.
pub(crate) fn endpoints() -> Endpoints {
    let lists: &[&[Endpoint]] = &[
        ag_ui::ENDPOINTS,
        agentables::ENDPOINTS,
        agentables::create::ENDPOINTS,
        agentables::result::ENDPOINTS,
        agents::ENDPOINTS,
        ai_sdk::ENDPOINTS,
        attachments::ENDPOINTS,
        audit::ENDPOINTS,
        check_ins::ENDPOINTS,
        client_tokens::ENDPOINTS,
        conversation::ENDPOINTS,
        erasures::ENDPOINTS,
        errors::ENDPOINTS,
        events::ENDPOINTS,
        events::all::ENDPOINTS,
        feed::ENDPOINTS,
        fields::ENDPOINTS,
        files::ENDPOINTS,
        grants::ENDPOINTS,
        guards::ENDPOINTS,
        health::ENDPOINTS,
        images::ENDPOINTS,
        inbound_hooks::ENDPOINTS,
        insight::ENDPOINTS,
        kinds::ENDPOINTS,
        mcp_servers::ENDPOINTS,
        messages::ENDPOINTS,
        models::ENDPOINTS,
        overview::ENDPOINTS,
        plans::ENDPOINTS,
        plans::create::ENDPOINTS,
        plans::steps::ENDPOINTS,
        profile::ENDPOINTS,
        questions::ENDPOINTS,
        queues::ENDPOINTS,
        read_marks::ENDPOINTS,
        runs::ENDPOINTS,
        runs::many::ENDPOINTS,
        sessions::ENDPOINTS,
        shared_state::ENDPOINTS,
        skills::ENDPOINTS,
        snippets::ENDPOINTS,
        table_records::ENDPOINTS,
        tables::ENDPOINTS,
        teams::ENDPOINTS,
        tenant_keys::ENDPOINTS,
        todos::ENDPOINTS,
        tool_sources::ENDPOINTS,
        triggers::ENDPOINTS,
        usage::ENDPOINTS,
        users::ENDPOINTS,
        webhooks::ENDPOINTS,
        workers::ENDPOINTS,
        knowledge::notes::ENDPOINTS,
        knowledge::learnings::ENDPOINTS,
        knowledge::custom_instructions::ENDPOINTS,
        knowledge::memories::ENDPOINTS,
        knowledge::feed_items::ENDPOINTS,
    ];
    Endpoints::documented_in(lists)
        .earlier(NAMED, conversation::EARLIER_PATH, post(erase(conversation::import)))
        .merge(openai::endpoints())
        .merge(a2a::endpoints())
}

/// The paths of the endpoints that `/openapi.json` does not have, because another document is their contract. A test tries each of
/// them, as it does those of the document, with the keys of strangers.
pub fn undocumented_paths() -> Vec<String> {
    endpoints().undocumented_paths()
}

#[cfg(test)]
mod tests;
