//! What people can do with a conversation as a whole, and how they find out why an agent does what it does: over HTTP
//! and by commands, with real processes and a scripted model.

use std::process::Output;

use houston_testkit::model_server::{Call, Gate, ModelServer, Reply};
use houston_testkit::process::Process;
use serde_json::{Value, json};

use crate::house::{House, PATIENCE, environment, houston};

/// A house with a worker whose model is scripted.
struct People {
    house: House,
    model: ModelServer,
    client: reqwest::Client,
    _worker: Process,
}

/// Makes a note when it is asked to, then says so; else says back what it was told. `wait` is held.
fn script(gate: &Gate) -> impl Fn(&Call) -> Reply + Send + Sync + 'static {
    let gate = gate.clone();
    move |call| {
        let said = call.last_user_text();
        let says = |text: String| Reply::tool("send_message", json!({"content": text}));
        let noted = || call.tool_results().iter().any(|result| result.content.starts_with("Created"));
        match said.as_str() {
            "note" if noted() => says("Noted.".to_owned()),
            "note" => Reply::tool("create_note", json!({"title": "Milk", "content": "buy it"})),
            "wait" => says("Waited.".to_owned()).held_by(&gate),
            said => says(format!("You said: {said}")),
        }
    }
}

impl People {
    async fn start() -> (Self, Gate) {
        let gate = Gate::new();
        let house = House::start();
        let model = ModelServer::start(script(&gate)).await.unwrap();
        let mut worker = environment(houston(), &house.servers.lock().unwrap(), house.folder.path());
        worker.arg("work").envs([
            ("HOUSTON_MODEL", "anthropic/scripted"),
            ("ANTHROPIC_BASE_URL", &model.url()),
            ("ANTHROPIC_API_KEY", "sk-test"),
        ]);
        let worker = Process::spawn(&mut worker).unwrap();
        worker.wait_for_line(PATIENCE, |line| line == "working").unwrap();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        (Self { house, model, client, _worker: worker }, gate)
    }

    /// Says something and waits for the answer.
    async fn talk(&self, goal: &str, text: &str) {
        let key = format!("{goal} {text} {}", self.model.journal().calls());
        let message = self.house.post(goal, &key, text).await;
        let answered = self.house.answered(&message).await;
        assert_eq!(answered["status"], "answered", "{answered}");
    }

    /// Sends a request as it is: status and body.
    async fn post(&self, path: &str, key: Option<&str>, body: &Value) -> (u16, Value) {
        let request = self.client.post(self.house.url(path)).bearer_auth(&self.house.key);
        let request = key.into_iter().fold(request, |request, key| request.header("Idempotency-Key", key));
        let request = request.header("Content-Type", "application/json").body(body.to_string());
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or_default())
    }

    async fn made(&self, path: &str, body: &Value) -> String {
        let (status, made) = self.post(path, None, body).await;
        assert_eq!(status, 201, "{path}: {made}");
        made["id"].as_str().unwrap().to_owned()
    }

    async fn of(&self, goal: &str, what: &str) -> Value {
        self.house.get(&format!("/v1/goals/{goal}/{what}")).await
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let servers = self.house.servers.lock().unwrap();
        let mut command = environment(houston(), &servers, self.house.folder.path());
        command.args(arguments).output().unwrap()
    }

    /// What a command printed, and what it told beside it.
    fn told(&self, arguments: &[&str]) -> (String, String) {
        let output = self.run(arguments);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{arguments:?}: {told}");
        (String::from_utf8(output.stdout).unwrap(), told)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.told(arguments).0).unwrap()
    }

    /// How many rows there are in all that an import could touch.
    fn rows(&self) -> String {
        let tables = [
            "agentables",
            "run_locks",
            "runs",
            "messages",
            "events",
            "history",
            "notes",
            "learnings",
            "idempotency_keys",
        ];
        let counts = tables.map(|table| format!("(select count(*) from houston.{table})"));
        self.house.sql(&format!("select concat_ws(' ', {})", counts.join(", ")))
    }

    async fn user(&self, goal: &str) -> Value {
        self.house.get(&format!("/v1/goals/{goal}")).await["user_id"].clone()
    }
}

fn strings(value: &Value, field: &str) -> Vec<String> {
    value.as_array().unwrap().iter().map(|item| item[field].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_prompt_that_is_shown_is_the_one_the_model_was_sent() {
    let (people, _) = People::start().await;
    let goal = people.house.goal("Tokyo").await;
    let user = people.user(&goal).await;
    let instructions = format!("/v1/users/{}/custom-instructions", user.as_str().unwrap());
    people.house.create(&instructions, "ci", &json!({"content": "Answer in <German>."})).await;
    people.talk(&goal, "note").await;
    let shown = people.of(&goal, "prompt").await;
    people.talk(&goal, "hello").await;

    let sent = people.model.journal().last().unwrap();
    let sent: Value = serde_json::from_slice(&sent.body).unwrap();
    assert_eq!(strings(&shown["system"], "text"), strings(&sent["system"], "text"), "byte for byte");
    let cached: Vec<bool> =
        sent["system"].as_array().unwrap().iter().map(|part| part["cache_control"].is_object()).collect();
    let said: Vec<bool> =
        shown["system"].as_array().unwrap().iter().map(|part| part["cached"] == true).collect();
    assert_eq!(
        (said, cached),
        (vec![true, true, false], vec![false, true, false]),
        "up to the last stable part"
    );
    assert_eq!(strings(&shown["tools"], "name"), strings(&sent["tools"], "name"));
    assert_eq!(
        strings(&shown["sections"], "name"),
        [
            "base",
            "profile",
            "custom_instructions",
            "tools",
            "capabilities",
            "autonomy",
            "base",
            "time",
            "conversation"
        ]
    );
    let sum = |field: &str| -> u64 {
        shown["sections"].as_array().unwrap().iter().map(|section| section[field].as_u64().unwrap()).sum()
    };
    assert_eq!(sum("chars"), shown["chars"].as_u64().unwrap());
    let system = shown["tokens"]["system"].as_u64().unwrap();
    assert!(sum("tokens").abs_diff(system) <= 20, "{shown}");
    assert!(shown["tokens"]["history"].as_u64().unwrap() > 0);

    let whole: String = strings(&shown["system"], "text").concat();
    let (text, counts) = people.told(&["prompt", "show", &goal]);
    assert_eq!(text, whole, "stdout is the prompt and nothing else");
    for word in ["SECTION", "custom_instructions  agentable", "of 16000", "tokens"] {
        assert!(counts.contains(word), "`{counts}` does not say `{word}`");
    }
    assert_eq!(people.json(&["prompt", "show", &goal, "--json"])["system"], shown["system"]);
    let (text, _) = people.told(&["prompt", "show", &goal, "--tools"]);
    let tools = text.strip_prefix(&whole).unwrap();
    assert_eq!(tools.lines().count(), shown["tools"].as_array().unwrap().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_prompt_says_what_the_cap_left_out() {
    let (people, _) = People::start().await;
    let goal = people.house.goal("Tokyo").await;
    for nth in 0..20 {
        let long = json!({"content": format!("{nth} {}", "x".repeat(900))});
        people.house.create(&format!("/v1/goals/{goal}/learnings"), &format!("l{nth}"), &long).await;
        let note = json!({"title": format!("{nth} {}", "t".repeat(190)), "content": "x"});
        people.house.create(&format!("/v1/goals/{goal}/notes"), &format!("n{nth}"), &note).await;
    }
    let user = people.user(&goal).await;
    let user = user.as_str().unwrap();
    for nth in 0..8 {
        let long = json!({"content": format!("{nth} {}", "x".repeat(900))});
        let path = format!("/v1/users/{user}/custom-instructions");
        people.house.create(&path, &format!("c{nth}"), &long).await;
    }
    let shown = people.of(&goal, "prompt").await;
    assert!(shown["chars"].as_u64().unwrap() <= 16_000, "{}", shown["chars"]);
    assert_eq!(shown["left_out"][0]["section"], "conversation");
    let told = people.told(&["prompt", "show", &goal]).1;
    assert!(told.contains("left out of conversation: "), "{told}");
    people.talk(&goal, "hello").await;
    let sent: Value = serde_json::from_slice(&people.model.journal().last().unwrap().body).unwrap();
    assert_eq!(strings(&shown["system"], "text"), strings(&sent["system"], "text"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_exported_imported_and_goes_on_and_exports_are_equal() {
    let (people, _) = People::start().await;
    let goal = people.house.goal("Tokyo").await;
    people.talk(&goal, "note").await;
    people.talk(&goal, "hello").await;
    let learning = json!({"content": "likes trains"});
    people.house.create(&format!("/v1/goals/{goal}/learnings"), "l", &learning).await;

    let exported = people.of(&goal, "export").await;
    assert_eq!((&exported["format"], &exported["version"]), (&json!("houston.conversation"), &json!(1)));
    assert_eq!(exported["history"].as_array().unwrap().len(), 8, "{exported}");
    assert_eq!(people.json(&["export", &goal, "--json"]), exported, "both ways are one");

    let body = json!({"user_id": people.user(&goal).await, "conversation": exported});
    let (status, made) = people.post("/v1/goals/import", Some("once"), &body).await;
    assert_eq!((status, &made["title"]), (201, &json!("Tokyo")), "{made}");
    let (status, again) = people.post("/v1/goals/import", Some("once"), &body).await;
    assert_eq!((status, &again), (201, &made), "the same key makes nothing twice");
    let copy = made["id"].as_str().unwrap().to_owned();
    assert_ne!(copy, goal);
    assert_eq!(people.of(&copy, "export").await, exported);
    assert_eq!(people.house.said(&copy).await, people.house.said(&goal).await);
    let thread = people.of(&copy, "messages?limit=100").await;
    let users = thread["data"].as_array().unwrap().iter().filter(|message| message["source"] == "user");
    assert!(users.clone().count() == 2 && users.clone().all(|message| message["status"] == "answered"));

    let watched = people.house.watch(&format!("/v1/goals/{copy}/events")).await;
    let texts: Vec<&str> = watched.texts.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["Noted.", "You said: hello"], "the stream tells the thread");
    let types: Vec<&str> = watched.types.iter().map(String::as_str).collect();
    assert!(types.contains(&"TOOL_CALL_RESULT") && types.last() == Some(&"RUN_FINISHED"), "{types:?}");

    people.talk(&copy, "and now?").await;
    let sent: Value = serde_json::from_slice(&people.model.journal().last().unwrap().body).unwrap();
    let said = sent["messages"].to_string();
    for word in ["create_note", "You said: hello", "and now?"] {
        assert!(said.contains(word), "the model does not know of `{word}`: {said}");
    }
    assert_eq!(people.of(&goal, "export").await, exported, "the original is as it was");

    let file = people.house.folder.path().join("tokyo.json");
    let file = file.to_str().unwrap();
    people.told(&["export", &goal, "--output", file]);
    let user = people.user(&goal).await;
    let third = people.told(&["import", file, "--user", user.as_str().unwrap()]).0.trim().to_owned();
    assert_eq!(people.of(&third, "export").await, exported);
    people.talk(&third, "still there?").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_goes_its_own_way_from_where_it_was_made() {
    let (people, _) = People::start().await;
    let goal = people.house.goal("Tokyo").await;
    people.talk(&goal, "note").await;
    people.talk(&goal, "hello").await;
    let whole = people.of(&goal, "export").await;
    let path = format!("/v1/goals/{goal}/fork");

    let everything = people.made(&path, &json!({})).await;
    assert_eq!(people.of(&everything, "export").await, whole);
    let state = people.of(&everything, "state").await;
    assert_eq!((&state["forked_from"], &state["status"]), (&json!(goal), &json!("waiting")));

    // The note's turn: what was asked, the call, its result, the message, its result.
    let (status, refused) = people.post(&path, None, &json!({"position": 2})).await;
    assert_eq!((status, &refused["errors"][0]["pointer"]), (422, &json!("/position")), "{refused}");
    let told = refused["errors"][0]["detail"].as_str().unwrap();
    assert!(told.contains("position 2") && told.contains("ends at 1"), "{told}");
    let (status, refused) = people.post(&path, None, &json!({"position": 99})).await;
    assert_eq!(status, 422);
    assert!(refused.to_string().contains("the last one before it is at 8"), "{refused}");

    let early = people.made(&path, &json!({"position": 5, "title": "Kyoto"})).await;
    let copied = people.of(&early, "export").await;
    assert_eq!((&copied["title"], &copied["notes"]), (&json!("Kyoto"), &whole["notes"]));
    assert_eq!(copied["history"].as_array().unwrap()[..], whole["history"].as_array().unwrap()[..5]);
    assert_eq!(people.house.said(&early).await, ["Noted."], "the thread of that time");
    let bare = people.made(&path, &json!({"position": 5, "knowledge": false})).await;
    assert_eq!(people.of(&bare, "export").await["notes"], json!([]));

    people.talk(&early, "where to?").await;
    assert_eq!(people.house.said(&early).await.last().unwrap(), "You said: where to?");
    assert_eq!(people.of(&goal, "export").await, whole, "the original is as it was");

    let forked = people.json(&["fork", &goal, "--position", "5", "--json"]);
    assert_eq!(forked["forked_from"], json!(goal));
    assert_eq!(
        people.of(forked["id"].as_str().unwrap(), "history").await["data"].as_array().unwrap().len(),
        5
    );
    let refused = people.run(&["fork", &goal, "--position", "4"]);
    assert_eq!(refused.status.code(), Some(2));
    let own = people.house.sql("select id from houston.agentables where kind = 'user_agent' limit 1");
    let own = format!("user_agent_{}", own.replace('-', ""));
    let (status, refused) = people.post(&format!("/v1/user_agents/{own}/fork"), None, &json!({})).await;
    assert_eq!((status, &refused["code"]), (409, &json!("not_creatable")));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_run_that_is_open_what_is_complete_is_copied_and_a_reset_waits() {
    let (people, gate) = People::start().await;
    let goal = people.house.goal("Tokyo").await;
    people.talk(&goal, "note").await;
    let message = people.house.post(&goal, "wait", "wait").await;
    let run = message["run_id"].as_str().unwrap().to_owned();
    people.house.until(&format!("/v1/runs/{run}"), "a worker", |run| run["status"] == "running").await;

    let (status, refused) = people.post(&format!("/v1/goals/{goal}/reset"), None, &json!({})).await;
    assert_eq!((status, &refused["code"]), (409, &json!("run_open")), "{refused}");
    assert!(refused["detail"].as_str().unwrap().contains(&run), "{refused}");
    let refused = people.run(&["reset", &goal]);
    assert_eq!(refused.status.code(), Some(1));
    let state = people.of(&goal, "state").await;
    assert_eq!((&state["run"]["id"], &state["run"]["open"]), (&json!(run), &json!(true)), "{state}");
    assert_eq!(state["diagnosis"], json!(["A worker drives it."]));
    assert_eq!(state["holder"]["name"], Value::Null, "machines are nobody's business but the operator's");
    let (shown, _) = people.told(&["state", &goal]);
    assert!(shown.contains("A worker drives it.") && shown.contains("alive"), "{shown}");

    let copy = people.made(&format!("/v1/goals/{goal}/fork"), &json!({})).await;
    people.talk(&copy, "hello").await;
    gate.open();
    assert_eq!(people.house.answered(&message).await["status"], "answered");

    let before = people.of(&goal, "export").await;
    let (status, done) = people.post(&format!("/v1/goals/{goal}/reset"), None, &json!({})).await;
    assert_eq!(status, 200, "{done}");
    assert_eq!((&done["closed_entries"], &done["deleted_notes"]), (&json!(8), &json!(0)));
    people.talk(&goal, "who am I?").await;
    let sent: Value = serde_json::from_slice(&people.model.journal().last().unwrap().body).unwrap();
    assert_eq!(sent["messages"].as_array().unwrap().len(), 1, "it begins anew: {}", sent["messages"]);
    let after = people.of(&goal, "export").await;
    assert_eq!(after["closed_entries"], 8);
    assert_eq!(after["history"].as_array().unwrap()[..8], before["history"].as_array().unwrap()[..]);
    assert_eq!(after["notes"].as_array().unwrap().len(), 1);
    let body = json!({"user_id": people.user(&goal).await, "conversation": after});
    let copy = people.made("/v1/goals/import", &body).await;
    assert_eq!(people.of(&copy, "state").await["session"], json!({"entries": 3, "closed_entries": 8}));

    let done = people.json(&["reset", &goal, "--knowledge", "--json"]);
    assert_eq!((&done["deleted_notes"], &done["closed_entries"]), (&json!(1), &json!(3)));
    assert_eq!(people.of(&goal, "export").await["notes"], json!([]));
}

/// A conversation with all that a provider may leave in one.
fn foreign() -> Value {
    let at = "2026-11-20T10:00:00.123456Z";
    let raw = |json: &str| json!({"wire": "anthropic", "provider": "anthropic", "json": json});
    json!({
        "format": "houston.conversation", "version": 1, "kind": "goal", "title": "Tokyo", "description": "Spring",
        "messages": [
            {"source": "user", "message_type": "text", "content": "Book it", "created_at": at,
             "metadata": {"client": {"b": 1, "a": [true, null]}}},
            {"source": "agent", "message_type": "tool", "content": "Book", "created_at": at,
             "metadata": {"tool": "book", "call_id": "a", "status": "done"}},
            {"source": "agent", "message_type": "text", "content": "Done", "created_at": at},
        ],
        "history": [
            {"role": "user", "created_at": at, "content": [{"type": "text", "text": "Book it"}]},
            {"role": "assistant", "created_at": at, "content": [
                {"type": "thinking", "text": "hm",
                 "raw": raw("{\"type\":\"thinking\", \"signature\":\"s==\",\"n\":1.10}")},
                {"type": "opaque", "raw": raw("{\"z\":1,\"a\":[ 2 ]}")},
                {"type": "tool_use", "id": "a", "name": "book", "input": {"city": "Tokyo", "a": 1.5}}]},
            {"role": "user", "created_at": at, "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "ok", "is_error": true}]},
            {"role": "assistant", "created_at": at, "content": [{"type": "text", "text": "Done"}]},
        ],
        "closed_entries": 0,
        "notes": [
            {"title": "B", "content": "first", "created_at": at, "updated_at": at},
            {"title": "A", "content": "second", "created_at": at, "updated_at": at},
        ],
        "learnings": [
            {"content": "z", "created_at": at, "updated_at": at},
            {"content": "a", "created_at": at, "updated_at": at},
        ],
        "sessions": [],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_wrong_with_a_document_is_named_and_changes_nothing() {
    let (people, _) = People::start().await;
    let goal = people.house.goal("any").await;
    let user = people.user(&goal).await;
    let body = |document: &Value| json!({"user_id": user, "conversation": document});
    let first = people.made("/v1/goals/import", &body(&foreign())).await;
    let exported = people.of(&first, "export").await;
    let mut unsealed = exported.clone();
    unsealed.as_object_mut().unwrap().remove("digests");
    assert_eq!(unsealed, foreign(), "what was imported is exported, raw blocks byte for byte");
    let second = people.made("/v1/goals/import", &body(&exported)).await;
    assert_eq!(people.of(&second, "export").await, exported);

    type Change = fn(&mut Value);
    let cases: [(Change, &str, &str); 16] = [
        (|d| d["format"] = json!("openai.thread"), "/format", "houston.conversation"),
        (|d| d["version"] = json!(2), "/version", "version 1"),
        (|d| d["surprise"] = json!(1), "/surprise", "unknown field"),
        (|d| d["kind"] = json!("project"), "/kind", "/v1/projects/import"),
        (|d| drop(d["history"].as_array_mut().unwrap().remove(0)), "/history/0", "begins with the model"),
        (|d| drop(d["history"].as_array_mut().unwrap().remove(2)), "/history/2", "twice in a row"),
        (|d| drop(d["history"].as_array_mut().unwrap().pop()), "/history/3", "4 entries were exported"),
        (|d| d["history"].as_array_mut().unwrap().truncate(2), "/history/2", "has no result"),
        (|d| d["history"][2]["content"][0]["tool_use_id"] = json!("b"), "/history/2", "no open tool call"),
        (|d| d["history"][2]["role"] = json!("assistant"), "/history/2", "twice in a row"),
        (|d| d["history"][1]["content"][2]["type"] = json!("image"), "/history/1/content/2/type", "image"),
        (|d| d["history"][1]["content"][2]["input"] = json!([1]), "/history/1/content/2/input", "object"),
        (
            |d| d["history"][1]["content"][1]["raw"]["json"] = json!("{"),
            "/history/1/content/1/raw/json",
            "JSON",
        ),
        (|d| d["history"][3]["content"][0]["text"] = json!("Undone"), "/history/3", "was changed"),
        (|d| d["history"][3]["content"][0]["text"] = json!("a\u{0}b"), "/history/3/content/0", "U+0000"),
        (|d| d["messages"][0]["content"] = json!(" "), "/messages/0/content", "empty"),
    ];
    let before = people.rows();
    for (nth, (change, pointer, words)) in cases.into_iter().enumerate() {
        let mut document = exported.clone();
        change(&mut document);
        let (status, refused) =
            people.post("/v1/goals/import", Some(&format!("key {nth}")), &body(&document)).await;
        assert_eq!((status, &refused["code"]), (422, &json!("invalid_request")), "{nth}: {refused}");
        let error = &refused["errors"][0];
        assert_eq!(error["pointer"], json!(format!("/conversation{pointer}")), "{nth}: {refused}");
        assert!(error["detail"].as_str().unwrap().contains(words), "{nth}: {refused}");
    }
    let file = people.house.folder.path().join("broken.json");
    let mut document = exported.clone();
    document["history"][2]["content"][0]["tool_use_id"] = json!("b");
    std::fs::write(&file, document.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let refused = people.run(&["import", file, "--user", user.as_str().unwrap()]);
    let told = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(told.contains("broken.json: /history/2: ") && told.contains("no open tool call"), "{told}");
    let nobody = "user_00000000000000000000000000000000";
    let document = json!({"user_id": nobody, "conversation": exported});
    assert_eq!(people.post("/v1/goals/import", None, &document).await.0, 404);
    assert_eq!(people.rows(), before, "nothing was made of any of them");
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_history_and_tools_say_what_happened_and_wrong_ids_what_an_id_is() {
    let (people, _) = People::start().await;
    let goal = people.house.goal("Tokyo").await;
    people.talk(&goal, "note").await;
    people.talk(&goal, "hello").await;

    let stats = people.of(&goal, "stats").await;
    assert_eq!(stats["runs"]["by_status"], json!({"message_sent": 2}), "{stats}");
    assert_eq!((&stats["runs"]["iterations"], &stats["runs"]["more"]), (&json!(3), &json!(false)));
    assert_eq!((&stats["messages"]["user"], &stats["messages"]["agent"]), (&json!(2), &json!(2)));
    let tools = json!([{"name": "create_note", "calls": 1, "failed": 0}]);
    assert_eq!((&stats["messages"]["tools"], &stats["notes"]), (&tools, &json!(1)));
    assert_eq!((&stats["entries"], &stats["session_entries"]), (&json!(8), &json!(8)));
    assert!(stats["runs"]["duration_ms"]["max"].as_i64() >= stats["runs"]["duration_ms"]["p50"].as_i64());
    assert!(stats["runs"]["usage"]["input_tokens"].as_u64().unwrap() > 0);
    assert_eq!(people.json(&["stats", &goal, "--json"]), stats);
    let (shown, _) = people.told(&["stats", &goal]);
    assert!(shown.contains("2 message_sent") && shown.contains("1 create_note"), "{shown}");

    let (shown, told) = people.told(&["history", &goal]);
    assert!(shown.starts_with("POSITION  ROLE") && shown.contains("tool_use create_note"), "{shown}");
    assert!(told.contains("8 entries in the open session, 0 in closed ones"), "{told}");
    let history = people.json(&["history", &goal, "--json", "--limit", "2", "--after", "1"]);
    let positions: Vec<&Value> =
        history["data"].as_array().unwrap().iter().map(|entry| &entry["position"]).collect();
    assert_eq!((positions, &history["has_more"]), (vec![&json!(2), &json!(3)], &json!(true)));

    let tools = people.of(&goal, "tools").await;
    let of = |name: &str| {
        tools["data"].as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap().clone()
    };
    assert_eq!(of("create_note")["offered"], true);
    assert_eq!(
        (&of("create_feed_item")["offered"], &of("create_note")["capability"]),
        (&json!(false), &json!("notes"))
    );
    assert!(of("create_feed_item")["reason"].as_str().unwrap().contains("agents/goal.toml"));
    assert_eq!(people.json(&["tools", &goal, "--json"]), tools);
    let (shown, _) = people.told(&["tools", &goal]);
    assert!(shown.starts_with("TOOL") && shown.contains("not named under `tools`"), "{shown}");

    let hex = &goal["goal_".len()..];
    for (id, code, words) in [
        (format!("run_{hex}"), 2, "the kinds are: goal, task, user_agent"),
        ("goal_12".to_owned(), 2, "goal_<32 hex digits>"),
        (format!("task_{hex}"), 1, "there is no task_"),
        (format!("goal_{}", "0".repeat(32)), 1, "there is no goal_0"),
    ] {
        for command in ["state", "history", "tools", "stats", "export", "fork", "reset"] {
            let output = people.run(&[command, &id]);
            let told = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(code), "{command} {id}: {told}");
            assert!(told.contains(words), "{command} {id}: `{told}` does not say `{words}`");
        }
        assert_eq!(people.run(&["prompt", "show", &id]).status.code(), Some(code));
    }
    let monitor = people.json(&["monitor", "--now", "--json"]);
    assert_ne!(monitor["status"], "red", "{monitor}");
    let closed = houston().args(["state", &goal]).env_remove("DATABASE_URL").output().unwrap();
    assert_eq!(closed.status.code(), Some(2));
}
