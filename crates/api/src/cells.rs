//! Several cells behind one address. Each cell has its own router and state; this sends each request to the cell that
//! the id in its path names. With one cell none of this runs.
//!
//! - A request that creates a user, or something for a user that its body names, begins at the home and continues in the
//!   cell of the user ([`App::with_shard`]).
//! - Lists without an id ask each cell for a page and merge them: they are ordered by id, so the cursor of one cell is
//!   that of all. A cell that is away is left out, and the header `Houston-Missing-Cells` names it.
//! - What any cell can begin, such as creating a user, begins at the first that has not answered 503 within seconds.
//! - A cell from which users have gone, or to which they are still on their way, finds nothing of them. So if a cell does not
//!   find something, it is asked whether it has the shard ([`Moves::has`]). If not, what reads is looked for again; anything else
//!   is answered 503: it was not carried out, and may be repeated.
//! - While the home is away, other cells read what all have a copy of.
//! - Agents, keys, teams, tool sources, webhooks, and the skills and guards of tenants are changed at the home, and copied to
//!   the other cells before the request is answered.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::future::join_all;
use houston_domain::cell::{CellName, Cells};
use houston_domain::health::HealthStatus;
use houston_domain::id::{Shard, shard};
use houston_protocol::health::{HealthCheckResponse, HealthResponse};
use houston_protocol::page::Page;
use houston_protocol::time::Time;
use houston_store::copies::Copies;
use houston_store::moves::Moves;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;
use tower::ServiceExt as _;

use crate::caller::{Authority, Caller};
use crate::dialects::openai;
use crate::error::{ApiError, ResponseError, Result};
use crate::mcp;
use crate::request::auth::{authenticate, uuid_of as id};
use crate::request::missing_cells::Missing;
use crate::request::page::{List, NextPage, PageQuery};
use crate::router::routes;
use crate::state::streams::aborted;
use crate::state::{App, noting_cell};

/// Maximum size in bytes of a cell's page; a page has at most 100 items.
const MAX_PAGE_BYTES: usize = 64 * 1024 * 1024;
/// So long a cell that answered 503 is not asked first.
const AWAY: Duration = Duration::from_secs(5);
/// So long a request that only reads waits for users who are on their way to another cell.
const MOVES: Duration = Duration::from_secs(2);

/// Sends requests to the routers of the cells.
struct Dispatcher {
    apps: Cells<Arc<App>>,
    moves: Moves,
    routers: Cells<Router>,
    /// When each cell last answered 503, until it answers again.
    away: Cells<Mutex<Option<Instant>>>,
    copies: Copies,
}

/// A router for all cells.
pub(crate) fn router(apps: &Cells<Arc<App>>) -> Router {
    if apps.count() == 1 {
        return routes(Arc::clone(apps.home()));
    }
    let stores = apps.map(|app| app.state.store.clone());
    let dispatcher = Arc::new(Dispatcher {
        apps: apps.clone(),
        moves: Moves::new(&stores),
        routers: apps.map(|app| routes(Arc::clone(app))),
        away: apps.map(|_| Mutex::default()),
        copies: Copies::new(&stores),
    });
    let all = Router::new().fallback(move |request: Request| {
        let dispatcher = Arc::clone(&dispatcher);
        async move { dispatcher.answer(request).await }
    });
    mcp::over(apps.home(), all)
}

impl Dispatcher {
    async fn answer(&self, request: Request) -> Response {
        match Target::of(request.method(), request.uri()) {
            Target::Of(shard) => self.of(shard, request).await,
            Target::Home => self.continued(self.routers.home(), request).await,
            Target::Any => self.any(request).await,
            Target::Page(list) => self.page(request, list).await.unwrap_or_else(|refused| refused),
            Target::Health => self.health(request).await.unwrap_or_else(|refused| refused),
            Target::Ready => self.ready(request).await,
            Target::Copied => self.copied(request).await,
        }
    }

    /// The response of the cell with this shard. If its users are not there any more, or not yet, what reads is read where
    /// they are, and anything else may be repeated.
    async fn of(&self, shard: Shard, request: Request) -> Response {
        let resumes = resumes_stream(&request);
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        // A browser whose stream has ended opens it again once, and takes 503 for the end.
        let repeated = (parts.method == Method::GET).then(|| parts.clone());
        let mut cell = self.routers.number_of(shard);
        let mut response = call(self.router(cell), Request::from_parts(parts, body)).await;
        let until = Instant::now() + MOVES;
        loop {
            if response.status() != StatusCode::NOT_FOUND || self.moves.has(cell, shard).await {
                return response;
            }
            let Some(parts) = repeated.clone().filter(|_| Instant::now() < until) else {
                return to_be_repeated(&path, &response, resumes);
            };
            cell = self.routers.number_of(shard);
            response = call(self.router(cell), Request::from_parts(parts, Body::empty())).await;
        }
    }

    fn router(&self, cell: usize) -> &Router {
        self.routers.get(cell).unwrap_or_else(|| self.routers.home())
    }

    /// The response to a request that may continue in the cell of a user.
    async fn continued(&self, router: &Router, request: Request) -> Response {
        let (path, resumes) = (request.uri().path().to_owned(), resumes_stream(&request));
        unless_moved(&self.moves, &path, resumes, noting_cell(call(router, request)).await).await
    }

    /// The response of the first cell that is not away.
    async fn any(&self, request: Request) -> Response {
        let (path, resumes) = (request.uri().path().to_owned(), resumes_stream(&request));
        let first = self.away.iter().position(is_there).unwrap_or(0);
        // One request finds out whether a cell is back; others do not wait for it.
        if let Some(away) = self.away.get(first) {
            let mut away = away.lock();
            *away = away.map(|_| Instant::now());
        }
        let (mut parts, body) = request.into_parts();
        // For a client token that no other cell knows, the home says that it is away.
        let cell = if first > 0 && self.authority(&mut parts).await.is_err() { 0 } else { first };
        let request = Request::from_parts(parts, body);
        let (response, continued) = noting_cell(call(self.router(cell), request)).await;
        // What continued in another cell says nothing about this one.
        if let (None, Some(away)) = (continued, self.away.get(cell)) {
            note(away, &response);
        }
        unless_moved(&self.moves, &path, resumes, (response, continued)).await
    }

    /// What the key of a request allows; `None`: it is not valid. Of the cells, only the home and that of its user know a client token,
    /// so others are asked while the home is away.
    ///
    /// # Errors
    /// [`ApiError::Unavailable`] when the home is away, and no other cell knows the key.
    async fn authority(&self, parts: &mut Parts) -> Result<Option<Authority>> {
        let mut cells: Vec<_> = self.apps.iter().zip(self.away.iter()).enumerate().collect();
        cells.sort_by_cached_key(|(_, (_, away))| !is_there(away));
        let mut home_is_away = None;
        for (nth, (app, _)) in cells {
            match authenticate(parts, app).await {
                Ok(authority) => return Ok(Some(authority)),
                Err(error @ ApiError::Unavailable(_)) if nth == 0 => home_is_away = Some(error),
                Err(_) if nth == 0 => return Ok(None),
                Err(_) => {}
            }
        }
        home_is_away.map_or(Ok(None), Err)
    }

    /// The responses of all cells to a request without a body.
    async fn ask_all(&self, request: Request) -> Vec<(CellName, Response)> {
        let (parts, _) = request.into_parts();
        let ask = |((name, router), away): ((&CellName, _), _)| {
            let name = name.clone();
            let request = Request::from_parts(parts.clone(), Body::empty());
            async move {
                let response = call(router, request).await;
                note(away, &response);
                (name, response)
            }
        };
        join_all(self.routers.named().zip(self.away.iter()).map(ask)).await
    }

    /// The newest items of all cells.
    async fn page(&self, request: Request, list: List) -> Result<Response, Response> {
        let query = PageQuery { limit: parameter(request.uri(), "limit"), cursor: None };
        let (mut parts, body) = request.into_parts();
        // One that is wrong is refused by each cell.
        let authority = self.authority(&mut parts).await;
        let request = Request::from_parts(parts, body);
        let Ok(authority) = authority else {
            return Ok(self.continued(self.routers.home(), request).await);
        };
        if let Some(user) = authority.and_then(|authority| authority.caller.user()) {
            // The other cells have nothing of the only user of this key.
            return Ok(self.of(shard(user), request).await);
        }
        let (pages, missing) = parsed::<Page<Value>>(self.ask_all(request).await).await?;
        // Each cell has checked the limit.
        let limit = query.limit().unwrap_or(1);
        let mut has_more = false;
        let mut items: Vec<(u128, Value)> = Vec::new();
        for page in pages {
            has_more |= page.has_more;
            items.extend(page.data.into_iter().map(|item| (position(&item), item)));
        }
        items.sort_unstable_by_key(|(position, _)| std::cmp::Reverse(*position));
        // One more than fits says that there is a next page.
        let spare = (has_more && items.len() <= limit).then_some((0, Value::Null));
        items.extend(spare);
        let next = NextPage::of(list, limit, &mut items, |(position, _)| *position);
        let data: Vec<Value> =
            items.into_iter().filter(|(_, item)| !item.is_null()).map(|(_, item)| item).collect();
        Ok((missing, axum::Json(next.page(data))).into_response())
    }

    /// The worst status of each check.
    async fn health(&self, request: Request) -> Result<Response, Response> {
        let (reports, missing) = parsed::<HealthResponse>(self.ask_all(request).await).await?;
        let mut all = HealthResponse { status: HealthStatus::Ok, checked_at: None, checks: Vec::new() };
        for report in reports {
            all.status = all.status.max(report.status);
            all.checked_at = [all.checked_at, report.checked_at].into_iter().flatten().min();
            for check in report.checks {
                match all.checks.iter_mut().find(|other| other.id == check.id) {
                    Some(other) if other.status < check.status => *other = check,
                    Some(_) => {}
                    None => all.checks.push(check),
                }
            }
        }
        if !missing.0.is_empty() {
            all.status = HealthStatus::Red;
            let since = Time(self.apps.home().now());
            all.checks.push(HealthCheckResponse { id: "cells".to_owned(), status: HealthStatus::Red, since });
        }
        Ok((missing, axum::Json(all)).into_response())
    }

    /// Ready while one cell is: a cell that is down must not stop the others.
    async fn ready(&self, request: Request) -> Response {
        let mut answers = self.ask_all(request).await;
        let ready = answers.iter().position(|(_, answer)| answer.status() == StatusCode::OK);
        answers.swap_remove(ready.unwrap_or(0)).1
    }

    /// A request that may change what all cells have a copy of.
    async fn copied(&self, request: Request) -> Response {
        let (mut parts, body) = request.into_parts();
        // An invalid key is refused by the endpoint.
        let caller = authenticate(&mut parts, self.apps.home()).await.ok().map(|authority| authority.caller);
        let path = parts.uri.path().to_owned();
        if parts.method == Method::DELETE {
            // What is in use in any cell is not deleted. If the home refuses, the copy brings it back.
            for other in self.routers.others() {
                let answer = call(other, Request::from_parts(parts.clone(), Body::empty())).await;
                if !answer.status().is_success() && answer.status() != StatusCode::NOT_FOUND {
                    return self.with_copy(caller, &path, answer).await;
                }
            }
        }
        let changes = parts.method != Method::GET && parts.method != Method::HEAD;
        // These lists create missing default agents.
        let may_create = ["/v1/agents", "/v1/kinds"].contains(&path.trim_end_matches('/'));
        let answer = call(self.routers.home(), Request::from_parts(parts, body)).await;
        if changes {
            return self.with_copy(caller, &path, answer).await;
        }
        // Lists are answered also while another cell is away: a later one copies what this one has created.
        if let Some(caller) = caller.filter(|_| may_create && self.away.iter().all(is_there))
            && let Err(error) = self.copies.copy(caller.tenant()).await
        {
            tracing::warn!(%error, "default agents were not copied to all cells");
        }
        answer
    }

    /// The answer, once all cells have what it is about.
    async fn with_copy(&self, caller: Option<Caller>, path: &str, answer: Response) -> Response {
        let Some(caller) = caller else { return answer };
        match self.copies.copy(caller.tenant()).await {
            Ok(()) => answer,
            Err(error) => {
                tracing::warn!(%error, "agents were not copied to all cells");
                failed(error.into(), path, &answer)
            }
        }
    }
}

async fn call(router: &Router, request: Request) -> Response {
    let Ok(response) = router.clone().oneshot(request).await;
    response
}

/// Whether a cell has answered, or may do so again.
fn is_there(away: &Mutex<Option<Instant>>) -> bool {
    away.lock().is_none_or(|since| since.elapsed() >= AWAY)
}

/// Remembers whether a cell is away.
fn note(away: &Mutex<Option<Instant>>, response: &Response) {
    let is_away = response.status() == StatusCode::SERVICE_UNAVAILABLE;
    *away.lock() = is_away.then(Instant::now);
}

/// The bodies of responses, and the cells that are away; if all are, the response of the last one. The first response that has
/// another status than 200 is the answer.
async fn parsed<T: serde::de::DeserializeOwned>(
    responses: Vec<(CellName, Response)>,
) -> Result<(Vec<T>, Missing), Response> {
    let (mut bodies, mut missing, mut away) = (Vec::with_capacity(responses.len()), Missing::default(), None);
    for (name, response) in responses {
        if response.status() == StatusCode::SERVICE_UNAVAILABLE {
            missing.0.push(name);
            away = Some(response);
            continue;
        }
        if response.status() != StatusCode::OK {
            return Err(response);
        }
        let body = to_bytes(response.into_body(), MAX_PAGE_BYTES).await.unwrap_or_default();
        match serde_json::from_slice(&body) {
            Ok(body) => bodies.push(body),
            Err(error) => {
                tracing::error!(%error, "a cell's response cannot be read");
                return Err((StatusCode::BAD_GATEWAY, [(header::CACHE_CONTROL, "no-store")]).into_response());
            }
        }
    }
    match away {
        Some(response) if bodies.is_empty() => Err(response),
        _ => Ok((bodies, missing)),
    }
}

/// The position of an item in its list: its id.
fn position(item: &Value) -> u128 {
    item["id"].as_str().and_then(id).unwrap_or_default().as_u128()
}

/// Which cells answer a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// The cell with this shard.
    Of(Shard),
    /// The home.
    Home,
    /// Any: it asks the others, or begins what continues in the cell of a user.
    Any,
    /// All, merged into one page.
    Page(List),
    /// All, merged into one report.
    Health,
    /// The first that is ready.
    Ready,
    /// The home, which may change something that all cells have a copy of.
    Copied,
}

impl Target {
    fn of(method: &Method, uri: &Uri) -> Self {
        let segments: Vec<&str> = uri.path().split('/').skip(1).collect();
        let reads = method == Method::GET;
        let of = |named: &str| id(named).map_or(Self::Home, |id| Self::Of(shard(id)));
        match segments.as_slice() {
            ["readyz"] => Self::Ready,
            ["v1", "health"] if reads => Self::Health,
            // Their lists create missing default agents.
            ["v1", "agents" | "kinds"] => Self::Copied,
            // Each cell has a copy.
            ["v1", "agents" | "teams" | "endpoints" | "keys" | "skills", ..] | ["v1", "guards"] if reads => {
                Self::Any
            }
            ["v1", "webhooks"] | ["v1", "webhooks", _] if reads => Self::Any,
            // Those of the settings.
            ["v1", "models", ..] => Self::Any,
            ["v1", "agents" | "kinds" | "teams" | "endpoints" | "keys" | "mcp-servers" | "skills", ..]
            | ["v1", "guards"] => Self::Copied,
            ["v1", "webhooks", _, "deliveries"] => Self::Page(List::Deliveries),
            ["v1", "webhooks", _, "deliveries", delivery, ..] => of(delivery),
            ["v1", "webhooks", _, "replay" | "test"] => Self::Home,
            ["v1", "webhooks", ..] => Self::Copied,
            // Their handlers ask all cells.
            ["v1", "audit" | "errors" | "overview" | "queues" | "usage" | "workers", ..]
            | ["v1", "runs" | "triggers"]
            | ["v1", "health", "history"]
                if reads =>
            {
                Self::Any
            }
            // Some of these need all cells: their 503 says nothing about the cell where they begin.
            ["v1", "audit" | "errors" | "overview" | "queues" | "usage" | "workers", ..]
            | ["v1", "runs", "cancel" | "retry"]
            | ["v1", "events"] => Self::Home,
            ["v1", "inbound-hooks" | "key"] => Self::Any,
            ["hooks", hook] => of(hook),
            ["v1", "client-tokens", ..] => Self::Home,
            ["v1", "users"] if reads => Self::Page(List::Users),
            ["v1", "erasures"] if reads => Self::Page(List::Erasures),
            ["v1", resource] if reads => {
                let user = parameter(uri, "user_id").and_then(|user| id(&user));
                let list = if *resource == "questions" { List::Questions } else { List::Agentables };
                user.map_or(Self::Page(list), |user| Self::Of(shard(user)))
            }
            // Creates a user, or something for a user that the body names.
            ["v1", _] | ["v1", "import", _] | ["v1", _, "import"] if method == Method::POST => Self::Any,
            ["approve", named, ..] | ["v1", _, named, ..] => of(named),
            ["compat", "openai", "v1", _, named, ..] => id(named).map_or(Self::Any, |id| Self::Of(shard(id))),
            // What they name, or the user, says where they continue.
            ["compat" | "ag-ui" | "a2a", ..] => Self::Any,
            ["mcp", "login"] => {
                let state = parameter(uri, "state").unwrap_or_default();
                of(state.split('.').next().unwrap_or_default())
            }
            _ => Self::Home,
        }
    }
}

/// Whether the client of a stream, which may be a browser, has come back.
fn resumes_stream(request: &Request) -> bool {
    request.headers().contains_key("last-event-id")
}

/// The answer to a request that continued in another cell, or that it is to be repeated.
async fn unless_moved(
    moves: &Moves,
    path: &str,
    resumes_stream: bool,
    (answer, continued): (Response, Option<(usize, Shard)>),
) -> Response {
    // 409 and 422 also of a request that names something else of the user.
    let doubtful = [StatusCode::NOT_FOUND, StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY];
    match continued {
        Some((cell, shard)) if doubtful.contains(&answer.status()) && !moves.has(cell, shard).await => {
            to_be_repeated(path, &answer, resumes_stream)
        }
        _ => answer,
    }
}

/// The response for a user who is being moved: repeat the request. It was not carried out.
fn to_be_repeated(path: &str, answer: &Response, resumes_stream: bool) -> Response {
    let mut failed = failed(ApiError::Unavailable(None), path, answer);
    if resumes_stream {
        // An EventSource does not reconnect after an error status, but it does after a broken connection.
        *failed.body_mut() = aborted();
    }
    failed
}

/// The response with an error in place of an answer, under the id of its request.
fn failed(error: ApiError, path: &str, answer: &Response) -> Response {
    let request = answer.headers().get("x-request-id").cloned();
    let mut failed = error.into_response();
    if let Some(problem) = failed.extensions_mut().remove::<ResponseError>() {
        let id = request.as_ref().and_then(|id| id.to_str().ok()).unwrap_or_default();
        problem.write(path, id, &mut failed);
        if openai::is_path(path) {
            openai::error::rewrite(problem.error(), &mut failed);
        }
    }
    failed.headers_mut().extend(request.map(|id| (axum::http::HeaderName::from_static("x-request-id"), id)));
    failed
}

/// A parameter of the query. Ids and numbers need no decoding.
fn parameter(uri: &Uri, name: &str) -> Option<String> {
    let mut pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
}

#[cfg(test)]
mod tests;
