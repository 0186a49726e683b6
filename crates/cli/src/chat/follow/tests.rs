use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::chat::server::Key;

#[test]
fn delays_grow_up_to_the_retry_of_the_server() {
    let ms =
        |failures, ceiling, chance| backoff(failures, Duration::from_millis(ceiling), chance).as_millis();
    assert_eq!([1, 2, 3, 4, 5, 6, 99].map(|n| ms(n, 2000, 1.0)), [100, 200, 400, 800, 1600, 2000, 2000]);
    assert_eq!((ms(6, 2000, 0.0), ms(1, 2000, 0.0), ms(9, 10, 1.0)), (1000, 50, 10));
}

/// Answers each connection with the next of these texts, closes it, and records the request.
async fn server(answers: Vec<String>) -> (Server, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    TaskTracker::new().spawn(async move {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            seen.lock().unwrap().push(String::from_utf8_lossy(&request[..length]).into_owned());
            stream.write_all(answer.as_bytes()).await.unwrap();
            let _ = stream.shutdown().await;
        }
    });
    let key = Key { secret: "hou_x".to_owned(), origin: "--key".to_owned() };
    (Server::new(url, key).unwrap(), requests)
}

/// An answer that announces more bytes than it sends, so that its end is an error.
fn broken(frames: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 99999\r\n\r\n{frames}")
}

fn clean(frames: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{frames}")
}

fn text(delta: &str) -> String {
    let id = format!("msg_{:032x}", 1);
    format!("data: {{\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"{id}\",\"delta\":\"{delta}\"}}\n\n")
}

async fn collect(server: Server) -> Vec<String> {
    let tasks = TaskTracker::new();
    let mut events = follow(server, "/v1/goals/goal_1/events?after=0".to_owned(), &tasks);
    let mut seen = Vec::new();
    while let Some(event) = events.recv().await {
        seen.push(match event {
            StreamEvent::Event(event, _) => match *event {
                Event::TextMessageContent { delta, .. } => delta.into_owned(),
                event => format!("{event:?}").split([' ', '{']).next().unwrap().to_owned(),
            },
            StreamEvent::Disconnected(_) => "lost".to_owned(),
            StreamEvent::Reconnected => "back".to_owned(),
            StreamEvent::Ended => "over".to_owned(),
            StreamEvent::Failed(error) => format!("exit {}", error.exit_code()),
        });
    }
    seen
}

#[tokio::test]
async fn reconnection_resumes_after_the_last_whole_event() {
    let finished = json!({"type": "RUN_FINISHED", "threadId": "g", "runId": format!("run_{:032x}", 1),
        "result": {"status": "completed"}, "outcome": {"type": "success"}});
    let finished = format!("id: 4\ndata: {finished}\n\n");
    let (server, requests) = server(vec![
        broken(&format!("id: 1:1\nretry: 20\n{}id: 1:2\ndata: {{\"type\":\"TEXT", text("a"))),
        clean(&format!(":\nid: 1:2\n{}", text("b"))),
        broken(":\n"),
        "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\nno".to_owned(),
        clean(&format!("id: 2\n{}{finished}", text("c"))),
    ])
    .await;
    assert_eq!(collect(server).await, ["a", "b", "c", "RunFinished", "over"]);
    let last_ids: Vec<Option<String>> = requests
        .lock()
        .unwrap()
        .iter()
        .map(|request| {
            assert!(request.starts_with("GET /v1/goals/goal_1/events?after=0 HTTP/1.1\r\n"), "{request}");
            assert!(request.contains("authorization: Bearer hou_x\r\n"), "{request}");
            request.lines().find_map(|line| line.strip_prefix("last-event-id: ")).map(str::to_owned)
        })
        .collect();
    let id = |id: &str| Some(id.to_owned());
    assert_eq!(last_ids, [None, id("1:1"), id("1:2"), id("1:2"), id("1:2")]);
}

#[tokio::test]
async fn stream_ends_at_204_and_when_the_key_is_rejected() {
    let nothing = "HTTP/1.1 204 No Content\r\n\r\n".to_owned();
    let (quiet, _) = server(vec![broken(&format!("retry: 20\nid: 1\n{}", text("a"))), nothing]).await;
    assert_eq!(collect(quiet).await, ["a", "over"]);

    let body = json!({"type": "urn:houston:problem:unauthorized", "title": "Unauthorized", "status": 401, "detail": "no",
        "instance": "/v1/goals/goal_1/events", "code": "unauthorized", "request_id": "req_1"})
    .to_string();
    let refused = format!(
        "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let (revoked, _) = server(vec![refused]).await;
    assert_eq!(collect(revoked).await, ["exit 4"]);
}

#[tokio::test]
async fn long_outage_is_reported() {
    let away = || "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n".to_owned();
    let first = broken(&format!("retry: 20\nid: 1\n{}", text("a")));
    let last = clean("id: 2\ndata: {\"type\":\"RUN_ERROR\",\"message\":\"no\",\"code\":\"FAILED\"}\n\n");
    let (server, _) = server(vec![first, away(), away(), away(), last]).await;
    assert_eq!(collect(server).await, ["a", "lost", "back", "RunError", "over"]);
}
