//! Agents over REST: created, selected, changed while workers run, reset, synced with their files.

use std::path::Path;
use std::process::Command;

use houston_testkit::process::Process;
use serde_json::{Value, json};

use crate::scripted::{Scripted, answer};
use crate::test_houston::{PATIENCE, environment, houston_command, serve};

/// The tenant's agent of this name.
async fn agent_named(scripted: &Scripted, name: &str) -> Value {
    let agents = scripted.ok("GET", "/v1/agents?limit=100", Value::Null).await;
    let found = agents["data"].as_array().unwrap().iter().find(|agent| agent["name"] == name).cloned();
    found.unwrap_or_else(|| panic!("no agent `{name}`: {agents}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_is_created_changed_and_deleted() {
    let scripted = Scripted::start(answer).await;
    let goal = agent_named(&scripted, "goal").await;
    assert_eq!(
        (&goal["is_default"], &goal["changed"], &goal["kind"]),
        (&json!(true), &json!(false), &json!("goal"))
    );
    assert_eq!((&goal["provider"], &goal["model"]), (&json!("default"), &json!("default")));
    assert!(goal["role"].as_str().unwrap().contains("one goal of your user"), "as its file says: {goal}");
    for kind in ["task", "user_agent"] {
        assert_eq!(agent_named(&scripted, kind).await["is_default"], true);
    }

    let body = json!({"name": "cook", "kind": "goal", "description": "recipes", "role": "COOK",
                      "tools": ["send_message", "create_note"], "limits": {"max_iterations": 3}});
    let cook = scripted.houston.create("/v1/agents", "cook", &body).await;
    assert_eq!(scripted.houston.create("/v1/agents", "cook", &body).await, cook, "the same key makes one");
    let path = format!("/v1/agents/{}", cook["id"].as_str().unwrap());
    assert_eq!(scripted.ok("GET", &path, Value::Null).await, cook);
    assert_eq!(cook["limits"], json!({"max_iterations": 3}));
    assert_eq!(cook["guidelines"], goal["guidelines"], "what was not given is as the kind's file says");

    let (status, problem) =
        scripted.refused("POST", "/v1/agents", json!({"name": "cook", "kind": "goal"})).await;
    assert!(status == 409 && problem.contains("already_exists"), "{problem}");
    let (status, problem) =
        scripted.refused("POST", "/v1/agents", json!({"name": "goal", "kind": "task"})).await;
    assert!(status == 409 && problem.contains("already_exists"), "the names of kinds are taken: {problem}");

    let changed = scripted.ok("PATCH", &path, json!({"name": "chef", "version": 1})).await;
    assert_eq!(
        (&changed["name"], &changed["version"], &changed["role"]),
        (&json!("chef"), &json!(2), &json!("COOK"))
    );
    let (status, problem) = scripted.refused("PATCH", &path, json!({"name": "other", "version": 1})).await;
    assert!(
        status == 409 && problem.contains("stale_version") && problem.contains("version is 2"),
        "{problem}"
    );
    let (status, problem) = scripted.refused("POST", &format!("{path}/reset"), Value::Null).await;
    assert!(status == 409 && problem.contains("no_default_agent"), "{problem}");

    let of_goal = format!("/v1/agents/{}", goal["id"].as_str().unwrap());
    let (status, problem) = scripted.refused("DELETE", &of_goal, Value::Null).await;
    assert!(status == 409 && problem.contains("default_agent") && problem.contains("reset"), "{problem}");
    let user = scripted.goal(json!({"agent_id": cook["id"]})).await;
    let (status, problem) = scripted.refused("DELETE", &path, Value::Null).await;
    assert!(status == 409 && problem.contains("in_use") && problem.contains(&user), "by whom: {problem}");
    let freed = scripted.ok("PATCH", &format!("/v1/goals/{user}"), json!({"agent_id": null})).await;
    assert_eq!(freed["agent_id"], Value::Null);
    scripted.ok("DELETE", &path, Value::Null).await;
    assert_eq!(scripted.send("GET", &path, Value::Null).await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_agent_fields_are_refused_with_suggestions() {
    let scripted = Scripted::start(answer).await;
    let cook = scripted.agent("cook", json!({})).await;
    let task = scripted.agent("porter", json!({"kind": "task"})).await;
    let path = format!("/v1/agents/{cook}");
    for (body, words) in [
        (
            json!({"tools": ["creat_note"]}),
            ["/tools/0", "no tool `creat_note`", "did you mean `create_note`?"],
        ),
        (json!({"use_case": "title"}), ["/use_case", "planner", "did you mean `titles`?"]),
        (json!({"provider": "antropic"}), ["/provider", "openrouter", "did you mean `anthropic`?"]),
        (json!({"provider": "openai", "model": "gpt-5-mni"}), ["/model", "`gpt-5-mni`", "`gpt-5-mini`"]),
        (
            json!({"limits": {"max_iterations": 1000}}),
            ["/limits/max_iterations", "from 1 to", "invalid_request"],
        ),
        (json!({"kind": "task"}), ["/kind", "cannot be changed", "invalid_request"]),
        (json!({"rule": "x"}), ["/rule", "unknown field", "role"]),
        (json!({}), ["nothing to change", "guidelines", "invalid_request"]),
    ] {
        let (status, problem) = scripted.refused("PATCH", &path, body.clone()).await;
        assert_eq!(status, 422, "{body}: {problem}");
        for word in words {
            assert!(problem.contains(word), "{body}: `{problem}` does not contain `{word}`");
        }
    }
    let newer = json!({"provider": "openai", "model": "gpt-99", "allow_unlisted_model": true});
    assert_eq!(scripted.ok("PATCH", &path, newer).await["model"], "gpt-99");
    let user = scripted.ok("POST", "/v1/users", json!({"name": "Ada"})).await;
    for (served_by, words) in [
        (json!({"agent_id": task}), ["/agent_id", "of the kind `task`", "`goal`"]),
        (
            json!({"agent_id": "agent_00000000000000000000000000000000"}),
            ["/agent_id", "there is no agent", "422"],
        ),
        (json!({"team_id": "goal_1"}), ["/team_id", "is not an id of the form", "team"]),
    ] {
        let mut body = served_by;
        body["user_id"] = user["id"].clone();
        body["title"] = json!("Tokyo");
        let (_, problem) = scripted.refused("POST", "/v1/goals", body).await;
        for word in words {
            assert!(problem.contains(word), "`{problem}` does not contain `{word}`");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_agent_is_used_by_the_next_run_on_every_worker() {
    let scripted = Scripted::start(answer).await;
    let _workers = [scripted.worker("local/usual"), scripted.worker("local/usual")];
    let cook = scripted.agent("cook", json!({"tools": ["send_message"]})).await;
    let path = format!("/v1/agents/{cook}");
    let mut goals = Vec::new();
    for _ in 0..4 {
        goals.push(scripted.goal(json!({"agent_id": cook})).await);
    }
    let plain = scripted.goal(json!({})).await;
    for (change, said) in [
        (json!({"name": "cook"}), "COOK by usual"),
        (json!({"role": "BAKER"}), "BAKER by usual"),
        (json!({"provider": "local", "model": "rare"}), "BAKER by rare"),
        (json!({"provider": "default", "model": "rare2"}), "BAKER by rare2"),
        (json!({"provider": "default", "model": "default"}), "BAKER by usual"),
    ] {
        scripted.ok("PATCH", &path, change).await;
        for goal in &goals {
            assert_eq!(scripted.ask(goal, "hello").await, said);
        }
    }
    assert!(scripted.asked().iter().all(|asked| asked.tools == ["send_message"]), "its tools alone");
    assert!(
        scripted.ask(&plain, "hello").await.starts_with("You are the assistant"),
        "others are as they were"
    );
    assert!(scripted.asked().last().unwrap().tools.len() > 5);

    // The default agent of a kind answers goals without a selection.
    let goal = agent_named(&scripted, "goal").await;
    let of_goal = format!("/v1/agents/{}", goal["id"].as_str().unwrap());
    scripted.ok("PATCH", &of_goal, json!({"role": "GUIDE"})).await;
    assert_eq!(scripted.ask(&plain, "hello").await, "GUIDE by usual");
    assert_eq!(scripted.ask(&goals[0], "hello").await, "BAKER by usual");
    let back = scripted.ok("POST", &format!("{of_goal}/reset"), Value::Null).await;
    assert_eq!((&back["changed"], &back["role"]), (&json!(false), &goal["role"]));
    assert!(scripted.ask(&plain, "hello").await.starts_with("You are the assistant"));

    // An existing goal can select another agent.
    scripted.ok("PATCH", &format!("/v1/goals/{plain}"), json!({"agent_id": cook})).await;
    assert_eq!(scripted.ask(&plain, "hello").await, "BAKER by usual");
}

#[tokio::test(flavor = "multi_thread")]
async fn default_model_is_resolved_when_a_run_begins() {
    let scripted = Scripted::start(answer).await;
    let cook = scripted.agent("cook", json!({})).await;
    let goal = scripted.goal(json!({"agent_id": cook})).await;
    let worker = scripted.worker("local/one");
    assert_eq!(scripted.ask(&goal, "hello").await, "COOK by one");
    drop(worker);
    let _worker = scripted.worker("local/two");
    assert_eq!(scripted.ask(&goal, "hello").await, "COOK by two");
    // The provider has no key: the run's error says what to set, and the agent can be changed.
    scripted.ok("PATCH", &format!("/v1/agents/{cook}"), json!({"provider": "groq"})).await;
    let posted =
        scripted.ok("POST", &format!("/v1/goals/{goal}/messages"), json!({"content": "hello"})).await;
    let run = format!("/v1/runs/{}", posted["run_id"].as_str().unwrap());
    assert_eq!(scripted.houston.wait_until_answered(&posted).await["status"], "failed");
    let run = scripted.houston.get(&run).await;
    assert!(run.to_string().contains("GROQ_API_KEY"), "{run}");
    scripted.ok("PATCH", &format!("/v1/agents/{cook}"), json!({"provider": "default"})).await;
    assert_eq!(scripted.ask(&goal, "hello").await, "COOK by two");
}

#[tokio::test(flavor = "multi_thread")]
async fn disabled_agent_is_not_replaced_by_another() {
    let scripted = Scripted::start(answer).await;
    let _worker = scripted.worker("local/usual");
    let cook = scripted.agent("cook", json!({})).await;
    let goal = scripted.goal(json!({"agent_id": cook})).await;
    let path = format!("/v1/agents/{cook}");
    scripted.ok("PATCH", &path, json!({"enabled": false})).await;
    let posted =
        scripted.ok("POST", &format!("/v1/goals/{goal}/messages"), json!({"content": "hello"})).await;
    let received = scripted.houston.watch(&format!("/v1/goals/{goal}/events")).await;
    let error = received.errors.last().unwrap().to_string();
    assert!(error.contains("AGENT_UNAVAILABLE"), "{error}");
    let run = scripted.houston.get(&format!("/v1/runs/{}", posted["run_id"].as_str().unwrap())).await;
    assert!(run["error"]["message"].as_str().unwrap().contains("`cook` is disabled"), "{run}");
    assert_eq!(scripted.houston.wait_until_answered(&posted).await["status"], "failed");
    assert!(scripted.asked().is_empty(), "no model was asked");
    let (status, problem) =
        scripted.refused("PATCH", &format!("/v1/goals/{goal}"), json!({"agent_id": cook})).await;
    assert!(status == 422 && problem.contains("disabled"), "{problem}");
    scripted.ok("PATCH", &path, json!({"enabled": true})).await;
    assert_eq!(scripted.ask(&goal, "again").await, "COOK by usual");
}

/// Writes the file of a kind like goal with this role.
fn write_kind(folder: &Path, kind: &str, role: &str) {
    let text = include_str!("../../../../jobs/agents/goal.toml");
    let text = text.replace("kind = \"goal\"", &format!("kind = \"{kind}\""));
    let text = text.replace("You are the assistant for one goal", &format!("{role}\nYou work"));
    std::fs::write(folder.join(format!("agents/{kind}.toml")), text).unwrap();
}

/// A command with the agent files of this folder, and the scripted model.
fn with_files(scripted: &Scripted, folder: &Path) -> Command {
    let mut command = environment(
        houston_command(),
        &scripted.houston.servers.lock().unwrap(),
        scripted.houston.folder.path(),
    );
    command.env("HOUSTON_JOBS", folder);
    command.env("HOUSTON_MODEL", "local/usual").env("HOUSTON_LOCAL_URL", scripted.model.url());
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn unchanged_default_agents_follow_their_files() {
    let scripted = Scripted::start(answer).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("agents")).unwrap();
    let write_kind = |kind: &str, role: &str| write_kind(folder.path(), kind, role);
    write_kind("goal", "FIRST");
    write_kind("project", "FIRST");
    let jobs = || with_files(&scripted, folder.path());
    let (address, server) = serve(jobs());
    let worker = Process::spawn(jobs().arg("work")).unwrap();
    worker.wait_for_line(PATIENCE, |line| line == "working").unwrap();
    let send = async |method: &str, path: &str, body: Value| {
        scripted.send_to(&format!("http://{address}{path}"), method, body).await
    };
    let goal = scripted.goal(json!({})).await;
    assert_eq!(
        scripted.ask(&goal, "hello").await,
        "FIRST by usual",
        "the file itself, where no agent is kept yet"
    );
    let (_, agents) = send("GET", "/v1/agents?limit=100", Value::Null).await;
    let find = |name: &str| {
        let all = agents["data"].as_array().unwrap().iter();
        all.clone().find(|agent| agent["name"] == name).unwrap()["id"].as_str().unwrap().to_owned()
    };
    let (task, of_goal) = (find("task"), find("goal"));
    let (status, _) = send("PATCH", &format!("/v1/agents/{task}"), json!({"role": "MINE"})).await;
    assert_eq!(status, 200);
    // Agents without a file.
    let named = json!({"name": "guide", "description": "shows the way"});
    let (_, problem) = send("PATCH", &format!("/v1/agents/{of_goal}"), named).await;
    assert_eq!(problem["changed"], false, "{problem}");

    write_kind("goal", "SECOND");
    write_kind("boat", "FIRST");
    assert_eq!(scripted.ask(&goal, "hello").await, "FIRST by usual");
    let (status, report) = send("POST", "/v1/agents/resync", Value::Null).await;
    assert_eq!(status, 200, "{report}");
    assert_eq!(
        report,
        json!({"created": [], "updated": ["goal"], "unchanged": ["executor", "plan", "project", "user_agent"], "kept": ["task"],
               "needs_restart": ["boat"]})
    );
    assert_eq!(scripted.ask(&goal, "hello").await, "SECOND by usual", "the same worker");
    let (_, guide) = send("GET", &format!("/v1/agents/{of_goal}"), Value::Null).await;
    assert_eq!((&guide["name"], &guide["description"]), (&json!("guide"), &json!("shows the way")));

    // An invalid file is refused with its position, and changes nothing.
    std::fs::write(folder.path().join("agents/goal.toml"), "kind = \"goal\"\nconversationl = true").unwrap();
    let (status, problem) = send("POST", "/v1/agents/resync", Value::Null).await;
    assert!(status == 409 && problem["detail"].as_str().unwrap().contains("goal.toml: line 2"), "{problem}");
    assert_eq!(scripted.ask(&goal, "hello").await, "SECOND by usual");

    // Resync of a single agent.
    write_kind("goal", "THIRD");
    let (_, back) = send("POST", &format!("/v1/agents/{task}/reset"), Value::Null).await;
    assert!(back["changed"] == false && back["role"].as_str().unwrap().contains("one task"), "{back}");
    let (_, back) = send("POST", &format!("/v1/agents/{of_goal}/reset"), Value::Null).await;
    assert!(back["role"].as_str().unwrap().contains("THIRD"), "{back}");
    assert_eq!(scripted.ask(&goal, "hello").await, "THIRD by usual");

    // A server syncs default agents with the files when it starts, like a worker.
    write_kind("goal", "FOURTH");
    drop(server);
    let (_, _server) = serve(jobs());
    let path = format!("/v1/agents/{of_goal}");
    let follows = |agent: &Value| agent["role"].as_str().is_some_and(|role| role.contains("FOURTH"));
    assert_eq!(scripted.houston.wait_until(&path, "the file's", follows).await["changed"], false);
    assert_eq!(scripted.ask(&goal, "hello").await, "FOURTH by usual");
}
