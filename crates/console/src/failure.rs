//! What the API refused, as a page; and requests that are for no page: another spelling of an address leads to its page, the
//! others get one that leads back.

use askama::Template;
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Redirect, Response};

use crate::Site;
use crate::api::{Refused, Result};
use crate::assets::Assets;

/// What a handler answers with.
pub(crate) type Answer = Result<Response>;

impl IntoResponse for Refused {
    /// Its page is made by [`pages`].
    fn into_response(self) -> Response {
        (self.status, Extension(self)).into_response()
    }
}

#[derive(Template)]
#[template(path = "message.html")]
struct Message<'a> {
    prefix: &'a str,
    assets: &'a Assets,
    title: &'a str,
    refused: &'a Refused,
    forward: &'a str,
}

/// Makes the page of what was refused.
pub(crate) async fn pages(State(site): State<Site>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let Some(refused) = response.extensions_mut().remove::<Refused>() else { return response };
    let title = match refused.status.as_u16() {
        401 => "Signed out",
        403 => "Not allowed",
        404 => "Not found",
        409 | 422 => "Not accepted",
        429 | 503 => "Busy",
        _ => "This did not work",
    };
    let message = Message {
        prefix: &site.console.0.config.path,
        assets: &site.console.0.assets,
        title,
        refused: &refused,
        forward: "",
    };
    (refused.status, html(&message)).into_response()
}

/// The page of a template.
pub(crate) fn html(page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => Html(text).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page of the console cannot be rendered");
            (StatusCode::INTERNAL_SERVER_ERROR, "This page cannot be rendered.\n").into_response()
        }
    }
}

/// `GET` of an address that no page has. People and proxies add a slash at the end.
pub(crate) async fn no_page(uri: Uri) -> Answer {
    let page = uri.path().trim_end_matches('/');
    // `//host` would be another server.
    if page.len() < uri.path().len() && !page.starts_with("//") {
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        return Ok(Redirect::to(&format!("{page}{query}")).into_response());
    }
    Err(Refused::new(StatusCode::NOT_FOUND, "not_found", "The console has no page at this address."))
}

/// Another method than an address has. A `GET` of what only forms are sent to, such as an address that is opened again after a
/// form was refused, leads to the page that has the form.
pub(crate) async fn no_method(State(site): State<Site>, method: Method, uri: Uri) -> Answer {
    let page = uri.path().strip_prefix(site.console.path("").as_str()).and_then(page_of_form);
    if let (true, Some(page)) = (matches!(method, Method::GET | Method::HEAD), page) {
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        return Ok(Redirect::to(&format!("{}{query}", site.console.path(&page))).into_response());
    }
    let detail = "This address does not take such a request. Go back to the page, and send its form again.";
    Err(Refused::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail))
}

/// The page with the form that is sent to this path of the console.
fn page_of_form(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    match parts.as_slice() {
        ["sign-out"] => Some(String::new()),
        ["runs", "bulk"] => Some("/runs".to_owned()),
        [list @ ("queues" | "workers" | "keys"), _, _] => Some(format!("/{list}")),
        ["threads", kind, id, "messages"] => Some(format!("/threads/{kind}/{id}")),
        [list @ ("runs" | "triggers" | "webhooks"), id, _, ..] => Some(format!("/{list}/{id}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::http::{Request, header};
    use chrono::DateTime;
    use houston_domain::clock::ManualClock;
    use tower::ServiceExt as _;

    use crate::session::tests::console;

    /// The status of the answer, and where it leads.
    async fn answer(request: Request<Body>) -> (u16, String) {
        let routes = console(&ManualClock::at(DateTime::UNIX_EPOCH), 1).alone(Router::new());
        let response = routes.oneshot(request).await.unwrap();
        let location = response.headers().get(header::LOCATION).map_or("", |to| to.to_str().unwrap());
        (response.status().as_u16(), location.to_owned())
    }

    #[tokio::test]
    async fn other_spellings_of_an_address_lead_to_its_page() {
        for (path, status, location) in [
            ("/", 303, "/ops"),
            ("/ops/", 303, "/ops"),
            ("/ops/runs/?q=kind%3Ax", 303, "/ops/runs?q=kind%3Ax"),
            ("/ops/runs/run_1/", 303, "/ops/runs/run_1"),
            ("/ops/nothing", 404, ""),
            ("//ops/runs/", 404, ""),
            ("/ops/runs/run_1/nothing", 404, ""),
            ("/ops/runs/bulk?q=kind%3Ax", 303, "/ops/runs?q=kind%3Ax"),
            ("/ops/runs/run_1/cancel", 303, "/ops/runs/run_1"),
            ("/ops/threads/goal/goal_1/messages", 303, "/ops/threads/goal/goal_1"),
            ("/ops/triggers/trigger_1/enabled", 303, "/ops/triggers/trigger_1"),
            ("/ops/queues/background/drain", 303, "/ops/queues"),
            ("/ops/keys/key_1/revoke", 303, "/ops/keys"),
            ("/ops/webhooks/webhook_1/redeliver/delivery_1", 303, "/ops/webhooks/webhook_1"),
            ("/ops/sign-out", 303, "/ops"),
            ("/ops/runs", 303, "/ops/sign-in?next=%2Fops%2Fruns"),
        ] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            assert_eq!(answer(request).await, (status, location.to_owned()), "{path}");
        }
    }

    #[tokio::test]
    async fn other_methods_are_refused_where_there_is_a_page_or_a_form() {
        for path in ["/ops/runs", "/ops/runs/run_1/cancel"] {
            let request = Request::delete(path).header("sec-fetch-site", "same-origin");
            assert_eq!(answer(request.body(Body::empty()).unwrap()).await, (405, String::new()), "{path}");
        }
    }

    #[tokio::test]
    async fn form_of_an_ended_session_leads_back_to_its_page() {
        for (referer, next) in
            [("http://a:1/ops/runs/run_1?left=x", "%2Fops%2Fruns%2Frun_1%3Fleft%3Dx"), ("", "")]
        {
            let request = Request::post("/ops/runs/run_1/cancel").header("sec-fetch-site", "same-origin");
            let request = request.header(header::REFERER, referer).body(Body::empty()).unwrap();
            let location = format!("/ops/sign-in?next={next}");
            assert_eq!(answer(request).await, (303, location), "{referer}");
        }
    }
}
