//! Answers in the format of both wires.

use houston_testkit::model_server::{Call, ModelServer, Prepared, Reply, Wire, script};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::socket::{Socket, ask};

fn whole() -> Reply {
    Reply::text("Hällo there")
        .then_tool("create_note", json!({"title": "milk"}))
        .then_tool("clock", json!({}))
        .in_pieces(3)
        .usage(7, 9)
}

fn joined(events: &[Value], pick: impl Fn(&Value) -> &Value) -> String {
    events.iter().filter_map(|event| pick(event).as_str()).collect()
}

#[tokio::test]
async fn openai_reads_text_calls_and_usage() {
    let server = ModelServer::start(script::always(whole())).await.unwrap();
    let answer = ask(&server, Wire::OpenAiChat, "hi").await;
    assert!(answer.head.starts_with("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream"));
    assert!(answer.whole && answer.body.ends_with("data: [DONE]\n\n"));
    let events = answer.events();
    let delta = |name: &'static str| joined(&events, move |event| &event["choices"][0]["delta"][name]);
    assert_eq!(delta("content"), "Hällo there");
    let calls: Vec<&Value> =
        events.iter().filter_map(|event| event["choices"][0]["delta"]["tool_calls"].get(0)).collect();
    let of = |index: u64| calls.iter().filter(move |call| call["index"] == index);
    let arguments: String = of(0).filter_map(|call| call["function"]["arguments"].as_str()).collect();
    assert_eq!(arguments, r#"{"title":"milk"}"#);
    assert_eq!(of(1).next().unwrap()["function"]["name"], "clock");
    assert_eq!(of(0).next().unwrap()["id"], "call_0_0");
    let finish = events.iter().find_map(|event| event["choices"][0]["finish_reason"].as_str());
    assert_eq!(finish, Some("tool_calls"));
    let usage = events.iter().find(|event| event["usage"].is_object()).unwrap();
    assert_eq!((&usage["usage"]["prompt_tokens"], &usage["choices"]), (&json!(7), &json!([])));
}

#[tokio::test]
async fn anthropic_reads_blocks_in_order() {
    let server = ModelServer::start(script::always(whole())).await.unwrap();
    let answer = ask(&server, Wire::Anthropic, "hi").await;
    assert!(answer.whole && answer.body.starts_with("event: message_start\ndata: {"));
    let events = answer.events();
    let of = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    let blocks: Vec<&str> =
        of("content_block_start").filter_map(|event| event["content_block"]["type"].as_str()).collect();
    assert_eq!(blocks, ["text", "tool_use", "tool_use"]);
    assert_eq!(of("content_block_stop").count(), 3);
    assert_eq!(joined(&events, |event| &event["delta"]["text"]), "Hällo there");
    let json: String = of("content_block_delta")
        .filter(|event| event["index"] == 1)
        .filter_map(|event| event["delta"]["partial_json"].as_str())
        .collect();
    assert_eq!(json, r#"{"title":"milk"}"#);
    let end = of("message_delta").next().unwrap();
    assert_eq!(
        (&end["delta"]["stop_reason"], &end["usage"]["output_tokens"]),
        (&json!("tool_use"), &json!(9))
    );
    assert_eq!(events.last().unwrap()["type"], "message_stop");
}

#[tokio::test]
async fn twenty_chunks_without_a_pause_are_one_write() {
    let words = "word ".repeat(20);
    let reply = Prepared::new(&Reply::text(&words).in_pieces(20), Wire::OpenAiChat);
    let server = ModelServer::start(move |_| Reply::prepared(&reply)).await.unwrap();
    let mut socket = Socket::connect(server.address()).await;
    for _ in 0..3 {
        socket.send(Wire::OpenAiChat, "hi").await;
        let mut bytes = Vec::with_capacity(1 << 16);
        socket.0.read_buf(&mut bytes).await.unwrap();
        assert!(bytes.ends_with(b"0\r\n\r\n"), "the whole answer in one read");
        assert_eq!(String::from_utf8(bytes).unwrap().matches("\"content\":\"word \"").count(), 20);
    }
    assert_eq!(server.journal().calls(), 3);
}

#[tokio::test]
async fn scripts_decide_on_the_request() {
    let script = |call: &Call| match call.has_tool_results() {
        true => Reply::text("it is noon"),
        false => Reply::tool("clock", json!({})),
    };
    let server = ModelServer::start(script).await.unwrap();
    let asked = ask(&server, Wire::OpenAiChat, "what time is it?").await;
    assert!(asked.body.contains("clock"));
    let mut socket = Socket::connect(server.address()).await;
    let body = json!({"messages": [
        {"role": "user", "content": "what time is it?"},
        {"role": "assistant", "tool_calls": [{"id": "call_0_0"}]},
        {"role": "tool", "tool_call_id": "call_0_0", "content": "12:00"},
    ]});
    socket.send_body(Wire::OpenAiChat, &body).await;
    assert!(socket.receive().await.body.contains("it is noon"));

    let server =
        ModelServer::start(script::in_turn([Reply::status(500), Reply::text("fine")])).await.unwrap();
    assert!(ask(&server, Wire::OpenAiChat, "a").await.head.starts_with("HTTP/1.1 500"));
    for _ in 0..2 {
        assert!(ask(&server, Wire::OpenAiChat, "b").await.body.contains("fine"));
    }
}
