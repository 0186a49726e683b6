//! Tools of MCP servers that ask a person in the middle of a call, with the protocol of 2026-07-28, over HTTP and over the
//! standard streams of a process: the question is answered over REST or as an AG-UI interrupt, and the run goes on.

use std::collections::HashMap;
use std::sync::Mutex;

use houston_testkit::process::Process;
use serde_json::{Value, json};

use crate::site::{Answer, Site};
use crate::test_houston::TestHouston;

/// What the server wants back, byte for byte.
const STATE: &str = "{\"seat\": 1.0}\u{1f600}";

/// The answers of a person to tasks, by the id of the task: `null` until there is one.
static TASKS: Mutex<Option<HashMap<String, Value>>> = Mutex::new(None);

fn question() -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let params = json!({"mode": "form", "message": "Who is it for?", "requestedSchema": schema});
    json!({"who": {"method": "elicitation/create", "params": params}})
}

fn text(text: &str) -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": text}]})
}

fn task(id: &str, status: &str) -> Value {
    let at = "2026-11-25T00:00:00Z";
    json!({"resultType": "complete", "taskId": id, "status": status, "createdAt": at, "lastUpdatedAt": at, "ttlMs": null,
           "pollIntervalMs": 1})
}

fn called(params: &Value) -> Value {
    let (answers, state) = (&params["inputResponses"], params["requestState"].as_str());
    match params["name"].as_str() {
        Some("ask") if answers.is_null() => {
            json!({"resultType": "input_required", "inputRequests": question(), "requestState": STATE})
        }
        Some("ask") if state == Some(STATE) => text(&format!("answered {answers}")),
        Some("begin") => {
            let id = "task-1";
            TASKS.lock().unwrap().get_or_insert_default().insert(id.to_owned(), Value::Null);
            let mut begun = task(id, "working");
            begun["resultType"] = "task".into();
            begun
        }
        _ => text("that is not what I said"),
    }
}

/// A task asks once, and ends with what it was answered.
fn asked_for(id: &str) -> Value {
    match TASKS.lock().unwrap().get_or_insert_default().get(id) {
        Some(Value::Null) | None => {
            let mut asking = task(id, "input_required");
            asking["inputRequests"] = question();
            asking
        }
        Some(answers) => {
            let mut done = task(id, "completed");
            done["result"] =
                json!({"content": [{"type": "text", "text": format!("done {answers}")}], "isError": false});
            done
        }
    }
}

/// The server: each request is one message, and there is no session.
fn answer(request: &str) -> Answer {
    let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let Ok(message) = serde_json::from_str::<Value>(body) else {
        return ("405 Method Not Allowed", "text/plain", Vec::new());
    };
    let params = &message["params"];
    let id = params["taskId"].as_str().unwrap_or_default();
    let result = match message["method"].as_str().unwrap_or_default() {
        "server/discover" => json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "ttlMs": 0, "cacheScope": "private",
        }),
        "tools/list" => {
            let tool =
                |name| json!({"name": name, "description": "Asks.", "inputSchema": {"type": "object"}});
            json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [tool("ask"), tool("begin")]})
        }
        "tools/call" => called(params),
        "tasks/get" => asked_for(id),
        "tasks/update" => {
            TASKS
                .lock()
                .unwrap()
                .get_or_insert_default()
                .insert(id.to_owned(), params["inputResponses"].clone());
            json!({"resultType": "complete"})
        }
        _ => return ("202 Accepted", "text/plain", Vec::new()),
    };
    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
    ("200 OK", "application/json", answer.to_string().into_bytes())
}

struct Asking {
    houston: TestHouston,
    /// Servers that are processes have their folders here.
    home: tempfile::TempDir,
    worker: Process,
}

impl Asking {
    /// An installation whose goals have the tools of a server, approved with the command for that. `server`: the settings
    /// that say how to reach it.
    fn start(server: &str) -> Self {
        let houston = TestHouston::start();
        // They return no private data; otherwise a guard would ask before the second call.
        let facts = "level = \"read\"\nrisk = \"read\"\nreads_private = false";
        let tools = ["ask", "begin"].map(|tool| format!("[servers.s.tools.{tool}]\n{facts}\n"));
        let server = format!(
            "[servers.s]\n{server}\nprotocol = \"2026-07-28\"\nkinds = [\"goal\"]\n{}",
            tools.concat()
        );
        std::fs::write(houston.folder.path().join("mcp.toml"), server).unwrap();
        let home = tempfile::tempdir().unwrap();
        let mut approve = houston.command();
        let approve = approve.env("HOUSTON_FOLDER", home.path()).args(["mcp", "approve", "s"]);
        let approved = approve.output().unwrap();
        assert!(approved.status.success(), "{}", String::from_utf8_lossy(&approved.stderr));
        let worker = Self::worker(&houston, &home);
        Self { houston, home, worker }
    }

    fn worker(houston: &TestHouston, home: &tempfile::TempDir) -> Process {
        houston.worker_with(&[("HOUSTON_FOLDER", home.path().to_str().unwrap())])
    }

    /// Over HTTP.
    async fn over_http() -> (Self, Site) {
        let site = Site::start(answer).await;
        (Self::start(&format!("url = {:?}\nprivate = true", site.url("/mcp"))), site)
    }

    /// The open question for input.
    async fn question(&self) -> Value {
        let is_open = |page: &Value| page["data"].as_array().is_some_and(|data| !data.is_empty());
        let page = self.houston.wait_until("/v1/questions?kind=input", "a question", is_open).await;
        page["data"][0].clone()
    }

    /// Answers a question, waits until the message is answered, and returns what the agent said.
    async fn answer(&self, goal: &str, message: &Value, question: &Value, answer: Value) -> String {
        let path = format!("/v1/questions/{}/answer", question["id"].as_str().unwrap());
        self.houston.post_to(&self.houston.url(&path), &json!({"answer": answer})).await;
        assert_eq!(self.houston.wait_until_answered(message).await["status"], "answered");
        self.houston.agent_texts(goal).await.pop().unwrap()
    }

    /// One AG-UI run of a goal: its events.
    async fn ag_ui(&self, goal: &str, message: Option<&str>, resume: Value) -> Vec<Value> {
        let messages: Vec<Value> = message
            .map(|content| json!({"id": content, "role": "user", "content": content}))
            .into_iter()
            .collect();
        let body = json!({"threadId": goal, "runId": "r", "messages": messages, "resume": resume});
        let stream = self.houston.post_for_text(&format!("/v1/goals/{goal}/ag-ui"), &body).await;
        stream.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect()
    }
}

fn of_type<'e>(events: &'e [Value], name: &str) -> &'e Value {
    events.iter().rfind(|event| event["type"] == name).unwrap_or_else(|| panic!("no {name}: {events:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_over_rest_reaches_the_server_that_asked() {
    let (test, site) = Asking::over_http().await;
    let goal = test.houston.goal("asking").await;
    for (nth, (given, back)) in [
        (
            json!({"action": "accept", "content": {"name": "Ada"}}),
            r#"{"who":{"action":"accept","content":{"name":"Ada"}}}"#,
        ),
        (json!({"action": "decline"}), r#"{"who":{"action":"decline"}}"#),
        (json!({"action": "cancel"}), r#"{"who":{"action":"cancel"}}"#),
    ]
    .into_iter()
    .enumerate()
    {
        let message = test.houston.post(&goal, &format!("ask{nth}"), "/sim tool=s__ask args={}").await;
        let question = test.question().await;
        assert_eq!(question["text"], "s asks, to go on with ask, in its own words: “Who is it for?”.");
        let said = test.answer(&goal, &message, &question, given).await;
        assert!(said.contains(&format!("answered {back}")), "{said}");
    }
    let calls = site.requests().iter().filter(|request| request.contains("\"tools/call\"")).count();
    assert_eq!(calls, 6, "each call is sent once, and once more with its answer");
    let has_session = site.requests().iter().any(|request| request.to_lowercase().contains("mcp-session-id"));
    assert!(!has_session, "this protocol has none");

    let message = test.houston.post(&goal, "task", "/sim tool=s__begin args={}").await;
    let question = test.question().await;
    let bob = json!({"action": "accept", "content": {"name": "Bob"}});
    let said = test.answer(&goal, &message, &question, bob).await;
    assert!(said.contains(r#"done {"who":{"action":"accept","content":{"name":"Bob"}}}"#), "{said}");
}

/// While a person thinks, nothing is held: neither the worker that began the call is needed, nor the server's process.
#[tokio::test(flavor = "multi_thread")]
async fn answer_reaches_another_process_of_the_server() {
    let binary = std::path::PathBuf::from(env!("CARGO_BIN_EXE_houston"));
    let server = binary.parent().unwrap().join("examples/asking_server_of_tests");
    let mut test =
        Asking::start(&format!("command = {:?}\nargs = [\"modern\"]", server.display().to_string()));
    let goal = test.houston.goal("asking").await;
    let message = test.houston.post(&goal, "ask", "/sim tool=s__ask args={}").await;
    let question = test.question().await;
    test.worker.kill().unwrap();
    test.worker = Asking::worker(&test.houston, &test.home);
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    let said = test.answer(&goal, &message, &question, answer).await;
    assert!(said.contains(r#"answered {"who":{"action":"accept","content":{"name":"Ada"}}}"#), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn question_of_a_server_is_an_interrupt_and_resume_answers_it() {
    let (test, _site) = Asking::over_http().await;
    let goal = test.houston.goal("asking").await;
    for (nth, (status, payload, back)) in [
        (
            "resolved",
            json!({"action": "accept", "content": {"name": "Ada"}}),
            r#"accept","content":{"name":"Ada"}}"#,
        ),
        ("resolved", json!({"action": "decline"}), r#"decline"}"#),
        ("cancelled", Value::Null, r#"cancel"}"#),
    ]
    .into_iter()
    .enumerate()
    {
        // The ids of messages are their texts.
        let order = format!("/sim tool=s__ask args={{\"nth\":{nth}}}");
        let asked = test.ag_ui(&goal, Some(&order), json!([])).await;
        let end = of_type(&asked, "RUN_FINISHED");
        assert_eq!(end["outcome"]["type"], "interrupt", "{end}");
        let interrupt = &end["outcome"]["interrupts"][0];
        assert_eq!(interrupt["reason"], "input_required");
        let start = of_type(&asked, "TOOL_CALL_START");
        assert_eq!(
            interrupt["toolCallId"], start["toolCallId"],
            "a client shows the question at the call that asks"
        );
        assert_eq!(
            interrupt["responseSchema"]["oneOf"][0]["properties"]["content"]["required"],
            json!(["name"])
        );
        let mut entry = json!({"interruptId": interrupt["id"], "status": status});
        if !payload.is_null() {
            entry["payload"] = payload;
        }
        let gone = test.ag_ui(&goal, None, json!([entry])).await;
        assert_eq!(of_type(&gone, "RUN_FINISHED")["outcome"]["type"], "success", "{gone:?}");
        let result = of_type(&gone, "TOOL_CALL_RESULT");
        assert_eq!(result["toolCallId"], start["toolCallId"]);
        assert!(result["content"].as_str().unwrap().contains(back), "{result}");
    }
}
