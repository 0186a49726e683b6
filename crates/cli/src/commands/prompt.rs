//! `houston prompt show`: the exact prompt of an agent.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use houston_engine::prompt::preview::Preview;

use super::agentable::{Which, table};
use super::{Context, Failure};
use crate::explain::Explainer;
use crate::output::{print, tell};

/// The exact prompt of an agent.
#[derive(Debug, Args)]
pub(crate) struct Prompt {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print what a model would be sent if a run began now, byte for byte: the system prompt, then what is sent after
    /// the history (<system_context>); on stderr how long each section is, where it is sent, what was left out, and
    /// how many tokens that is, about
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
        let Action::Show { which, tools, json } = self.action;
        which.with(context, async |found| {
            let explainer = Explainer::new(found.store, found.context.loaded, found.context.registry);
            let preview = explainer.prompt(&found.agentable).await?;
            if json {
                print(&serde_json::json!(preview).to_string());
                return Ok(ExitCode::SUCCESS);
            }
            let text: String = preview.system.iter().map(|part| part.text.as_str()).collect();
            let text = text + preview.system_context.as_deref().unwrap_or_default();
            // Each section ends its own last line.
            print(text.strip_suffix('\n').unwrap_or(&text));
            if tools {
                preview.tools.iter().for_each(|tool| print(&serde_json::json!(tool).to_string()));
            }
            counts(&preview).iter().for_each(|line| tell(line));
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Where a section is sent, in words.
fn sent(place: &'static str) -> &'static str {
    if place == "system" { "before the history" } else { "after the history" }
}

fn counts(preview: &Preview) -> Vec<String> {
    let row = |section: &houston_engine::prompt::preview::SectionShown| {
        let (chars, tokens) = (section.chars.to_string(), section.tokens.to_string());
        [section.name.to_owned(), section.stable_for.to_owned(), sent(section.sent).to_owned(), chars, tokens]
    };
    let rows: Vec<[String; 5]> = preview.sections.iter().map(row).collect();
    let mut lines = vec![String::new()];
    lines.extend(table(["SECTION", "STABLE FOR", "SENT", "CHARACTERS", "TOKENS"], &rows));
    for out in &preview.left_out {
        let what = if out.whole { "all of it".to_owned() } else { format!("{} items", out.items) };
        lines.push(format!("left out of {}: {what}", out.section));
    }
    let Preview { chars, most_chars, tokens, model, .. } = preview;
    lines.push(format!(
        "{chars} characters of {most_chars}; about {} tokens: {} of the prompt, {} of {} tools, {} of the history, {} \
         after it; for {model}",
        tokens.total,
        tokens.system,
        tokens.tools,
        preview.tools.len(),
        tokens.history,
        tokens.context
    ));
    lines
}
