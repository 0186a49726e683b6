//! A server over HTTP that does what a test says, and remembers what it was asked.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A running server. Its tools are `cut`, `echo` and `huge`.
pub(crate) struct HttpServer {
    pub(crate) url: String,
    pub(crate) state: Arc<Mutex<State>>,
    _tasks: JoinSet<()>,
}

/// What a server knows, and what a test changes.
#[derive(Default)]
pub(crate) struct State {
    /// The heads of all requests, in small letters.
    pub(crate) heads: Vec<String>,
    /// The number of the session that it knows; older ones have ended.
    pub(crate) session: usize,
    /// What it answers to requests of sessions that have ended, instead of 404.
    pub(crate) forgotten: Option<(u16, &'static str)>,
    /// The description of `echo`.
    pub(crate) description: String,
    /// The status of all answers to calls of tools, if they fail.
    pub(crate) status: Option<u16>,
    /// Whether it answers calls of tools with 20 MB of progress and no result.
    pub(crate) floods: bool,
}

impl HttpServer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let state = Arc::<Mutex<State>>::default();
        let mut tasks = JoinSet::new();
        let shared = Arc::clone(&state);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { url, state, _tasks: tasks }
    }

    /// Its settings, with a key.
    pub(crate) fn settings(&self) -> String {
        format!(
            "url = {:?}\nprivate = true\nbearer = \"SECRET\"\nheaders = {{X-Team = \"SECRET\"}}",
            self.url
        )
    }

    /// Ends all sessions.
    pub(crate) fn forget(&self) {
        self.state.lock().unwrap().session += 1;
    }
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let mut read = Vec::new();
    loop {
        let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") else {
            let mut piece = [0; 4096];
            match stream.read(&mut piece).await {
                Ok(length @ 1..) => read.extend_from_slice(&piece[..length]),
                _ => return,
            }
            continue;
        };
        let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let mut body: Vec<u8> = read.split_off(end + 4);
        while body.len() < length.unwrap_or(0) {
            if stream.read_buf(&mut body).await.unwrap() == 0 {
                return;
            }
        }
        read = body.split_off(length.unwrap_or(0));
        let answer = answer(&head, &body, &mut state.lock().unwrap());
        if stream.write_all(answer.as_bytes()).await.is_err() || answer.ends_with(": nothing") {
            return;
        }
    }
}

fn answer(head: &str, body: &[u8], state: &mut State) -> String {
    state.heads.push(head.to_owned());
    if head.starts_with("delete") {
        return with("200 OK", "", "");
    }
    let message: Value = serde_json::from_slice(body).unwrap();
    let method = message["method"].as_str().unwrap_or_default();
    let has_session = head.contains(&format!("mcp-session-id: s{}\r\n", state.session));
    let result = match method {
        _ if !head.contains("authorization: bearer hidden") => return with("401 Unauthorized", "", ""),
        "initialize" => json!({
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "s", "version": "1"},
        }),
        _ if !has_session => {
            let (status, body) = state.forgotten.unwrap_or((404, ""));
            let kind = if body.starts_with('{') { "content-type: application/json\r\n" } else { "" };
            return with(&format!("{status} Refused"), kind, body);
        }
        "tools/list" => {
            let tool = |name| json!({"name": name, "description": state.description, "inputSchema": {"type": "object"}});
            json!({"tools": [tool("cut"), tool("echo"), tool("huge")]})
        }
        "tools/call" => match (state.status, message["params"]["name"].as_str()) {
            _ if state.floods => {
                let progress = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n\n";
                let events = progress.repeat((20 << 20) / progress.len());
                return with("200 OK", "content-type: text/event-stream\r\n", &events);
            }
            (Some(status), _) => return with(&format!("{status} Failed"), "", ""),
            // Less than it announces, and then the end.
            (None, Some("cut")) => return "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 99\r\n\r\n: nothing".to_owned(),
            (None, Some("huge")) => json!({"content": [{"type": "text", "text": "x".repeat(2 << 20)}]}),
            _ => json!({"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]}),
        },
        _ => return with("202 Accepted", "", ""),
    };
    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    let session = format!("mcp-session-id: s{}\r\n", state.session);
    if method == "tools/call" {
        let progress = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n\n";
        let events = format!("{progress}event: message\ndata: {answer}\n\n");
        return with("200 OK", "content-type: text/event-stream\r\n", &events);
    }
    with("200 OK", &format!("content-type: application/json\r\n{session}"), &answer)
}

fn with(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}
