//! Export, import and fork of conversations with closed sessions, large results and compressions, over HTTP. Real
//! processes, a scripted model.

use houston_testkit::model_server::{Call, ModelServer, Reply};
use houston_testkit::process::Process;
use serde_json::{Value, json};

use crate::people::rows;
use crate::sessions::{Asked, RecordedCall, age_by_an_hour, exchange, says, wait_for_summaries, worker};
use crate::test_houston::TestHouston;

/// An installation whose model calls `ring_bell`, reads large results, searches the history, or repeats the message.
struct ImportTest {
    houston: TestHouston,
    client: reqwest::Client,
    asked: Asked,
    _worker: Process,
    _model: ModelServer,
}

fn reply(call: &Call) -> Reply {
    if call.system().contains("You write the summary") {
        let about = call.last_user_text();
        let place = ["Tokyo", "Kyoto"].into_iter().find(|place| about.contains(place)).unwrap_or("nothing");
        return Reply::text(format!("They talked of {place}."));
    }
    // Earlier results do not answer the current message.
    let results = call.tool_results();
    if let Some(result) = results.iter().rfind(|result| !result.content.starts_with("Message sent")) {
        return says(&format!("I found: {}", result.content.chars().take(400).collect::<String>()));
    }
    let said = call.last_user_text();
    match said.split_once(": ") {
        Some(("search", query)) => Reply::tool("search_agent_history", json!({"query": query})),
        Some(("read", id)) => Reply::tool("read_result", json!({"result_id": id, "line": 5000})),
        Some(("ring", _)) => Reply::tool("ring_bell", json!({"strokes": 5000})),
        _ => says(&format!("Re: {said}")),
    }
}

impl ImportTest {
    async fn start() -> Self {
        let asked = Asked::default();
        let heard = std::sync::Arc::clone(&asked);
        let model = ModelServer::start(move |call: &Call| {
            if !call.system().contains("You write the summary") {
                let seen =
                    RecordedCall { system: call.system(), tools: call.tools(), texts: call.user_texts() };
                heard.lock().unwrap().push(seen);
            }
            reply(call)
        });
        let (houston, model) = (TestHouston::start(), model.await.unwrap());
        let worker = worker(&houston, &model, &[]);
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { houston, client, asked, _worker: worker, _model: model }
    }

    /// Creates a goal with two closed sessions, and an open one with a large result.
    async fn goal_with_sessions(&self) -> String {
        let goal = self.houston.goal("journey").await;
        for (nth, text) in ["Tokyo in spring", "Kyoto in autumn, by night train"].into_iter().enumerate() {
            exchange(&self.houston, &goal, text).await;
            age_by_an_hour(&self.houston);
            wait_for_summaries(&self.houston, &goal, nth + 1).await;
        }
        exchange(&self.houston, &goal, "ring: very often").await;
        goal
    }

    async fn of(&self, goal: &str, what: &str) -> Value {
        self.houston.get(&format!("/v1/goals/{goal}/{what}")).await
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let request = self.client.post(self.houston.url(path)).bearer_auth(&self.houston.key);
        let request = request.header("Content-Type", "application/json").body(body.to_string());
        let response = request.send().await.unwrap();
        (response.status().as_u16(), serde_json::from_slice(&response.bytes().await.unwrap()).unwrap())
    }

    async fn import(&self, goal: &str, document: &Value) -> (u16, Value) {
        let user = self.houston.get(&format!("/v1/goals/{goal}")).await["user_id"].clone();
        self.post("/v1/goals/import", &json!({"user_id": user, "conversation": document})).await
    }

    async fn import_ok(&self, goal: &str, document: &Value) -> String {
        let (status, made) = self.import(goal, document).await;
        assert_eq!(status, 201, "{made}");
        made["id"].as_str().unwrap().to_owned()
    }

    /// The latest call of the agent's model.
    fn last_call(&self) -> RecordedCall {
        self.asked.lock().unwrap().last().unwrap().clone()
    }
}

/// Sessions without their ids and times.
fn without_ids(sessions: &Value) -> Vec<Value> {
    let mut sessions = sessions["data"].as_array().unwrap().clone();
    for session in &mut sessions {
        let fields = session.as_object_mut().unwrap();
        fields.retain(|name, _| !name.ends_with("id"));
    }
    sessions
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_sessions_survive_export_and_import() {
    let test = ImportTest::start().await;
    let goal = test.goal_with_sessions().await;
    let exported = test.of(&goal, "export").await;
    let sessions = exported["sessions"].as_array().unwrap();
    let ranges: Vec<_> = sessions.iter().map(|one| (&one["first_position"], &one["last_position"])).collect();
    assert_eq!(ranges, [(&json!(1), &json!(3)), (&json!(4), &json!(6))], "{exported}");
    assert_eq!(
        (&sessions[1]["summary"], &sessions[1]["pending"]),
        (&json!("They talked of Kyoto."), &json!(false))
    );
    assert_eq!((&sessions[1]["message_count"], &sessions[1]["summary_source"]), (&json!(2), &json!("model")));
    let result = &exported["results"][0];
    assert_eq!(result["tool"], "ring_bell");
    assert!(
        result["content"].as_str().unwrap().ends_with("stroke 5000: everybody heard it\n"),
        "the whole of it"
    );

    let copy = test.import_ok(&goal, &exported).await;
    assert_eq!(test.of(&copy, "export").await, exported, "a second export is equal");
    let again = test.import_ok(&goal, &test.of(&copy, "export").await).await;
    assert_eq!(test.of(&again, "export").await, exported);
    assert_eq!(
        without_ids(&test.of(&copy, "sessions").await),
        without_ids(&test.of(&goal, "sessions").await)
    );
    assert_eq!(test.of(&copy, "state").await["session"], test.of(&goal, "state").await["session"]);
    let prompt = test.of(&copy, "prompt").await["system"].to_string();
    assert!(prompt.contains(">They talked of Kyoto.</session>") && prompt.contains("of Tokyo."), "{prompt}");

    // The words are in no summary: the search covers whole conversations.
    exchange(&test.houston, &copy, "search: night train").await;
    let found = test.houston.agent_texts(&copy).await.last().unwrap().clone();
    let own = test.of(&copy, "sessions").await["data"][0]["id"].as_str().unwrap().to_owned();
    assert!(found.contains(&own) && found.contains("They talked of Kyoto."), "{found}");
    let sent = test.last_call();
    let open = ["ring: very often", "search: night train"];
    assert_eq!(sent.texts, open, "the open session begins after the last one that is closed");
    assert!(sent.tools.contains(&"read_result".to_owned()));
    exchange(&test.houston, &copy, &format!("read: {}", result["id"].as_str().unwrap())).await;
    let read = test.houston.agent_texts(&copy).await.last().unwrap().clone();
    assert!(read.contains("stroke 5000: everybody heard it"), "{read}");
    let told_of = std::sync::Mutex::new(Vec::new());
    let path = format!("/v1/goals/{copy}/events?after=0");
    let received = test.houston.watch_with(&path, |event| {
        told_of.lock().unwrap().push(event["name"].clone());
    });
    let texts = received.await.texts.len();
    let archived = told_of.lock().unwrap().iter().filter(|name| **name == "houston.session.archived").count();
    assert_eq!((texts, archived), (5, 0), "the copy's stream has no event for sessions closed elsewhere");
    assert_eq!(test.of(&goal, "export").await, exported, "the original is as it was");

    // The next session of the copy has the next number.
    age_by_an_hour(&test.houston);
    test.houston.sql("update houston.session_states set look_at = now() where look_at is not null");
    assert_eq!(wait_for_summaries(&test.houston, &copy, 3).await[0]["number"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_sessions_in_a_document_are_refused() {
    type Change = fn(&mut Value);
    let test = ImportTest::start().await;
    let goal = test.goal_with_sessions().await;
    let exported = test.of(&goal, "export").await;
    let cases: [(Change, &str, &str); 11] = [
        (|d| d["sessions"][0]["first_position"] = json!(2), "/sessions/0/first_position", "first entry"),
        (
            |d| d["sessions"][1]["first_position"] = json!(3),
            "/sessions/1/first_position",
            "no entry belongs to two",
        ),
        (
            |d| d["sessions"][1]["first_position"] = json!(5),
            "/sessions/1/first_position",
            "belong to no session",
        ),
        (|d| d["sessions"][1]["last_position"] = json!(99), "/sessions/1/last_position", "entries"),
        (
            |d| d["sessions"][1]["last_position"] = json!(5),
            "/sessions/1/last_position",
            "result of the tool call",
        ),
        (|d| d["sessions"][0]["summary"] = json!(""), "/sessions/0/summary", "empty"),
        (|d| d["sessions"][0]["message_count"] = json!(-2), "/sessions/0/message_count", "-2"),
        (
            |d| d["sessions"][0]["summary_source"] = json!("rumour"),
            "/sessions/0/summary_source",
            "`extract` or `model`",
        ),
        (
            |d| d["sessions"][1]["completion_reason"] = json!("boredom"),
            "/sessions/1/completion_reason",
            "`session_timeout`, `feed_generation_complete`, `reset`",
        ),
        (
            |d| d["sessions"][1]["started_at"] = json!("2020-01-01T00:00:00Z"),
            "/sessions/1/started_at",
            "before `completed_at` of the session before",
        ),
        (
            |d| d["results"][0]["id"] = json!(format!("result_{}", "0".repeat(32))),
            "/results/0/id",
            "refers to it",
        ),
    ];
    let before = rows(&test.houston);
    for (nth, (change, pointer, words)) in cases.into_iter().enumerate() {
        let mut document = exported.clone();
        change(&mut document);
        let (status, refused) = test.import(&goal, &document).await;
        assert_eq!((status, &refused["code"]), (422, &json!("invalid_request")), "{nth}: {refused}");
        let error = &refused["errors"][0];
        assert_eq!(error["pointer"], json!(format!("/conversation{pointer}")), "{nth}: {refused}");
        assert!(error["detail"].as_str().unwrap().contains(words), "{nth}: {refused}");
    }
    assert_eq!(rows(&test.houston), before, "no row was written");
}

#[tokio::test(flavor = "multi_thread")]
async fn import_summarises_a_pending_session() {
    let test = ImportTest::start().await;
    let goal = test.goal_with_sessions().await;
    let mut document = test.of(&goal, "export").await;
    document.as_object_mut().unwrap().remove("results");
    let sessions = document["sessions"].as_array_mut().unwrap();
    sessions.truncate(1);
    let session = sessions[0].as_object_mut().unwrap();
    session.retain(|name, _| !["summary", "message_count", "token_count"].contains(&name.as_str()));
    session.extend([("pending".to_owned(), json!(true)), ("summary_source".to_owned(), json!("extract"))]);
    let copy = test.import_ok(&goal, &document).await;
    let [session] = &wait_for_summaries(&test.houston, &copy, 1).await[..] else { panic!("one session") };
    assert_eq!(
        (&session["last_position"], &session["summary"]),
        (&json!(3), &json!("They talked of Tokyo."))
    );
    exchange(&test.houston, &copy, "hello").await;
    assert_eq!(test.last_call().texts[0], "Kyoto in autumn, by night train");
}

#[tokio::test(flavor = "multi_thread")]
async fn fork_reflects_the_state_at_its_last_entry() {
    let test = ImportTest::start().await;
    let goal = test.goal_with_sessions().await;
    let path = format!("/v1/goals/{goal}/fork");
    let fork = async |body: Value| test.post(&path, &body).await.1["id"].as_str().unwrap().to_owned();

    let whole = fork(json!({})).await;
    assert_eq!(test.of(&whole, "export").await, test.of(&goal, "export").await);

    // The entry at 6 ends the second session, which was open then and had no summary.
    let early = fork(json!({"position": 6})).await;
    let exported = test.of(&early, "export").await;
    let sessions = exported["sessions"].as_array().unwrap();
    assert_eq!((sessions.len(), &sessions[0]["summary"]), (1, &json!("They talked of Tokyo.")), "{exported}");
    assert_eq!(exported["results"], json!([]), "the large result came later");
    exchange(&test.houston, &early, "and now?").await;
    // The entries are an hour old, but the copy is new.
    assert_eq!(test.last_call().texts, ["Kyoto in autumn, by night train", "and now?"]);
    assert!(test.last_call().system.contains(">They talked of Tokyo.</session>"));

    let first = fork(json!({"position": 3})).await;
    assert_eq!(test.of(&first, "sessions").await["data"], json!([]));
    exchange(&test.houston, &first, "and now?").await;
    assert_eq!(test.last_call().texts, ["Tokyo in spring", "and now?"]);
    let made = test.houston.sql("select count(*) from houston.sessions where number > 2");
    assert_eq!(made, "0", "its first message closed no session");
}
