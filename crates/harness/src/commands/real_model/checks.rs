//! What else a real model is good for: an answer held to a schema, a question that is too long, an answer nobody waits
//! for any more.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use houston_protocol::agui::Event;
use houston_testkit::process::Process;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{PATIENCE, milliseconds};
use crate::http::Connection;
use crate::installation;

/// What came of the checks over one wire.
#[derive(Debug, Serialize)]
pub(super) struct Checks {
    /// The answer that was held to [`schema`]; or how it is told that there was none.
    pub(super) form: Value,
    /// How the provider's refusal of too long a question is told.
    pub(super) overflow: String,
    /// From the request to cancel to the end of the run.
    pub(super) cancelled_ms: u64,
}

/// Words of a question that is longer than the model's context of 4,096 tokens.
const TOO_MANY_WORDS: usize = 6_000;

fn schema() -> Value {
    json!({
        "type": "object", "additionalProperties": false, "required": ["city", "country"],
        "properties": {"city": {"type": "string"}, "country": {"type": "string"}}
    })
}

/// Asks twice without an agent: once for a form, once for too much. This server holds answers to a schema over chat
/// completions alone (`is_bound`): elsewhere so small a model seldom keeps to one, and then the failure must be told.
pub(super) fn ask(program: &Path, variables: &[(&str, String)], is_bound: bool) -> Result<(Value, String)> {
    let folder = TempDir::with_prefix("houston-real-model-")?;
    let file = folder.path().join("schema.json");
    std::fs::write(&file, schema().to_string())?;
    let file = file.to_str().context("a folder whose name is no text")?;
    let question = ["What is the capital of France, and in which country is it?"];
    let (answered, log) =
        run(program, variables, &["--json", "--schema", file, "--max-tokens", "60"], &question)?;
    ensure!(answered || !is_bound, "no answer of the form that was asked for:\n{log}");
    let value = if answered {
        let line = log.lines().find(|line| line.starts_with(r#"{"model""#)).context("no JSON")?;
        let value = serde_json::from_str::<Value>(line)?["value"].take();
        ensure!(value["city"].is_string() && value["country"].is_string(), "not the form asked for: {value}");
        value
    } else {
        let told = log.lines().find(|line| line.contains("INVALID_RESPONSE"));
        told.with_context(|| format!("no word of the form in:\n{log}"))?.into()
    };

    let words = vec!["word"; TOO_MANY_WORDS].join(" ");
    let (answered, log) = run(program, variables, &["--max-tokens", "10"], &[&words])?;
    let told = log.lines().find(|line| line.contains("CONTEXT_LENGTH_EXCEEDED"));
    ensure!(!answered, "a question of {TOO_MANY_WORDS} words was answered");
    Ok((value, told.with_context(|| format!("no word of the context's length in:\n{log}"))?.to_owned()))
}

fn run(
    program: &Path,
    variables: &[(&str, String)],
    options: &[&str],
    question: &[&str],
) -> Result<(bool, String)> {
    let mut command: Command = installation::command(program);
    command.arg("ask").args(options).arg("--").args(question).env("HOUSTON_LOG", "warn");
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    let mut process = Process::spawn(&mut command)?;
    let status = process.wait(PATIENCE)?;
    Ok((status.success(), process.log()))
}

/// Cancels a run once its first words have come; how long it then took to end.
pub(super) async fn cancel(connection: &mut Connection, other: &mut Connection, goal: &str) -> Result<u64> {
    #[derive(Deserialize)]
    struct Accepted {
        events_url: String,
        run_id: String,
    }
    let body = json!({ "content": "Tell me a very long story." }).to_string();
    let accepted: Accepted = connection.post(&format!("/v1/goals/{goal}/messages"), &body).await?.json()?;
    let mut events = connection.events(&accepted.events_url).await?;
    let mut asked = None;
    while let Some(event) = events.next().await? {
        match (event, asked) {
            (Event::TextMessageContent { .. }, None) => {
                asked = Some(Instant::now());
                other.post(&format!("/v1/runs/{}/cancel", accepted.run_id), "{}").await?.json::<Value>()?;
            }
            (Event::RunFinished { .. }, Some(asked)) => {
                let took = milliseconds(asked.elapsed())?;
                while events.next().await?.is_some() {}
                let run: Value = other.get(&format!("/v1/runs/{}", accepted.run_id)).await?.json()?;
                ensure!(run["status"] == "cancelled", "the run was to be cancelled: {run}");
                return Ok(took);
            }
            _ => {}
        }
    }
    anyhow::bail!("the stream ended without the run's end")
}
