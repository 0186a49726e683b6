//! One message as a trace, from the request to the tool call: what a collector of OpenTelemetry receives.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use houston_testkit::model_server::{Call, ModelServer, Reply};
use houston_testkit::process::Process;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::otlp::{self, Any, Span};
use crate::tasks::is_task;
use crate::test_houston::{PATIENCE, TestHouston, environment, houston_command};

/// Where a client says that its request belongs.
const CLIENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// As [`CLIENT`], of a trace that is not sampled.
const UNSAMPLED: &str = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// A collector that keeps the spans it receives over OTLP/HTTP.
struct Collector {
    address: SocketAddr,
    spans: Arc<Mutex<Vec<Span>>>,
}

impl Collector {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, spans) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<Span>>>::default());
        let kept = Arc::clone(&spans);
        tokio_util::task::TaskTracker::new().spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                tokio_util::task::TaskTracker::new().spawn(async move {
                    let _ = receive(socket, &kept).await;
                });
            }
        });
        Self { address, spans }
    }

    /// The variables of processes that export to it.
    fn variables(&self) -> [(&'static str, String); 2] {
        [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", self.address)),
            ("OTEL_BSP_SCHEDULE_DELAY", "100".to_owned()),
        ]
    }

    /// Waits until there are spans with all of these names; returns all.
    async fn wait_for(&self, names: &[&str]) -> Vec<Span> {
        self.wait_until(|spans| names.iter().all(|name| spans.iter().any(|span| span.name == *name))).await
    }

    /// Waits until these are there; returns all.
    async fn wait_until(&self, are_there: impl Fn(&[Span]) -> bool) -> Vec<Span> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let spans = self.spans.lock().unwrap().clone();
            if are_there(&spans) {
                return spans;
            }
            let there: Vec<&String> = spans.iter().map(|span| &span.name).collect();
            assert!(Instant::now() < deadline, "there are only {there:?}");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

/// Answers the requests of one connection.
async fn receive(socket: TcpStream, kept: &Mutex<Vec<Span>>) -> std::io::Result<()> {
    let mut socket = BufReader::new(socket);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        if socket.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        assert!(line.starts_with("POST /v1/traces "), "{line}");
        while line != "\r\n" {
            line.clear();
            socket.read_line(&mut line).await?;
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        socket.read_exact(&mut body).await?;
        let request = otlp::decode(&body).unwrap();
        for of_resource in request.resource_spans {
            for of_scope in of_resource.scope_spans {
                assert_eq!(of_scope.schema_url, "https://opentelemetry.io/schemas/1.41.0");
                kept.lock().unwrap().extend(of_scope.spans);
            }
        }
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await?;
    }
}

/// Creates a note on the message `note`, and a task on `delegate`.
fn script(call: &Call) -> Reply {
    let says = |text: &str| Reply::tool("send_message", json!({"content": text}));
    if is_task(call) {
        return Reply::text("It is sunny.");
    }
    match call.last_user_text().as_str() {
        "note" | "delegate" if call.has_tool_results() => says("Done."),
        "delegate" => Reply::tool("create_task", json!({"title": "Look", "instructions": "Look outside."})),
        "note" => Reply::tool("create_note", json!({"title": "Milk", "content": "buy it"})),
        // The executor of a plan's step.
        said if said.contains("Look outside.") => Reply::text("It is sunny."),
        said => says(said),
    }
}

/// An API and a worker that export to a collector.
struct Traced {
    houston: TestHouston,
    _worker: Process,
    _model: ModelServer,
    collector: Collector,
}

impl Traced {
    async fn start(more: &[(&str, &str)]) -> Self {
        let collector = Collector::start().await;
        let variables = collector.variables();
        let mut set: Vec<(&str, &str)> =
            variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        set.extend(more);
        let houston = TestHouston::start_with(&set);
        let model = ModelServer::start(script).await.unwrap();
        let url = model.url();
        set.extend([
            ("HOUSTON_MODEL", "anthropic/claude-haiku-4-5"),
            ("ANTHROPIC_BASE_URL", &url),
            ("ANTHROPIC_API_KEY", "sk-test"),
        ]);
        let mut worker =
            environment(houston_command(), &houston.servers.lock().unwrap(), houston.folder.path());
        let worker = Process::spawn(worker.arg("work").envs(set)).unwrap();
        worker.wait_for_line(PATIENCE, |line| line == "working").unwrap();
        Self { houston, _worker: worker, _model: model, collector }
    }

    /// Posts a message as a part of a trace.
    async fn post(&self, goal: &str, text: &str, traceparent: &str) {
        let url = self.houston.url(&format!("/v1/goals/{goal}/messages"));
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.post(url).bearer_auth(&self.houston.key).header("traceparent", traceparent);
        let request = request.header("Content-Type", "application/json");
        let answer = request.body(json!({"content": text}).to_string()).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 202);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The attributes of a span as text.
fn attributes(span: &Span) -> BTreeMap<String, String> {
    let text = |value: &Any| match value {
        Any::Text(text) => text.clone(),
        Any::Integer(number) => number.to_string(),
        Any::Bool(value) => value.to_string(),
        other => format!("{other:?}"),
    };
    let value = |one: &otlp::KeyValue| {
        one.value.as_ref().and_then(|value| value.value.as_ref()).map(text).unwrap_or_default()
    };
    span.attributes.iter().map(|one| (one.key.clone(), value(one))).collect()
}

/// Begins a plan, and waits until the run of its task is a part of the step that began it.
async fn wait_for_step_of_a_plan(traced: &Traced, goal: &str) {
    let steps = json!([{"id": "look", "type": "task", "instructions": "Look outside."}]);
    let document = json!({"v": 1, "goal": "Look", "steps": steps});
    let url = traced.houston.url(&format!("/v1/goals/{goal}/plans"));
    traced.houston.post_to(&url, &json!({"document": document})).await;
    let is_part = |span: &Span, of: &Span| {
        of.name == "plan_step" && span.name == "process background" && span.parent_span_id == of.span_id
    };
    let has_part = |spans: &[Span]| spans.iter().any(|of| spans.iter().any(|span| is_part(span, of)));
    traced.collector.wait_until(has_part).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_one_trace_from_request_to_tool() {
    let traced = Traced::start(&[]).await;
    let goal = traced.houston.goal("Tokyo").await;
    traced.post(&goal, "note", CLIENT).await;
    let path = [
        "POST /v1/{kinds}/{id}/messages",
        "send interactive",
        "process interactive",
        "invoke_agent goal",
        "iteration 1",
    ];
    let leaves = ["chat claude-haiku-4-5", "execute_tool create_note", "iteration 2"];
    let spans = traced.collector.wait_for(&[&path[..], &leaves[..]].concat()).await;
    let (trace, client) = (CLIENT.split('-').nth(1).unwrap(), CLIENT.split('-').nth(2).unwrap());
    let of_trace: Vec<&Span> = spans.iter().filter(|span| hex(&span.trace_id) == trace).collect();
    let child = |name: &str, parent: &str| {
        let found = of_trace.iter().find(|span| span.name == name && hex(&span.parent_span_id) == parent);
        found.copied().unwrap_or_else(|| panic!("`{name}` has another parent: {of_trace:#?}"))
    };
    let mut parent = client.to_owned();
    for name in path {
        parent = hex(&child(name, &parent).span_id);
    }
    let chat = attributes(child("chat claude-haiku-4-5", &parent));
    for (key, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "anthropic"),
        ("gen_ai.request.model", "claude-haiku-4-5"),
        ("gen_ai.request.stream", "true"),
    ] {
        assert_eq!(chat.get(key).map(String::as_str), Some(value), "{chat:#?}");
    }
    assert!(chat["gen_ai.usage.input_tokens"].parse::<u64>().unwrap() > 0, "{chat:#?}");
    assert!(chat.contains_key("gen_ai.response.time_to_first_chunk"), "{chat:#?}");
    let tool = attributes(child("execute_tool create_note", &parent));
    assert_eq!(tool["gen_ai.tool.name"], "create_note");
    // Unless the operator asks for it, there is no text in any span.
    for span in &spans {
        for (key, value) in attributes(span) {
            let is_content = key.contains("messages") || key.contains("arguments") || key.contains("result");
            assert!(!is_content && !value.contains("Milk"), "{}: {key} = {value}", span.name);
        }
    }
    // The run of a task is a part of the call that began it.
    let other = traced.houston.goal("Lima").await;
    traced.post(&other, "delegate", CLIENT).await;
    let spans = traced.collector.wait_for(&["execute_tool create_task", "process background"]).await;
    let named = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let (call, of_task) = (named("execute_tool create_task"), named("process background"));
    assert_eq!((hex(&of_task.trace_id), &of_task.parent_span_id), (trace.to_owned(), &call.span_id));
    wait_for_step_of_a_plan(&traced, &other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_have_contents_if_the_operator_asks() {
    let traced = Traced::start(&[("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")]).await;
    let goal = traced.houston.goal("Tokyo").await;
    traced.post(&traced.houston.goal("Lima").await, "hello", UNSAMPLED).await;
    traced.post(&goal, "note", CLIENT).await;
    let spans = traced.collector.wait_for(&["execute_tool create_note", "invoke_agent goal"]).await;
    let named = |name: &str| attributes(spans.iter().find(|span| span.name == name).unwrap());
    let tool = named("execute_tool create_note");
    assert!(tool["gen_ai.tool.call.arguments"].contains("Milk"), "{tool:#?}");
    assert!(tool["gen_ai.tool.call.result"].contains("Created"), "{tool:#?}");
    let chat = named("chat claude-haiku-4-5");
    assert!(chat["gen_ai.input.messages"].contains("note"), "{chat:#?}");
    assert!(chat["gen_ai.system_instructions"].contains("<role>"), "{chat:#?}");
    let messages = &chat["gen_ai.output.messages"];
    assert!(messages.contains("create_note"), "{messages}");
    assert!(messages.contains(r#""finish_reason":"tool_call""#), "{messages}");
    assert_eq!(named("invoke_agent goal")["gen_ai.provider.name"], "anthropic");
    let trace = UNSAMPLED.split('-').nth(1).unwrap();
    assert!(spans.iter().all(|span| hex(&span.trace_id) != trace), "the client does not sample its trace");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_keeps_the_trace_of_its_client_without_spans() {
    let houston = TestHouston::start();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let send = async |path: &str, traceparent: &str, body: Value| {
        let request = client.post(houston.url(path)).bearer_auth(&houston.key);
        let request = request.header("traceparent", traceparent).header("Content-Type", "application/json");
        let answer = request.body(body.to_string()).send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {answer:?}");
        serde_json::from_slice::<Value>(&answer.bytes().await.unwrap()).unwrap()
    };
    let stored = |goal: &str| {
        let id = goal.trim_start_matches("goal_");
        let sql = format!("select traceparent from houston.runs where agentable_id = '{id}'");
        houston.sql_of(goal, &sql).trim().to_owned()
    };
    for (name, sent, expected) in [("Tokyo", CLIENT, CLIENT), ("Lima", "00-abc-def-01", "")] {
        let goal = houston.goal(name).await;
        send(&format!("/v1/goals/{goal}/messages"), sent, json!({"content": "hello"})).await;
        assert_eq!(stored(&goal), expected, "{name}");
    }
    let body = json!({"user": {"external_id": "kim", "name": "Kim"}, "title": "Oslo", "message": {"content": "hello"}});
    let made = send("/v1/goals", CLIENT, body).await;
    assert_eq!(stored(made["id"].as_str().unwrap()), CLIENT, "created with its first message");
}
