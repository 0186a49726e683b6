//! Export, import, fork and reset of conversations.

use serde_json::{Value, json};

use crate::people::People;

#[tokio::test(flavor = "multi_thread")]
async fn imported_conversation_continues_and_exports_equal() {
    let (people, _) = People::start().await;
    let goal = people.houston.goal("Tokyo").await;
    people.talk(&goal, "note").await;
    people.talk(&goal, "hello").await;
    let learning = json!({"content": "likes trains"});
    people.houston.create(&format!("/v1/goals/{goal}/learnings"), "l", &learning).await;

    let exported = people.of(&goal, "export").await;
    assert_eq!((&exported["format"], &exported["version"]), (&json!("houston.conversation"), &json!(2)));
    assert_eq!(exported["history"].as_array().unwrap().len(), 8, "{exported}");
    assert_eq!(people.json(&["export", &goal, "--json"]), exported, "both ways are one");

    let body = json!({"user_id": people.user(&goal).await, "conversation": exported});
    let (status, made) = people.post("/v1/goals/import", Some("once"), &body).await;
    assert_eq!((status, &made["title"]), (201, &json!("Tokyo")), "{made}");
    let (status, again) = people.post("/v1/goals/import", Some("once"), &body).await;
    assert_eq!((status, &again), (201, &made), "the same key creates nothing twice");
    let copy = made["id"].as_str().unwrap().to_owned();
    assert_ne!(copy, goal);
    assert_eq!(people.of(&copy, "export").await, exported);
    assert_eq!(people.houston.agent_texts(&copy).await, people.houston.agent_texts(&goal).await);
    let thread = people.of(&copy, "messages?limit=100").await;
    let users = thread["data"].as_array().unwrap().iter().filter(|message| message["source"] == "user");
    assert!(users.clone().count() == 2 && users.clone().all(|message| message["status"] == "answered"));

    let received = people.houston.watch(&format!("/v1/goals/{copy}/events")).await;
    let texts: Vec<&str> = received.texts.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["Noted.", "You said: hello"], "the stream equals the thread");
    let types: Vec<&str> = received.types.iter().map(String::as_str).collect();
    assert!(types.contains(&"TOOL_CALL_RESULT") && types.last() == Some(&"RUN_FINISHED"), "{types:?}");

    people.talk(&copy, "and now?").await;
    let sent: Value = serde_json::from_slice(&people.model.journal().last().unwrap().body).unwrap();
    let said = sent["messages"].to_string();
    for word in ["create_note", "You said: hello", "and now?"] {
        assert!(said.contains(word), "the model does not know of `{word}`: {said}");
    }
    assert_eq!(people.of(&goal, "export").await, exported, "the original is as it was");

    let file = people.houston.folder.path().join("tokyo.json");
    let file = file.to_str().unwrap();
    people.output(&["export", &goal, "--output", file]);
    let user = people.user(&goal).await;
    let third = people.output(&["import", file, "--user", user.as_str().unwrap()]).0.trim().to_owned();
    assert_eq!(people.of(&third, "export").await, exported);
    people.talk(&third, "still there?").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fork_is_independent_of_the_original() {
    let (people, _) = People::start().await;
    let goal = people.houston.goal("Tokyo").await;
    people.talk(&goal, "note").await;
    people.talk(&goal, "hello").await;
    let whole = people.of(&goal, "export").await;
    let path = format!("/v1/goals/{goal}/fork");

    let everything = people.create(&path, &json!({})).await;
    assert_eq!(people.of(&everything, "export").await, whole);
    let state = people.of(&everything, "state").await;
    assert_eq!((&state["forked_from"], &state["status"]), (&json!(goal), &json!("waiting")));

    // The turn with the note: user message, call, result, `send_message`, result.
    let (status, refused) = people.post(&path, None, &json!({"position": 2})).await;
    assert_eq!((status, &refused["errors"][0]["pointer"]), (422, &json!("/position")), "{refused}");
    let detail = refused["errors"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("position 2") && detail.contains("ends at 1"), "{detail}");
    let (status, refused) = people.post(&path, None, &json!({"position": 99})).await;
    assert_eq!(status, 422);
    assert!(refused.to_string().contains("the last one before it is at 8"), "{refused}");

    let early = people.create(&path, &json!({"position": 5, "title": "Kyoto"})).await;
    let copied = people.of(&early, "export").await;
    assert_eq!((&copied["title"], &copied["notes"]), (&json!("Kyoto"), &whole["notes"]));
    assert_eq!(copied["history"].as_array().unwrap()[..], whole["history"].as_array().unwrap()[..5]);
    assert_eq!(people.houston.agent_texts(&early).await, ["Noted."], "the thread of that time");
    let bare = people.create(&path, &json!({"position": 5, "knowledge": false})).await;
    assert_eq!(people.of(&bare, "export").await["notes"], json!([]));

    people.talk(&early, "where to?").await;
    assert_eq!(people.houston.agent_texts(&early).await.last().unwrap(), "You said: where to?");
    assert_eq!(people.of(&goal, "export").await, whole, "the original is as it was");

    let forked = people.json(&["fork", &goal, "--position", "5", "--json"]);
    assert_eq!(forked["forked_from"], json!(goal));
    assert_eq!(
        people.of(forked["id"].as_str().unwrap(), "history").await["data"].as_array().unwrap().len(),
        5
    );
    let refused = people.run(&["fork", &goal, "--position", "4"]);
    assert_eq!(refused.status.code(), Some(2));
    let own = people.houston.sql("select id from houston.agentables where kind = 'user_agent' limit 1");
    let own = format!("user_agent_{}", own.replace('-', ""));
    let (status, refused) = people.post(&format!("/v1/user_agents/{own}/fork"), None, &json!({})).await;
    assert_eq!((status, &refused["code"]), (409, &json!("not_creatable")));
}

#[tokio::test(flavor = "multi_thread")]
async fn fork_of_an_open_run_copies_complete_turns_and_reset_waits() {
    let (people, gate) = People::start().await;
    let goal = people.houston.goal("Tokyo").await;
    people.talk(&goal, "note").await;
    let message = people.houston.post(&goal, "wait", "wait").await;
    let run = message["run_id"].as_str().unwrap().to_owned();
    people.houston.wait_until(&format!("/v1/runs/{run}"), "a worker", |run| run["status"] == "running").await;

    let (status, refused) = people.post(&format!("/v1/goals/{goal}/reset"), None, &json!({})).await;
    assert_eq!((status, &refused["code"]), (409, &json!("run_in_progress")), "{refused}");
    assert!(refused["detail"].as_str().unwrap().contains(&run), "{refused}");
    let refused = people.run(&["reset", &goal]);
    assert_eq!(refused.status.code(), Some(1));
    let state = people.of(&goal, "state").await;
    assert_eq!((&state["run"]["id"], &state["run"]["open"]), (&json!(run), &json!(true)), "{state}");
    assert_eq!(state["diagnosis"], json!(["A worker is running it."]));
    assert_eq!(state["holder"]["name"], Value::Null, "the API does not name the machine");
    let (shown, _) = people.output(&["state", &goal]);
    assert!(shown.contains("A worker is running it.") && shown.contains("alive"), "{shown}");

    let copy = people.create(&format!("/v1/goals/{goal}/fork"), &json!({})).await;
    people.talk(&copy, "hello").await;
    gate.open();
    assert_eq!(people.houston.wait_until_answered(&message).await["status"], "answered");

    let before = people.of(&goal, "export").await;
    let (status, done) = people.post(&format!("/v1/goals/{goal}/reset"), None, &json!({})).await;
    assert_eq!(status, 200, "{done}");
    assert_eq!((&done["closed_entries"], &done["deleted_notes"]), (&json!(8), &json!(0)));
    people.talk(&goal, "who am I?").await;
    let sent: Value = serde_json::from_slice(&people.model.journal().last().unwrap().body).unwrap();
    assert_eq!(sent["messages"].as_array().unwrap().len(), 1, "it begins anew: {}", sent["messages"]);
    let after = people.of(&goal, "export").await;
    let session = &after["sessions"][0];
    assert_eq!((&session["first_position"], &session["last_position"]), (&json!(1), &json!(8)), "{after}");
    assert_eq!(session["completion_reason"], "reset");
    assert_eq!(after["history"].as_array().unwrap()[..8], before["history"].as_array().unwrap()[..]);
    assert_eq!(after["notes"].as_array().unwrap().len(), 1);
    let body = json!({"user_id": people.user(&goal).await, "conversation": after});
    let copy = people.create("/v1/goals/import", &body).await;
    assert_eq!(people.of(&copy, "state").await["session"], json!({"entries": 3, "closed_entries": 8}));

    let done = people.json(&["reset", &goal, "--knowledge", "--json"]);
    assert_eq!((&done["deleted_notes"], &done["closed_entries"]), (&json!(1), &json!(3)));
    assert_eq!(people.of(&goal, "export").await["notes"], json!([]));
}

/// A conversation with every kind of block that a provider may return.
fn sample_conversation() -> Value {
    let at = "2026-11-20T10:00:00.123456Z";
    let raw = |json: &str| json!({"wire": "anthropic", "provider": "anthropic", "json": json});
    json!({
        "format": "houston.conversation", "version": 2, "kind": "goal", "title": "Tokyo", "description": "Spring",
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
                {"type": "opaque", "raw": raw("{\"type\":\"compaction\",\"z\":1,\"a\":[ 2 ]}")},
                {"type": "tool_use", "id": "a", "name": "book", "input": {"city": "Tokyo", "a": 1.5}}]},
            {"role": "user", "created_at": at, "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "ok", "is_error": true}]},
            {"role": "assistant", "created_at": at, "content": [{"type": "text", "text": "Done"}]},
        ],
        "notes": [
            {"title": "B", "content": "first", "created_at": at, "updated_at": at},
            {"title": "A", "content": "second", "created_at": at, "updated_at": at},
        ],
        "learnings": [
            {"content": "z", "created_at": at, "updated_at": at},
            {"content": "a", "created_at": at, "updated_at": at},
        ],
        "questions": [], "sessions": [], "compressions": [], "results": [],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_document_is_refused_and_changes_nothing() {
    let (people, _) = People::start().await;
    let goal = people.houston.goal("any").await;
    let user = people.user(&goal).await;
    let body = |document: &Value| json!({"user_id": user, "conversation": document});
    let first = people.create("/v1/goals/import", &body(&sample_conversation())).await;
    let exported = people.of(&first, "export").await;
    let mut unsealed = exported.clone();
    let added = ["digests", "untrusted", "seal"].map(|field| unsealed.as_object_mut().unwrap().remove(field));
    assert_eq!(added[1], Some(json!(true)), "it was not exported here");
    assert_eq!(unsealed, sample_conversation(), "the export equals the import, raw blocks byte for byte");
    let second = people.create("/v1/goals/import", &body(&exported)).await;
    assert_eq!(people.of(&second, "export").await, exported);

    type Change = fn(&mut Value);
    let cases: [(Change, &str, &str); 16] = [
        (|d| d["format"] = json!("openai.thread"), "/format", "houston.conversation"),
        (|d| d["version"] = json!(3), "/version", "only version 2"),
        (|d| d["surprise"] = json!(1), "/surprise", "unknown field"),
        (|d| d["kind"] = json!("project"), "/kind", "/v1/import/projects"),
        (|d| drop(d["history"].as_array_mut().unwrap().remove(0)), "/history/0", "begins with the model"),
        (|d| drop(d["history"].as_array_mut().unwrap().remove(2)), "/history/2", "in a row"),
        (|d| drop(d["history"].as_array_mut().unwrap().pop()), "/history/3", "4 entries were exported"),
        (|d| d["history"].as_array_mut().unwrap().truncate(2), "/history/2", "has no result"),
        (|d| d["history"][2]["content"][0]["tool_use_id"] = json!("b"), "/history/2", "no open tool call"),
        (|d| d["history"][2]["role"] = json!("assistant"), "/history/2", "in a row"),
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
    let user = user.as_str().unwrap();
    let mut document = exported.clone();
    document["history"][2]["content"][0]["tool_use_id"] = json!("b");
    let stderr = refusal(&people, user, &document);
    assert!(stderr.contains("broken.json: /history/2: ") && stderr.contains("no open tool call"), "{stderr}");
    document["history"][2]["role"] = json!("tool");
    let stderr = refusal(&people, user, &document);
    assert!(stderr.contains("broken.json: /history/2/role: `tool` is not allowed"), "{stderr}");
    let unknown = "user_00000000000000000000000000000000";
    let document = json!({"user_id": unknown, "conversation": exported});
    assert_eq!(people.post("/v1/goals/import", None, &document).await.0, 404);
    assert_eq!(people.rows(), before, "no row was written");
}

/// The error of `houston import` for an invalid document.
fn refusal(people: &People, user: &str, document: &Value) -> String {
    let file = people.houston.folder.path().join("broken.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let refused = people.run(&["import", file.to_str().unwrap(), "--user", user]);
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    stderr
}
