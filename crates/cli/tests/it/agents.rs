//! Agents over REST: made, chosen, changed while workers run, put back, taken over from their files.

use std::path::Path;
use std::process::Command;

use houston_testkit::process::Process;
use serde_json::{Value, json};

use crate::house::{PATIENCE, environment, houston, serve};
use crate::scripted::{Scripted, answer};

/// The tenant's agent of this name.
async fn named(rig: &Scripted, name: &str) -> Value {
    let agents = rig.ok("GET", "/v1/agents?limit=100", Value::Null).await;
    let found = agents["data"].as_array().unwrap().iter().find(|agent| agent["name"] == name).cloned();
    found.unwrap_or_else(|| panic!("no agent `{name}`: {agents}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_lives_from_its_making_to_its_end() {
    let rig = Scripted::start(answer).await;
    let goal = named(&rig, "goal").await;
    assert_eq!(
        (&goal["is_default"], &goal["changed"], &goal["kind"]),
        (&json!(true), &json!(false), &json!("goal"))
    );
    assert_eq!((&goal["provider"], &goal["model"]), (&json!("default"), &json!("default")));
    assert!(goal["role"].as_str().unwrap().contains("one goal of your user"), "as its file says: {goal}");
    for kind in ["task", "user_agent"] {
        assert_eq!(named(&rig, kind).await["is_default"], true);
    }

    let body = json!({"name": "cook", "kind": "goal", "description": "recipes", "role": "COOK",
                      "tools": ["send_message", "create_note"], "limits": {"max_iterations": 3}});
    let cook = rig.house.create("/v1/agents", "cook", &body).await;
    assert_eq!(rig.house.create("/v1/agents", "cook", &body).await, cook, "the same key makes one");
    let path = format!("/v1/agents/{}", cook["id"].as_str().unwrap());
    assert_eq!(rig.ok("GET", &path, Value::Null).await, cook);
    assert_eq!(cook["limits"], json!({"max_iterations": 3}));
    assert_eq!(cook["guidelines"], goal["guidelines"], "what was not given is as the kind's file says");

    let (status, told) = rig.refused("POST", "/v1/agents", json!({"name": "cook", "kind": "goal"})).await;
    assert!(status == 409 && told.contains("already_exists"), "{told}");
    let (status, told) = rig.refused("POST", "/v1/agents", json!({"name": "goal", "kind": "task"})).await;
    assert!(status == 409 && told.contains("already_exists"), "the names of kinds are taken: {told}");

    let changed = rig.ok("PATCH", &path, json!({"name": "chef", "version": 1})).await;
    assert_eq!(
        (&changed["name"], &changed["version"], &changed["role"]),
        (&json!("chef"), &json!(2), &json!("COOK"))
    );
    let (status, told) = rig.refused("PATCH", &path, json!({"name": "other", "version": 1})).await;
    assert!(status == 409 && told.contains("stale_version") && told.contains("version 2"), "{told}");
    let (status, told) = rig.refused("POST", &format!("{path}/reset"), Value::Null).await;
    assert!(status == 409 && told.contains("no_default_agent"), "{told}");

    let of_goal = format!("/v1/agents/{}", goal["id"].as_str().unwrap());
    let (status, told) = rig.refused("DELETE", &of_goal, Value::Null).await;
    assert!(status == 409 && told.contains("default_agent") && told.contains("reset"), "{told}");
    let user = rig.goal(json!({"agent_id": cook["id"]})).await;
    let (status, told) = rig.refused("DELETE", &path, Value::Null).await;
    assert!(status == 409 && told.contains("in_use") && told.contains(&user), "by whom: {told}");
    let freed = rig.ok("PATCH", &format!("/v1/goals/{user}"), json!({"agent_id": null})).await;
    assert_eq!(freed["agent_id"], Value::Null);
    rig.ok("DELETE", &path, Value::Null).await;
    assert_eq!(rig.send("GET", &path, Value::Null).await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_knows_is_refused_with_its_place_what_is_allowed_and_the_nearest() {
    let rig = Scripted::start(answer).await;
    let cook = rig.agent("cook", json!({})).await;
    let task = rig.agent("porter", json!({"kind": "task"})).await;
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
        (json!({}), ["nothing changes", "guidelines", "invalid_request"]),
    ] {
        let (status, told) = rig.refused("PATCH", &path, body.clone()).await;
        assert_eq!(status, 422, "{body}: {told}");
        for word in words {
            assert!(told.contains(word), "{body}: `{told}` does not say `{word}`");
        }
    }
    let newer = json!({"provider": "openai", "model": "gpt-99", "allow_unlisted_model": true});
    assert_eq!(rig.ok("PATCH", &path, newer).await["model"], "gpt-99");
    let user = rig.ok("POST", "/v1/users", json!({"name": "Ada"})).await;
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
        let (_, told) = rig.refused("POST", "/v1/goals", body).await;
        for word in words {
            assert!(told.contains(word), "`{told}` does not say `{word}`");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_seen_by_the_next_run_on_every_worker_that_runs() {
    let rig = Scripted::start(answer).await;
    let _workers = [rig.worker("local/usual"), rig.worker("local/usual")];
    let cook = rig.agent("cook", json!({"tools": ["send_message"]})).await;
    let path = format!("/v1/agents/{cook}");
    let mut goals = Vec::new();
    for _ in 0..4 {
        goals.push(rig.goal(json!({"agent_id": cook})).await);
    }
    let plain = rig.goal(json!({})).await;
    for (change, said) in [
        (json!({"name": "cook"}), "COOK by usual"),
        (json!({"role": "BAKER"}), "BAKER by usual"),
        (json!({"provider": "local", "model": "rare"}), "BAKER by rare"),
        (json!({"provider": "default", "model": "rare2"}), "BAKER by rare2"),
        (json!({"provider": "default", "model": "default"}), "BAKER by usual"),
    ] {
        rig.ok("PATCH", &path, change).await;
        for goal in &goals {
            assert_eq!(rig.ask(goal, "hello").await, said);
        }
    }
    assert!(rig.asked().iter().all(|asked| asked.tools == ["send_message"]), "its tools alone");
    assert!(rig.ask(&plain, "hello").await.starts_with("You are the assistant"), "others are as they were");
    assert!(rig.asked().last().unwrap().tools.len() > 5);

    // The default one of a kind: for all that chose none.
    let goal = named(&rig, "goal").await;
    let of_goal = format!("/v1/agents/{}", goal["id"].as_str().unwrap());
    rig.ok("PATCH", &of_goal, json!({"role": "GUIDE"})).await;
    assert_eq!(rig.ask(&plain, "hello").await, "GUIDE by usual");
    assert_eq!(rig.ask(&goals[0], "hello").await, "BAKER by usual");
    let back = rig.ok("POST", &format!("{of_goal}/reset"), Value::Null).await;
    assert_eq!((&back["changed"], &back["role"]), (&json!(false), &goal["role"]));
    assert!(rig.ask(&plain, "hello").await.starts_with("You are the assistant"));

    // Another one for a goal that is there.
    rig.ok("PATCH", &format!("/v1/goals/{plain}"), json!({"agent_id": cook})).await;
    assert_eq!(rig.ask(&plain, "hello").await, "BAKER by usual");
}

#[tokio::test(flavor = "multi_thread")]
async fn default_stands_for_whatever_serves_the_use_case_when_the_run_begins() {
    let rig = Scripted::start(answer).await;
    let cook = rig.agent("cook", json!({})).await;
    let goal = rig.goal(json!({"agent_id": cook})).await;
    let worker = rig.worker("local/one");
    assert_eq!(rig.ask(&goal, "hello").await, "COOK by one");
    drop(worker);
    let _worker = rig.worker("local/two");
    assert_eq!(rig.ask(&goal, "hello").await, "COOK by two");
    // A provider without a key cannot be asked: the run says what to set, and the agent can be mended.
    rig.ok("PATCH", &format!("/v1/agents/{cook}"), json!({"provider": "groq"})).await;
    let posted = rig.ok("POST", &format!("/v1/goals/{goal}/messages"), json!({"content": "hello"})).await;
    let run = format!("/v1/runs/{}", posted["run_id"].as_str().unwrap());
    assert_eq!(rig.house.answered(&posted).await["status"], "failed");
    let run = rig.house.get(&run).await;
    assert!(run.to_string().contains("GROQ_API_KEY"), "{run}");
    rig.ok("PATCH", &format!("/v1/agents/{cook}"), json!({"provider": "default"})).await;
    assert_eq!(rig.ask(&goal, "hello").await, "COOK by two");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_answers_in_the_place_of_an_agent_that_is_disabled() {
    let rig = Scripted::start(answer).await;
    let _worker = rig.worker("local/usual");
    let cook = rig.agent("cook", json!({})).await;
    let goal = rig.goal(json!({"agent_id": cook})).await;
    let path = format!("/v1/agents/{cook}");
    rig.ok("PATCH", &path, json!({"enabled": false})).await;
    let posted = rig.ok("POST", &format!("/v1/goals/{goal}/messages"), json!({"content": "hello"})).await;
    let watched = rig.house.watch(&format!("/v1/goals/{goal}/events")).await;
    let error = watched.errors.last().unwrap().to_string();
    assert!(error.contains("AGENT_UNAVAILABLE"), "{error}");
    let run = rig.house.get(&format!("/v1/runs/{}", posted["run_id"].as_str().unwrap())).await;
    assert!(run["error"]["message"].as_str().unwrap().contains("`cook` is disabled"), "{run}");
    assert_eq!(rig.house.answered(&posted).await["status"], "failed");
    assert!(rig.asked().is_empty(), "no model was asked");
    let (status, told) = rig.refused("PATCH", &format!("/v1/goals/{goal}"), json!({"agent_id": cook})).await;
    assert!(status == 422 && told.contains("disabled"), "{told}");
    rig.ok("PATCH", &path, json!({"enabled": true})).await;
    assert_eq!(rig.ask(&goal, "again").await, "COOK by usual");
}

/// The file of a kind like a goal whose role begins so.
fn write(folder: &Path, kind: &str, role: &str) {
    let text = include_str!("../../../../jobs/agents/goal.toml");
    let text = text.replace("kind = \"goal\"", &format!("kind = \"{kind}\""));
    let text = text.replace("You are the assistant for one goal", &format!("{role}\nYou work"));
    std::fs::write(folder.join(format!("agents/{kind}.toml")), text).unwrap();
}

/// Houston with the files of this folder, and the scripted model.
fn with_files(rig: &Scripted, folder: &Path) -> Command {
    let mut command = environment(houston(), &rig.house.servers.lock().unwrap(), rig.house.folder.path());
    command.env("HOUSTON_JOBS", folder);
    command.env("HOUSTON_MODEL", "local/usual").env("HOUSTON_LOCAL_URL", rig.model.url());
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn default_agents_follow_their_files_unless_somebody_changed_them() {
    let rig = Scripted::start(answer).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("agents")).unwrap();
    let write = |kind: &str, role: &str| write(folder.path(), kind, role);
    write("goal", "FIRST");
    write("project", "FIRST");
    let jobs = || with_files(&rig, folder.path());
    let (address, server) = serve(jobs());
    let worker = Process::spawn(jobs().arg("work")).unwrap();
    worker.wait_for_line(PATIENCE, |line| line == "working").unwrap();
    let send = async |method: &str, path: &str, body: Value| {
        rig.send_to(&format!("http://{address}{path}"), method, body).await
    };
    let goal = rig.goal(json!({})).await;
    assert_eq!(
        rig.ask(&goal, "hello").await,
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
    // Of these no file says anything.
    let named = json!({"name": "guide", "description": "shows the way"});
    let (_, told) = send("PATCH", &format!("/v1/agents/{of_goal}"), named).await;
    assert_eq!(told["changed"], false, "{told}");

    write("goal", "SECOND");
    write("boat", "FIRST");
    assert_eq!(rig.ask(&goal, "hello").await, "FIRST by usual");
    let (status, report) = send("POST", "/v1/agents/resync", Value::Null).await;
    assert_eq!(status, 200, "{report}");
    assert_eq!(
        report,
        json!({"created": [], "updated": ["goal"], "unchanged": ["project", "user_agent"], "kept": ["task"],
               "needs_restart": ["boat"]})
    );
    assert_eq!(rig.ask(&goal, "hello").await, "SECOND by usual", "the same worker");
    let (_, guide) = send("GET", &format!("/v1/agents/{of_goal}"), Value::Null).await;
    assert_eq!((&guide["name"], &guide["description"]), (&json!("guide"), &json!("shows the way")));

    // A file that is wrong changes nothing, and says where.
    std::fs::write(folder.path().join("agents/goal.toml"), "kind = \"goal\"\nconversationl = true").unwrap();
    let (status, told) = send("POST", "/v1/agents/resync", Value::Null).await;
    assert!(status == 409 && told["detail"].as_str().unwrap().contains("goal.toml: line 2"), "{told}");
    assert_eq!(rig.ask(&goal, "hello").await, "SECOND by usual");

    // One by one.
    write("goal", "THIRD");
    let (_, back) = send("POST", &format!("/v1/agents/{task}/reset"), Value::Null).await;
    assert!(back["changed"] == false && back["role"].as_str().unwrap().contains("one task"), "{back}");
    let (_, back) = send("POST", &format!("/v1/agents/{of_goal}/reset"), Value::Null).await;
    assert!(back["role"].as_str().unwrap().contains("THIRD"), "{back}");
    assert_eq!(rig.ask(&goal, "hello").await, "THIRD by usual");

    // A server that starts takes the files along, as workers do.
    write("goal", "FOURTH");
    drop(server);
    let (_, _server) = serve(jobs());
    let path = format!("/v1/agents/{of_goal}");
    let follows = |agent: &Value| agent["role"].as_str().is_some_and(|role| role.contains("FOURTH"));
    assert_eq!(rig.house.until(&path, "the file's", follows).await["changed"], false);
    assert_eq!(rig.ask(&goal, "hello").await, "FOURTH by usual");
}
