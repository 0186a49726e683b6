//! Which request goes where.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, delete, get, post};

use crate::envelope::envelope;
use crate::error::ApiError;
use crate::knowledge::{self, CustomInstructions, FeedItems, Learnings, Memories, Notes, Noun};
use crate::state::{App, State};
use crate::{
    agentables, agents, check_ins, compressions, conversation, events, feed, health, history, insight,
    messages, profile, runs, sessions, teams, users,
};

/// All endpoints over `state`. Streams opened through it look into Postgres when the bus tells them to; only
/// [`crate::serve()`] adds the poll that finds what the bus has lost.
pub fn router(state: State) -> Router {
    routes(App::new(state))
}

pub(crate) fn routes(app: Arc<App>) -> Router {
    Router::new()
        .route("/livez", get(health::live))
        .route("/healthz", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/version", get(health::version))
        .route("/v1/health", get(health::get::get))
        .route("/v1/notes/{id}", item::<Notes>())
        .route("/v1/learnings/{id}", item::<Learnings>())
        .route("/v1/messages/{id}", get(messages::get::get))
        .route("/v1/runs/{id}", get(runs::get::get))
        .route("/v1/runs/{id}/model_calls", get(runs::calls::calls))
        .route("/v1/runs/{id}/cancel", post(runs::cancel::cancel))
        .route("/v1/sessions/{id}", get(sessions::get::get))
        .route("/v1/sessions/{id}/history", get(sessions::history::history))
        .route("/v1/check-ins/{id}", delete(check_ins::cancel::cancel))
        .merge(of_users())
        .merge(of_agents())
        .merge(of_kinds())
        .fallback(async || ApiError::NotFound { what: "route" })
        .method_not_allowed_fallback(async || ApiError::MethodNotAllowed)
        .layer(from_fn_with_state(Arc::clone(&app), envelope))
        .with_state(app)
}

/// Users, and what is theirs.
fn of_users() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/users", post(users::create::create))
        .route("/v1/users/{id}", get(users::get::get))
        .route("/v1/users/{id}/costs", get(users::costs::costs))
        .route(
            "/v1/users/{id}/profile",
            get(profile::get::get).patch(profile::change::change).delete(profile::delete::delete),
        )
        .route("/v1/users/{id}/custom-instructions", list::<CustomInstructions>())
        .route("/v1/custom-instructions/{id}", item::<CustomInstructions>())
        .route("/v1/users/{id}/memories", list::<Memories>())
        .route("/v1/memories/{id}", item::<Memories>())
        .route("/v1/users/{id}/feed", list::<FeedItems>())
        .route("/v1/users/{id}/feed/generate", post(feed::generate::generate))
        .route("/v1/feed-items/{id}", item::<FeedItems>())
}

/// Who answers.
fn of_agents() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/agents", get(agents::list::list).post(agents::create::create))
        .route("/v1/agents/resync", post(agents::resync::resync))
        .route(
            "/v1/agents/{id}",
            get(agents::get::get).patch(agents::change::change).delete(agents::delete::delete),
        )
        .route("/v1/agents/{id}/reset", post(agents::reset::reset))
        .route("/v1/teams", get(teams::list::list).post(teams::create::create))
        .route(
            "/v1/teams/{id}",
            get(teams::get::get).patch(teams::change::change).delete(teams::delete::delete),
        )
}

/// Agentables of every kind, and what belongs to one.
fn of_kinds() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/{kinds}", get(agentables::list::list).post(agentables::create::create))
        .route("/v1/{kinds}/{id}", get(agentables::get::get).patch(agentables::change::change))
        .route("/v1/{kinds}/import", post(conversation::import::import))
        .route("/v1/{kinds}/{id}/export", get(conversation::export::export))
        .route("/v1/{kinds}/{id}/fork", post(conversation::fork::fork))
        .route("/v1/{kinds}/{id}/reset", post(conversation::reset::reset))
        .route("/v1/{kinds}/{id}/stats", get(conversation::stats::stats))
        .route("/v1/{kinds}/{id}/state", get(insight::state::state))
        .route("/v1/{kinds}/{id}/prompt", get(insight::prompt))
        .route("/v1/{kinds}/{id}/tools", get(insight::tools))
        .route("/v1/{kinds}/{id}/cancel", post(agentables::cancel::cancel))
        .route("/v1/{kinds}/{id}/archive", post(agentables::archive::archive))
        .route("/v1/{kinds}/{id}/unarchive", post(agentables::archive::unarchive))
        .route("/v1/{kinds}/{id}/tasks", get(agentables::tasks::list))
        .route("/v1/{kinds}/{id}/check-ins", get(check_ins::list::list).post(check_ins::create::create))
        .route("/v1/{kinds}/{id}/messages", get(messages::list::list).post(messages::post::post))
        .route("/v1/{kinds}/{id}/notes", list::<Notes>())
        .route("/v1/{kinds}/{id}/learnings", list::<Learnings>())
        .route("/v1/{kinds}/{id}/history", get(history::list::list))
        .route("/v1/{kinds}/{id}/sessions", get(sessions::list::list))
        .route("/v1/{kinds}/{id}/compressions", get(compressions::list::list))
        .route("/v1/{kinds}/{id}/events", get(events::get::get))
}

/// The list of a noun, and what makes one more.
fn list<N: Noun>() -> MethodRouter<Arc<App>> {
    get(knowledge::list::list::<N>).post(knowledge::create::create::<N>)
}

/// One item of a noun.
fn item<N: Noun>() -> MethodRouter<Arc<App>> {
    get(knowledge::get::get::<N>).patch(knowledge::change::change::<N>).delete(knowledge::delete::delete::<N>)
}
