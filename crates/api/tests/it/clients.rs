//! What one address, or one tenant, may take.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::app::App;
use crate::http::PATIENCE;

/// Whether the server answers on a new connection; it stays open.
async fn answered(app: &App) -> Option<TcpStream> {
    let mut socket = TcpStream::connect(app.address).await.unwrap();
    let ask = async {
        socket.write_all(b"GET /livez HTTP/1.1\r\nhost: h\r\n\r\n").await?;
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).await
    };
    let asked = tokio::time::timeout(PATIENCE, ask).await.expect("neither answered nor closed");
    asked.is_ok().then_some(socket)
}

#[tokio::test]
async fn an_address_has_so_many_connections_and_more_are_closed() {
    let app = App::start_with(|config| {
        config.clients.proxies.clear();
        config.clients.max_connections_per_address = 4;
    })
    .await;
    let mut open = Vec::new();
    while let Some(socket) = answered(&app).await {
        open.push(socket);
        assert!(open.len() <= 4, "five connections of one address");
    }
    open.clear();
    while answered(&app).await.is_none() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_make_no_more_than_may_be() {
    let app = App::start().await;
    let path = format!("/v1/users/{}/custom-instructions", app.user);
    let posts = (0..60).map(|nth| app.post(&path, json!({"content": format!("Rule {nth}")})));
    let answers = futures_util::future::join_all(posts).await;
    let made = answers.iter().filter(|answer| answer.status == 201).count();
    answers.iter().filter(|answer| answer.status != 201).for_each(|answer| {
        answer.refused(409, "full");
    });
    assert_eq!(made, 50);
}

#[tokio::test]
async fn no_answer_is_taken_for_another_type() {
    let app = App::start().await;
    for path in ["/livez", "/v1/agents", "/nowhere"] {
        assert_eq!(app.get(path).await.header("x-content-type-options"), "nosniff", "{path}");
    }
    let answer = app.post("/v1/goals", Value::Null).await;
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
}
