//! Which request goes where.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

use crate::envelope::envelope;
use crate::error::ApiError;
use crate::state::{App, State};
use crate::{agentables, events, goals, health, history, messages, runs, users};

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
        .route("/v1/goals", post(goals::create::create))
        .route("/v1/messages/{id}", get(messages::get::get))
        .route("/v1/runs/{id}", get(runs::get::get))
        .route("/v1/runs/{id}/model_calls", get(runs::calls::calls))
        .route("/v1/runs/{id}/cancel", post(runs::cancel::cancel))
        .route("/v1/{kinds}/{id}", get(agentables::get::get))
        .route("/v1/{kinds}/{id}/messages", get(messages::list::list).post(messages::post::post))
        .route("/v1/{kinds}/{id}/history", get(history::list::list))
        .route("/v1/{kinds}/{id}/events", get(events::get::get))
        .fallback(async || ApiError::NotFound { what: "route" })
        .method_not_allowed_fallback(async || ApiError::MethodNotAllowed)
        .layer(from_fn_with_state(Arc::clone(&app), envelope))
        .with_state(app)
}
