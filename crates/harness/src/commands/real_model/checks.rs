//! Further checks with a real model: structured output, a question beyond the context limit, a cancelled run.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use houston_protocol::agui::Event;
use houston_testkit::houston::Builder;
use houston_testkit::process::Process;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::PATIENCE;
use crate::http::Connection;

/// Number of words of a question that exceeds the model's context of 4,096 tokens.
const TOO_MANY_WORDS: usize = 6_000;

fn schema() -> Value {
    json!({
        "type": "object", "additionalProperties": false, "required": ["city", "country"],
        "properties": {"city": {"type": "string"}, "country": {"type": "string"}}
    })
}

/// Runs `houston ask` twice: with a schema, and with a question that is too long. The server enforces schemas over
/// chat completions only (`is_bound`). Over other wires so small a model seldom follows one; then Houston must report
/// the invalid answer.
pub(super) fn ask(setup: &Builder, is_bound: bool) -> Result<(Value, String)> {
    let folder = TempDir::with_prefix("houston-real-model-")?;
    let file = folder.path().join("schema.json");
    std::fs::write(&file, schema().to_string())?;
    let file = file.to_str().context("the path of the temporary folder is not UTF-8")?;
    let question = ["What is the capital of France, and in which country is it?"];
    let (answered, log) = run(setup, &["--json", "--schema", file, "--max-tokens", "60"], &question)?;
    ensure!(answered || !is_bound, "no answer that follows the schema:\n{log}");
    let value = if answered {
        let line = log.lines().find(|line| line.starts_with(r#"{"model""#)).context("no JSON")?;
        let value = serde_json::from_str::<Value>(line)?["value"].take();
        ensure!(
            value["city"].is_string() && value["country"].is_string(),
            "the answer does not follow the schema: {value}"
        );
        value
    } else {
        let error = log.lines().find(|line| line.contains("INVALID_RESPONSE"));
        error.with_context(|| format!("no INVALID_RESPONSE error in:\n{log}"))?.into()
    };

    let words = vec!["word"; TOO_MANY_WORDS].join(" ");
    let (answered, log) = run(setup, &["--max-tokens", "10"], &[&words])?;
    let error = log.lines().find(|line| line.contains("CONTEXT_LENGTH_EXCEEDED"));
    ensure!(!answered, "a question of {TOO_MANY_WORDS} words was answered");
    Ok((value, error.with_context(|| format!("no CONTEXT_LENGTH_EXCEEDED error in:\n{log}"))?.to_owned()))
}

fn run(setup: &Builder, options: &[&str], question: &[&str]) -> Result<(bool, String)> {
    let mut command = setup.command(&["ask"]);
    command.args(options).arg("--").args(question);
    let mut process = Process::spawn(&mut command)?;
    let status = process.wait(PATIENCE)?;
    Ok((status.success(), process.log()))
}

/// Cancels a run after its first text; returns how long it took to end, in ms.
pub(super) async fn cancel(
    connection: &mut Connection,
    other: &mut Connection,
    goal: &str,
) -> Result<Duration> {
    let body = json!({ "content": "Tell me a very long story." }).to_string();
    let accepted = connection.send_message(goal, &body).await?;
    let run = accepted.message.run_id.context("the message has no run")?;
    let mut events = connection.events(&accepted.events_url).await?;
    let mut requested = None;
    while let Some(event) = events.next().await? {
        match (event, requested) {
            (Event::TextMessageContent { .. }, None) => {
                requested = Some(Instant::now());
                other.post(&format!("/v1/runs/{run}/cancel"), "{}").await?.json::<Value>()?;
            }
            (Event::RunFinished { .. }, Some(requested)) => {
                let took = requested.elapsed();
                while events.next().await?.is_some() {}
                let run: Value = other.get(&format!("/v1/runs/{run}")).await?.json()?;
                ensure!(run["status"] == "cancelled", "the run is not cancelled: {run}");
                return Ok(took);
            }
            _ => {}
        }
    }
    anyhow::bail!("the stream ended before its run")
}
