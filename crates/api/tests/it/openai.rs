//! OpenAI's Responses, Conversations and Chat Completions over HTTP. The tests act as the worker.

use houston_domain::event::Part;
use houston_domain::id::{AgentableId, parse_prefixed};
use houston_domain::run::RunStatus;
use serde_json::{Value, json};

use crate::failure::waiting;
use crate::http::{Answer, PATIENCE, request};
use crate::questions::approval;
use crate::test_api::{KEY, TestApi, bearer};
use crate::worker::Worker;

pub(crate) const BASE: &str = "/compat/openai/v1";

/// The events of a stream. A comment line is none.
fn events(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("content-type"), "text/event-stream");
    let text = answer.text();
    let frames =
        text.split("\n\n").map(|frame| frame.trim_start_matches(":\n")).filter(|frame| !frame.is_empty());
    let event = |frame: &str| {
        let (name, data) = frame.split_once("\ndata: ").unwrap_or_else(|| panic!("{frame}"));
        let event: Value = serde_json::from_str(data).unwrap();
        assert_eq!(name.strip_prefix("event: "), event["type"].as_str(), "{frame}");
        event
    };
    frames.map(event).collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

fn numbers(events: &[Value]) -> Vec<u64> {
    events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect()
}

fn text(response: &Value) -> String {
    let messages = response["output"].as_array().unwrap().iter().filter(|item| item["type"] == "message");
    messages.map(|item| item["content"][0]["text"].as_str().unwrap()).collect()
}

pub(crate) async fn post(api: &TestApi, path: &str, body: Value) -> Answer {
    api.post(&format!("{BASE}{path}"), body).await
}

pub(crate) async fn get(api: &TestApi, path: &str) -> Answer {
    api.get(&format!("{BASE}{path}")).await
}

/// An error in OpenAI's shape.
pub(crate) fn refused(answer: &Answer, status: u16, code: &str) -> Value {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(answer.header("content-type"), "application/json");
    assert!(!answer.header("x-request-id").is_empty());
    let error = answer.json()["error"].clone();
    assert_eq!(error["code"], code, "{error}");
    for field in ["message", "type"] {
        assert!(error[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {error}");
    }
    error
}

pub(crate) fn conversation(api: &TestApi) -> String {
    format!("conv_{}", api.goal)
}

/// The body of a request to the goal.
pub(crate) fn ask(api: &TestApi, more: Value) -> Value {
    let mut body = json!({"model": "goal", "input": "hello", "conversation": conversation(api)});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// Waits until a run is open.
async fn until_posted(api: &TestApi, messages: usize) {
    let posted = async {
        while api.get(&api.path("/messages")).await.ok()["data"].as_array().unwrap().len() < messages {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, posted).await.expect("nothing was posted");
}

#[tokio::test]
async fn response_is_streamed_and_resumed_at_every_event() {
    let api = TestApi::start().await;
    let worker = Worker::start(&api).await;
    let work = async {
        until_posted(&api, 1).await;
        let mut run = worker.claim().await;
        run.use_tool("hm").await;
        run.write(Part::Reasoning, 0, 0, "Let me see.");
        run.write(Part::Message, 11, 0, "Grüß");
        run.answer("Grüße!").await;
    };
    let body = ask(&api, json!({"stream": true, "metadata": {"a": "b"}}));
    let (answer, ()) = tokio::join!(post(&api, "/responses", body), work);
    let all = events(&answer);
    assert_eq!(kinds(&all)[..3], ["response.created", "response.queued", "response.in_progress"]);
    assert_eq!(*kinds(&all).last().unwrap(), "response.completed");
    assert!(numbers(&all).is_sorted_by(|a, b| a < b), "{:?}", numbers(&all));
    let done = &all.last().unwrap()["response"];
    assert_eq!((text(done).as_str(), &done["status"]), ("Grüße!", &json!("completed")));
    assert_eq!((&done["metadata"], &done["model"]), (&json!({"a": "b"}), &json!("goal")));
    assert_eq!(done["conversation"]["id"], conversation(&api));
    assert_eq!(done["usage"]["total_tokens"], 15);
    let call = done["output"].as_array().unwrap().iter().find(|item| item["type"] == "mcp_call").unwrap();
    assert_eq!((&call["name"], &call["output"]), (&json!("create_note"), &json!("Created note")));
    let id = done["id"].as_str().unwrap();
    let read = get(&api, &format!("/responses/{id}")).await.ok();
    assert_eq!((&read["id"], &read["status"], text(&read)), (&done["id"], &done["status"], text(done)));
    let items = get(&api, &format!("/responses/{id}/input_items")).await.ok();
    assert_eq!(items["data"][0]["content"][0]["text"], "hello");

    // The whole stream once more, which has fewer pieces, and what follows each of its events.
    let replayed = events(&get(&api, &format!("/responses/{id}?stream=true")).await);
    assert_eq!(kinds(&replayed)[..2], ["response.created", "response.queued"]);
    for (nth, number) in numbers(&replayed).into_iter().enumerate() {
        let path = format!("/responses/{id}?stream=true&starting_after={number}");
        assert_eq!(events(&get(&api, &path).await), replayed[nth + 1..], "after {nth}: {}", replayed[nth]);
    }
}

#[tokio::test]
async fn waiting_response_has_only_what_was_kept() {
    let api = TestApi::start_with(|config| config.heartbeat_ms = 1_000).await;
    let worker = Worker::start(&api).await;
    let work = async {
        until_posted(&api, 1).await;
        let run = worker.claim().await;
        run.write(Part::Message, 0, 0, "a wrong beg");
        let error = waiting(run.run(), 1);
        run.schedule_retry(&error).await;
        worker.claim().await.answer("right").await;
    };
    let (answer, ()) = tokio::join!(post(&api, "/responses", ask(&api, json!({}))), work);
    assert_eq!(answer.header("content-type"), "application/json");
    let response = answer.ok();
    assert_eq!((text(&response).as_str(), &response["status"]), ("right", &json!("completed")));
}

#[tokio::test]
async fn approval_is_asked_for_and_answered_with_the_next_request() {
    let api = TestApi::start().await;
    let worker = Worker::start(&api).await;
    let question = approval(&api, "it sends something");
    let work = async {
        until_posted(&api, 1).await;
        worker.claim().await.ask(question.clone()).await;
    };
    let (answer, ()) = tokio::join!(post(&api, "/responses", ask(&api, json!({}))), work);
    let asked = answer.ok();
    // Clients take what is not complete for cut off, and carry out what a complete response asks for.
    assert_eq!((&asked["status"], &asked["incomplete_details"]), (&json!("completed"), &json!(null)));
    let request = asked["output"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&request["type"], &request["name"]), (&json!("mcp_approval_request"), &json!("send_mail")));

    let approve =
        json!([{"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": true}]);
    let next = json!({"model": "goal", "previous_response_id": asked["id"], "input": approve});
    let work = async {
        let closed = async {
            while api.get("/v1/questions").await.ok()["data"] != json!([]) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, closed).await.expect("never answered");
        worker.claim().await.answer("Sent.").await;
    };
    let (answer, ()) = tokio::join!(post(&api, "/responses", next.clone()), work);
    let done = answer.ok();
    assert_eq!((text(&done).as_str(), &done["status"]), ("Sent.", &json!("completed")));
    assert_ne!(done["id"], asked["id"]);
    assert_eq!(done["previous_response_id"], asked["id"]);
    for response in [&asked, &done] {
        let read = get(&api, &format!("/responses/{}", response["id"].as_str().unwrap())).await.ok();
        assert_eq!(&read, response);
    }
    let again = post(&api, "/responses", next).await.ok();
    assert_eq!(again, done, "the same answer again");
    let refusal =
        json!([{"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": false}]);
    let other = json!({"model": "goal", "previous_response_id": asked["id"], "input": refusal});
    let answer = post(&api, "/responses", other).await;
    refused(&answer, 409, "question_closed");
    assert_eq!(answer.header("x-should-retry"), "false");
}

#[tokio::test]
async fn background_response_is_found_locked_and_cancelled() {
    let api = TestApi::start().await;
    let begun = post(&api, "/responses", ask(&api, json!({"background": true}))).await.ok();
    assert_eq!((&begun["status"], &begun["background"]), (&json!("queued"), &json!(true)));
    let path = format!("/responses/{}", begun["id"].as_str().unwrap());
    assert_eq!(get(&api, &path).await.ok(), begun);
    refused(&post(&api, "/responses", ask(&api, json!({}))).await, 409, "conversation_locked");
    let cancelled = post(&api, &format!("{path}/cancel"), json!({})).await.ok();
    assert_eq!(cancelled["status"], "cancelled");
    let worker = Worker::start(&api).await;
    let _ = worker;
    let run = begun["id"].as_str().unwrap().replace("resp_", "run_");
    let run = api.get(&format!("/v1/runs/{run}")).await.ok();
    assert_eq!(run["cancel_requested"], true);
    let error =
        refused(&api.send("DELETE", &format!("{BASE}{path}"), Value::Null).await, 400, "invalid_request");
    assert!(error["message"].as_str().unwrap().contains("DELETE /conversations"), "{error}");
}

#[tokio::test]
async fn repeated_request_with_a_key_finds_its_new_thread() {
    let api = TestApi::start().await;
    let body = json!({"model": "goal", "input": "hello", "background": true, "safety_identifier": "ann"});
    let mut ids = Vec::new();
    for key in ["one", "one", "two"] {
        let answer =
            api.post_with(&format!("{BASE}/responses"), &[("idempotency-key", key)], body.clone()).await;
        ids.push(answer.ok()["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(ids[0], ids[1]);
    assert_ne!(ids[0], ids[2]);
    let goals = api.get("/v1/goals").await.ok();
    assert_eq!(goals["data"].as_array().unwrap().len(), 3, "{goals}");
    let without = json!({"model": "goal", "input": "hello"});
    let error = refused(&post(&api, "/responses", without).await, 400, "invalid_request");
    assert!(error["message"].as_str().unwrap().contains("user"), "{error}");
}

#[tokio::test]
async fn errors_have_the_shape_of_the_protocol() {
    let api = TestApi::start_with(|config| config.max_streams_per_tenant = 1).await;
    let keyless = request(api.address, "GET", &format!("{BASE}/models"), &[], "").await;
    let error = refused(&keyless, 401, "invalid_api_key");
    assert_eq!(error["type"], "authentication_error");
    refused(&get(&api, "/nothing").await, 404, "not_found");
    refused(&api.send("PUT", &format!("{BASE}/responses"), Value::Null).await, 405, "method_not_allowed");
    refused(&get(&api, &format!("/responses/resp_{}", "0".repeat(32))).await, 404, "not_found");
    refused(&get(&api, &format!("/conversations/conv_goal_{}", "0".repeat(32))).await, 404, "not_found");
    let key = bearer(KEY);
    let headers = [("authorization", key.as_str()), ("content-type", "application/json")];
    let broken = request(api.address, "POST", &format!("{BASE}/responses"), &headers, "{").await;
    refused(&broken, 400, "invalid_json");
    let large = json!({"model": "goal", "user": "ann", "input": "x".repeat(300_000)});
    refused(&post(&api, "/responses", large).await, 413, "message_too_large");
    for (more, param) in [
        (
            json!({"input": [{"role": "user", "content": [{"type": "input_audio"}]}]}),
            "input[0].content[0].type",
        ),
        (json!({"input": []}), "input"),
        (json!({"store": false}), "store"),
        (json!({"top_logprobs": 2}), "top_logprobs"),
        (json!({"previous_response_id": "resp_1"}), "previous_response_id"),
        (json!({"text": {"format": {"type": "grammar"}}}), "text.format.type"),
        (json!({"tool_choice": "required"}), "tool_choice"),
        (json!({"temperatur": 1}), "temperatur"),
    ] {
        let error = refused(&post(&api, "/responses", ask(&api, more.clone())).await, 400, "invalid_request");
        assert_eq!(error["param"], param, "{more}: {error}");
    }
    let unknown = json!({"model": "nothing", "input": "hello", "user": "ann"});
    refused(&post(&api, "/responses", unknown).await, 404, "not_found");
    let open = api.stream("?after=0&follow=true", None).await;
    let many = post(&api, "/responses", ask(&api, json!({"stream": true}))).await;
    refused(&many, 429, "rate_limit_exceeded");
    assert_eq!(many.header("retry-after"), "5");
    drop(open);
}

#[tokio::test]
async fn chat_completion_is_the_answer_or_an_error() {
    let api = TestApi::start().await;
    let worker = Worker::start(&api).await;
    let body = |stream: bool| {
        json!({"model": "agent/goal", "stream": stream, "stream_options": {"include_usage": true},
               "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}],
               "metadata": {"conversation": conversation(&api)}})
    };
    let work = async |messages: usize| {
        until_posted(&api, messages).await;
        let run = worker.claim().await;
        run.write(Part::Message, 0, 0, "Grüß");
        run.answer("Grüße!").await;
    };
    let (answer, ()) = tokio::join!(post(&api, "/chat/completions", body(false)), work(1));
    let done = answer.ok();
    assert_eq!(done["choices"][0]["message"]["content"], "Grüße!");
    assert_eq!(
        (&done["choices"][0]["finish_reason"], &done["usage"]["total_tokens"]),
        (&json!("stop"), &json!(15))
    );
    let (answer, ()) = tokio::join!(post(&api, "/chat/completions", body(true)), work(3));
    let text = answer.text();
    assert!(text.ends_with("data: [DONE]\n\n") && !text.contains("event:"), "{text}");
    let chunks: Vec<Value> = text
        .split("\n\n")
        .filter_map(|frame| frame.strip_prefix("data: ").filter(|data| *data != "[DONE]"))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let content: String =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(content, "Grüße!");
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(chunks.last().unwrap()["usage"]["completion_tokens"], 5);
    assert_eq!(chunks[chunks.len() - 2]["choices"][0]["finish_reason"], "stop");

    let failing = async {
        until_posted(&api, 5).await;
        worker.claim().await.end(RunStatus::Failed, Some(("TIMEOUT", "slow"))).await;
    };
    let (answer, ()) = tokio::join!(post(&api, "/chat/completions", body(false)), failing);
    refused(&answer, 502, "server_error");
}

/// OpenAI's SDKs send no keys, but say that they repeat a request whose answer they did not get.
#[tokio::test]
async fn request_that_an_sdk_repeats_is_posted_once() {
    let api = TestApi::start().await;
    let key = bearer(KEY);
    let send = async |path: &str, body: &Value, retries: &str| {
        let headers = [
            ("authorization", key.as_str()),
            ("content-type", "application/json"),
            ("x-stainless-retry-count", retries),
        ];
        request(api.address, "POST", &format!("{BASE}{path}"), &headers, &body.to_string()).await
    };
    let body = json!({"model": "goal", "user": "ann", "input": "hello", "background": true});
    let first = send("/responses", &body, "0").await.ok();
    // The same words are another request, unless the SDK says that it repeats one.
    let second = send("/responses", &body, "0").await.ok();
    assert_ne!(first["conversation"], second["conversation"]);
    let repeated = send("/responses", &body, "1").await;
    assert_eq!(repeated.header("idempotent-replayed"), "true");
    assert_eq!(repeated.ok()["id"], second["id"]);
    let other = json!({"model": "goal", "user": "bob", "input": "hello", "background": true});
    let lost = send("/responses", &other, "2").await.ok();
    assert_ne!(lost["id"], second["id"], "the attempt before did not arrive");
    assert_eq!(send("/responses", &other, "3").await.ok()["id"], lost["id"]);
}

/// Clients of chat completions have no form of an approval.
#[tokio::test]
async fn approval_in_a_chat_completion_is_a_word() {
    let api = TestApi::start().await;
    let worker = Worker::start(&api).await;
    for (said, decision) in [("Yes.", "approve"), ("{\"decision\": \"reject\"}", "reject")] {
        let body = |text: &str| {
            json!({"model": "goal", "messages": [{"role": "user", "content": text}],
                   "metadata": {"conversation": conversation(&api)}})
        };
        let posted = api.get(&api.path("/messages")).await.ok()["data"].as_array().unwrap().len();
        let question = approval(&api, "it sends something");
        let work = async {
            until_posted(&api, posted + 1).await;
            worker.claim().await.ask(question.clone()).await;
        };
        let (answer, ()) = tokio::join!(post(&api, "/chat/completions", body("send it")), work);
        let asked = answer.ok()["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
        assert!(asked.contains("send_mail"), "{asked}");
        let work = async {
            let closed = async {
                while api.get("/v1/questions").await.ok()["data"] != json!([]) {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(PATIENCE, closed).await.expect("never answered");
            worker.claim().await.answer("Sent.").await;
        };
        let (answer, ()) = tokio::join!(post(&api, "/chat/completions", body(said)), work);
        assert_eq!(answer.ok()["choices"][0]["message"]["content"], "Sent.");
        let closed = api.get(&format!("/v1/questions/{}", question.id)).await.ok();
        assert_eq!(closed["answer"]["decision"], decision, "{closed}");
    }
}

#[tokio::test]
async fn conversations_and_models_are_threads_and_agents() {
    let api = TestApi::start().await;
    let models = get(&api, "/models").await.ok();
    let ids: Vec<&str> =
        models["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert!(ids.contains(&"goal") && !ids.contains(&"task"), "{ids:?}");
    assert_eq!(get(&api, "/models/agent/goal").await.ok()["id"], "goal");
    refused(&get(&api, "/models/nothing").await, 404, "not_found");

    refused(&post(&api, "/conversations", json!({})).await, 400, "invalid_request");
    let body = json!({"metadata": {"model": "goal", "user": "ann"}});
    let made = post(&api, "/conversations", body).await.ok();
    let id = made["id"].as_str().unwrap();
    assert_eq!(get(&api, &format!("/conversations/{id}")).await.ok(), made);
    for text in ["one", "two"] {
        let body = json!({"model": "goal", "conversation": id, "input": text, "background": true});
        let begun = post(&api, "/responses", body).await.ok();
        let path = format!("/responses/{}/cancel", begun["id"].as_str().unwrap());
        post(&api, &path, json!({})).await.ok();
        let agentable: AgentableId =
            parse_prefixed("goal", id.strip_prefix("conv_").unwrap()).unwrap().into();
        let worker = Worker::start(&api).await;
        worker.claim_of(agentable).await.end(RunStatus::Cancelled, None).await;
    }
    let items = get(&api, &format!("/conversations/{id}/items?limit=1")).await.ok();
    assert_eq!((&items["data"][0]["content"][0]["text"], &items["has_more"]), (&json!("two"), &json!(true)));
    let next = format!("/conversations/{id}/items?after={}", items["last_id"].as_str().unwrap());
    assert_eq!(get(&api, &next).await.ok()["data"][0]["content"][0]["text"], "one");
    let deleted = api.send("DELETE", &format!("{BASE}/conversations/{id}"), Value::Null).await.ok();
    assert_eq!(deleted["deleted"], true);
    refused(&get(&api, &format!("/conversations/{id}")).await, 404, "not_found");
}
