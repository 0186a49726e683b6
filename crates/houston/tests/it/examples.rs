//! The examples, run as programs.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

use houston_testkit::model_server::{Call, ModelServer, Reply};
use serde_json::{Value, json};

use crate::installation::installation;

/// The program of an example, which cargo has built with this test.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let program: PathBuf = test.parent().unwrap().parent().unwrap().join("examples").join(name);
    assert!(program.exists(), "{} is missing: build the examples", program.display());
    let mut command = Command::new(program);
    command.env_remove("DATABASE_URL").env_remove("HOUSTON_REDIS_URL");
    command
}

/// Runs a program; returns what it printed.
fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs an example with a scripted model; returns what it printed, and the requests.
async fn run_with(name: &'static str, script: fn(&Call) -> Reply) -> (String, Vec<Value>) {
    let requests: Arc<Mutex<Vec<Value>>> = Arc::default();
    let recorded = Arc::clone(&requests);
    let model = ModelServer::start(move |call: &Call| {
        recorded.lock().unwrap().push(call.json().clone());
        script(call)
    });
    let (model, servers, folder) = (model.await.unwrap(), installation(), tempfile::tempdir().unwrap());
    let mut command = example(name);
    command.current_dir(folder.path()).envs(servers.environment());
    command.env("HOUSTON_MODEL", "local/scripted").env("HOUSTON_LOCAL_URL", model.url());
    let printed = tokio::task::spawn_blocking(move || printed(&mut command)).await.unwrap();
    let requests = requests.lock().unwrap().clone();
    (printed, requests)
}

#[test]
fn agent_with_servers_of_its_own_creates_a_note() {
    let folder = tempfile::tempdir().unwrap();
    let run = || printed(example("agent").current_dir(folder.path()).env("HOUSTON_MODEL", "simulated"));
    let first = run();
    assert!(first.contains("note_") && first.contains(" tokens"), "{first}");
    // Its servers were stopped, and start again with their data.
    assert!(run().contains("note_"));
}

#[test]
fn readme_has_the_examples_as_they_are() {
    let readme = include_str!("../../README.md");
    let examples = [
        include_str!("../../examples/agent.rs"),
        include_str!("../../examples/typed_tool.rs"),
        include_str!("../../examples/approval.rs"),
    ];
    let code = examples.map(|source| {
        let code = source.lines().filter(|line| !line.starts_with("//!") && !line.starts_with("#!["));
        code.collect::<Vec<_>>().join("\n").trim().to_owned()
    });
    for code in &code {
        assert!(
            readme.contains(&format!("```rust\n{code}\n```")),
            "README.md has another version of:\n{code}"
        );
    }
    assert!(code[0].lines().count() <= 20, "{}", code[0]);
}

#[tokio::test]
async fn tool_is_called_with_its_schema_and_errors_are_read() {
    let (printed, requests) = run_with("typed_tool", |call| match call.tool_results().as_slice() {
        [] => Reply::tool("weather", json!({"city": "Rome"}))
            .then_tool("weather", json!({"city": "Oslo", "unit": "fahrenheit"}))
            .then_tool("weather", json!({"city": "Atlantis"}))
            .then_tool("weather", json!({"town": "Rome"})),
        results => Reply::text(results.iter().map(|of| of.content.as_str()).collect::<Vec<_>>().join("|")),
    })
    .await;
    let results: Vec<&str> = printed.trim().split('|').collect();
    assert_eq!(results[0], r#"{"sky":"clear","degrees":24.0}"#);
    assert_eq!(results[1], r#"{"sky":"clear","degrees":44.6}"#);
    assert_eq!(results[2], "no station in Atlantis");
    assert!(results[3].contains("missing field `city`"), "{printed}");
    let schema = &requests[0]["tools"][0]["function"]["parameters"];
    assert_eq!(schema["properties"]["city"]["description"], "A city, in English.");
    assert_eq!(schema["required"], json!(["city"]));
}

#[tokio::test]
async fn approvals_are_answered_in_code() {
    let (printed, requests) = run_with("approval", |call| match call.tool_results().as_slice() {
        [] => Reply::tool("send_mail", json!({"to": "ann@example.com", "subject": "Lunch?"}))
            .then_tool("send_mail", json!({"to": "bob@elsewhere.org", "subject": "Lunch?"})),
        _ => Reply::text("Ann is invited."),
    })
    .await;
    assert_eq!(printed.matches("? Send mail:").count(), 2, "{printed}");
    assert!(printed.contains("> ann@example.com: Lunch?") && !printed.contains("> bob"), "{printed}");
    assert!(printed.ends_with("Ann is invited.\n"), "{printed}");
    let results = requests.last().unwrap().to_string();
    assert!(results.contains("your user said no: write to colleagues only"), "{results}");
}
