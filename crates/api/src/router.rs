//! The routes of all endpoints.

use std::sync::Arc;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn_with_state;
use axum::routing::get;

use crate::endpoint::{Endpoints, routes};
use crate::envelope::envelope;
use crate::error::ApiError;
use crate::knowledge::endpoints::{collection, item};
use crate::knowledge::{CustomInstructions, FeedItems, Learnings, Memories, Notes};
use crate::state::{App, State};
use crate::{
    agentables, agents, approve, check_ins, compressions, conversation, erasures, events, feed, files,
    grants, guards, health, history, images, insight, mcp_servers, messages, profile, questions, runs,
    sessions, skills, snippets, table_records, tables, teams, todos, tool_sources, users,
};
use houston_domain::mcp_server::LOGIN_PATH;

/// A router with all endpoints. Its streams read Postgres when an item on the bus asks for it; the poll that finds
/// events the bus has lost, and the check for revoked keys, run only in [`crate::serve()`].
pub fn router(state: State) -> Router {
    routes(App::new(state))
}

/// The OpenAPI document: the tests of `openapi` compare it with the handlers.
const DOCUMENT: &str = include_str!("../openapi.json");

pub(crate) fn routes(app: Arc<App>) -> Router {
    endpoints()
        .into_router()
        .route(approve::PATH, get(approve::show).post(approve::decide))
        .route(LOGIN_PATH, get(mcp_servers::login::finish))
        .route("/openapi.json", get(async || ([(CONTENT_TYPE, "application/json")], DOCUMENT)))
        .fallback(async || ApiError::NotFound { what: "route" })
        .method_not_allowed_fallback(async || ApiError::MethodNotAllowed)
        .layer(from_fn_with_state(Arc::clone(&app), envelope))
        .with_state(app)
}

/// All endpoints except `/openapi.json`, the page of approval links, and where browsers come back after a login.
pub(crate) fn endpoints() -> Endpoints {
    Endpoints::new()
        .routes(routes!(health::live))
        .routes(routes!(health::healthy))
        .routes(routes!(health::ready))
        .routes(routes!(health::version))
        .routes(routes!(health::get::get))
        .routes(item::<Notes>())
        .routes(item::<Learnings>())
        .routes(routes!(messages::get::get))
        .routes(routes!(images::get::get, images::delete::delete))
        .routes(routes!(runs::get::get))
        .routes(routes!(runs::calls::calls))
        .routes(routes!(runs::cancel::cancel))
        .routes(routes!(sessions::get::get))
        .routes(routes!(sessions::history::history))
        .routes(routes!(erasures::list::list))
        .routes(routes!(erasures::get::get))
        .routes(routes!(check_ins::cancel::cancel))
        .routes(routes!(questions::list::list))
        .routes(routes!(questions::get::get))
        .routes(routes!(questions::answer::answer))
        .routes(routes!(questions::link::create))
        .routes(routes!(guards::tenant::get, guards::tenant::set))
        .routes(routes!(tool_sources::list::list))
        .routes(routes!(tool_sources::get::get, tool_sources::put::put, tool_sources::delete::delete))
        .routes(routes!(mcp_servers::tenant::list))
        .routes(routes!(mcp_servers::tenant::get, mcp_servers::tenant::put, mcp_servers::tenant::delete))
        .routes(routes!(mcp_servers::tenant::tools))
        .routes(routes!(mcp_servers::tenant::approve))
        .routes(routes!(mcp_servers::tenant::login))
        .routes(routes!(skills::tenant::list))
        .routes(routes!(skills::tenant::get, skills::tenant::put, skills::tenant::delete))
        .merge(user_routes())
        .merge(agent_routes())
        .merge(agentable_routes())
}

/// Users and the resources of a user.
fn user_routes() -> Endpoints {
    Endpoints::default()
        .routes(routes!(users::list::list, users::create::create))
        .routes(routes!(users::get::get, users::change::change, users::delete::delete))
        .routes(routes!(users::costs::costs))
        .routes(routes!(guards::user::get, guards::user::set))
        .routes(routes!(mcp_servers::user::list))
        .routes(routes!(mcp_servers::user::get, mcp_servers::user::put, mcp_servers::user::delete))
        .routes(routes!(mcp_servers::user::tools))
        .routes(routes!(mcp_servers::user::approve))
        .routes(routes!(mcp_servers::user::login))
        .routes(routes!(skills::user::list))
        .routes(routes!(skills::user::get, skills::user::put, skills::user::delete))
        .routes(routes!(grants::list::list))
        .routes(routes!(grants::revoke::revoke))
        .routes(routes!(snippets::list::list))
        .routes(routes!(snippets::get::get, snippets::delete::delete))
        .routes(routes!(profile::get::get, profile::change::change, profile::delete::delete))
        .routes(collection::<CustomInstructions>())
        .routes(item::<CustomInstructions>())
        .routes(collection::<Memories>())
        .routes(item::<Memories>())
        .routes(collection::<FeedItems>())
        .routes(item::<FeedItems>())
        .routes(routes!(feed::generate::generate))
        .routes(routes!(todos::list::list, todos::create::create))
        .routes(routes!(todos::get::get, todos::change::change, todos::delete::delete))
        .routes(routes!(tables::list::list, tables::create::create))
        .routes(routes!(tables::get::get, tables::delete::delete))
        .routes(routes!(tables::add_fields::add_fields))
        .routes(routes!(tables::aggregate::aggregate))
        .routes(routes!(table_records::export::export))
        .routes(routes!(table_records::import::import))
        .routes(routes!(table_records::list::list, table_records::add::add))
        .routes(routes!(
            table_records::get::get,
            table_records::change::change,
            table_records::delete::delete
        ))
}

/// Agents and teams.
fn agent_routes() -> Endpoints {
    Endpoints::default()
        .routes(routes!(agents::list::list, agents::create::create))
        .routes(routes!(agents::resync::resync))
        .routes(routes!(agents::get::get, agents::change::change, agents::delete::delete))
        .routes(routes!(agents::reset::reset))
        .routes(routes!(guards::agent::get, guards::agent::set))
        .routes(routes!(teams::list::list, teams::create::create))
        .routes(routes!(teams::get::get, teams::change::change, teams::delete::delete))
}

/// Agentables of every kind and the resources of an agentable.
fn agentable_routes() -> Endpoints {
    Endpoints::default()
        .routes(routes!(agentables::list::list, agentables::create::create))
        .routes(routes!(agentables::get::get, agentables::change::change, agentables::delete::delete))
        .routes(routes!(conversation::import::import))
        .routes(routes!(conversation::export::export))
        .routes(routes!(conversation::fork::fork))
        .routes(routes!(conversation::reset::reset))
        .routes(routes!(conversation::stats::stats))
        .routes(routes!(insight::state::state))
        .routes(routes!(insight::prompt))
        .routes(routes!(insight::tools))
        .routes(routes!(insight::guard))
        .routes(routes!(guards::agentable::get, guards::agentable::set))
        .routes(routes!(agentables::cancel::cancel))
        .routes(routes!(agentables::archive::archive))
        .routes(routes!(agentables::archive::unarchive))
        .routes(routes!(agentables::tasks::list))
        .routes(routes!(agentables::runs::list))
        .routes(routes!(agentables::result::get))
        .routes(routes!(check_ins::list::list, check_ins::create::create))
        .routes(routes!(messages::list::list, messages::post::post))
        .routes(collection::<Notes>())
        .routes(collection::<Learnings>())
        .routes(routes!(history::list::list))
        .routes(routes!(sessions::list::list))
        .routes(routes!(compressions::list::list))
        .routes(routes!(files::list::list))
        .routes(routes!(files::get::get))
        .routes(routes!(events::get::get))
        .routes(routes!(events::ag_ui::run))
}
