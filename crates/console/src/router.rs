//! The routes of the console.

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};

use crate::{
    Console, Site, agents, assets, audit, call, failure, headers, health, installation, keys, kinds, oidc,
    overview, questions, run, runs, shell, sign_in, threads, triggers, usage, users, webhooks, work,
};

pub(crate) fn routes(console: &Console, api: Router) -> Router {
    let at = |rest: &str| console.path(rest);
    let (slash, others) = (at("/"), at("/{*rest}"));
    let site = Site { console: console.clone(), api };
    Router::new()
        .route(&at(""), get(overview::show))
        .route(&at("/sign-in"), get(sign_in::show).post(sign_in::submit))
        .route(&at("/sign-in/{token}"), get(sign_in::ask).post(sign_in::follow))
        .route(&at("/sign-in-with"), get(oidc::begin))
        .route(&at("/sign-in-with/back"), get(oidc::back))
        .route(&at("/sign-out"), post(sign_in::leave))
        .route(&at("/assets/{version}/{name}"), get(assets::get))
        .route(&at("/counts"), get(shell::counts))
        .route(&at("/runs"), get(runs::show))
        .route(&at("/runs/bulk"), post(runs::change_all))
        .route(&at("/runs/{id}"), get(run::show))
        .route(&at("/runs/{id}/cancel"), post(run::cancel))
        .route(&at("/runs/{id}/retry"), post(run::retry))
        .route(&at("/runs/{id}/trace"), get(run::trace))
        .route(&at("/runs/{id}/texts/{step}/{nth}"), get(run::text))
        .route(&at("/runs/{id}/calls/{nth}"), get(call::show))
        .route(&at("/runs/{id}/events"), get(run::events))
        .route(&at("/threads"), get(threads::show_list))
        .route(&at("/threads/{kind}/{id}"), get(threads::show::show))
        .route(&at("/threads/{kind}/{id}/history"), get(threads::history::show))
        .route(&at("/threads/{kind}/{id}/messages"), post(threads::show::say))
        .route(&at("/waiting"), get(questions::list))
        .route(&at("/waiting/{id}"), get(questions::show).post(questions::answer))
        .route(&at("/users"), get(users::list))
        .route(&at("/users/{id}"), get(users::show))
        .route(&at("/schedules"), get(triggers::list))
        .route(&at("/triggers/{id}"), get(triggers::show))
        .route(&at("/triggers/{id}/enabled"), post(triggers::switch))
        .route(&at("/usage"), get(usage::show))
        .route(&at("/errors"), get(runs::show_errors))
        .route(&at("/queues"), get(work::queues))
        .route(&at("/queues/{lane}/pause"), post(work::pause))
        .route(&at("/queues/{lane}/drain"), post(work::drain_lane))
        .route(&at("/queues/{lane}/resume"), post(work::resume))
        .route(&at("/workers"), get(work::workers))
        .route(&at("/workers/{id}/drain"), post(work::drain))
        .route(&at("/audit"), get(audit::show))
        .route(&at("/health"), get(health::show))
        .route(&at("/agents"), get(installation::agents))
        .route(&at("/agents/{id}"), get(agents::show).post(agents::change))
        .route(&at("/kinds"), get(kinds::show))
        .route(&at("/models"), get(installation::models))
        .route(&at("/tools"), get(installation::tools))
        .route(&at("/keys"), get(keys::list))
        .route(&at("/keys/{id}/revoke"), post(keys::revoke))
        .route(&at("/webhooks"), get(webhooks::list))
        .route(&at("/webhooks/{id}"), get(webhooks::show))
        .route(&at("/webhooks/{id}/test"), post(webhooks::test))
        .route(&at("/webhooks/{id}/redeliver/{delivery}"), post(webhooks::redeliver))
        .route(&slash, get(failure::no_page))
        .route(&others, get(failure::no_page))
        .method_not_allowed_fallback(failure::no_method)
        .layer(from_fn_with_state(site.clone(), failure::pages))
        .layer(from_fn(headers::check_origin))
        .layer(from_fn(headers::add))
        .with_state(site)
}
