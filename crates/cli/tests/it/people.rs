//! Inspection of agents over HTTP and by commands: prompt, history, tools, statistics, and the prompt cache. Real
//! processes, a scripted model.

use std::process::Output;

use houston_testkit::model_server::{Call, Gate, ModelServer, Reply};
use houston_testkit::process::Process;
use serde_json::{Value, json};

use crate::cells::SECRETS_KEY;
use crate::test_houston::{PATIENCE, TestHouston, environment, houston_command};

/// A test installation with a worker and a scripted model.
pub(crate) struct People {
    pub(crate) houston: TestHouston,
    pub(crate) model: ModelServer,
    pub(crate) client: reqwest::Client,
    _worker: Process,
}

/// Creates a note on the message `note`, else repeats the message. Its answer to `wait` is held by the gate.
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
    pub(crate) async fn start() -> (Self, Gate) {
        let gate = Gate::new();
        let houston = TestHouston::start_with(&[("HOUSTON_SECRETS_KEY", SECRETS_KEY)]);
        let model = ModelServer::start(script(&gate)).await.unwrap();
        let mut worker =
            environment(houston_command(), &houston.servers.lock().unwrap(), houston.folder.path());
        worker.arg("work").envs([
            ("HOUSTON_MODEL", "anthropic/scripted"),
            ("ANTHROPIC_BASE_URL", &model.url()),
            ("ANTHROPIC_API_KEY", "sk-test"),
        ]);
        let worker = Process::spawn(&mut worker).unwrap();
        worker.wait_for_line(PATIENCE, |line| line == "working").unwrap();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        (Self { houston, model, client, _worker: worker }, gate)
    }

    /// Posts a message and waits for the answer.
    pub(crate) async fn talk(&self, goal: &str, text: &str) {
        let key = format!("{goal} {text} {}", self.model.journal().calls());
        let message = self.houston.post(goal, &key, text).await;
        let answered = self.houston.wait_until_answered(&message).await;
        assert_eq!(answered["status"], "answered", "{answered}");
    }

    /// Posts a body; returns the status and the response.
    pub(crate) async fn post(&self, path: &str, key: Option<&str>, body: &Value) -> (u16, Value) {
        let request = self.client.post(self.houston.url(path)).bearer_auth(&self.houston.key);
        let request = key.into_iter().fold(request, |request, key| request.header("Idempotency-Key", key));
        let request = request.header("Content-Type", "application/json").body(body.to_string());
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or_default())
    }

    pub(crate) async fn create(&self, path: &str, body: &Value) -> String {
        let (status, made) = self.post(path, None, body).await;
        assert_eq!(status, 201, "{path}: {made}");
        made["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn of(&self, goal: &str, what: &str) -> Value {
        self.houston.get(&format!("/v1/goals/{goal}/{what}")).await
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let servers = self.houston.servers.lock().unwrap();
        let mut command = environment(houston_command(), &servers, self.houston.folder.path());
        command.args(arguments).output().unwrap()
    }

    /// Runs a command that must succeed; returns stdout and stderr.
    pub(crate) fn output(&self, arguments: &[&str]) -> (String, String) {
        let output = self.run(arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{arguments:?}: {stderr}");
        (String::from_utf8(output.stdout).unwrap(), stderr)
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.output(arguments).0).unwrap()
    }

    pub(crate) fn rows(&self) -> String {
        rows(&self.houston)
    }

    pub(crate) async fn user(&self, goal: &str) -> Value {
        self.houston.get(&format!("/v1/goals/{goal}")).await["user_id"].clone()
    }
}

/// The row counts of all tables that an import may write.
pub(crate) fn rows(houston: &TestHouston) -> String {
    let tables = [
        "agentables",
        "run_locks",
        "runs",
        "messages",
        "events",
        "history",
        "knowledge_items",
        "sessions",
        "session_states",
        "compressions",
        "tool_results",
        "workspace_files",
        "idempotency_keys",
    ];
    let counts = tables.map(|table| format!("(select count(*) from houston.{table})"));
    houston.sql(&format!("select concat_ws(' ', {})", counts.join(", ")))
}

/// The prefixes of a request up to each cache mark, without the marks. A provider finds a prefix in its cache only if
/// it is equal byte for byte.
fn marked_prefixes(body: &[u8]) -> Vec<String> {
    const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;
    let body = std::str::from_utf8(body).unwrap();
    // In the body tools come last, but for the provider's cache they come first.
    let tools = serde_json::from_str::<Value>(body).unwrap()["tools"].to_string();
    let mut prefix = tools;
    let mut pieces: Vec<&str> = body.split(MARK).collect();
    pieces.pop();
    let prefixes = pieces.into_iter().map(|piece| {
        prefix.push_str(piece);
        prefix.clone()
    });
    prefixes.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_and_time_do_not_invalidate_the_prompt_cache() {
    let (people, _) = People::start().await;
    let goal = people.houston.goal("Tokyo").await;
    for text in ["note", "hello", "note", "and now?"] {
        people.talk(&goal, text).await;
    }
    let bodies: Vec<_> = people.model.journal().exchanges().into_iter().map(|one| one.body).collect();
    assert_eq!(bodies.len(), 6, "two calls for a note");
    let mut contexts = Vec::new();
    for (before, after) in bodies.iter().zip(&bodies[1..]) {
        let (written, found) = (marked_prefixes(before), marked_prefixes(after));
        assert_eq!((&written[..2], found.len()), (&found[..2], 4), "the system prompt");
        assert!(found.contains(written.last().unwrap()), "everything that the previous call has cached");
        let body: Value = serde_json::from_slice(after).unwrap();
        let last =
            body["messages"].as_array().unwrap().last().unwrap()["content"].as_array().unwrap().clone();
        contexts.push(last.last().unwrap()["text"].as_str().unwrap().matches(">Milk</item>").count());
    }
    assert_eq!(contexts, [0, 1, 1, 1, 2], "the system context is current");
}

fn strings(value: &Value, field: &str) -> Vec<String> {
    value.as_array().unwrap().iter().map(|item| item[field].as_str().unwrap().to_owned()).collect()
}

/// The system prompt and the system context of a request, with the frame marks as the API displays them.
fn without_mark(sent: &Value) -> (Vec<String>, String) {
    let system = strings(&sent["system"], "text");
    let all = system.concat();
    let mark = all.rsplit_once("<frame_mark>").unwrap().1.split_once('<').unwrap().0;
    let hidden = |text: &str| text.replace(mark, "hidden");
    let last = sent["messages"].as_array().unwrap().last().unwrap()["content"].as_array().unwrap();
    let context = last.last().unwrap()["text"].as_str().unwrap();
    assert!(context.contains(mark), "{context}");
    (system.iter().map(|text| hidden(text)).collect(), hidden(context))
}

#[tokio::test(flavor = "multi_thread")]
async fn printed_prompt_equals_the_one_sent_to_the_model() {
    let (people, _) = People::start().await;
    let goal = people.houston.goal("Tokyo").await;
    let user = people.user(&goal).await;
    let instructions = format!("/v1/users/{}/custom-instructions", user.as_str().unwrap());
    people.houston.create(&instructions, "ci", &json!({"content": "Answer in <German>."})).await;
    people.talk(&goal, "note").await;
    let shown = people.of(&goal, "prompt").await;
    people.talk(&goal, "hello").await;

    let sent = people.model.journal().last().unwrap();
    let sent: Value = serde_json::from_slice(&sent.body).unwrap();
    let (system, sent_context) = without_mark(&sent);
    assert_eq!(strings(&shown["system"], "text"), system, "equal byte for byte, except the mark");
    let cached: Vec<bool> =
        sent["system"].as_array().unwrap().iter().map(|part| part["cache_control"].is_object()).collect();
    let said: Vec<bool> =
        shown["system"].as_array().unwrap().iter().map(|part| part["cached"] == true).collect();
    assert_eq!(
        (said, cached),
        (vec![true, true, true], vec![true, false, true]),
        "Anthropic takes four marks, of which two are the history's: what others share, and all that is stable"
    );
    let context = shown["system_context"].as_str().unwrap();
    assert_eq!(sent_context, context, "equal byte for byte, at the end, except the mark");
    assert!(context.contains("Today is ") && context.contains(">Milk</item>"), "{context}");
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
            "base",
            "time",
            "conversation"
        ]
    );
    let sum = |field: &str| -> u64 {
        shown["sections"].as_array().unwrap().iter().map(|section| section[field].as_u64().unwrap()).sum()
    };
    assert_eq!(sum("chars"), shown["chars"].as_u64().unwrap());
    let tokens = |of: &str| shown["tokens"][of].as_u64().unwrap();
    assert!(sum("tokens").abs_diff(tokens("system") + tokens("context")) <= 30, "{shown}");
    let positions = strings(&shown["sections"], "sent");
    assert_eq!(positions[7..], ["system", "system_context", "system_context"], "{positions:?}");
    assert!(shown["tokens"]["history"].as_u64().unwrap() > 0);

    let whole: String = strings(&shown["system"], "text").concat() + context;
    let (text, counts) = people.output(&["prompt", &goal]);
    assert_eq!(text, whole, "stdout is the prompt and nothing else");
    for word in ["SECTION", "custom_instructions  agentable", "after the history", "of 16000", "tokens"] {
        assert!(counts.contains(word), "`{counts}` does not contain `{word}`");
    }
    assert_eq!(people.json(&["prompt", &goal, "--json"])["system"], shown["system"]);
    let (text, _) = people.output(&["prompt", &goal, "--tools"]);
    let tools = text.strip_prefix(&whole).unwrap();
    assert_eq!(tools.lines().count(), shown["tools"].as_array().unwrap().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn long_prompt_reports_what_was_left_out() {
    let (people, _) = People::start().await;
    let goal = people.houston.goal("Tokyo").await;
    for nth in 0..20 {
        let long = json!({"content": format!("{nth} {}", "x".repeat(900))});
        people.houston.create(&format!("/v1/goals/{goal}/learnings"), &format!("l{nth}"), &long).await;
        let note = json!({"title": format!("{nth} {}", "t".repeat(190)), "content": "x"});
        people.houston.create(&format!("/v1/goals/{goal}/notes"), &format!("n{nth}"), &note).await;
    }
    let user = people.user(&goal).await;
    let user = user.as_str().unwrap();
    for nth in 0..8 {
        let long = json!({"content": format!("{nth} {}", "x".repeat(900))});
        let path = format!("/v1/users/{user}/custom-instructions");
        people.houston.create(&path, &format!("c{nth}"), &long).await;
    }
    let shown = people.of(&goal, "prompt").await;
    assert!(shown["chars"].as_u64().unwrap() <= 16_000, "{}", shown["chars"]);
    assert_eq!(shown["left_out"][0]["section"], "conversation");
    let stderr = people.output(&["prompt", &goal]).1;
    assert!(stderr.contains("left out of conversation: "), "{stderr}");
    people.talk(&goal, "hello").await;
    let sent: Value = serde_json::from_slice(&people.model.journal().last().unwrap().body).unwrap();
    assert_eq!(strings(&shown["system"], "text"), without_mark(&sent).0);
}

#[tokio::test(flavor = "multi_thread")]
async fn stats_history_and_tools_report_and_bad_ids_are_refused() {
    let (people, _) = People::start().await;
    let goal = people.houston.goal("Tokyo").await;
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
    let (shown, _) = people.output(&["stats", &goal]);
    assert!(shown.contains("2 message_sent") && shown.contains("1 create_note"), "{shown}");

    let (shown, stderr) = people.output(&["history", &goal]);
    assert!(shown.starts_with("POSITION  ROLE") && shown.contains("tool_use create_note"), "{shown}");
    assert!(stderr.contains("8 entries in the open session, 0 in closed ones"), "{stderr}");
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
    let (shown, _) = people.output(&["tools", &goal]);
    assert!(shown.starts_with("TOOL") && shown.contains("not named under `tools`"), "{shown}");

    let hex = &goal["goal_".len()..];
    for (id, code, words) in [
        (format!("run_{hex}"), 2, "kinds are: executor, goal, plan, task, user_agent"),
        ("goal_12".to_owned(), 2, "goal_<32 hex digits>"),
        (format!("task_{hex}"), 1, "there is no task_"),
        (format!("goal_{}", "0".repeat(32)), 1, "there is no goal_0"),
    ] {
        for command in ["state", "history", "tools", "stats", "export", "fork", "reset"] {
            let output = people.run(&[command, &id]);
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(code), "{command} {id}: {stderr}");
            assert!(stderr.contains(words), "{command} {id}: `{stderr}` does not contain `{words}`");
        }
        assert_eq!(people.run(&["prompt", &id]).status.code(), Some(code));
    }
    let monitor = people.json(&["monitor", "--now", "--json"]);
    assert_ne!(monitor["status"], "red", "{monitor}");
    let audit = people.json(&["audit", "--tenant", "test", "--json"]);
    assert_eq!(audit["data"][0]["operation"], "monitor_now", "{audit}");
    let closed = houston_command().args(["state", &goal]).env_remove("DATABASE_URL").output().unwrap();
    assert_eq!(closed.status.code(), Some(2));
}
