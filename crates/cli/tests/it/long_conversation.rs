//! Compression of long conversations: what the model is sent when a conversation exceeds the token budget or the
//! model's context, and when a worker dies meanwhile. Users always see the whole thread.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use houston_testkit::model_server::{Call, Gate, ModelServer, Reply, without_system_context};
use serde_json::{Value, json};

use crate::test_houston::{PATIENCE, TestHouston};
use crate::traces_of_runs::sent_in_the_last_run;

/// The beginning of the system prompt for summaries.
const SUMMARISES: &str = "You summarise";
const MARK: &str = "<earlier_conversation mark=";

fn summarises(call: &Call) -> bool {
    call.system().contains(SUMMARISES)
}

/// The reply with an estimate of the tokens that a provider would count.
fn with_usage(call: &Call, reply: Reply) -> Reply {
    reply.usage(u64::try_from(call.body.len() / 4).unwrap(), 60)
}

/// Creates a note about the message, then answers.
fn agent(call: &Call) -> Reply {
    let said = call.last_user_text();
    let last = call.json()["messages"].as_array().and_then(|messages| messages.last().cloned());
    if last.is_some_and(|last| last["role"] == "tool") {
        return Reply::tool("send_message", json!({"content": format!("Noted: {said}")}));
    }
    Reply::tool("create_note", json!({"title": "Note", "content": "It was said. ".repeat(20)}))
}

/// The user's nth message.
fn message(nth: usize) -> String {
    format!("Message {nth}: {}", "we sail around the island and look for whales. ".repeat(5))
}

/// The environment of a worker with this model and a small token budget.
fn variables(url: &str, history: &'static str) -> Vec<(&'static str, String)> {
    let named = [
        ("HOUSTON_MODEL", "openai/scripted"),
        ("OPENAI_API_KEY", "sk-test"),
        ("HOUSTON_ORCHESTRATOR__RETRY__IMMEDIATE__ATTEMPTS", "0"),
        ("HOUSTON_ORCHESTRATOR__CONTEXT__BUDGET_TOKENS__TOTAL", "60000"),
        ("HOUSTON_ORCHESTRATOR__CONTEXT__BUDGET_TOKENS__HISTORY", history),
        ("HOUSTON_ORCHESTRATOR__CONTEXT__BUDGET_TOKENS__TOOL_RESULTS", history),
        ("HOUSTON_ORCHESTRATOR__CONTEXT__COMPRESSION__SUMMARY_TOKENS", "100"),
    ];
    let named = named.into_iter().map(|(name, value)| (name, value.to_owned()));
    named.chain([("OPENAI_BASE_URL", url.to_owned())]).collect()
}

fn worker(houston: &TestHouston, url: &str, history: &'static str) -> houston_testkit::process::Process {
    let variables = variables(url, history);
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    houston.worker_with(&variables)
}

/// The messages of each request except those for summaries, without system prompt and system context.
fn sent_messages(model: &ModelServer) -> Vec<Vec<Value>> {
    let bodies = model.journal().exchanges().into_iter().map(|exchange| exchange.body);
    let requests = bodies.map(|body| serde_json::from_slice::<Value>(&body).unwrap());
    let agents = requests.filter(|request| !request.to_string().contains(SUMMARISES));
    let messages = agents.map(|request| request["messages"].as_array().unwrap().clone());
    let talk = |messages: Vec<Value>| {
        let mut messages: Vec<Value> =
            messages.into_iter().filter(|message| message["role"] != "system").collect();
        let last = &mut messages.last_mut().unwrap()["content"];
        let content = last.as_str().unwrap().to_owned();
        assert_ne!(without_system_context(&content), content, "each request ends with the system context");
        *last = without_system_context(&content).into();
        messages
    };
    messages.map(talk).collect()
}

/// Checks a request as OpenAI does: a message with calls is followed by the results of all of them and nothing else.
fn assert_accepted(messages: &[Value]) {
    assert_eq!(messages[0]["role"], "user", "{messages:?}");
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap();
            assert!(open.contains(&id), "a result for no open call: {message}");
            open.retain(|open| *open != id);
            continue;
        }
        assert!(open.is_empty(), "{open:?} have no result before {message}");
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        open = calls.map(|call| call["id"].as_str().unwrap()).collect();
    }
    assert!(open.is_empty());
}

async fn compressions(houston: &TestHouston, goal: &str) -> Vec<Value> {
    let page = houston.get(&format!("/v1/goals/{goal}/compressions")).await;
    page["data"].as_array().unwrap_or_else(|| panic!("{page}")).clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn conversation_over_budget_is_compressed_and_stays_valid() {
    const TURNS: usize = 30;
    let houston = TestHouston::start();
    let summaries = AtomicUsize::new(0);
    let model = ModelServer::start(move |call: &Call| {
        if summarises(call) {
            let nth = summaries.fetch_add(1, Ordering::Relaxed) + 1;
            return Reply::text(format!("SUMMARY {nth}: they sail around the island.")).usage(900, 20);
        }
        with_usage(call, agent(call))
    })
    .await
    .unwrap();
    let goal = houston.goal("whales").await;
    let _worker = worker(&houston, &model.url(), "3600");
    for nth in 0..TURNS {
        let posted = houston.post(&goal, &nth.to_string(), &message(nth)).await;
        assert_eq!(houston.wait_until_answered(&posted).await["status"], "answered", "message {nth}");
    }

    let mut made = compressions(&houston, &goal).await;
    made.reverse();
    assert!(made.len() >= 2, "{made:?}");
    for (nth, one) in made.iter().enumerate() {
        assert_eq!(one["reason"], "budget");
        assert_eq!(one["model"], "openai/scripted");
        assert!(one["summary"].as_str().unwrap().contains(&format!("SUMMARY {}", nth + 1)), "{one}");
        let number = |key: &str| one[key].as_u64().unwrap();
        assert!(number("tokens_after") < number("tokens_before"), "{one}");
        assert!(number("entries_after") < number("entries_before"), "{one}");
    }

    judge_requests(&sent_messages(&model), made.len());
    let asked: Vec<String> = model
        .journal()
        .exchanges()
        .iter()
        .map(|exchange| String::from_utf8_lossy(&exchange.body).into_owned())
        .filter(|body| body.contains(SUMMARISES))
        .collect();
    assert_eq!(asked.len(), made.len());
    assert!(asked[1].contains("SUMMARY 1"), "the second summarises the first, too");
    assert!(!asked[1].contains("Message 0:"), "and not the messages that the summary replaces");

    read_by_people(&houston, &goal, TURNS).await;
    check_events_and_cost(&houston, &goal, &made).await;
    let sent = sent_in_the_last_run(&houston, &goal).await;
    assert!(sent[0].contains(&format!("SUMMARY {}", made.len())), "{sent:?}");
}

/// Checks that requests keep their size, are accepted, and change their beginning only at a compression.
fn judge_requests(requests: &[Vec<Value>], compressions: usize) {
    let size = |request: &Vec<Value>| request.iter().map(|message| message.to_string().len()).sum::<usize>();
    let (first, second) = requests.split_at(requests.len() / 2);
    let longest = |requests: &[Vec<Value>]| requests.iter().map(size).max().unwrap();
    assert!(longest(second) * 4 < longest(first) * 5, "{} then {}", longest(first), longest(second));
    let mut folds = 0;
    for (before, after) in requests.iter().zip(&requests[1..]) {
        assert_accepted(after);
        if after.starts_with(before) {
            continue;
        }
        folds += 1;
        assert!(
            after[0].to_string().contains(MARK) && after[0].to_string().contains(&format!("SUMMARY {folds}"))
        );
        // The entries after the summary are the end of the previous request, unchanged, and the new message.
        let shared = after[1..].iter().take_while(|message| before.contains(message)).count();
        assert!(shared >= after.len() - 3, "{before:?}\n{after:?}");
        // The first entry is joined with the summary, since both have the role user.
        let says = |message: &&Value| message["role"] == "user" && message.to_string().contains("Message ");
        assert_eq!(after.iter().filter(says).count(), 4, "{after:?}");
    }
    assert_eq!(folds, compressions, "between two compressions, each request begins with the one before it");
}

/// Checks that the thread is complete and contains no text of Houston's.
async fn read_by_people(houston: &TestHouston, goal: &str, turns: usize) {
    let mut entries = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = houston.get(&format!("/v1/goals/{goal}/history?limit=100{cursor}")).await;
        entries.extend(page["data"].as_array().unwrap().iter().cloned());
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    // Message, call, result, answer, result.
    assert_eq!(entries.len(), 5 * turns, "people read all of it");
    assert!(!entries.iter().any(|entry| entry.to_string().contains(MARK)));
    assert_eq!(houston.agent_texts(goal).await.len(), turns);
}

/// Checks that the stream has an event for each compression, and that its cost is counted in the run.
async fn check_events_and_cost(houston: &TestHouston, goal: &str, made: &[Value]) {
    let events = Mutex::new(Vec::new());
    houston
        .watch_with(&format!("/v1/goals/{goal}/events?after=0"), |event| {
            if event["name"] == "houston.context.compressed" {
                events.lock().unwrap().push(event["value"].clone());
            }
        })
        .await;
    let events = events.into_inner().unwrap();
    assert_eq!(events.len(), made.len(), "{events:?}");
    for (event, made) in events.iter().zip(made) {
        for key in ["reason", "entries_before", "entries_after", "tokens_before", "tokens_after", "model"] {
            assert_eq!(event[key], made[key], "{key}");
        }
    }
    let run = made[0]["run_id"].as_str().unwrap();
    let calls = houston.get(&format!("/v1/runs/{run}/model_calls")).await;
    let summaries =
        calls["data"].as_array().unwrap().iter().filter(|call| call["usage"]["input_tokens"] == 900);
    assert_eq!(summaries.count(), 1, "{calls}");
}

#[tokio::test(flavor = "multi_thread")]
async fn compression_survives_the_crash_of_its_worker() {
    let houston = TestHouston::start();
    let gate = Gate::new();
    let held = gate.clone();
    let model = ModelServer::start(move |call: &Call| {
        if summarises(call) {
            return Reply::text("SUMMARY: they sail around the island.");
        }
        let reply = with_usage(call, agent(call));
        let is_short = call.user_texts().iter().any(|text| text.contains(MARK));
        if is_short { reply.held_by(&held) } else { reply }
    })
    .await
    .unwrap();
    let goal = houston.goal("crash").await;
    let mut first = worker(&houston, &model.url(), "1600");
    let is_short = |body: &[u8]| {
        let body = String::from_utf8_lossy(body);
        body.contains(MARK) && !body.contains(SUMMARISES)
    };
    let mut last = Value::Null;
    let mut nth = 0;
    while !model.journal().exchanges().iter().any(|exchange| is_short(&exchange.body)) {
        assert!(nth < 20, "never compressed");
        last = houston.post(&goal, &nth.to_string(), &message(nth)).await;
        let path = format!("/v1/messages/{}", last["id"].as_str().unwrap());
        let held = || model.journal().exchanges().iter().any(|exchange| is_short(&exchange.body));
        houston
            .wait_until(&path, "answered, or held", |message| message["status"] == "answered" || held())
            .await;
        nth += 1;
    }
    first.kill().unwrap();
    let _second = worker(&houston, &model.url(), "1600");
    gate.open();
    assert_eq!(houston.wait_until_answered(&last).await["status"], "answered");
    let made = compressions(&houston, &goal).await;
    assert_eq!(made.len(), 1, "{made:?}");
    let requests = sent_messages(&model);
    let short: Vec<&Vec<Value>> =
        requests.iter().filter(|messages| messages[0].to_string().contains(MARK)).collect();
    assert!(short.len() >= 2, "asked before the crash and after it");
    assert_eq!(short[0], short[1], "the next run reads the same, byte for byte");
    short.into_iter().for_each(|messages| assert_accepted(messages));
    let asked = model.journal().exchanges();
    let asked = asked.iter().filter(|exchange| String::from_utf8_lossy(&exchange.body).contains(SUMMARISES));
    assert_eq!(asked.count(), 1, "no second summary is made");
    assert_eq!(houston.get(&format!("/v1/runs/{}", last["run_id"].as_str().unwrap())).await["attempt"], 2);
    assert_eq!(houston.agent_texts(&goal).await.len(), nth);
}

fn too_long() -> Reply {
    let message =
        "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens.";
    let error = json!({"error": {"message": message, "type": "invalid_request_error", "param": "messages",
                                 "code": "context_length_exceeded"}});
    Reply::status(400).body(error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn context_overflow_is_compressed_and_retried_once() {
    let houston = TestHouston::start();
    // Houston's token budget is larger than the model's context.
    let model = ModelServer::start(|call: &Call| {
        let texts = call.user_texts().concat();
        if summarises(call) {
            Reply::text("SUMMARY: they sail.")
        } else if texts.contains("whatever you send") || texts.matches("Message").count() > 6 {
            too_long()
        } else {
            with_usage(call, agent(call))
        }
    })
    .await
    .unwrap();
    let goal = houston.goal("too long").await;
    let _worker = worker(&houston, &model.url(), "50000");
    for nth in 0..7 {
        let posted = houston.post(&goal, &nth.to_string(), &message(nth)).await;
        assert_eq!(houston.wait_until_answered(&posted).await["status"], "answered", "message {nth}");
    }
    let made = compressions(&houston, &goal).await;
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!(made[0]["reason"], "context_length");
    // Two calls for each of six messages, one that is refused, one summary, and two calls for the seventh message.
    assert_eq!(model.journal().calls(), 12 + 2 + 2);
    sent_messages(&model).iter().for_each(|messages| assert_accepted(messages));

    let calls = model.journal().calls();
    let refused = houston.post(&goal, "refused", "whatever you send").await;
    assert_eq!(houston.wait_until_answered(&refused).await["status"], "failed");
    assert_eq!(model.journal().calls() - calls, 3, "refused, summarised, refused: once is enough");
    let run = houston.get(&format!("/v1/runs/{}", refused["run_id"].as_str().unwrap())).await;
    assert_eq!(run["error"]["code"], "CONTEXT_LENGTH_EXCEEDED", "{run}");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_compression_falls_back_to_an_extract() {
    let houston = TestHouston::start();
    let model =
        ModelServer::start(
            |call: &Call| {
                if summarises(call) { Reply::status(500) } else { with_usage(call, agent(call)) }
            },
        )
        .await
        .unwrap();
    let goal = houston.goal("extract").await;
    let _worker = worker(&houston, &model.url(), "1600");
    for nth in 0..10 {
        let posted = houston.post(&goal, &nth.to_string(), &message(nth)).await;
        assert_eq!(houston.wait_until_answered(&posted).await["status"], "answered", "message {nth}");
    }
    let made = compressions(&houston, &goal).await;
    assert!(!made.is_empty());
    for one in made {
        assert_eq!((&one["model"], &one["cost"]), (&Value::Null, &Value::Null));
        assert!(one["summary"].as_str().unwrap().contains("The user said:\n- Message"), "{one}");
    }
    sent_messages(&model).iter().for_each(|messages| assert_accepted(messages));
    let waited = model.journal().wait_until(PATIENCE, |journal| journal.open() == 0).await;
    assert!(waited, "no call is left open");
}

#[tokio::test(flavor = "multi_thread")]
async fn long_run_is_compressed_between_steps_and_keeps_its_task() {
    let houston = TestHouston::start();
    let model = ModelServer::start(|call: &Call| {
        if summarises(call) {
            return Reply::text("SUMMARY: notes were written.");
        }
        // A long run: each turn calls another tool, so that the same-tool limit does not apply.
        let rounds = call.json()["messages"].as_array().unwrap().iter();
        let rounds = rounds.filter(|message| message["role"] == "assistant").count();
        let texts = call.user_texts().concat();
        let reply = match rounds {
            _ if texts.contains("SUMMARY") && rounds >= 4 => {
                Reply::tool("send_message", json!({"content": "Done."}))
            }
            even if even % 2 == 0 => {
                Reply::tool("create_note", json!({"title": "Note", "content": "It was said. ".repeat(60)}))
            }
            _ => Reply::tool(
                "manage_learning",
                json!({"action": "add", "content": "likes whales ".repeat(30)}),
            ),
        };
        with_usage(call, reply)
    })
    .await
    .unwrap();
    let goal = houston.goal("one run").await;
    let _worker = worker(&houston, &model.url(), "1200");
    let posted = houston.post(&goal, "1", "Write down all you know of whales, please").await;
    assert_eq!(houston.wait_until_answered(&posted).await["status"], "answered");
    let made = compressions(&houston, &goal).await;
    assert!(!made.is_empty());
    let requests = sent_messages(&model);
    requests.iter().for_each(|messages| assert_accepted(messages));
    for short in requests.iter().filter(|messages| messages[0].to_string().contains(MARK)) {
        let summary = short[0].to_string();
        assert!(summary.contains("word for word:\\nWrite down all you know of whales, please"), "{summary}");
        assert_eq!(short[1]["role"], "assistant");
    }
    let history = houston.get(&format!("/v1/goals/{goal}/history?limit=100")).await;
    assert!(history["data"].as_array().unwrap().len() > 10);
}
