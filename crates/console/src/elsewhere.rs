//! Requests that are for no page: another spelling of an address leads to its page, the others get one that leads back.

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Redirect, Response};

use crate::api::Refused;
use crate::failure::Failure;
use crate::router::Site;

/// `GET` of an address that no page has. People and proxies add a slash at the end.
pub(crate) async fn no_page(State(site): State<Site>, uri: Uri) -> Response {
    let page = uri.path().trim_end_matches('/');
    // `//host` would be another server.
    if page.len() < uri.path().len() && !page.starts_with("//") {
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        return Redirect::to(&format!("{page}{query}")).into_response();
    }
    refused(&site, StatusCode::NOT_FOUND, "not_found", "The console has no page at this address.")
}

/// `GET` of an address that only forms are sent to, such as one that is opened again from a list of visited pages.
pub(crate) async fn no_method(State(site): State<Site>) -> Response {
    let detail = "This address does not take such a request. Go back to the page, and send its form again.";
    refused(&site, StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}

fn refused(site: &Site, status: StatusCode, code: &str, detail: &str) -> Response {
    let refused =
        Refused { status, code: code.to_owned(), detail: detail.to_owned(), request_id: String::new() };
    Failure::new(&site.console, refused).into_response()
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
            ("/ops/runs/bulk", 405, ""),
            ("/ops/runs", 303, "/ops/sign-in?next=%2Fops%2Fruns"),
        ] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            assert_eq!(answer(request).await, (status, location.to_owned()), "{path}");
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
