//! `houston prompt`: the exact prompt of an agent.

use std::process::ExitCode;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use houston_engine::prompt::preview::Preview;

use super::agentable::{Database, Which, table};
use super::{Context, Failure};
use crate::explain::Explainer;
use crate::output::{print, print_json, tell};

/// Print what a model would be sent if a run began now, byte for byte: the system prompt, then what is sent after the
/// history (<system_context>); on stderr how long each section is, where it is sent, what was left out, and how many
/// tokens that is, about.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Prompt {
    #[command(subcommand)]
    action: Option<Action>,
    /// Its id: `goal_…`, `task_…`, `user_agent_…`, or of a kind of your own
    id: Option<String>,
    /// Also print the definitions of the tools, one JSON object a line
    #[arg(long)]
    tools: bool,
    /// One JSON object with all of it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    database: Database,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// The same, as it was once called
    #[command(hide = true)]
    Show {
        #[command(flatten)]
        which: Which,
        /// Also print the definitions of the tools, one JSON object a line
        #[arg(long)]
        tools: bool,
        /// One JSON object with all of it
        #[arg(long)]
        json: bool,
    },
}

impl Prompt {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        let (which, tools, json) = match (self.action, self.id) {
            (Some(Action::Show { which, tools, json }), _) => (which, tools, json),
            (None, Some(id)) => (Which::new(id, self.database), self.tools, self.json),
            (None, None) => {
                return Err(Failure::Usage(anyhow!(
                    "which agent? houston prompt ID; `houston list` shows the ids"
                )));
            }
        };
        which.with(context, async |found| {
            // The settings of this shell need not be those of the server: what the last run asked is known.
            let last_model = match found.agentable.run {
                Some(run) => found.store.run(found.tenant, run).await?.model,
                None => None,
            };
            let explainer = Explainer::new(found.store, found.context.loaded, found.context.registry);
            let preview = explainer.prompt(&found.agentable).await?;
            if json {
                let mut shown = serde_json::json!(preview);
                shown["last_model"] = last_model.into();
                print_json(&shown);
                return Ok(ExitCode::SUCCESS);
            }
            let text: String = preview.system.iter().map(|part| part.text.as_str()).collect();
            let text = text + preview.system_context.as_deref().unwrap_or_default();
            // Each section ends its own last line.
            print(text.strip_suffix('\n').unwrap_or(&text));
            if tools {
                preview.tools.iter().for_each(print_json);
            }
            counts(&preview, last_model.as_deref()).iter().for_each(|line| tell(line));
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Where a section is sent, in words.
fn sent(place: &'static str) -> &'static str {
    if place == "system" { "before the history" } else { "after the history" }
}

fn counts(preview: &Preview, last_model: Option<&str>) -> Vec<String> {
    let row = |section: &houston_engine::prompt::preview::SectionShown| {
        let (chars, tokens) = (section.chars.to_string(), section.tokens.to_string());
        [section.name.to_owned(), section.stable_for.to_owned(), sent(section.sent).to_owned(), chars, tokens]
    };
    let rows: Vec<[String; 5]> = preview.sections.iter().map(row).collect();
    let mut lines = vec![String::new()];
    lines.extend(table(&["SECTION", "STABLE FOR", "SENT", "CHARACTERS", "TOKENS"], &rows));
    lines.push(
        "(stable for: within what a section stays the same, so that providers may cache it)".to_owned(),
    );
    for out in &preview.left_out {
        let what = if out.whole { "all of it".to_owned() } else { format!("{} items", out.items) };
        lines.push(format!("left out of {}: {what}", out.section));
    }
    let Preview { chars, most_chars, tokens, model, .. } = preview;
    let model = match last_model {
        Some(last) if last == model => format!("for {last}"),
        Some(last) => {
            format!("for {last}, as its last run; with the settings of this shell it would be {model}")
        }
        None => format!("for {model}, by the settings of this shell"),
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
