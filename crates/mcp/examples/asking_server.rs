//! An MCP server whose calls do not end at once: for tests, as `asking_server <how>`.
//!
//! | how | what it does |
//! |---|---|
//! | `modern` | speaks the protocol of 2026-07-28: its calls answer with questions and tasks |
//! | `legacy` | speaks that of 2025-11-25, and asks in the middle of a call |
//!
//! Each request adds a line to the file `log` in its folder: the method, and what it is about.

use std::collections::HashMap;
use std::io::{BufRead as _, Lines, StdinLock, Write as _};
use std::process::exit;

use serde_json::{Value, json};

/// What it wants back, byte for byte.
const STATE: &str = "a\u{0}b\"\\\u{fffd}\u{1f600} {\"x\": 1.0}\r\n";

fn main() {
    let is_modern = std::env::args().nth(1).is_some_and(|how| how == "modern");
    let mut lines = std::io::stdin().lock().lines();
    // How often each task was asked for.
    let mut tasks = HashMap::<String, usize>::new();
    while let Some(Ok(line)) = lines.next() {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let method = message["method"].as_str().unwrap_or_default();
        let params = &message["params"];
        let about = params["name"].as_str().or(params["taskId"].as_str()).unwrap_or_default();
        log(&format!("{method} {about}"));
        let result = match method {
            "server/discover" if is_modern => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "ttlMs": 0, "cacheScope": "private",
            }),
            "initialize" if !is_modern => json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "asking", "version": "1"},
            }),
            "tools/list" => {
                json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": tools()})
            }
            "tools/call" => call(params, &mut lines),
            "tasks/get" => match task(about, &mut tasks) {
                Some(task) => task,
                None => {
                    let error = json!({"code": -32602, "message": "no such task"});
                    say(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
                    continue;
                }
            },
            "tasks/update" | "tasks/cancel" => json!({"resultType": "complete"}),
            _ => continue,
        };
        say(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
    }
}

fn log(line: &str) {
    let file = std::fs::OpenOptions::new().create(true).append(true).open("log");
    let _ = file.and_then(|mut file| writeln!(file, "{line}"));
}

fn say(message: &Value) {
    let mut out = std::io::stdout().lock();
    let said = writeln!(out, "{message}").and_then(|()| out.flush());
    if said.is_err() {
        exit(0);
    }
}

fn tools() -> Vec<Value> {
    let names = [
        "ask",
        "busy",
        "greedy",
        "insist",
        "sample",
        "task",
        "slow",
        "endless",
        "asking_task",
        "lost",
        "die",
        "report",
        "elicit",
    ];
    names
        .map(
            |name| json!({"name": name, "description": "See the source.", "inputSchema": {"type": "object"}}),
        )
        .into()
}

fn text(text: &str) -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": text}]})
}

fn question() -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    json!({"who": {"method": "elicitation/create", "params": {
        "mode": "form", "message": "Who is it for?", "requestedSchema": schema,
    }}})
}

fn begun(id: &str, poll_ms: u64) -> Value {
    let at = "2026-11-25T00:00:00Z";
    json!({"resultType": "task", "taskId": id, "status": "working", "createdAt": at, "lastUpdatedAt": at,
           "ttlMs": null, "pollIntervalMs": poll_ms})
}

fn call(params: &Value, lines: &mut Lines<StdinLock<'static>>) -> Value {
    let (answers, state) = (&params["inputResponses"], params["requestState"].as_str());
    match params["name"].as_str().unwrap_or_default() {
        "ask" if answers.is_null() => {
            json!({"resultType": "input_required", "inputRequests": question(), "requestState": STATE})
        }
        "ask" if state == Some(STATE) => text(&format!("answered {answers}")),
        "ask" => text(&format!("that is not what I said: {state:?}")),
        "busy" if state.is_none() => json!({"resultType": "input_required", "requestState": "later"}),
        "busy" => text("now"),
        "greedy" => {
            json!({"resultType": "input_required", "inputRequests": question(), "requestState": "x".repeat(70_000)})
        }
        "insist" => {
            json!({"resultType": "input_required", "inputRequests": question(), "requestState": "more"})
        }
        "sample" => json!({"resultType": "input_required", "requestState": "x", "inputRequests": {"a": {
            "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 10}}}}),
        name @ ("task" | "endless" | "asking_task" | "lost" | "die") => begun(name, 1),
        "slow" => begun("slow", 60_000),
        "report" => {
            let token = &params["_meta"]["progressToken"];
            let progress = json!({"progressToken": token, "progress": 1, "total": 2, "message": "half"});
            say(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}));
            text("reported")
        }
        "elicit" => {
            let params = question()["who"]["params"].clone();
            say(&json!({"jsonrpc": "2.0", "id": "e1", "method": "elicitation/create", "params": params}));
            text(&lines.next().and_then(Result::ok).unwrap_or_default())
        }
        _ => text("?"),
    }
}

fn task(id: &str, tasks: &mut HashMap<String, usize>) -> Option<Value> {
    let nth = tasks.entry(id.to_owned()).or_default();
    *nth += 1;
    let mut task = begun(id, if id == "slow" { 60_000 } else { 1 });
    task["resultType"] = json!("complete");
    task["statusMessage"] = json!("on it");
    match (id, *nth) {
        ("lost", _) => return None,
        ("die", _) => exit(1),
        ("task", 3) => {
            task["status"] = json!("completed");
            task["result"] =
                json!({"content": [{"type": "text", "text": "the task is done"}], "isError": false});
        }
        ("asking_task", 1) => {
            task["status"] = json!("input_required");
            task["inputRequests"] = question();
        }
        ("asking_task", _) => {
            task["status"] = json!("failed");
            task["error"] = json!({"code": -32000, "message": "no person of that name"});
        }
        _ => {}
    }
    Some(task)
}
