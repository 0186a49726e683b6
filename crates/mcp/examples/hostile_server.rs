//! An MCP server that breaks every promise: for tests, as `hostile_server <how>`.
//!
//! | how | what it does |
//! |---|---|
//! | `fair` | behaves, until one of its tools is called |
//! | `deaf` | reads and never answers |
//! | `probed` | exits when the first message is not `initialize` |
//! | `lasting` | stays when its input ends |
//! | `noisy` | prints 8 MB to its standard error before it answers |
//! | `fickle` | says that its tools have changed once it has listed them, and does not list them again |
//! | `gated` | answers once there is a file `gate` in its folder |
//!
//! Each start adds a line to the file `starts` in its folder.

use std::io::{BufRead as _, Write as _};
use std::process::{Command, Stdio, exit};
use std::time::Duration;

use serde_json::{Value, json};

/// More than any limit allows.
const HUGE: usize = 20 << 20;

fn main() {
    let how = std::env::args().nth(1).unwrap_or_default();
    note_start();
    let mut lists = 0;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let method = message["method"].as_str().unwrap_or_default();
        match how.as_str() {
            "deaf" => continue,
            "probed" if method == "server/discover" => exit(1),
            "noisy" => print_much(),
            "gated" => wait_for_gate(),
            "fickle" if method == "tools/list" => {
                lists += 1;
                if lists > 1 {
                    let error = json!({"code": -32603, "message": "not again"});
                    say(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
                    continue;
                }
                // Before the list itself, so that it is read before the list.
                say(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
            }
            _ => {}
        }
        if let Some(result) = answer(method, &message["params"]) {
            say(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
        }
        match message["params"]["name"].as_str().unwrap_or_default() {
            "announce" => say(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})),
            "leave" => exit(0),
            _ => {}
        }
    }
    if how == "lasting" {
        loop {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }
}

fn note_start() {
    let file = std::fs::OpenOptions::new().create(true).append(true).open("starts");
    let _ = file.and_then(|mut file| writeln!(file, "started"));
}

fn wait_for_gate() {
    while !std::path::Path::new("gate").exists() {
        std::thread::sleep(Duration::from_millis(10));
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
    let names = ["pids", "exit", "leave", "hang", "freeze", "huge", "env", "announce", "fail"];
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
        "leave" => "Good bye.".to_owned(),
        "freeze" => loop {
            std::thread::sleep(Duration::from_secs(3600));
        },
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
