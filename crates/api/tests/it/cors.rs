//! Requests of pages in browsers.

use serde_json::json;

use crate::http::request;
use crate::test_api::{KEY, TestApi, bearer};

const PAGE: (&str, &str) = ("origin", "https://app.example.com");

#[tokio::test]
async fn pages_of_the_listed_origins_may_call() {
    let api = TestApi::start_with(|config| {
        config.cors = serde_json::from_value(json!({"origins": ["https://app.example.com"]})).unwrap();
    })
    .await;
    let asks = [
        PAGE,
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type,houston-user,idempotency-key"),
    ];
    let preflight = request(api.address, "OPTIONS", &api.path("/messages"), &asks, "").await;
    assert_eq!(preflight.status, 200, "{}", preflight.text());
    assert_eq!(preflight.header("access-control-allow-origin"), PAGE.1);
    assert!(preflight.header("access-control-allow-methods").contains("POST"));
    for header in ["authorization", "content-type", "houston-user", "idempotency-key", "last-event-id"] {
        assert!(preflight.header("access-control-allow-headers").contains(header), "{header}");
    }
    let key = bearer(KEY);
    let read = api.get_with(&api.path(""), &[PAGE, ("authorization", &key)]).await;
    read.ok();
    assert_eq!(read.header("access-control-allow-origin"), PAGE.1);
    assert!(read.header("access-control-expose-headers").contains("x-request-id"));
    let refused = api.get_with(&api.path(""), &[PAGE]).await;
    refused.refused(401, "unauthorized");
    assert_eq!(refused.header("access-control-allow-origin"), PAGE.1, "the page can read why");
    let other =
        api.get_with(&api.path(""), &[("origin", "https://evil.example"), ("authorization", &key)]).await;
    assert_eq!(other.header("access-control-allow-origin"), "");
}

#[tokio::test]
async fn without_origins_no_page_may_call() {
    let api = TestApi::start().await;
    let key = bearer(KEY);
    let read = api.get_with(&api.path(""), &[PAGE, ("authorization", &key)]).await;
    assert_eq!((read.status, read.header("access-control-allow-origin")), (200, ""));
    let asks = [PAGE, ("access-control-request-method", "POST")];
    let preflight = request(api.address, "OPTIONS", &api.path("/messages"), &asks, "").await;
    preflight.refused(405, "method_not_allowed");
}
