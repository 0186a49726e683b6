//! Custom kinds: one file adds a kind; an invalid file stops the program at its start.

use std::path::Path;

use houston_testkit::process::Process;
use serde_json::json;

use crate::test_houston::{PATIENCE, TestHouston, environment, houston_command, serve};

const GOAL: &str = include_str!("../../../../jobs/agents/goal.toml");

/// A folder for `--jobs` with one kind.
fn folder_with(kind: &str, text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("agents")).unwrap();
    std::fs::write(folder.path().join(format!("agents/{kind}.toml")), text).unwrap();
    folder
}

fn project() -> String {
    GOAL.replace("kind = \"goal\"", "kind = \"project\"")
        .replace("[\"waiting\", \"working\", \"archived\"]", "[\"open\", \"working\", \"closed\"]")
        .replace("You are the assistant for one goal", "You run a project")
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_kind_works_with_one_file() {
    let houston = TestHouston::start();
    let folder = folder_with("project", &project());
    let jobs = || {
        let mut process =
            environment(houston_command(), &houston.servers.lock().unwrap(), houston.folder.path());
        process.env("HOUSTON_JOBS", folder.path());
        process
    };
    let (address, _serve) = serve(jobs());
    let worker = Process::spawn(jobs().arg("work")).unwrap();
    worker.wait_for_line(PATIENCE, |line| line == "working").unwrap();

    let url = |path: &str| format!("http://{address}{path}");
    let get = async |path: &str| {
        let body = houston.open(&url(path)).await.bytes().await.unwrap();
        serde_json::from_slice::<serde_json::Value>(&body).unwrap_or_default()
    };
    let user = houston.post_to(&url("/v1/users"), &json!({"name": "Ada"})).await;
    let body = json!({"user_id": user["id"], "title": "Build a boat", "description": "Of wood."});
    let project = houston.post_to(&url("/v1/projects"), &body).await;
    let id = project["id"].as_str().unwrap();
    assert!(id.starts_with("project_"), "{project}");
    assert_eq!(project["status"], "open", "the first status of its file");

    let path = format!("/v1/projects/{id}");
    let message = json!({"content": "Please create a note: buy planks"});
    let posted = houston.post_to(&url(&format!("{path}/messages")), &message).await;
    assert_eq!(posted["project_id"], id);
    let answered = houston.wait_until_answered(&posted).await;
    assert_eq!(answered["status"], "answered", "{answered}");
    let thread = get(&format!("{path}/messages")).await;
    let newest = &thread["data"][0];
    assert_eq!((&newest["source"], &newest["message_type"]), (&json!("agent"), &json!("text")), "{thread}");
    let notes = get(&format!("{path}/notes")).await;
    assert_eq!(
        (&notes["data"][0]["title"], &notes["data"][0]["project_id"]),
        (&json!("buy planks"), &json!(id))
    );
    let elsewhere = houston.open(&houston.url(&path)).await;
    assert_eq!(elsewhere.status().as_u16(), 404, "a server without the file does not know the kind");
}

fn refused(folder: &Path, arguments: &[&str], words: &[&str]) {
    let mut command = houston_command();
    command.env_remove("DATABASE_URL").env_remove("HOUSTON_REDIS_URL").env("HOUSTON_JOBS", folder);
    let output = command.args(arguments).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "{arguments:?}: `{stderr}` does not contain `{word}`");
    }
}

#[test]
fn invalid_kind_file_stops_every_command_with_its_position() {
    for (from, to, words) in [
        ("archives", "archive", &["line 4, column 1", "`archive`", "did you mean `archives`?"][..]),
        (
            "\"create_note\"",
            "\"create_notes\"",
            &["no tool `create_notes`", "list_notes", "did you mean `create_note`?"],
        ),
        ("use_case = \"agent\"", "use_case = \"agents\"", &["`agents`", "did you mean `agent`?"]),
        ("kind = \"project\"", "kind = \"run\"", &["line 2, column 8", "project.toml"]),
    ] {
        let text = project();
        assert!(text.contains(from), "{from}");
        let folder = folder_with("project", &text.replacen(from, to, 1));
        for arguments in [&["config", "show"][..], &["serve"], &["work"]] {
            refused(folder.path(), arguments, words);
            refused(folder.path(), arguments, &["agents/project.toml: line "]);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("models.toml"), "agent = \"antropic/claude\"").unwrap();
    refused(folder.path(), &["config", "show"], &["models.agent", "models.toml", "antropic"]);
}
