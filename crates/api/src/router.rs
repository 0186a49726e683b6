//! Which request goes where.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, delete, get, post};

use crate::envelope::envelope;
use crate::error::ApiError;
use crate::knowledge::{self, CustomInstructions, FeedItems, Learnings, Memories, Notes, Noun};
use crate::state::{App, State};
use crate::{agentables, check_ins, events, feed, health, history, messages, profile, runs, users};

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
        .route("/v1/notes/{id}", item::<Notes>())
        .route("/v1/learnings/{id}", item::<Learnings>())
        .route("/v1/messages/{id}", get(messages::get::get))
        .route("/v1/runs/{id}", get(runs::get::get))
        .route("/v1/runs/{id}/model_calls", get(runs::calls::calls))
        .route("/v1/runs/{id}/cancel", post(runs::cancel::cancel))
        .route("/v1/{kinds}", get(agentables::list::list).post(agentables::create::create))
        .route("/v1/{kinds}/{id}", get(agentables::get::get))
        .route("/v1/{kinds}/{id}/cancel", post(agentables::cancel::cancel))
        .route("/v1/{kinds}/{id}/archive", post(agentables::archive::archive))
        .route("/v1/{kinds}/{id}/unarchive", post(agentables::archive::unarchive))
        .route("/v1/{kinds}/{id}/tasks", get(agentables::tasks::list))
        .route("/v1/{kinds}/{id}/check-ins", get(check_ins::list::list))
        .route("/v1/check-ins/{id}", delete(check_ins::cancel::cancel))
        .route("/v1/{kinds}/{id}/messages", get(messages::list::list).post(messages::post::post))
        .route("/v1/{kinds}/{id}/notes", list::<Notes>())
        .route("/v1/{kinds}/{id}/learnings", list::<Learnings>())
        .route("/v1/{kinds}/{id}/history", get(history::list::list))
        .route("/v1/{kinds}/{id}/events", get(events::get::get))
        .fallback(async || ApiError::NotFound { what: "route" })
        .method_not_allowed_fallback(async || ApiError::MethodNotAllowed)
        .layer(from_fn_with_state(Arc::clone(&app), envelope))
        .with_state(app)
}

/// The list of a noun, and what makes one more.
fn list<N: Noun>() -> MethodRouter<Arc<App>> {
    get(knowledge::list::list::<N>).post(knowledge::create::create::<N>)
}

/// One item of a noun.
fn item<N: Noun>() -> MethodRouter<Arc<App>> {
    get(knowledge::get::get::<N>).patch(knowledge::change::change::<N>).delete(knowledge::delete::delete::<N>)
}
