//! `houston prompt`: prints the exact prompt of an agent.

use clap::Args;
use houston_engine::prompt::preview::{Preview, SectionPreview, SettingPreview};
use houston_protocol::run::RunResponse;
use serde_json::Value;

use super::agentable::{AgentArg, table};
use super::{Context, Result};
use crate::output::{print, print_json, print_stderr};

/// Print what a model would be sent if a run began now, byte for byte: the system prompt, then what is sent after the
/// history (<system_context>). Stderr has the length of each section, its position, what was left out, and an estimate
/// of the tokens.
#[derive(Debug, Args)]
pub(crate) struct Prompt {
    #[command(flatten)]
    agent: AgentArg,
    /// Also print the definitions of the tools, one JSON object per line
    #[arg(long)]
    tools: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Prompt {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        let Self { agent, tools, json } = self;
        agent.with_api(context, async |api, path| {
            // The settings of this shell may differ from the server's: also report the model of the last run.
            let agent: Value = api.get(path).await?;
            let last_model = match agent["run_id"].as_str() {
                Some(run) => api.get::<RunResponse>(&format!("/v1/runs/{run}")).await?.model,
                None => None,
            };
            let preview: Preview = api.get(&format!("{path}/prompt")).await?;
            if json {
                let mut object = serde_json::json!(preview);
                object["last_model"] = last_model.into();
                print_json(&object);
                return Ok(());
            }
            let text: String = preview.system.iter().map(|part| part.text.as_str()).collect();
            let text = text + preview.system_context.as_deref().unwrap_or_default();
            // The text ends with a line feed already.
            print(text.strip_suffix('\n').unwrap_or(&text));
            if tools {
                preview.tools.iter().for_each(print_json);
            }
            counts(&preview, last_model.as_deref()).iter().for_each(|line| print_stderr(line));
            Ok(())
        })
    }
}

/// The position of a section in the request, in words.
fn position(sent: &str) -> &'static str {
    if sent == "system" { "before the history" } else { "after the history" }
}

fn setting(setting: &SettingPreview) -> [String; 3] {
    let value = match &setting.value {
        Value::Null => "–".to_owned(),
        Value::String(text) => text.clone(),
        // The schema is among the sections.
        Value::Object(output) => output.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
        other => other.to_string(),
    };
    [setting.name.clone(), value, setting.origin.clone()]
}

fn counts(preview: &Preview, last_model: Option<&str>) -> Vec<String> {
    let row = |section: &SectionPreview| {
        let (chars, tokens) = (section.chars.to_string(), section.tokens.to_string());
        [section.name.clone(), section.stable_for.clone(), position(&section.sent).to_owned(), chars, tokens]
    };
    let rows: Vec<[String; 5]> = preview.sections.iter().map(row).collect();
    let mut lines = vec![String::new()];
    lines.extend(table(&["SECTION", "STABLE FOR", "SENT", "CHARACTERS", "TOKENS"], &rows));
    lines.push("(STABLE FOR: how long a section stays the same, so that providers can cache it)".to_owned());
    lines.push(String::new());
    let settings: Vec<[String; 3]> = preview.settings.iter().map(setting).collect();
    lines.extend(table(&["SETTING", "VALUE", "FROM"], &settings));
    for out in &preview.left_out {
        let what = if out.whole { "all of it".to_owned() } else { format!("{} items", out.items) };
        lines.push(format!("left out of {}: {what}", out.section));
    }
    let Preview { chars, most_chars, tokens, model, .. } = preview;
    let model = match last_model {
        Some(last) if last == model => format!("for {last}"),
        Some(last) => {
            format!(
                "for {last}, the model of its last run; with the settings of this shell it would be {model}"
            )
        }
        None => format!("for {model}, from the settings of this shell"),
    };
    lines.push(format!(
        "{chars} characters of {most_chars}; about {} tokens: {} of the prompt, {} of {} tools, {} of the history, {} \
         after it; {model}",
        tokens.total,
        tokens.system,
        tokens.tools,
        preview.tools.len(),
        tokens.history,
        tokens.context
    ));
    lines
}
