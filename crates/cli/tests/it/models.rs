//! `houston models doctor`: a model is tried for what the table says about it.

use std::process::{Output, Stdio};

use houston_testkit::model_server::{Call, ModelServer, Reply};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::test_houston::houston_command;

async fn doctor(url: &str, arguments: &[&str], typed: &str) -> Output {
    let mut command = houston_command();
    command.env_remove("DATABASE_URL").env_remove("HOUSTON_REDIS_URL").args([
        "models",
        "doctor",
        "local/small",
    ]);
    command.args(arguments).env("HOUSTON_LOCAL_URL", url);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = tokio::process::Command::from(command).spawn().unwrap();
    child.stdin.take().unwrap().write_all(typed.as_bytes()).await.unwrap();
    child.wait_with_output().await.unwrap()
}

/// Takes no temperature, and calls a tool that it must call.
fn script(call: &Call) -> Reply {
    let body = call.json();
    if body.get("temperature").is_some() {
        let error =
            json!({"error": {"message": "Unsupported parameter: 'temperature'", "param": "temperature"}});
        return Reply::status(400).body(error.to_string());
    }
    match body["tool_choice"]["function"]["name"].as_str() {
        Some(name) => Reply::tool(name, json!({"text": "yes"})),
        None => Reply::text("{\"answer\": \"yes\"}"),
    }
}

#[tokio::test]
async fn model_is_tried_only_if_a_person_says_yes() {
    let model = ModelServer::start(script).await.unwrap();
    for typed in ["", "n\n"] {
        let output = doctor(&model.url(), &[], typed).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), model.journal().calls()), (Some(1), 0), "{said}");
        assert!(said.contains("local/small") && said.contains("its price is not known"), "{said}");
    }
    let output = doctor(&model.url(), &[], "y\n").await;
    let (found, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(found.contains("[profiles.\"local/small\"]\ntemperature = false\n"), "{found}{said}");
    assert_eq!(output.status.code(), Some(1), "the table is wrong");
}

#[tokio::test]
async fn what_is_found_is_one_json_object() {
    let model = ModelServer::start(script).await.unwrap();
    let output = doctor(&model.url(), &["--yes", "--json"], "").await;
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let fields = found["fields"].as_array().unwrap();
    let field = |name: &str| fields.iter().find(|field| field["field"] == name).unwrap();
    assert_eq!(field("temperature")["found"], false, "{found}");
    assert_eq!(field("forced_tool")["found"], "named", "{found}");
    assert_eq!(found["requests"], model.journal().calls(), "{found}");
}
