//! Large results of tools: the model gets the beginning and reads further pages; each is stored once, despite crashes.

use std::sync::Mutex;

use houston_testkit::model_server::{Call, Gate, ModelServer, Reply};
use serde_json::{Value, json};

use crate::test_houston::{PATIENCE, TestHouston};

/// The id in a shortened result.
fn result_id(text: &str) -> Option<String> {
    let at = text.find("result_")?;
    Some(text[at..].chars().take("result_".len() + 32).collect())
}

/// Calls `ring_bell` with 5,000 strokes, searches the result for one stroke, reads its end, and answers.
fn model_script(call: &Call) -> Reply {
    let results = call.tool_results();
    let Some(last) = results.last() else { return Reply::tool("ring_bell", json!({"strokes": 5000})) };
    let Some(id) = result_id(&call.json().to_string()) else {
        return Reply::tool("send_message", json!({"content": "nothing was kept"}));
    };
    if last.content.contains("This is the beginning") {
        Reply::tool("read_result", json!({"result_id": id, "query": "STROKE 4321:"}))
    } else if last.content.contains("matches, shown") {
        Reply::tool("read_result", json!({"result_id": id, "line": 4999}))
    } else {
        Reply::tool("send_message", json!({"content": format!("It ends so: {}", last.content)}))
    }
}

fn worker(houston: &TestHouston, url: &str) -> houston_testkit::process::Process {
    houston.worker_with(&[
        ("HOUSTON_MODEL", "openai/scripted"),
        ("OPENAI_API_KEY", "sk-test"),
        ("OPENAI_BASE_URL", url),
        ("HOUSTON_ORCHESTRATOR__LEASE__TTL_S", "6"),
        ("HOUSTON_ORCHESTRATOR__LEASE__TRUST_S", "5"),
        ("HOUSTON_ORCHESTRATOR__LEASE__RENEW_S", "1"),
    ])
}

fn tools(body: &[u8]) -> Vec<String> {
    let request: Value = serde_json::from_slice(body).unwrap();
    let tools = request["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn large_result_is_stored_whole_and_read_in_pages() {
    let houston = TestHouston::start();
    let model = ModelServer::start(model_script).await.unwrap();
    let _worker = worker(&houston, &model.url());
    let goal = houston.goal("bell").await;
    let posted = houston.post(&goal, "1", "Ring the bell very often").await;
    let shown = Mutex::new(Vec::new());
    houston
        .watch_with(posted["events_url"].as_str().unwrap(), |event| {
            if event["type"] == "TOOL_CALL_RESULT" {
                shown.lock().unwrap().push(event["content"].as_str().unwrap().to_owned());
            }
        })
        .await;
    assert_eq!(houston.wait_until_answered(&posted).await["status"], "answered");

    let requests: Vec<_> = model.journal().exchanges().into_iter().map(|exchange| exchange.body).collect();
    assert_eq!(requests.len(), 4);
    assert!(!tools(&requests[0]).contains(&"read_result".to_owned()), "there is nothing to read on in yet");
    for request in &requests[1..] {
        assert!(
            tools(request).ends_with(&["read_result".to_owned()]),
            "at the end: what comes before is cached"
        );
        assert!(request.len() < 40_000, "{} bytes: the whole has 150,000", request.len());
    }
    let shown = shown.into_inner().unwrap();
    let [beginning, found, end] = &shown[..] else { panic!("{shown:?}") };
    assert!(beginning.starts_with("stroke 1: everybody heard it\nstroke 2:"), "{beginning}");
    assert!(beginning.len() < 3_000 && beginning.contains("bytes, shown are 2048"), "{beginning}");
    assert!(found.contains("stroke 4321: everybody") && found.contains("1 matches"), "{found}");
    assert!(found.len() < 1_000, "{found}");
    assert!(end.starts_with("stroke 4999: everybody heard it\nstroke 5000: everybody heard it"), "{end}");
    assert!(houston.agent_texts(&goal).await[0].contains("stroke 5000: everybody heard it"));

    assert_eq!(houston.rings(), 1);
    let stored = "select count(*), max(length(content)), max(tool) from houston.tool_results";
    let stored = houston.sql_of(&goal, stored);
    let whole: usize = (1..=5000).map(|stroke| format!("stroke {stroke}: everybody heard it\n").len()).sum();
    assert_eq!(stored, format!("1|{whole}|ring_bell"));

    // Another goal cannot read the result.
    let other = houston.goal("other").await;
    let posted = houston.post(&other, "2", "Ring the bell very often").await;
    assert_eq!(houston.wait_until_answered(&posted).await["status"], "answered");
    let first_of_other = &model.journal().exchanges()[4].body;
    assert!(!tools(first_of_other).contains(&"read_result".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_readable_only_by_their_agentable() {
    let houston = TestHouston::start();
    let theirs = Mutex::new(String::new());
    let id = std::sync::Arc::new(theirs);
    let shared_id = std::sync::Arc::clone(&id);
    let model = ModelServer::start(move |call: &Call| {
        let stolen = shared_id.lock().unwrap().clone();
        if call.has_tool_results()
            && !stolen.is_empty()
            && !call.json().to_string().contains("there is no result")
        {
            return Reply::tool("read_result", json!({"result_id": stolen}));
        }
        if call.has_tool_results() {
            let content = call.tool_results().last().unwrap().content.clone();
            return Reply::tool("send_message", json!({"content": content}));
        }
        Reply::tool("ring_bell", json!({"strokes": 5000}))
    })
    .await
    .unwrap();
    let _worker = worker(&houston, &model.url());
    let (first, second) = (houston.goal("first").await, houston.goal("second").await);
    let posted = houston.post(&first, "1", "ring").await;
    houston.wait_until_answered(&posted).await;
    *id.lock().unwrap() = result_id(&houston.agent_texts(&first).await[0]).unwrap();
    let posted = houston.post(&second, "2", "ring").await;
    assert_eq!(houston.wait_until_answered(&posted).await["status"], "answered");
    assert!(houston.agent_texts(&second).await[0].contains("there is no result_"));
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_after_a_large_result_stores_it_once() {
    let houston = TestHouston::start();
    let gate = Gate::new();
    let held = gate.clone();
    let model = ModelServer::start(move |call: &Call| {
        let reply = model_script(call);
        let has_read = call.tool_results().iter().any(|result| result.content.contains("the beginning"));
        if has_read { reply.held_by(&held) } else { reply }
    })
    .await
    .unwrap();
    let mut first = worker(&houston, &model.url());
    let goal = houston.goal("crash").await;
    let posted = houston.post(&goal, "1", "Ring the bell very often").await;
    assert!(model.journal().wait_until(PATIENCE, |journal| journal.calls() == 2).await);
    first.kill().unwrap();
    let _second = worker(&houston, &model.url());
    gate.open();
    assert_eq!(houston.wait_until_answered(&posted).await["status"], "answered");
    assert_eq!(houston.rings(), 1);
    assert_eq!(houston.sql("select count(*) from houston.tool_results"), "1");
    let asked = model.journal().exchanges();
    assert_eq!(asked[1].body, asked[2].body, "the next worker is shown the same");
    assert!(tools(&asked[2].body).contains(&"read_result".to_owned()), "and offered to read on");
    assert!(houston.agent_texts(&goal).await[0].contains("stroke 5000"));
}
