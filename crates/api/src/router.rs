//! The routes of all endpoints.

use std::sync::Arc;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use houston_domain::mcp_server::LOGIN_PATH;
use houston_domain::scope::Scope;

use crate::access::{AGENTABLE, INSTALLATION, NAMED, ROW, TENANT, THREAD, USER};
use crate::endpoint::{Endpoints, routes};
use crate::envelope::envelope;
use crate::error::ApiError;
use crate::etag::etag;
use crate::handler::erase;
use crate::knowledge::endpoints::{collection, item};
use crate::knowledge::{CustomInstructions, FeedItems, Learnings, Memories, Notes};
use crate::state::{App, State};
use crate::{
    a2a, agentables, agents, ai_sdk, approve, attachments, audit, check_ins, client_tokens, compressions,
    conversation, erasures, errors, events, feed, fields, files, grants, guards, health, history, images,
    inbound_hooks, insight, kinds, mcp, mcp_servers, messages, models, openai, overview, own_key, plans,
    profile, questions, queues, read_marks, runs, sessions, shared_state, skills, snippets, table_records,
    tables, teams, tenant_keys, todos, tool_sources, triggers, usage, users, webhooks, workers,
};

/// A router with all endpoints. Its streams read Postgres when an item on the bus asks for it; the poll that finds
/// events the bus has lost, and the check for revoked keys, run only in [`crate::serve()`].
pub fn router(state: State) -> Router {
    routes(App::new(state))
}

/// The OpenAPI document: the tests of `openapi` compare it with the handlers.
pub(crate) const DOCUMENT: &str = include_str!("../openapi.json");

pub(crate) fn routes(app: Arc<App>) -> Router {
    let cors = app.state.config.cors.clone();
    let all = endpoints()
        .into_router()
        .merge(a2a::routes())
        .route(inbound_hooks::receive::PATH, post(erase(inbound_hooks::receive::receive)))
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

/// All endpoints except `/openapi.json`, the page of approval links, and where browsers come back after a login.
pub(crate) fn endpoints() -> Endpoints {
    Endpoints::new()
        .open(routes!(health::live))
        .open(routes!(health::healthy))
        .open(routes!(health::ready))
        .open(routes!(health::version))
        .routes(TENANT.all(Scope::Operate), routes!(health::get::get))
        .routes(TENANT.all(Scope::Operate), routes!(health::history::list))
        .routes(TENANT.all(Scope::Read), routes!(models::list::list))
        .routes(TENANT.all(Scope::Read), routes!(models::get::get))
        .routes(TENANT.all(Scope::Read), routes!(models::estimate::estimate))
        .routes(NAMED, routes!(own_key::get::get))
        .routes(TENANT.all(Scope::Admin), routes!(tenant_keys::list::list))
        .routes(TENANT.all(Scope::Admin), routes!(tenant_keys::revoke::revoke))
        .routes(NAMED, routes!(fields::get::get))
        .routes(ROW, item::<Notes>())
        .routes(ROW, item::<Learnings>())
        .routes(ROW, routes!(messages::get::get))
        .routes(ROW, routes!(images::get::get, images::delete::delete))
        .routes(ROW, routes!(runs::get::get))
        .routes(ROW, routes!(runs::calls::calls))
        .routes(ROW, routes!(runs::trace::trace))
        .routes(ROW.all(Scope::Operate), routes!(insight::why::run))
        .routes(ROW, routes!(runs::cancel::cancel))
        .routes(ROW, routes!(sessions::get::get))
        .routes(ROW, routes!(sessions::history::history))
        .routes(TENANT, routes!(erasures::list::list))
        .routes(TENANT, routes!(erasures::get::get))
        .routes(NAMED.all(Scope::Read), routes!(client_tokens::create::create))
        .routes(NAMED.all(Scope::Read), routes!(client_tokens::delete::delete))
        .routes(ROW, routes!(check_ins::cancel::cancel))
        .routes(NAMED, routes!(questions::list::list))
        .routes(ROW, routes!(questions::get::get))
        .routes(ROW, routes!(questions::answer::answer))
        .routes(ROW, routes!(questions::link::create))
        .routes(TENANT, routes!(guards::tenant::get, guards::tenant::set))
        .routes(TENANT, routes!(tool_sources::list::list))
        .routes(TENANT, routes!(tool_sources::get::get, tool_sources::put::put, tool_sources::delete::delete))
        .routes(TENANT, routes!(mcp_servers::tenant::list))
        .routes(
            TENANT,
            routes!(mcp_servers::tenant::get, mcp_servers::tenant::put, mcp_servers::tenant::delete),
        )
        .routes(TENANT, routes!(mcp_servers::tenant::tools))
        .routes(TENANT, routes!(mcp_servers::tenant::approve))
        .routes(TENANT, routes!(mcp_servers::tenant::login))
        .routes(TENANT, routes!(skills::tenant::list))
        .routes(TENANT, routes!(skills::tenant::get, skills::tenant::put, skills::tenant::delete))
        .routes(THREAD, routes!(events::ag_ui::run_thread))
        .routes(THREAD, routes!(ai_sdk::post::post))
        .routes(THREAD, routes!(ai_sdk::stream::stream))
        .routes(THREAD, routes!(ai_sdk::cancel::cancel))
        .routes(NAMED.with_query_token(), routes!(events::all::get::of_tenant))
        .merge(operator_routes())
        .merge(webhook_routes())
        .merge(user_routes())
        .merge(agent_routes())
        .merge(agentable_routes())
        .merge(openai::endpoints())
}

/// What operators look at and change.
fn operator_routes() -> Endpoints {
    let operate = TENANT.all(Scope::Operate);
    Endpoints::default()
        .routes(operate, routes!(queues::list::list))
        .routes(operate, routes!(queues::stats::stats))
        .routes(operate, routes!(overview::get::get))
        .routes(operate, routes!(usage::get::get))
        .routes(operate, routes!(audit::list::list))
        .routes(operate, routes!(errors::list::list))
        .routes(operate, routes!(runs::list::list))
        .routes(operate, routes!(runs::bulk::cancel))
        .routes(operate, routes!(runs::bulk::retry))
        .routes(INSTALLATION, routes!(queues::pause::pause))
        .routes(INSTALLATION, routes!(queues::pause::resume))
        .routes(INSTALLATION, routes!(workers::list::list))
        .routes(INSTALLATION, routes!(workers::drain::drain))
}

/// Webhooks and inbound hooks.
fn webhook_routes() -> Endpoints {
    let operate = TENANT.all(Scope::Operate);
    Endpoints::default()
        .routes(operate, routes!(webhooks::list::list, webhooks::create::create))
        .routes(operate, routes!(webhooks::get::get, webhooks::change::change, webhooks::delete::delete))
        .routes(operate, routes!(webhooks::rotate::rotate))
        .routes(operate, routes!(webhooks::test::test))
        .routes(operate, routes!(webhooks::deliveries::list))
        .routes(operate, routes!(webhooks::redeliver::redeliver))
        .routes(operate, routes!(webhooks::replay::replay))
        .routes(operate, routes!(inbound_hooks::list::list, inbound_hooks::create::create))
        .routes(operate, routes!(inbound_hooks::get::get, inbound_hooks::delete::delete))
        .routes(operate, routes!(inbound_hooks::rotate::rotate))
}

/// Users and the resources of a user.
fn user_routes() -> Endpoints {
    Endpoints::default()
        .routes(TENANT.change(Scope::Post), routes!(users::list::list, users::create::create))
        .routes(
            USER.delete(Scope::Admin),
            routes!(users::get::get, users::change::change, users::delete::delete),
        )
        .routes(USER, routes!(users::costs::costs))
        .routes(USER.with_query_token(), routes!(events::all::get::of_user))
        .routes(USER, routes!(read_marks::unread::unread))
        .routes(USER, routes!(attachments::create::create))
        .routes(ROW, routes!(attachments::get::get, attachments::delete::delete))
        .routes(USER.change(Scope::ManageAgents), routes!(guards::user::get, guards::user::set))
        .routes(USER, routes!(mcp_servers::user::list))
        .routes(
            USER.change(Scope::ManageAgents),
            routes!(mcp_servers::user::get, mcp_servers::user::put, mcp_servers::user::delete),
        )
        .routes(USER, routes!(mcp_servers::user::tools))
        .routes(USER.change(Scope::ManageAgents), routes!(mcp_servers::user::approve))
        .routes(USER, routes!(mcp_servers::user::login))
        .routes(USER, routes!(skills::user::list))
        .routes(USER, routes!(skills::user::get, skills::user::put, skills::user::delete))
        .routes(USER, routes!(grants::list::list))
        .routes(ROW, routes!(grants::revoke::revoke))
        .routes(USER, routes!(snippets::list::list))
        .routes(USER, routes!(snippets::get::get, snippets::delete::delete))
        .routes(USER, routes!(profile::get::get, profile::change::change, profile::delete::delete))
        .routes(USER, collection::<CustomInstructions>())
        .routes(ROW, item::<CustomInstructions>())
        .routes(USER, collection::<Memories>())
        .routes(ROW, item::<Memories>())
        .routes(USER, collection::<FeedItems>())
        .routes(ROW, item::<FeedItems>())
        .routes(USER, routes!(feed::generate::generate))
        .routes(USER, routes!(todos::list::list, todos::create::create))
        .routes(ROW, routes!(todos::get::get, todos::change::change, todos::delete::delete))
        .routes(NAMED, routes!(triggers::due::due))
        .routes(USER, routes!(triggers::list::list, triggers::create::create))
        .routes(ROW, routes!(triggers::get::get, triggers::change::change, triggers::delete::delete))
        .routes(ROW, routes!(triggers::firings::firings))
        .routes(USER, routes!(tables::list::list, tables::create::create))
        .routes(ROW, routes!(tables::get::get, tables::delete::delete))
        .routes(ROW, routes!(tables::add_fields::add_fields))
        .routes(ROW, routes!(tables::aggregate::aggregate))
        .routes(ROW, routes!(table_records::export::export))
        .routes(ROW, routes!(table_records::import::import))
        .routes(ROW, routes!(table_records::list::list, table_records::add::add))
        .routes(
            ROW,
            routes!(table_records::get::get, table_records::change::change, table_records::delete::delete),
        )
}

/// Agents and teams.
fn agent_routes() -> Endpoints {
    Endpoints::default()
        .routes(TENANT, routes!(agents::list::list, agents::create::create))
        .routes(TENANT.change(Scope::Operate), routes!(agents::resync::resync))
        .routes(TENANT, routes!(agents::get::get, agents::change::change, agents::delete::delete))
        .routes(TENANT, routes!(agents::reset::reset))
        .routes(TENANT, routes!(kinds::list::list))
        .routes(TENANT, routes!(guards::agent::get, guards::agent::set))
        .routes(TENANT, routes!(teams::list::list, teams::create::create))
        .routes(TENANT, routes!(teams::get::get, teams::change::change, teams::delete::delete))
}

/// Agentables of every kind and the resources of an agentable.
fn agentable_routes() -> Endpoints {
    Endpoints::default()
        .routes(NAMED, routes!(agentables::list::list, agentables::create::create))
        .routes(
            AGENTABLE,
            routes!(agentables::get::get, agentables::change::change, agentables::delete::delete),
        )
        .routes(NAMED, routes!(conversation::import::import))
        .routes(AGENTABLE, routes!(conversation::export::export))
        .routes(AGENTABLE, routes!(conversation::fork::fork))
        .routes(AGENTABLE, routes!(conversation::reset::reset))
        .routes(AGENTABLE, routes!(conversation::stats::stats))
        .routes(AGENTABLE.all(Scope::Operate), routes!(insight::state::state))
        .routes(AGENTABLE.all(Scope::Operate), routes!(insight::why::agentable))
        .routes(AGENTABLE.all(Scope::Operate), routes!(insight::prompt))
        .routes(AGENTABLE.all(Scope::Operate), routes!(insight::tools))
        .routes(AGENTABLE.all(Scope::Operate), routes!(insight::guard))
        .routes(
            AGENTABLE.change(Scope::ManageAgents),
            routes!(guards::agentable::get, guards::agentable::set),
        )
        .routes(AGENTABLE, routes!(agentables::cancel::cancel))
        .routes(AGENTABLE, routes!(agentables::archive::archive))
        .routes(AGENTABLE, routes!(agentables::archive::unarchive))
        .routes(AGENTABLE, routes!(agentables::tasks::list))
        .routes(AGENTABLE, routes!(agentables::runs::list))
        .routes(AGENTABLE, routes!(agentables::result::get))
        .routes(AGENTABLE, routes!(check_ins::list::list, check_ins::create::create))
        .routes(AGENTABLE, routes!(messages::list::list, messages::post::post))
        .routes(AGENTABLE, routes!(plans::list::list, plans::create::create))
        .routes(ROW, routes!(plans::get::get, plans::change::change))
        .routes(ROW, routes!(plans::steps::list))
        .routes(ROW, routes!(plans::versions::list))
        .routes(ROW, routes!(plans::pause::pause))
        .routes(ROW, routes!(plans::pause::resume))
        .routes(ROW, routes!(plans::cancel::cancel))
        .routes(ROW, routes!(plans::step::retry))
        .routes(ROW, routes!(plans::step::skip))
        .routes(AGENTABLE, routes!(read_marks::set::set))
        .routes(AGENTABLE, routes!(shared_state::get::get, shared_state::change::change))
        .routes(AGENTABLE, collection::<Notes>())
        .routes(AGENTABLE, collection::<Learnings>())
        .routes(AGENTABLE, routes!(history::list::list))
        .routes(AGENTABLE, routes!(sessions::list::list))
        .routes(AGENTABLE, routes!(compressions::list::list))
        .routes(AGENTABLE, routes!(files::list::list))
        .routes(AGENTABLE, routes!(files::get::get))
        .routes(AGENTABLE.with_query_token(), routes!(events::get::get))
        .routes(AGENTABLE, routes!(events::ag_ui::run))
}
