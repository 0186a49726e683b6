//! A kind of one's own: one file, and everything works with it. A file that is wrong stops the program at its start.

use std::path::Path;

use houston_testkit::process::Process;
use serde_json::json;

use crate::house::{House, PATIENCE, environment, houston, serve};

const GOAL: &str = include_str!("../../../../jobs/agents/goal.toml");

/// A folder for `--jobs` with one kind in it.
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
async fn a_kind_is_one_file_and_its_agentables_are_made_talked_with_and_answered() {
    let house = House::start();
    let folder = folder_with("project", &project());
    let jobs = || {
        let mut process = environment(houston(), &house.servers.lock().unwrap(), house.folder.path());
        process.env("HOUSTON_JOBS", folder.path());
        process
    };
    let (address, _serve) = serve(jobs());
    let worker = Process::spawn(jobs().arg("work")).unwrap();
    worker.wait_for_line(PATIENCE, |line| line == "working").unwrap();

    let url = |path: &str| format!("http://{address}{path}");
    let get = async |path: &str| {
        let body = house.open(&url(path)).await.bytes().await.unwrap();
        serde_json::from_slice::<serde_json::Value>(&body).unwrap_or_default()
    };
    let user = house.post_to(&url("/v1/users"), &json!({"name": "Ada"})).await;
    let body = json!({"user_id": user["id"], "title": "Build a boat", "description": "Of wood."});
    let project = house.post_to(&url("/v1/projects"), &body).await;
    let id = project["id"].as_str().unwrap();
    assert!(id.starts_with("project_"), "{project}");
    assert_eq!(project["status"], "open", "the first status of its file");

    let path = format!("/v1/projects/{id}");
    let message = json!({"content": "Please create a note: buy planks"});
    let posted = house.post_to(&url(&format!("{path}/messages")), &message).await;
    assert_eq!(posted["project_id"], id);
    let answered = house.answered(&posted).await;
    assert_eq!(answered["status"], "answered", "{answered}");
    let thread = get(&format!("{path}/messages")).await;
    let newest = &thread["data"][0];
    assert_eq!((&newest["source"], &newest["message_type"]), (&json!("agent"), &json!("text")), "{thread}");
    let notes = get(&format!("{path}/notes")).await;
    assert_eq!(
        (&notes["data"][0]["title"], &notes["data"][0]["project_id"]),
        (&json!("buy planks"), &json!(id))
    );
    let elsewhere = house.open(&house.url(&path)).await;
    assert_eq!(elsewhere.status().as_u16(), 404, "a server without the file does not know the kind");
}

fn refused(folder: &Path, arguments: &[&str], words: &[&str]) {
    let mut command = houston();
    command.env_remove("DATABASE_URL").env_remove("HOUSTON_REDIS_URL").env("HOUSTON_JOBS", folder);
    let output = command.args(arguments).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
    for word in words {
        assert!(told.contains(word), "{arguments:?}: `{told}` does not say `{word}`");
    }
}

#[test]
fn a_wrong_kind_file_stops_every_command_and_says_where_and_what_is_allowed() {
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
