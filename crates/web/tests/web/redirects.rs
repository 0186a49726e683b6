//! Chains of redirects, over the wire.

use houston_web::{Refusal, Request, WebError};
use http::Method;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use secrecy::SecretString;

use crate::network::{Network, answer, header, html, path, redirect};

/// `a.example.com` and `b.example.com` are public, `evil.example.com` is private.
fn network(handler: impl Fn(&str) -> Vec<crate::network::Step> + Send + Sync + 'static) -> Network {
    Network::new(handler)
        .name("a.example.com", &["1.1.1.1"])
        .name("b.example.com", &["1.1.1.2"])
        .name("evil.example.com", &["10.0.0.1"])
}

/// Redirects `/n` to `/n-1`, down to a page at `/0`.
fn countdown(request: &str) -> Vec<crate::network::Step> {
    match path(request).trim_start_matches('/').parse::<usize>() {
        Ok(left @ 1..) => redirect(302, &format!("/{}", left - 1)),
        _ => html("arrived"),
    }
}

#[tokio::test]
async fn five_redirects_are_followed_and_no_sixth() {
    let (client, network) = network(countdown).guarded();
    let response = client.send(Request::get("http://a.example.com/5")).await.unwrap();
    assert_eq!((response.redirects, response.url.path(), &response.body[..]), (5, "/0", &b"arrived"[..]));
    let error = client.send(Request::get("http://a.example.com/6")).await.unwrap_err();
    assert!(matches!(error, WebError::Refused(Refusal::Redirects { most: 5, .. })), "{error}");
    assert_eq!(network.requests().len(), 6 + 6);
}

#[tokio::test]
async fn a_loop_of_redirects_ends() {
    let (client, network) = network(|_| redirect(301, "http://a.example.com/")).guarded();
    client.send(Request::get("http://a.example.com/")).await.unwrap_err();
    assert_eq!(network.requests().len(), 6);
}

#[tokio::test]
async fn redirects_to_private_addresses_are_not_dialled() {
    for to in [
        "http://127.0.0.1/",
        "http://0x7f.1:8080/",
        "http://[::1]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://evil.example.com/",
        "http://localhost/",
        "//10.0.0.1/",
        "file:///etc/passwd",
        "gopher://1.1.1.1/",
        "http://1.1.1.1:6379/",
        "http://user@b.example.com/",
    ] {
        for before in [0, 3] {
            let handler = move |request: &str| match path(request) {
                "/0" => redirect(302, to),
                _ => countdown(request),
            };
            let (client, network) = network(handler).guarded();
            let error =
                client.send(Request::get(format!("http://a.example.com/{before}"))).await.unwrap_err();
            assert!(matches!(error, WebError::Refused(_)), "{to}: {error}");
            assert_eq!(network.dialled(), ["1.1.1.1:80"], "{to}");
        }
    }
}

/// The control: the same network does follow a redirect to another public host.
#[tokio::test]
async fn redirects_to_public_hosts_are_dialled() {
    let handler = |request: &str| match header(request, "host") {
        "a.example.com" => redirect(302, "https://b.example.com/"),
        _ => html("b"),
    };
    let (client, network) = network(handler).guarded();
    let response = client.send(Request::get("http://a.example.com/")).await.unwrap();
    assert_eq!(
        (response.url.as_str(), network.dialled()),
        ("https://b.example.com/", vec!["1.1.1.1:80".into(), "1.1.1.2:443".to_owned()])
    );
}

#[tokio::test]
async fn https_is_not_left() {
    let (client, network) = network(|_| redirect(302, "http://a.example.com/")).guarded();
    let error = client.send(Request::get("https://a.example.com/")).await.unwrap_err();
    assert!(matches!(error, WebError::Refused(Refusal::Downgrade(_))), "{error}");
    assert_eq!(network.dialled(), ["1.1.1.1:443"]);
}

#[tokio::test]
async fn other_hosts_receive_no_credentials() {
    let handler = |request: &str| match (header(request, "host"), path(request)) {
        ("a.example.com", "/") => redirect(302, "/same"),
        ("a.example.com", _) => redirect(302, "https://b.example.com/"),
        _ => html("b"),
    };
    let (client, network) = network(handler).guarded();
    let request = Request::get("https://a.example.com/")
        .header(HeaderName::from_static("x-api-key"), HeaderValue::from_static("k1"))
        .header(HeaderName::from_static("cookie"), HeaderValue::from_static("c=1"))
        .secret(AUTHORIZATION, "Bearer ", &SecretString::from("s1"))
        .unwrap();
    client.send(request).await.unwrap();
    let requests = network.requests();
    let received =
        |index: usize| ["authorization", "x-api-key", "cookie"].map(|name| header(&requests[index], name));
    assert_eq!(received(0), ["bearer s1", "k1", "c=1"]);
    assert_eq!(received(1), ["bearer s1", "k1", "c=1"]);
    assert_eq!(received(2), ["", "", ""]);
}

#[tokio::test]
async fn a_write_is_sent_once() {
    for (status, requests) in [(301, 1), (302, 1), (307, 1), (308, 1), (303, 2)] {
        let handler = move |request: &str| match path(request) {
            "/" => redirect(status, "http://b.example.com/done"),
            _ => answer(200, &[], ""),
        };
        let (client, network) = network(handler).guarded();
        let request = Request::post_json("http://a.example.com/", &serde_json::json!({"pay": 1}));
        let result = client.send(request).await;
        assert_eq!(network.requests().len(), requests, "{status}");
        match result {
            Ok(response) => assert_eq!((status, response.redirects), (303, 1)),
            Err(error) => {
                assert!(matches!(error, WebError::Refused(Refusal::RedirectOfWrite { .. })), "{error}");
                assert!(error.may_have_been_sent());
            }
        }
        assert!(network.requests()[0].ends_with(r#"{"pay":1}"#));
        assert!(!network.requests().iter().skip(1).any(|request| request.contains("pay")));
    }
}

/// The write has happened, even if the next host was not reached.
#[tokio::test]
async fn a_write_that_leads_nowhere_has_been_sent() {
    for to in ["http://unknown.example.com/", "http://evil.example.com/"] {
        let (client, network) = network(move |_| redirect(303, to)).guarded();
        let request = Request::post_json("http://a.example.com/", &serde_json::json!({}));
        let error = client.send(request).await.unwrap_err();
        assert!(error.may_have_been_sent(), "{error}");
        assert!(error.to_string().starts_with("`a.example.com` received the request"), "{error}");
        assert_eq!(network.dialled(), ["1.1.1.1:80"]);
        let error = client.send(Request::get(to)).await.unwrap_err();
        assert!(!error.may_have_been_sent(), "{error}");
    }
}

#[tokio::test]
async fn no_method_but_get_is_used_after_a_write() {
    let handler = |request: &str| match path(request) {
        "/" => redirect(303, "/done"),
        _ => html("done"),
    };
    let (client, network) = network(handler).guarded();
    client.send(Request::new(Method::DELETE, "http://a.example.com/")).await.unwrap();
    let methods: Vec<String> = network
        .requests()
        .iter()
        .map(|request| request.split(' ').next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(methods, ["delete", "get"]);
}
