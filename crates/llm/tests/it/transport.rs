//! What happens on the socket.

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use houston_domain::model::ModelErrorCode as Code;
use houston_llm::{Choice, Event, Request, Timeouts, connect};

use crate::caller::{QUICK, call, entries, http, model};
use crate::server::server;

const HI: &str = r#"{"choices":[{"index":0,"delta":{"content":"hi"}}]}"#;
const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;

#[tokio::test]
async fn calls_in_a_row_share_a_connection() {
    let (base, connections) = server(|mut asked| {
        let mut requests = Vec::new();
        loop {
            requests.push(asked.request.clone());
            asked.begin();
            asked.event(HI);
            asked.event(STOP);
            asked.event("[DONE]");
            asked.send("0\r\n\r\n");
            if !asked.next() {
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
    let requests = tokio::task::spawn_blocking(move || connections.recv_timeout(Duration::from_secs(5)));
    let requests = requests.await.unwrap().unwrap();
    assert_eq!(requests.len(), 3);
    assert!(requests[0].starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", requests[0]);
    assert!(requests[0].contains("authorization: Bearer sk-123456\r\n"));
}

#[tokio::test]
async fn dropping_the_stream_closes_the_socket() {
    let (base, closed) = server(|mut asked| {
        asked.begin();
        asked.event(HI);
        asked.wait_for_close();
        Instant::now()
    });
    let (model, entries) = (model(&base, Timeouts::default()), entries());
    let request =
        Request { system: &[], entries: &entries, tools: &[], max_output_tokens: 10, ..Request::default() };
    let mut stream = model.stream(&request).await.unwrap();
    assert_eq!(stream.next().await, Some(Ok(Event::Text("hi".into()))));
    drop(stream);
    let dropped = Instant::now();
    let closed =
        tokio::task::spawn_blocking(move || closed.recv_timeout(Duration::from_secs(5))).await.unwrap();
    assert!(closed.unwrap() - dropped < Duration::from_millis(500));
}

#[tokio::test]
async fn dropping_the_call_before_its_answer_closes_the_socket() {
    let (base, closed) = server(|mut asked| asked.wait_for_close());
    let model = model(&base, Timeouts::default());
    let cut = tokio::time::timeout(Duration::from_millis(200), call(&*model)).await;
    assert!(cut.is_err());
    let closed =
        tokio::task::spawn_blocking(move || closed.recv_timeout(Duration::from_secs(5))).await.unwrap();
    assert_eq!(closed, Ok(()));
}

#[tokio::test]
async fn silence_is_a_time_out_and_slowness_is_not() {
    let (base, _connections) = server(|mut asked| {
        asked.begin();
        // Longer than the limit in all, never at once.
        for _ in 0..8 {
            asked.event(HI);
            thread::sleep(Duration::from_millis(100));
        }
        asked.wait_for_close();
    });
    let started = Instant::now();
    let (events, error) = call(&*model(&base, QUICK)).await;
    let error = error.unwrap();
    assert_eq!((events.len(), error.code), (8, Code::Timeout), "{error}");
    assert!(
        started.elapsed() >= Duration::from_millis(7 * 100 + 400)
            && started.elapsed() < Duration::from_secs(4)
    );
}

#[tokio::test]
async fn an_answer_that_never_begins_is_a_time_out() {
    let (base, _connections) = server(|mut asked| asked.wait_for_close());
    let started = Instant::now();
    let (_, error) = call(&*model(&base, QUICK)).await;
    assert_eq!(error.unwrap().code, Code::Timeout);
    assert!(started.elapsed() >= QUICK.first_byte && started.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_network_error() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (_, error) = call(&*model(&format!("http://{free}/v1"), QUICK)).await;
    let error = error.unwrap();
    assert_eq!(error.code, Code::NetworkError);
    assert!(error.message.starts_with("local: could not connect: Connection refused"), "{}", error.message);
}

#[tokio::test]
async fn a_broken_answer_is_an_error_and_a_finished_one_is_not() {
    for (case, code) in [
        ("broken", Some(Code::NetworkError)),
        ("ended", Some(Code::NetworkError)),
        ("garbage", Some(Code::InvalidResponse)),
        ("endless line", Some(Code::InvalidResponse)),
        ("finished without a mark", None),
        ("finished, then half a mark", None),
    ] {
        let (base, _connections) = server(move |mut asked| {
            asked.begin();
            asked.event(HI);
            match case {
                "broken" => return,
                "garbage" => asked.event("{oops"),
                "endless line" => {
                    let chunk = "x".repeat(1 << 16);
                    for _ in 0..80 {
                        asked.send(&format!("{:x}\r\n{chunk}\r\n", chunk.len()));
                    }
                }
                "finished without a mark" => asked.event(STOP),
                "finished, then half a mark" => {
                    asked.event(STOP);
                    asked.send("9\r\ndata: [DO\r\n");
                }
                _ => {}
            }
            asked.send("0\r\n\r\n");
        });
        let (events, error) = call(&*model(&base, Timeouts::default())).await;
        assert_eq!(error.as_ref().map(|error| error.code), code, "{case}: {error:?}");
        assert_eq!(events[0], Event::Text("hi".into()), "{case}");
    }
}

#[tokio::test]
async fn refusals_of_any_size_and_kind_are_read_in_bounds() {
    let (base, _connections) = server(|mut asked| {
        let page = format!("<html>{}", "x".repeat(10 << 20));
        asked.answer("502 Bad Gateway", "content-type: text/html\r\nretry-after: 3\r\n", &page);
    });
    let started = Instant::now();
    let (_, error) = call(&*model(&base, Timeouts::default())).await;
    let error = error.unwrap();
    assert_eq!((error.code, error.status), (Code::NetworkError, Some(502)));
    assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
    assert!(started.elapsed() < Duration::from_secs(4));

    let (base, _connections) = server(|mut asked| {
        asked.answer("200 OK", "content-type: text/html; charset=utf-8\r\n", "<html>sign in</html>");
    });
    assert_eq!(call(&*model(&base, QUICK)).await.1.unwrap().code, Code::InvalidResponse);

    let (base, connections) = server(|mut asked| {
        asked.answer("307 Temporary Redirect", "location: /elsewhere\r\n", "");
    });
    assert_eq!(call(&*model(&base, QUICK)).await.1.unwrap().code, Code::InvalidResponse);
    assert_eq!(connections.iter().take(1).count(), 1, "the redirect was not followed");
}

#[tokio::test]
async fn an_answer_in_one_piece_is_accepted() {
    let (base, _connections) = server(|mut asked| {
        let body = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
        asked.answer("200 OK", "content-type: application/json\r\n", body);
    });
    let (events, error) = call(&*model(&base, QUICK)).await;
    assert_eq!((events.len(), error), (2, None));
}
