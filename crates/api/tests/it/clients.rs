//! Limits per address and per tenant.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::http::PATIENCE;
use crate::test_api::{KEY, TestApi, make_tenant};

/// A new open connection on which the server answered; `None` if the server closed it.
async fn answered(api: &TestApi) -> Option<TcpStream> {
    let mut socket = TcpStream::connect(api.address).await.unwrap();
    let ask = async {
        socket.write_all(b"GET /livez HTTP/1.1\r\nhost: h\r\n\r\n").await?;
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).await
    };
    let asked = tokio::time::timeout(PATIENCE, ask).await.expect("neither answered nor closed");
    asked.is_ok().then_some(socket)
}

#[tokio::test]
async fn connections_beyond_the_limit_per_address_are_closed() {
    let api = TestApi::start_with(|config| {
        config.clients.proxies.clear();
        config.clients.max_connections_per_address = 4;
    })
    .await;
    let mut open = Vec::new();
    while let Some(socket) = answered(&api).await {
        open.push(socket);
        assert!(open.len() <= 4, "five connections of one address");
    }
    open.clear();
    while answered(&api).await.is_none() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creations_respect_the_limit() {
    let api = TestApi::start().await;
    let path = format!("/v1/users/{}/custom-instructions", api.user);
    let posts = (0..60).map(|nth| api.post(&path, json!({"content": format!("Rule {nth}")})));
    let answers = futures_util::future::join_all(posts).await;
    let made = answers.iter().filter(|answer| answer.status == 201).count();
    answers.iter().filter(|answer| answer.status != 201).for_each(|answer| {
        answer.refused(409, "full");
    });
    assert_eq!(made, 50);
}

#[tokio::test]
async fn every_response_has_nosniff() {
    let api = TestApi::start().await;
    for path in ["/livez", "/v1/agents", "/nowhere"] {
        assert_eq!(api.get(path).await.header("x-content-type-options"), "nosniff", "{path}");
    }
    let answer = api.post("/v1/goals", Value::Null).await;
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
}

const OTHER: &str = "hou_tenant_0123456789";

/// Beside another tenant, few requests of one are handled at once. Those that only wait are not among them: on the processors of
/// a test machine, these would take all places.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_wait_hold_no_place_of_their_tenant() {
    const WAITING: usize = 200;
    let api = TestApi::start().await;
    make_tenant(&api.store, &api.state.ids, "other", OTHER).await;
    let run = api.post_message("hello").await["run_id"].as_str().unwrap().to_owned();
    let waits = format!("/v1/runs/{run}?wait=60");
    let both = async || {
        api.send_as(OTHER, "GET", "/v1/users", Value::Null).await.ok();
        api.get(&api.path("")).await.ok();
    };
    both().await;
    let mut sockets = Vec::new();
    for nth in 0..2 * WAITING {
        let mut socket = TcpStream::connect(api.address).await.unwrap();
        let request = match nth % 2 {
            0 => format!("GET {waits} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {KEY}\r\n\r\n"),
            _ => format!(
                "POST {} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\n\
                 content-length: 100\r\n\r\n{{",
                api.path("/messages")
            ),
        };
        socket.write_all(request.as_bytes()).await.unwrap();
        sockets.push(socket);
    }
    while api.state.bus.listeners() < WAITING {
        both().await;
    }
    both().await;
}
