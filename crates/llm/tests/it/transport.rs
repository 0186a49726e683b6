//! Behaviour of connections.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use houston_domain::model::ModelErrorCode as Code;
use houston_llm::{Choice, Event, Request, Timeouts, connect};

use crate::caller::{QUICK, call, entries, http, model};
use crate::server::{Connection, chunk, server};

const HI: &str = r#"{"choices":[{"index":0,"delta":{"content":"hi"}}]}"#;
/// For what comes at once, unless the machine is busy.
const PATIENCE: Duration = Duration::from_secs(120);
const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;

#[tokio::test]
async fn successive_calls_share_a_connection() {
    let (base, connections) = server(|mut connection| {
        let mut requests = Vec::new();
        loop {
            requests.push(connection.request.clone());
            connection.begin();
            connection.event(HI);
            connection.event(STOP);
            // Together: a connection whose answer does not end soon after its last event is closed.
            connection.send(&format!("{}0\r\n\r\n", chunk("[DONE]")));
            if !connection.next() {
                return requests;
            }
        }
    });
    {
        let choice = Choice {
            base_url: Some(base),
            key: Some(houston_llm::Secret::new("sk-123456")),
            ..Choice::new("local", "m")
        };
        let model = connect(&choice, &http(Timeouts::default()), &|_| None).unwrap();
        for _ in 0..3 {
            let (events, error) = call(&*model).await;
            assert_eq!(error, None);
            assert_eq!(events[0], Event::Text("hi".into()));
        }
    }
    let requests = tokio::task::spawn_blocking(move || connections.recv_timeout(PATIENCE));
    let requests = requests.await.unwrap().unwrap();
    assert_eq!(requests.len(), 3);
    assert!(requests[0].starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", requests[0]);
    assert!(requests[0].contains("authorization: Bearer sk-123456\r\n"));
}

#[tokio::test]
async fn dropping_the_stream_closes_the_socket() {
    let (base, closed) = server(|mut connection| {
        connection.begin();
        connection.event(HI);
        connection.wait_for_close();
        Instant::now()
    });
    let (model, entries, closed) =
        (model(&base, Timeouts::default()), entries(), Arc::new(Mutex::new(closed)));
    let mut took = Vec::new();
    for _ in 0..5 {
        let request = Request { entries: &entries, max_output_tokens: 10, ..Request::default() };
        let mut stream = model.stream(&request).await.unwrap();
        assert_eq!(stream.next().await, Some(Ok(Event::Text("hi".into()))));
        drop(stream);
        let (dropped, closed) = (Instant::now(), Arc::clone(&closed));
        let wait = move || closed.lock().unwrap().recv_timeout(PATIENCE);
        let closed = tokio::task::spawn_blocking(wait).await.unwrap();
        took.push(closed.unwrap().saturating_duration_since(dropped));
    }
    // The fastest of five: anything slower is due to the machine.
    assert!(took.iter().min().unwrap() < &Duration::from_secs(5), "{took:?}");
}

#[tokio::test]
async fn dropping_the_call_closes_the_socket() {
    let (base, closed) = server(|mut connection| connection.wait_for_close());
    let model = model(&base, Timeouts::default());
    let cut = tokio::time::timeout(Duration::from_millis(200), call(&*model)).await;
    assert!(cut.is_err());
    let closed = tokio::task::spawn_blocking(move || closed.recv_timeout(PATIENCE)).await.unwrap();
    assert_eq!(closed, Ok(()));
}

#[tokio::test]
async fn idle_stream_times_out_and_slow_stream_does_not() {
    let (base, _connections) = server(|mut connection| {
        connection.begin();
        // Longer than the limit in total, but never in one pause.
        for _ in 0..8 {
            connection.event(HI);
            thread::sleep(Duration::from_millis(100));
        }
        connection.wait_for_close();
    });
    let started = Instant::now();
    let (events, error) = call(&*model(&base, QUICK)).await;
    let error = error.unwrap();
    assert_eq!((events.len(), error.code), (8, Code::Timeout), "{error}");
    assert!(
        started.elapsed() >= Duration::from_millis(7 * 100) + QUICK.idle
            && started.elapsed() < Duration::from_secs(30)
    );
}

#[tokio::test]
async fn missing_first_byte_times_out() {
    let (base, _connections) = server(|mut connection| connection.wait_for_close());
    let started = Instant::now();
    let (_, error) = call(&*model(&base, QUICK)).await;
    assert_eq!(error.unwrap().code, Code::Timeout);
    assert!(started.elapsed() >= QUICK.first_byte && started.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn steady_endless_answer_times_out() {
    let (base, closed) = server(|mut connection| {
        connection.begin();
        connection.send(&chunk(HI).repeat(6));
        while connection.socket.write_all(chunk(HI).as_bytes()).is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    let total = Duration::from_secs(2);
    let (events, error) = call(&*model(&base, Timeouts { total, ..QUICK })).await;
    let error = error.unwrap();
    assert_eq!(error.code, Code::Timeout);
    assert_eq!(error.message, "local: the answer was not complete after 2s");
    assert!(events.len() > 5, "{}", events.len());
    let closed = tokio::task::spawn_blocking(move || closed.recv_timeout(PATIENCE)).await.unwrap();
    assert_eq!(closed, Ok(()), "the connection must be closed");

    // The same for a complete answer and for an error body.
    for head in ["200 OK\r\ncontent-type: application/json", "500 No"] {
        let (base, _connections) = server(move |mut connection| {
            connection.send(&format!("HTTP/1.1 {head}\r\ncontent-length: 100000\r\n\r\n"));
            while connection.socket.write_all(b" ").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let (_, error) = call(&*model(&base, Timeouts { total, ..QUICK })).await;
        assert_eq!(error.unwrap().code, Code::Timeout, "{head}");
    }
}

#[tokio::test]
async fn connect_timeout_is_a_timeout_error() {
    // Listens and never accepts: once its queue is full, connections cannot be established.
    let listener = socket_with_a_full_queue();
    let base = format!("http://{}/v1", listener.0.local_addr().unwrap());
    let timeouts =
        Timeouts { connect: Duration::from_millis(300), first_byte: Duration::from_secs(20), ..QUICK };
    let (_, error) = call(&*model(&base, timeouts)).await;
    let error = error.unwrap();
    assert_eq!(error.code, Code::Timeout, "{error}");
}

/// A listener on loopback, with the connections that fill its queue.
fn socket_with_a_full_queue() -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        waiting.push(stream);
        assert!(waiting.len() < 20_000, "the queue of the listener never fills");
    }
    (listener, waiting)
}

#[tokio::test]
async fn refused_connection_is_a_network_error() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (_, error) = call(&*model(&format!("http://{free}/v1"), QUICK)).await;
    let error = error.unwrap();
    assert_eq!(error.code, Code::NetworkError);
    assert!(error.message.starts_with("local: could not connect: Connection refused"), "{}", error.message);
}

#[tokio::test]
async fn only_answers_with_an_end_mark_succeed() {
    for (case, code) in [
        ("broken", Some(Code::NetworkError)),
        ("ended", Some(Code::NetworkError)),
        ("garbage", Some(Code::InvalidResponse)),
        ("endless line", Some(Code::InvalidResponse)),
        ("finished without a mark", Some(Code::NetworkError)),
        ("finished, then half a mark", Some(Code::NetworkError)),
        ("finished and counted, at a server that is not known", None),
    ] {
        let (base, _connections) = server(move |mut connection| {
            connection.begin();
            connection.event(HI);
            match case {
                "broken" => return,
                "garbage" => connection.event("{oops"),
                "endless line" => {
                    let chunk = "x".repeat(1 << 16);
                    for _ in 0..80 {
                        connection.send(&format!("{:x}\r\n{chunk}\r\n", chunk.len()));
                    }
                }
                "finished without a mark" => connection.event(STOP),
                "finished and counted, at a server that is not known" => {
                    connection.event(STOP);
                    connection.event(r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#);
                }
                "finished, then half a mark" => {
                    connection.event(STOP);
                    connection.send("9\r\ndata: [DO\r\n");
                }
                _ => {}
            }
            connection.send("0\r\n\r\n");
        });
        let (events, error) = call(&*model(&base, Timeouts::default())).await;
        assert_eq!(error.as_ref().map(|error| error.code), code, "{case}: {error:?}");
        assert_eq!(events[0], Event::Text("hi".into()), "{case}");
    }
}

#[tokio::test]
async fn error_bodies_are_read_within_limits() {
    let (base, _connections) = server(|mut connection| {
        let page = format!("<html>{}", "x".repeat(10 << 20));
        connection.answer("502 Bad Gateway", "content-type: text/html\r\nretry-after: 3\r\n", &page);
    });
    let started = Instant::now();
    let (_, error) = call(&*model(&base, Timeouts::default())).await;
    let error = error.unwrap();
    assert_eq!((error.code, error.status), (Code::NetworkError, Some(502)));
    assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
    assert!(started.elapsed() < Duration::from_secs(30));

    let (base, _connections) = server(|mut connection| {
        connection.answer("200 OK", "content-type: text/html; charset=utf-8\r\n", "<html>sign in</html>");
    });
    assert_eq!(call(&*model(&base, QUICK)).await.1.unwrap().code, Code::InvalidResponse);

    let (base, connections) = server(|mut connection| {
        connection.answer("307 Temporary Redirect", "location: /elsewhere\r\n", "");
    });
    assert_eq!(call(&*model(&base, QUICK)).await.1.unwrap().code, Code::InvalidResponse);
    assert_eq!(connections.iter().take(1).count(), 1, "the redirect was not followed");
}

#[tokio::test]
async fn unstreamed_answer_is_accepted() {
    let (base, _connections) = server(|mut connection| {
        let body = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
        connection.answer("200 OK", "content-type: application/json\r\n", body);
    });
    let (events, error) = call(&*model(&base, QUICK)).await;
    assert_eq!((events.len(), error), (2, None));
}

/// Sends `head`, then `piece` again and again until `bytes` were sent or the client closed.
fn send_pieces(connection: &mut Connection, head: &str, piece: &str, bytes: usize) {
    connection.send(head);
    let mut sent = 0;
    while sent < bytes && connection.socket.write_all(piece.as_bytes()).is_ok() {
        sent += piece.len();
    }
}

#[tokio::test]
async fn endless_bodies_are_abandoned_within_limits() {
    const SSE: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    const LINES: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n\r\n";
    const WHOLE: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
    let x = || "x".repeat(1 << 16);
    let delta = |text: String| format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#);
    let event = format!("data: {}\n\n", delta(x()));
    let line = format!("{{\"message\":{{\"content\":\"{}\"}},\"done\":false}}\n", x());
    for (case, provider, head, begin, piece, bound) in [
        ("an endless line", "local", SSE, "", x(), 4 << 20),
        ("an endless field", "local", SSE, "data: {\"choices\":[{\"delta\":{\"content\":\"", x(), 4 << 20),
        ("an event of endless lines", "local", SSE, "", "data: x\n".repeat(8192), 4 << 20),
        ("an endless answer", "local", SSE, "", event, 8 << 20),
        ("a web page without a type", "local", SSE, "<!doctype html>", x(), 0),
        ("an endless line", "ollama", LINES, "", x(), 1 << 20),
        ("an endless answer", "ollama", LINES, "", line, 8 << 20),
        ("a web page without a type", "ollama", LINES, " \n<html>", x(), 0),
        ("an endless field", "local", WHOLE, "{\"choices\":[{\"message\":{\"content\":\"", x(), 8 << 20),
    ] {
        // The server sends little more than the limit and then nothing: a client that reads on times out.
        let (base, closed) = server(move |mut connection| {
            send_pieces(&mut connection, &format!("{head}{begin}"), &piece, bound + 2 * piece.len());
            connection.wait_for_close();
        });
        let choice = Choice { base_url: Some(base), ..Choice::new(provider, "m") };
        let model = connect(&choice, &http(Timeouts::default()), &|_| None).unwrap();
        let error = call(&*model).await.1.unwrap();
        assert_eq!(error.code, Code::InvalidResponse, "{provider}, {case}: {error}");
        let closed = tokio::task::spawn_blocking(move || closed.recv_timeout(Duration::from_secs(20))).await;
        assert_eq!(closed.unwrap(), Ok(()), "{provider}, {case}: the connection stays open");
    }
}

#[tokio::test]
async fn oversized_answer_is_rejected() {
    let text = "x".repeat(10 << 20);
    let whole = format!(r#"{{"choices":[{{"message":{{"content":"{text}"}},"finish_reason":"stop"}}]}}"#);
    let line = format!("{{\"message\":{{\"content\":\"{text}\"}},\"done\":true}}\n");
    let event = format!("data: {whole}\n\n");
    for (provider, kind, body) in [
        ("local", "application/json", whole),
        ("local", "text/event-stream", event),
        ("ollama", "application/x-ndjson", line.clone()),
        ("ollama", "application/json", line),
    ] {
        let (base, _connections) = server(move |mut connection| {
            connection.answer("200 OK", &format!("content-type: {kind}\r\n"), &body)
        });
        let choice = Choice { base_url: Some(base), ..Choice::new(provider, "m") };
        let model = connect(&choice, &http(Timeouts::default()), &|_| None).unwrap();
        let error = call(&*model).await.1.unwrap();
        assert_eq!(error.code, Code::InvalidResponse, "{provider}, {kind}: {error}");
    }
}

#[tokio::test]
async fn ndjson_stream_is_decoded_incrementally() {
    let (base, requests) = server(|mut connection| {
        connection.send(
            "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n\r\n{\"message\":{\"content\":\"h",
        );
        connection.send(
            "i\"},\"done\":false}\n{\"message\":{\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\"}",
        );
        connection.request
    });
    let choice = Choice { base_url: Some(base), ..Choice::new("ollama", "m") };
    let model = connect(&choice, &http(Timeouts::default()), &|_| None).unwrap();
    let (events, error) = call(&*model).await;
    assert_eq!((events.len(), error), (2, None));
    assert_eq!(events[0], Event::Text("hi".into()));
    let request = requests.recv().unwrap();
    assert!(request.starts_with("POST /api/chat ") && request.contains("\"num_ctx\":8192"), "{request}");
}
