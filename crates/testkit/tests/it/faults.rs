//! Faults of replies, on both wires.

use houston_testkit::model_server::{Ending, Fault, ModelServer, Reply, Wire, script};

use crate::socket::{PATIENCE, Socket, ask};

const WIRES: [Wire; 2] = [Wire::OpenAiChat, Wire::Anthropic];

fn broken(fault: Fault) -> Reply {
    Reply::text("one,two,six,ten,").in_pieces(4).fault(fault)
}

async fn start(reply: Reply) -> ModelServer {
    ModelServer::start(script::always(reply)).await.unwrap()
}

#[tokio::test]
async fn error_responses_have_status_headers_and_body() {
    for (status, openai, anthropic) in
        [(429, "rate_limit_exceeded", "rate_limit_error"), (529, "server_error", "overloaded_error")]
    {
        let server = start(Reply::status(status).header("retry-after", "2")).await;
        for (wire, kind) in [(Wire::OpenAiChat, openai), (Wire::Anthropic, anthropic)] {
            let answer = ask(&server, wire, "hi").await;
            assert!(answer.head.starts_with(&format!("HTTP/1.1 {status} ")), "{}", answer.head);
            assert!(answer.head.contains("\r\nretry-after: 2\r\n") && answer.whole);
            assert!(answer.body.contains(kind), "{}", answer.body);
        }
    }
    let server = start(Reply::status(500).body("<html>")).await;
    assert_eq!(ask(&server, Wire::OpenAiChat, "hi").await.body, "<html>");
}

#[tokio::test]
async fn connections_are_cut_after_chunks_and_bytes() {
    for wire in WIRES {
        let server = start(broken(Fault::CutAfterChunks(2))).await;
        let answer = ask(&server, wire, "hi").await;
        assert!(!answer.whole && answer.body.contains("two") && !answer.body.contains("six"));
        assert!(answer.body.ends_with("\n\n"));

        let server = start(broken(Fault::CutAfterBytes(100))).await;
        let answer = ask(&server, wire, "hi").await;
        assert_eq!((answer.whole, answer.body.len()), (false, 100));
        assert_eq!(server.journal().last().unwrap().ending, Ending::Cut);
    }
}

#[tokio::test]
async fn streams_end_early_with_an_error_or_with_garbage() {
    for wire in WIRES {
        let server = start(broken(Fault::EndEarly(3))).await;
        let answer = ask(&server, wire, "hi").await;
        assert!(answer.whole && answer.body.contains("six"));
        assert!(!answer.body.contains("[DONE]") && !answer.body.contains("message_stop"));

        let server = start(broken(Fault::ErrorEvent(1))).await;
        let answer = ask(&server, wire, "hi").await;
        let error = answer.events().pop().unwrap();
        assert!(answer.whole && error["error"]["message"].as_str().unwrap().contains("verloaded"), "{error}");

        let server = start(broken(Fault::Garbage(4))).await;
        let answer = ask(&server, wire, "hi").await;
        assert!(answer.body.contains("ten") && answer.events().pop().unwrap().is_string());
    }
}

#[tokio::test]
async fn silence_lasts_until_the_client_gives_up() {
    for wire in WIRES {
        let server = start(broken(Fault::Stall(2))).await;
        let mut socket = Socket::connect(server.address()).await;
        socket.send(wire, "hi").await;
        let text = socket.receive_until("two").await;
        assert!(!text.contains("six") && server.journal().open() == 1);
        drop(socket);
        assert!(server.journal().wait_until(PATIENCE, |journal| journal.open() == 0).await);
        assert_eq!(server.journal().last().unwrap().ending, Ending::ClientLeft);

        let server = start(Reply::hang()).await;
        let mut socket = Socket::connect(server.address()).await;
        socket.send(wire, "hi").await;
        assert!(server.journal().wait_until(PATIENCE, |journal| journal.open() == 1).await);
        assert!(socket.0.try_read(&mut [0]).is_err(), "no byte was sent");
        drop(socket);
        assert!(server.journal().wait_until(PATIENCE, |journal| journal.open() == 0).await);
        assert!(server.journal().last().unwrap().ended.is_some());
    }
}

#[tokio::test]
async fn first_calls_fail_and_later_ones_succeed() {
    let script = script::after_faults(2, Reply::status(529), script::always(Reply::text("fine")));
    let server = ModelServer::start(script).await.unwrap();
    let mut socket = Socket::connect(server.address()).await;
    let mut heads = Vec::new();
    for _ in 0..3 {
        socket.send(Wire::OpenAiChat, "hi").await;
        heads.push(socket.receive().await.head[9..12].to_owned());
    }
    assert_eq!(heads, ["529", "529", "200"]);
}
