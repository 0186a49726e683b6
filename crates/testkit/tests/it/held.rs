//! Held answers, one and hundreds at once.

use std::time::{Duration, Instant};

use houston_testkit::model_server::{Gate, JournalDetail, ModelServer, Reply, Wire, script};

use crate::socket::{PATIENCE, Socket};

#[tokio::test]
async fn gate_holds_answers_before_and_within() {
    for chunks in [None, Some(1)] {
        let gate = Gate::new();
        let reply = Reply::text("one two").in_pieces(2);
        let reply =
            chunks.map_or_else(|| reply.clone().held_by(&gate), |n| reply.clone().held_after(n, &gate));
        let server = ModelServer::start(script::always(reply)).await.unwrap();
        let mut socket = Socket::connect(server.address()).await;
        socket.send(Wire::OpenAiChat, "hi").await;
        assert!(server.journal().wait_until(PATIENCE, |journal| journal.open() == 1).await);
        gate.open();
        let answer = socket.receive().await;
        assert!(answer.whole && answer.body.contains("two"));
    }
}

#[tokio::test]
async fn pieces_are_sent_with_pauses() {
    let reply =
        Reply::text("abcd").in_pieces(4).every(Duration::from_millis(20)).after(Duration::from_millis(20));
    let server = ModelServer::start(script::always(reply)).await.unwrap();
    let began = Instant::now();
    let mut socket = Socket::connect(server.address()).await;
    socket.send(Wire::Anthropic, "hi").await;
    socket.receive().await;
    assert!(began.elapsed() >= Duration::from_millis(100));
}

#[tokio::test]
async fn hundreds_of_answers_are_held_and_released() {
    let gate = Gate::new();
    let server = ModelServer::start(script::always(Reply::text("there").held_by(&gate))).await.unwrap();
    server.journal().set_detail(JournalDetail::Counts);
    let mut sockets = Vec::new();
    for _ in 0..400 {
        let mut socket = Socket::connect(server.address()).await;
        socket.send(Wire::OpenAiChat, "hi").await;
        sockets.push(socket);
    }
    assert!(server.journal().wait_until(PATIENCE, |journal| journal.open() == 400).await);
    assert!(server.journal().exchanges().is_empty());
    gate.open();
    for socket in &mut sockets {
        assert!(socket.receive().await.body.contains("there"));
    }
}
