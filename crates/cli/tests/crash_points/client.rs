//! A client as documented: it retries posts with an idempotency key, and resumes streams with `Last-Event-ID`.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::crash_server::PATIENCE;

/// How long a client waits for a response, or for data of a stream, before it retries.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(4);

#[derive(Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    key: String,
    http: reqwest::Client,
}

/// The response to a post.
#[derive(Debug, Clone)]
pub(crate) struct PostResponse {
    pub(crate) body: Value,
    pub(crate) replayed: bool,
}

impl PostResponse {
    pub(crate) fn id(&self) -> &str {
        self.body["id"].as_str().unwrap()
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr, key: String) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { address, key, http: reqwest::Client::builder().no_proxy().build().unwrap() }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Posts once. `None` when there is no response or a server error.
    pub(crate) async fn post_once(&self, path: &str, key: &str, body: &Value) -> Option<PostResponse> {
        let request = self.http.post(self.url(path)).bearer_auth(&self.key);
        let request = request.header("Idempotency-Key", key).header("Content-Type", "application/json");
        let response = request.body(body.to_string()).send().await.ok()?;
        let status = response.status();
        let replayed = response.headers().get("Idempotent-Replayed").is_some_and(|value| value == "true");
        let text = response.text().await.ok()?;
        if status.is_server_error() {
            return None;
        }
        assert!(status.is_success(), "{path}: {status} {text}");
        Some(PostResponse { body: serde_json::from_str(&text).unwrap(), replayed })
    }

    /// Posts until there is a response.
    pub(crate) async fn post(&self, path: &str, key: &str, body: &Value) -> PostResponse {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let sent = tokio::time::timeout(RESPONSE_TIMEOUT, self.post_once(path, key, body)).await;
            if let Ok(Some(posted)) = sent {
                return posted;
            }
            assert!(Instant::now() < deadline, "{path} was never accepted");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(crate) async fn goal(&self) -> String {
        let user = self.post("/v1/users", "user", &json!({"name": "Ada"})).await;
        let goal = self.post("/v1/goals", "goal", &json!({"user_id": user.id(), "title": "a goal"})).await;
        goal.id().to_owned()
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        let response = self.http.get(self.url(path)).bearer_auth(&self.key).send().await.ok()?;
        serde_json::from_slice(&response.bytes().await.ok()?).ok()
    }

    /// Polls a resource until the predicate holds.
    pub(crate) async fn until(&self, path: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.get(path).await.unwrap_or_default();
            if is_it(&found) {
                return found;
            }
            assert!(Instant::now() < deadline, "timed out: {path} is {found}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Reads a stream until its clean end or until `enough` (`true`), or until it breaks or goes silent (`false`).
    pub(crate) async fn watch(
        &self,
        path: &str,
        watched: &mut Watched,
        enough: impl Fn(&Watched) -> bool,
    ) -> bool {
        let mut request = self.http.get(self.url(path)).bearer_auth(&self.key);
        if !watched.last_id.is_empty() {
            request = request.header("Last-Event-ID", &watched.last_id);
        }
        let Ok(Ok(mut response)) = tokio::time::timeout(RESPONSE_TIMEOUT, request.send()).await else {
            return false;
        };
        if response.status().as_u16() == 204 {
            return true;
        }
        assert!(response.status().is_success(), "{path}: {}", response.status());
        let mut pending = String::new();
        loop {
            match tokio::time::timeout(RESPONSE_TIMEOUT, response.chunk()).await {
                Ok(Ok(Some(bytes))) => pending.push_str(std::str::from_utf8(&bytes).unwrap()),
                Ok(Ok(None)) => {
                    assert!(watched.is_over(), "the stream ended cleanly before its run: {watched:?}");
                    return true;
                }
                Ok(Err(_)) | Err(_) => return false,
            }
            while let Some(end) = pending.find("\n\n") {
                let frame: String = pending.drain(..end + 2).collect();
                watched.take_frame(&frame);
                if enough(watched) {
                    return true;
                }
            }
        }
    }

    /// Reads a stream to its clean end, with reconnections.
    pub(crate) async fn watch_to_the_end(&self, path: &str, mut watched: Watched) -> Watched {
        let deadline = Instant::now() + PATIENCE;
        while !self.watch(path, &mut watched, |_| false).await {
            assert!(Instant::now() < deadline, "the stream never ended: {watched:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        watched
    }
}

/// What a client has received from a stream.
#[derive(Debug, Default, Clone)]
pub(crate) struct Watched {
    /// The agent's messages as the client has them now, by id.
    pub(crate) texts: Vec<(String, String)>,
    pub(crate) types: Vec<String>,
    last_id: String,
    open: Option<String>,
}

impl Watched {
    pub(crate) fn is_over(&self) -> bool {
        self.types.last().is_some_and(|kind| kind == "RUN_FINISHED" || kind == "RUN_ERROR")
    }

    fn take_frame(&mut self, frame: &str) {
        for line in frame.lines() {
            if let Some(id) = line.strip_prefix("id: ") {
                assert!(position(id) >= position(&self.last_id), "{id} after {}", self.last_id);
                id.clone_into(&mut self.last_id);
            } else if let Some(data) = line.strip_prefix("data: ") {
                self.take(&serde_json::from_str(data).unwrap());
            }
        }
    }

    fn take(&mut self, event: &Value) {
        let kind = event["type"].as_str().unwrap().to_owned();
        let id = || event["messageId"].as_str().unwrap().to_owned();
        match kind.as_str() {
            "TEXT_MESSAGE_START" => {
                assert_eq!(self.open, None, "two messages are open");
                assert!(!self.texts.iter().any(|(seen, _)| *seen == id()), "a message came twice: {event}");
                self.open = Some(id());
                self.texts.push((id(), String::new()));
            }
            "TEXT_MESSAGE_CONTENT" => {
                assert_eq!(self.open, Some(id()), "text for a message that is not open");
                self.texts.last_mut().unwrap().1.push_str(event["delta"].as_str().unwrap());
            }
            "TEXT_MESSAGE_END" => assert_eq!(self.open.take(), Some(id())),
            "MESSAGES_SNAPSHOT" => {
                let kept = event["messages"].as_array().unwrap();
                self.texts.retain(|(text, _)| kept.iter().any(|message| message["id"] == text.as_str()));
            }
            "RUN_FINISHED" | "RUN_ERROR" => assert_eq!(self.open, None, "a message is open at the end"),
            _ => {}
        }
        self.types.push(kind);
    }
}

/// Parses an event id, `seq[:position in the open iteration][f<frames of the next event>]`, into a value that must only
/// grow.
fn position(id: &str) -> (u64, u8, u64, u64) {
    let number = |text: &str| text.parse().unwrap_or(0);
    let (seq, rest) = id.split_once(':').unwrap_or((id, ""));
    let (open, frames) = rest.split_once('f').unwrap_or((rest, ""));
    let (rank, chars) = match open.as_bytes() {
        [] => (0, 0),
        [b'r', ..] => (1, number(&open[1..])),
        b"d" => (2, 0),
        _ => (3, number(open)),
    };
    (number(seq), rank, chars, number(frames))
}
