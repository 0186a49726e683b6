//! An MCP server that breaks every promise: for tests, as `hostile_server <how>`.
//!
//! | how | what it does |
//! |---|---|
//! | `fair` | behaves, until one of its tools is called |
//! | `deaf` | reads and never answers |
//! | `probed` | exits when the first message is not `initialize` |
//! | `lasting` | stays when its input ends |
//! | `noisy` | prints 8 MB to its standard error before it answers |

use std::io::{BufRead as _, Write as _};
use std::process::{Command, Stdio, exit};
use std::time::Duration;

use serde_json::{Value, json};

/// More than any limit allows.
const HUGE: usize = 20 << 20;

fn main() {
    let how = std::env::args().nth(1).unwrap_or_default();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let method = message["method"].as_str().unwrap_or_default();
        match how.as_str() {
            "deaf" => continue,
            "probed" if method == "server/discover" => exit(1),
            "noisy" => print_much(),
            _ => {}
        }
        if let Some(result) = answer(method, &message["params"]) {
            say(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
        }
        if method == "tools/call" && message["params"]["name"] == "announce" {
            say(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
        }
    }
    if how == "lasting" {
        loop {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }
}

fn say(message: &Value) {
    let mut out = std::io::stdout().lock();
    let said = writeln!(out, "{message}").and_then(|()| out.flush());
    if said.is_err() {
        exit(0);
    }
}

fn print_much() {
    let mut out = std::io::stderr().lock();
    let line = "x".repeat(1023);
    for _ in 0..8 << 10 {
        let _ = writeln!(out, "{line}");
    }
}

fn answer(method: &str, params: &Value) -> Option<Value> {
    match method {
        "initialize" => Some(json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "hostile", "version": "1"},
        })),
        "tools/list" => Some(json!({"tools": tools()})),
        "tools/call" => call(params),
        "ping" => Some(json!({})),
        _ => None,
    }
}

/// The description of `echo` is in a file, so that a test can change it.
fn tools() -> Value {
    let echo = std::fs::read_to_string("description").unwrap_or_else(|_| "Repeats its argument.".to_owned());
    let tool = |name: &str, description: &str| json!({"name": name, "description": description, "inputSchema": {"type": "object"}});
    let names = ["pids", "exit", "hang", "huge", "env", "announce", "fail", "input"];
    let others = names.map(|name| tool(name, "See the source."));
    [tool("echo", &echo)].into_iter().chain(others).collect()
}

fn call(params: &Value) -> Option<Value> {
    let text = match params["name"].as_str().unwrap_or_default() {
        "echo" => params["arguments"]["text"].as_str().unwrap_or_default().to_owned(),
        "pids" => {
            let child = Command::new("sleep").arg("3600").stdin(Stdio::null()).stdout(Stdio::null()).spawn();
            format!("{} {}", std::process::id(), child.map(|child| child.id()).unwrap_or_default())
        }
        "exit" => exit(9),
        "hang" => return None,
        "huge" => "x".repeat(HUGE),
        "env" => {
            let names: Vec<String> =
                std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
            names.join("\n")
        }
        "announce" => "They have changed.".to_owned(),
        "fail" => {
            return Some(json!({"content": [{"type": "text", "text": "no such thing"}], "isError": true}));
        }
        _ => "?".to_owned(),
    };
    Some(json!({"content": [{"type": "text", "text": text}]}))
}
