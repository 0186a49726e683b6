//! `houston ask`: one question to a model, without Postgres and Redis.

use std::process::Output;

use houston_testkit::model_server::script::in_turn;
use houston_testkit::model_server::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::test_houston::houston_command;

async fn ask(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = houston_command();
    command.env_remove("DATABASE_URL").env_remove("HOUSTON_REDIS_URL").arg("ask").args(arguments);
    command.envs(variables.iter().copied());
    tokio::process::Command::from(command).output().await.unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn ask_needs_no_servers_and_takes_a_schema() {
    let paris = json!({"city": "Paris"}).to_string();
    let replies = [Reply::text("It is Paris.").in_pieces(3), Reply::text("Paris"), Reply::text(&paris)];
    let model = ModelServer::start(in_turn(replies)).await.unwrap();
    let url = model.url();
    let variables = [("HOUSTON_MODEL", "local/small"), ("HOUSTON_LOCAL_URL", url.as_str())];

    let output = ask(&["What", "is the capital of France?"], &variables).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "It is Paris.\n");
    assert!(text(&output.stderr).contains("local/small: "), "{}", text(&output.stderr));

    let folder = tempfile::tempdir().unwrap();
    let schema = folder.path().join("city.json");
    let form = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    std::fs::write(&schema, form.to_string()).unwrap();
    let output = ask(&["--json", "--schema", schema.to_str().unwrap(), "The capital?"], &variables).await;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["value"], json!({"city": "Paris"}), "the first answer was no JSON: {answer}");
    assert_eq!((&answer["model"], &answer["cost"]), (&json!("local/small"), &Value::Null));

    std::fs::write(&schema, "[").unwrap();
    let output = ask(&["--schema", schema.to_str().unwrap(), "The capital?"], &variables).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("city.json is not valid JSON"), "{}", text(&output.stderr));
}

#[tokio::test]
async fn missing_key_error_lists_the_sources() {
    let variables = [("HOUSTON_MODEL", "google"), ("GEMINI_API_KEY", ""), ("GOOGLE_API_KEY", "")];
    let output = ask(&["Hello?"], &variables).await;
    assert_eq!(output.status.code(), Some(1));
    for word in ["GEMINI_API_KEY", "GEMINI_API_KEY_FILE", "GOOGLE_API_KEY"] {
        assert!(text(&output.stderr).contains(word), "`{}` lacks `{word}`", text(&output.stderr));
    }
}
