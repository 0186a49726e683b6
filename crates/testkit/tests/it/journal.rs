//! The journal records requests, their order and how they ended.

use houston_testkit::model_server::{Ending, JournalDetail, ModelServer, Reply, Wire, script};

use crate::socket::{PATIENCE, Socket, ask};

#[tokio::test]
async fn requests_are_recorded_in_order() {
    let server = ModelServer::start(script::always(Reply::text("hi"))).await.unwrap();
    let mut socket = Socket::connect(server.address()).await;
    for text in ["one", "two"] {
        socket.send(Wire::OpenAiChat, text).await;
        socket.receive().await;
    }
    ask(&server, Wire::Anthropic, "three").await;
    assert!(server.journal().wait_until(PATIENCE, |journal| journal.open() == 0).await);
    let exchanges = server.journal().exchanges();
    let seen: Vec<_> = exchanges.iter().map(|e| (e.number, e.ending)).collect();
    assert_eq!(seen, [0, 1, 2].map(|number| (number, Ending::Answered)));
    assert!(String::from_utf8_lossy(&exchanges[1].body).contains("two"));
    assert!(exchanges[0].ended.unwrap() <= exchanges[1].at);

    server.journal().clear();
    server.journal().set_detail(JournalDetail::Times);
    ask(&server, Wire::Anthropic, "four").await;
    let last = server.journal().last().unwrap();
    assert_eq!((last.number, last.body.len(), server.journal().calls()), (3, 0, 4));
}

#[tokio::test]
async fn other_requests_are_answered_and_not_recorded() {
    use tokio::io::AsyncWriteExt;
    let server = ModelServer::start(script::always(Reply::empty())).await.unwrap();
    let mut socket = Socket::connect(server.address()).await;
    for (target, status) in [("/v1/models", "200"), ("/health", "200"), ("/api/tags?x=1", "404")] {
        socket.0.write_all(format!("GET {target} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        assert_eq!(&socket.receive().await.head[9..12], status, "{target}");
    }
    assert_eq!(server.journal().calls(), 0);
}
