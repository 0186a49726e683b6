//! The routes of all endpoints.

use std::sync::Arc;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use houston_domain::mcp_server::LOGIN_PATH;
use houston_domain::scope::Scope;

use crate::dialects::{a2a, ag_ui, ai_sdk, openai};
use crate::envelope::envelope;
use crate::error::ApiError;
use crate::etag::etag;
use crate::request::access::{AGENTABLE, INSTALLATION, NAMED, ROW, TENANT, THREAD, USER};
use crate::request::endpoint::{DOCUMENT, Endpoints, erase};
use crate::resources::knowledge::{
    CustomInstructions, FeedItems, Learnings, Memories, Notes, collection, item,
};
use crate::resources::{
    agentables, agents, approve, attachments, audit, check_ins, client_tokens, conversation, erasures,
    errors, feed, fields, files, grants, guards, health, images, inbound_hooks, insight, kinds, mcp_servers,
    messages, models, overview, plans, profile, questions, queues, read_marks, runs, sessions, shared_state,
    skills, snippets, table_records, tables, teams, tenant_keys, todos, tool_sources, triggers, usage, users,
    webhooks, workers,
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
    Endpoints::default()
        .open(health::LIVE)
        .open(health::HEALTHY)
        .open(health::READY)
        .open(health::VERSION)
        .routes(TENANT.all(Scope::Operate), &[health::GET])
        .routes(TENANT.all(Scope::Operate), &[health::LIST])
        .routes(TENANT.all(Scope::Read), &[models::LIST])
        .routes(TENANT.all(Scope::Read), &[models::GET])
        .routes(TENANT.all(Scope::Read), &[models::ESTIMATE])
        .routes(NAMED, &[tenant_keys::GET_OWN])
        .routes(TENANT.all(Scope::Admin), &[tenant_keys::LIST])
        .routes(TENANT.all(Scope::Admin), &[tenant_keys::REVOKE])
        .routes(NAMED, &[fields::GET])
        .routes(ROW, &[item::<Notes>()])
        .routes(ROW, &[item::<Learnings>()])
        .routes(ROW, &[messages::GET])
        .routes(ROW, &[images::GET, images::DELETE])
        .routes(ROW, &[runs::GET])
        .routes(ROW.unshown(), &[runs::CALLS])
        .routes(ROW.unshown(), &[runs::TRACE])
        .routes(ROW.all(Scope::Operate).unshown(), &[insight::WHY_RUN])
        .routes(ROW, &[runs::CANCEL])
        .routes(ROW.unshown(), &[sessions::GET])
        .routes(ROW.unshown(), &[sessions::HISTORY])
        .routes(TENANT, &[erasures::LIST])
        .routes(TENANT, &[erasures::GET])
        .routes(NAMED.all(Scope::Read), &[client_tokens::CREATE])
        .routes(NAMED.all(Scope::Read), &[client_tokens::DELETE])
        .routes(ROW, &[check_ins::CANCEL])
        .routes(NAMED, &[questions::LIST])
        .routes(ROW, &[questions::GET])
        .routes(ROW, &[questions::ANSWER])
        .routes(ROW, &[questions::CREATE_LINK])
        .routes(TENANT, &[guards::tenant::GET, guards::tenant::SET])
        .routes(TENANT, &[tool_sources::LIST])
        .routes(TENANT, &[tool_sources::GET, tool_sources::PUT, tool_sources::DELETE])
        .routes(TENANT, &[mcp_servers::tenant::LIST])
        .routes(TENANT, &[mcp_servers::tenant::GET, mcp_servers::tenant::PUT, mcp_servers::tenant::DELETE])
        .routes(TENANT, &[mcp_servers::tenant::TOOLS])
        .routes(TENANT, &[mcp_servers::tenant::APPROVE])
        .routes(TENANT, &[mcp_servers::tenant::LOGIN])
        .routes(TENANT, &[skills::tenant::LIST])
        .routes(TENANT, &[skills::tenant::GET, skills::tenant::PUT, skills::tenant::DELETE])
        .routes(THREAD, &[ag_ui::RUN_THREAD])
        .routes(THREAD, &[ai_sdk::POST])
        .routes(THREAD, &[ai_sdk::STREAM])
        .routes(THREAD, &[ai_sdk::CANCEL])
        .routes(NAMED.with_query_token(), &[events::all::OF_TENANT])
        .merge(operator_routes())
        .merge(webhook_routes())
        .merge(user_routes())
        .merge(agent_routes())
        .merge(agentable_routes())
        .merge(openai::endpoints())
        .merge(a2a::endpoints())
}

/// The paths of the endpoints that `/openapi.json` does not have, because another document is their contract. A test tries each of
/// them, as it does those of the document, with the keys of strangers.
#[must_use]
pub fn undocumented_paths() -> Vec<String> {
    endpoints().undocumented_paths()
}

/// What operators look at and change.
fn operator_routes() -> Endpoints {
    let operate = TENANT.all(Scope::Operate);
    Endpoints::default()
        .routes(operate, &[queues::LIST])
        .routes(operate, &[queues::STATS])
        .routes(operate, &[overview::GET])
        .routes(operate, &[usage::GET])
        .routes(operate, &[audit::LIST])
        .routes(operate, &[errors::LIST])
        .routes(operate, &[runs::many::LIST])
        .routes(operate, &[runs::many::CANCEL])
        .routes(operate, &[runs::many::RETRY])
        .routes(INSTALLATION, &[queues::PAUSE])
        .routes(INSTALLATION, &[queues::RESUME])
        .routes(INSTALLATION, &[workers::LIST])
        .routes(INSTALLATION, &[workers::DRAIN])
}

/// Webhooks and inbound hooks.
fn webhook_routes() -> Endpoints {
    let operate = TENANT.all(Scope::Operate);
    Endpoints::default()
        .routes(operate, &[webhooks::LIST, webhooks::CREATE])
        .routes(operate, &[webhooks::GET, webhooks::CHANGE, webhooks::DELETE])
        .routes(operate, &[webhooks::ROTATE])
        .routes(operate, &[webhooks::TEST])
        .routes(operate, &[webhooks::LIST_DELIVERIES])
        .routes(operate, &[webhooks::REDELIVER])
        .routes(operate, &[webhooks::REPLAY])
        .routes(operate, &[inbound_hooks::LIST, inbound_hooks::CREATE])
        .routes(operate, &[inbound_hooks::GET, inbound_hooks::DELETE])
        .routes(operate, &[inbound_hooks::ROTATE])
}

/// Users and the resources of a user.
fn user_routes() -> Endpoints {
    Endpoints::default()
        .routes(TENANT.change(Scope::Post), &[users::LIST, users::CREATE])
        .routes(USER.delete(Scope::Admin), &[users::GET, users::CHANGE, users::DELETE])
        .routes(USER, &[users::COSTS])
        .routes(USER.with_query_token(), &[events::all::OF_USER])
        .routes(USER, &[read_marks::UNREAD])
        .routes(USER, &[attachments::CREATE])
        .routes(ROW, &[attachments::GET, attachments::DELETE])
        .routes(USER.change(Scope::ManageAgents), &[guards::user::GET, guards::user::SET])
        .routes(USER, &[mcp_servers::user::LIST])
        .routes(
            USER.change(Scope::ManageAgents),
            &[mcp_servers::user::GET, mcp_servers::user::PUT, mcp_servers::user::DELETE],
        )
        .routes(USER, &[mcp_servers::user::TOOLS])
        .routes(USER.change(Scope::ManageAgents), &[mcp_servers::user::APPROVE])
        .routes(USER, &[mcp_servers::user::LOGIN])
        .routes(USER, &[skills::user::LIST])
        .routes(USER, &[skills::user::GET, skills::user::PUT, skills::user::DELETE])
        .routes(USER, &[grants::LIST])
        .routes(ROW, &[grants::REVOKE])
        .routes(USER, &[snippets::LIST])
        .routes(USER, &[snippets::GET, snippets::DELETE])
        .routes(USER, &[profile::GET, profile::CHANGE, profile::DELETE])
        .routes(USER, &[collection::<CustomInstructions>()])
        .routes(ROW, &[item::<CustomInstructions>()])
        .routes(USER, &[collection::<Memories>()])
        .routes(ROW, &[item::<Memories>()])
        .routes(USER, &[collection::<FeedItems>()])
        .routes(ROW, &[item::<FeedItems>()])
        .routes(USER, &[feed::GENERATE])
        .routes(USER, &[todos::LIST, todos::CREATE])
        .routes(ROW, &[todos::GET, todos::CHANGE, todos::DELETE])
        .routes(NAMED, &[triggers::DUE])
        .routes(USER, &[triggers::LIST, triggers::CREATE])
        .routes(ROW, &[triggers::GET, triggers::CHANGE, triggers::DELETE])
        .routes(ROW, &[triggers::FIRINGS])
        .routes(USER, &[tables::LIST, tables::CREATE])
        .routes(ROW, &[tables::GET, tables::DELETE])
        .routes(ROW, &[tables::ADD_FIELDS])
        .routes(ROW, &[tables::AGGREGATE])
        .routes(ROW, &[table_records::EXPORT])
        .routes(ROW, &[table_records::IMPORT])
        .routes(ROW, &[table_records::LIST, table_records::ADD])
        .routes(ROW, &[table_records::GET, table_records::CHANGE, table_records::DELETE])
}

/// Agents and teams.
fn agent_routes() -> Endpoints {
    Endpoints::default()
        .routes(TENANT, &[agents::LIST, agents::CREATE])
        .routes(TENANT.change(Scope::Operate), &[agents::RESYNC])
        .routes(TENANT, &[agents::GET, agents::CHANGE, agents::DELETE])
        .routes(TENANT, &[agents::RESET])
        .routes(TENANT, &[kinds::LIST])
        .routes(TENANT, &[guards::agent::GET, guards::agent::SET])
        .routes(TENANT, &[teams::LIST, teams::CREATE])
        .routes(TENANT, &[teams::GET, teams::CHANGE, teams::DELETE])
}

/// Agentables of every kind and the resources of an agentable.
fn agentable_routes() -> Endpoints {
    Endpoints::default()
        .routes(NAMED, &[agentables::LIST, agentables::create::CREATE])
        .routes(AGENTABLE, &[agentables::GET, agentables::CHANGE, agentables::DELETE])
        .routes(NAMED, &[conversation::IMPORT])
        .earlier(NAMED, conversation::EARLIER_PATH, post(erase(conversation::import)))
        .routes(AGENTABLE.unshown(), &[conversation::EXPORT])
        .routes(AGENTABLE, &[conversation::FORK])
        .routes(AGENTABLE, &[conversation::RESET])
        .routes(AGENTABLE, &[conversation::STATS])
        .routes(AGENTABLE.all(Scope::Operate).unshown(), &[insight::STATE])
        .routes(AGENTABLE.all(Scope::Operate).unshown(), &[insight::WHY_AGENTABLE])
        .routes(AGENTABLE.all(Scope::Operate).unshown(), &[insight::PROMPT])
        .routes(AGENTABLE.all(Scope::Operate).unshown(), &[insight::TOOLS])
        .routes(AGENTABLE.all(Scope::Operate).unshown(), &[insight::GUARD])
        .routes(AGENTABLE.change(Scope::ManageAgents), &[guards::agentable::GET, guards::agentable::SET])
        .routes(AGENTABLE, &[agentables::CANCEL])
        .routes(AGENTABLE, &[agentables::ARCHIVE])
        .routes(AGENTABLE, &[agentables::UNARCHIVE])
        .routes(AGENTABLE, &[agentables::LIST_TASKS])
        .routes(AGENTABLE, &[agentables::LIST_RUNS])
        .routes(AGENTABLE.unshown(), &[agentables::result::GET])
        .routes(AGENTABLE, &[check_ins::LIST, check_ins::CREATE])
        .routes(AGENTABLE, &[messages::LIST, messages::POST])
        .routes(AGENTABLE, &[plans::LIST, plans::create::CREATE])
        .routes(ROW, &[plans::GET, plans::CHANGE])
        .routes(ROW, &[plans::steps::LIST])
        .routes(ROW, &[plans::LIST_VERSIONS])
        .routes(ROW, &[plans::PAUSE])
        .routes(ROW, &[plans::RESUME])
        .routes(ROW, &[plans::CANCEL])
        .routes(ROW, &[plans::steps::RETRY])
        .routes(ROW, &[plans::steps::SKIP])
        .routes(AGENTABLE, &[read_marks::SET])
        .routes(AGENTABLE, &[shared_state::GET, shared_state::CHANGE])
        .routes(AGENTABLE, &[collection::<Notes>()])
        .routes(AGENTABLE, &[collection::<Learnings>()])
        .routes(AGENTABLE.unshown(), &[sessions::LIST_HISTORY])
        .routes(AGENTABLE.unshown(), &[sessions::LIST])
        .routes(AGENTABLE.unshown(), &[sessions::LIST_COMPRESSIONS])
        .routes(AGENTABLE, &[files::LIST])
        .routes(AGENTABLE, &[files::GET])
        .routes(AGENTABLE.with_query_token(), &[events::GET])
        .routes(AGENTABLE, &[ag_ui::RUN])
}

#[cfg(test)]
mod tests;
