//! `houston plan check`: each problem of a document with its place, without a server.

use std::process::Output;

use serde_json::{Value, json};

use crate::test_houston::houston_command;

fn check(document: &str, arguments: &[&str]) -> (Output, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.json");
    std::fs::write(&path, document).unwrap();
    let mut command = houston_command();
    command.env_remove("DATABASE_URL").env_remove("HOUSTON_REDIS_URL").args(["plan", "check"]);
    let output = command.arg(&path).args(arguments).output().unwrap();
    (output, path.display().to_string())
}

#[test]
fn problems_of_plans_are_lines_with_their_place() {
    let document = json!({"v": 1, "goal": "Weather", "steps": [
        {"id": "a", "type": "llm", "prompt": "{{ b.result }}"}, {"id": "b", "type": "llm", "prompt": "{{ a.result }}"},
        {"id": "c", "type": "tool", "tool": "weather__get", "args": {"city": "{{ inptu }}", "day": "{{ 1 + }}"}}]});
    let (output, path) = check(&document.to_string(), &["--tool", "weather__get"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    for line in [
        "/steps/2/args/day: ",
        "/steps/2: there is no step or variable `inptu`",
        "/steps: steps wait for each other: a → b → a",
    ] {
        assert!(text.lines().any(|found| found.starts_with(&format!("{path}: {line}"))), "{line}: {text}");
    }
    let (output, _) = check(&document.to_string(), &["--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &found["valid"]), (Some(1), &json!(false)));
    let first = &found["problems"][0];
    assert_eq!(first["pointer"], "/steps/2/tool", "{found}");
    assert!(first["message"].as_str().unwrap().starts_with("there is no tool `weather__get`; there are: "));
}

#[test]
fn valid_plans_exit_with_0_and_missing_files_with_2() {
    let steps = json!([{"id": "a", "type": "llm", "prompt": "Say hi."}]);
    let (output, path) = check(&json!({"v": 1, "goal": "Greet", "steps": steps}).to_string(), &[]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{path}: valid\n"));
    assert!(output.status.success());
    let (output, path) = check(&"x".repeat(600_000), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .starts_with(&format!("{path}: has 524292 bytes, at most 524288"))
    );
    let mut missing = houston_command();
    let output = missing.args(["plan", "check", "/nope.json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
