//! The state that an agentable shares with front ends.

use std::sync::Arc;

use houston_domain::agentable::AgentType;
use houston_domain::shared_state;
use serde_json::{Value, json};

use crate::http::{Frame, Stream, request};
use crate::test_api::{KEY, TestApi, bearer};
use crate::worker::Worker;

/// Goals have a shopping list.
pub(crate) fn with_list(kind: &mut AgentType) {
    if kind.kind == "goal" {
        let schema = json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {"items": {"type": "array", "items": {"type": "string"}}, "note": {"type": "string"}},
        });
        let declared = json!({"schema": schema, "initial": {"items": []}, "max_bytes": 500});
        kind.state = Some(Arc::new(serde_json::from_value(declared).unwrap()));
    }
}

fn input(id: &str, state: &Value) -> Value {
    let message = json!({"id": id, "role": "user", "content": id});
    json!({"threadId": "t", "runId": format!("run of {id}"), "messages": [message], "state": state})
}

async fn run(api: &TestApi, body: &Value) -> Stream {
    let key = bearer(KEY);
    let headers = [("authorization", key.as_str()), ("content-type", "application/json")];
    let stream =
        Stream::send(api.address, "POST", &api.path("/ag-ui"), &headers, &body.to_string()).await.unwrap();
    assert_eq!(stream.status, 200, "{body}");
    stream
}

async fn state(api: &TestApi) -> Value {
    api.get(&api.path("/shared-state")).await.ok()
}

async fn patch(api: &TestApi, patch: Value) -> Value {
    api.send("PATCH", &api.path("/shared-state"), patch).await.ok()
}

/// The state of a client that has these frames.
fn applied(frames: &[Frame]) -> Value {
    let mut state = Value::Null;
    for frame in frames {
        match frame.kind() {
            "STATE_SNAPSHOT" => state = frame.data["snapshot"].clone(),
            "STATE_DELTA" => shared_state::apply(&mut state, frame.data["delta"].as_array().unwrap()),
            _ => {}
        }
    }
    state
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_is_read_and_changed_by_merge_patches() {
    let api = TestApi::start_with_types(with_list).await;
    assert_eq!(state(&api).await, json!({"items": []}));
    assert_eq!(
        patch(&api, json!({"items": ["milk"], "note": "soon"})).await,
        json!({"items": ["milk"], "note": "soon"})
    );
    assert_eq!(patch(&api, json!({"note": null})).await, json!({"items": ["milk"]}));
    assert_eq!(state(&api).await, json!({"items": ["milk"]}));
    for (wrong, pointer) in [
        (json!({"items": [7]}), "/items/0"),
        (json!({"other": 1}), "/other"),
        (json!({"note": "x".repeat(600)}), ""),
        (json!({"note": "\0"}), ""),
    ] {
        let problem =
            api.send("PATCH", &api.path("/shared-state"), wrong).await.refused(422, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    assert_eq!(state(&api).await, json!({"items": ["milk"]}));
    let agent = api.get(&format!("/v1/users/{}", api.user)).await.ok()["user_agent_id"].clone();
    let of_agent = format!("/v1/user_agents/{}/shared-state", agent.as_str().unwrap());
    api.get(&of_agent).await.refused(404, "not_found");
    api.send("PATCH", &of_agent, json!({})).await.refused(404, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_have_the_state_at_their_start_and_its_changes() {
    let api = TestApi::start_with_types(with_list).await;
    patch(&api, json!({"items": ["milk"]})).await;
    let worker = Worker::start(&api).await;
    let mut stream = run(&api, &input("a", &json!({}))).await;
    let mut frames = stream.until("STATE_SNAPSHOT").await;
    assert_eq!(frames.iter().map(Frame::kind).collect::<Vec<_>>(), ["RUN_STARTED", "STATE_SNAPSHOT"]);
    assert_eq!(frames[1].data["snapshot"], json!({"items": ["milk"]}));
    patch(&api, json!({"items": ["milk", "bread"]})).await;
    frames.extend(stream.until("STATE_DELTA").await);
    let claimed = worker.claim().await;
    patch(&api, json!({"note": "today"})).await;
    claimed.answer("done").await;
    frames.extend(stream.rest().await.0);
    assert_eq!(applied(&frames), state(&api).await);

    // A client that has a beginning gets the rest; one that has nothing gets the state as it was then.
    let at_delta = frames.iter().position(|frame| frame.kind() == "STATE_DELTA").unwrap();
    for cut in [1, 2, at_delta, at_delta + 1] {
        let (rest, _) = api.stream("", Some(&frames[cut - 1].id)).await.rest().await;
        let ids = |frames: &[Frame]| frames.iter().map(|frame| frame.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&rest), ids(&frames[cut..]));
        let of_rest: Vec<Value> = rest.into_iter().map(|frame| frame.data).collect();
        let expected: Vec<Value> = frames[cut..].iter().map(|frame| frame.data.clone()).collect();
        assert_eq!(of_rest, expected);
    }

    // Between two runs.
    patch(&api, json!({"items": []})).await;
    let (later, _) = api.stream("", Some(&frames.last().unwrap().id)).await.rest().await;
    let kinds: Vec<&str> = later.iter().map(Frame::kind).collect();
    assert_eq!(kinds, ["RUN_STARTED", "STATE_SNAPSHOT", "STATE_DELTA", "RUN_FINISHED"]);
    assert_eq!(applied(&later), state(&api).await);
    let topics = api.sql("select count(*) from houston.events where data ->> 'type' = 'state_changed'");
    assert_eq!(topics.trim(), "3", "none before the first run");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clients_state_is_that_before_its_run_once() {
    let api = TestApi::start_with_types(with_list).await;
    let first = input("a", &json!({"items": ["milk"]}));
    let mut stream = run(&api, &first).await;
    assert_eq!(stream.until("STATE_SNAPSHOT").await[1].data["snapshot"], json!({"items": ["milk"]}));
    let worker = Worker::start(&api).await;
    worker.claim().await.answer("done").await;
    // What clients send that have none changes nothing.
    for (id, none) in [("b", json!({})), ("c", Value::Null)] {
        drop(run(&api, &input(id, &none)).await);
    }
    patch(&api, json!({"items": ["milk", "bread"]})).await;
    // The same request again: the message was posted, and the state was set.
    drop(run(&api, &first).await);
    assert_eq!(state(&api).await, json!({"items": ["milk", "bread"]}));
    drop(run(&api, &input("d", &json!({"items": []}))).await);
    assert_eq!(state(&api).await, json!({"items": []}));
    let key = bearer(KEY);
    let headers = [("authorization", key.as_str()), ("content-type", "application/json")];
    for (wrong, pointer) in [(json!({"items": [7]}), "/state/items/0"), (json!("text"), "/state")] {
        let body = input("e", &wrong).to_string();
        let refused = request(api.address, "POST", &api.path("/ag-ui"), &headers, &body).await;
        assert_eq!(refused.refused(422, "invalid_request")["errors"][0]["pointer"], pointer);
    }
    assert_eq!(state(&api).await, json!({"items": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_without_a_state_ignore_that_of_clients() {
    let api = TestApi::start().await;
    let mut stream = run(&api, &input("a", &json!({"anything": [1]}))).await;
    let worker = Worker::start(&api).await;
    worker.claim().await.answer("done").await;
    let (frames, _) = stream.rest().await;
    assert!(frames.iter().all(|frame| !frame.kind().starts_with("STATE")));
    assert_eq!(api.sql("select count(*) from houston.shared_states").trim(), "0");
}
