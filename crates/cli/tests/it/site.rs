//! An HTTP server on loopback in place of the rest of the world.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Status (and further headers), media type and body of an answer.
pub(crate) type Answer = (&'static str, &'static str, Vec<u8>);

/// Answers by path, and records what it was asked.
pub(crate) struct Site {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl Site {
    /// `answer` is given the text of a request.
    pub(crate) async fn start(answer: impl Fn(&str) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        let record = Arc::clone(&requests);
        tasks.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = Vec::new();
                let mut buffer = [0; 4096];
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    request.extend_from_slice(&buffer[..read]);
                    if is_complete(&request) {
                        break;
                    }
                }
                let request = String::from_utf8_lossy(&request).into_owned();
                let (status, of_type, body) = answer(&request);
                record.lock().unwrap().push(request);
                let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: {of_type}\r\n");
                let head = format!("{head}content-length: {}\r\n\r\n", body.len());
                _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
            }
        });
        Self { address, requests, _tasks: tasks }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head
        .to_lowercase()
        .split("content-length: ")
        .nth(1)
        .and_then(|rest| rest.split("\r\n").next().unwrap().parse::<usize>().ok());
    body.len() >= length.unwrap_or_default()
}
