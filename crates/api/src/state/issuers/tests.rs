use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// A server that answers every request with the same text, or with nothing.
#[derive(Clone)]
struct Server {
    url: String,
    answer: Arc<Mutex<Option<String>>>,
    requests: Arc<AtomicUsize>,
    tasks: TaskTracker,
}

impl Server {
    async fn start(answer: Option<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            url: format!("http://{}/keys", listener.local_addr().unwrap()),
            answer: Arc::new(Mutex::new(answer)),
            requests: Arc::default(),
            tasks: TaskTracker::new(),
        };
        let own = server.clone();
        server.tasks.spawn(async move {
            loop {
                let (mut connection, _) = listener.accept().await.unwrap();
                own.requests.fetch_add(1, Ordering::SeqCst);
                let answer = own.answer.lock().clone();
                own.tasks.spawn(async move {
                    let _ = connection.read(&mut [0; 4096]).await;
                    match answer {
                        Some(answer) => drop(connection.write_all(answer.as_bytes()).await),
                        None => std::future::pending().await,
                    }
                });
            }
        });
        server
    }

    fn answers(&self, answer: String) {
        *self.answer.lock() = Some(answer);
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

fn http(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn set(id: &str) -> String {
    let key = format!(
        "{{\"kty\": \"OKP\", \"crv\": \"Ed25519\", \"kid\": \"{id}\", \"x\": \"{}\"}}",
        "A".repeat(43)
    );
    http("200 OK", &format!("{{\"keys\": [{key}]}}"))
}

fn named(id: &str) -> (Algorithm, Option<&str>) {
    (Algorithm::EdDsa, Some(id))
}

async fn later(minutes: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(60 * minutes + 1)).await;
    tokio::time::resume();
}

fn is_unknown(result: &Result<PublicKey, ApiError>) -> bool {
    matches!(result, Err(ApiError::InvalidJwt(JwtError::UnknownKey)))
}

#[tokio::test]
async fn keys_are_read_once_a_minute_and_outlive_their_issuer() {
    let server = Server::start(Some(set("a"))).await;
    let (sets, url) = (Issuers::default(), server.url.as_str());
    for _ in 0..3 {
        sets.key(url, named("a")).await.unwrap();
        assert!(is_unknown(&sets.key(url, named("b")).await));
    }
    assert_eq!(server.requests(), 1);

    server.answers(set("b"));
    later(1).await;
    sets.key(url, named("a")).await.unwrap();
    assert_eq!(server.requests(), 1, "keys that were read need no request");
    sets.key(url, named("b")).await.unwrap();
    assert!(is_unknown(&sets.key(url, named("a")).await), "a key that the issuer has taken back");
    assert_eq!(server.requests(), 2);

    server.answers(http("500 Internal Server Error", ""));
    later(60).await;
    for _ in 0..3 {
        sets.key(url, named("b")).await.unwrap();
    }
    assert_eq!(server.requests(), 3, "one try a minute");
    later(24 * 60).await;
    assert!(matches!(sets.key(url, named("b")).await, Err(ApiError::NoIssuerKeys)));
}

#[tokio::test]
async fn what_is_no_key_set_is_refused() {
    let redirect =
        "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n".to_owned();
    let long = http("200 OK", &format!("{{\"keys\": [], \"more\": \"{}\"}}", "a".repeat(MAX_BYTES)));
    for answer in [redirect, long, http("200 OK", "<html>"), http("404 Not Found", "{\"keys\": []}")] {
        let server = Server::start(Some(answer.clone())).await;
        let refused = Issuers::default().key(&server.url, named("a")).await;
        assert!(matches!(refused, Err(ApiError::NoIssuerKeys)), "{answer}");
    }
}

#[tokio::test]
async fn an_issuer_that_does_not_answer_keeps_no_other_waiting() {
    let (silent, other) = (Server::start(None).await, Server::start(Some(set("a"))).await);
    let sets = Issuers::default();
    let (first, second) = (sets.key(&silent.url, named("a")), sets.key(&other.url, named("a")));
    tokio::select! {
        biased;
        first = first => panic!("no server answered: {first:?}"),
        second = second => drop(second.unwrap()),
    }
}
