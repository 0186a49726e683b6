//! Conversations that are copied: `houston export` writes one as a document, `houston import` makes an agent of a document, and
//! `houston fork` copies one up to an entry.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;
use houston_api::{ApiError, LocalError};
use houston_domain::agentable::MAX_TITLE_CHARS;
use houston_domain::conversation::Conversation;
use houston_domain::id::UserId;
use houston_protocol::agentable::AgentableResponse;
use houston_protocol::conversation::ForkConversation;
use houston_protocol::problem::FieldError;
use reqwest::Method;
use serde_json::json;

use super::agentable::{AgentArg, agent_type, open, write_file};
use super::{Context, Failure, Result};
use crate::output::{print, print_either, print_json, print_json_text, print_stderr};

/// Export a conversation as JSON, for `houston import`: thread, history, closed sessions, notes, learnings and
/// closed questions.
#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    agent: AgentArg,
    /// File to write [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the JSON on one line
    #[arg(long)]
    json: bool,
}

impl Export {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        self.agent.with_api(context, async |api, path| {
            let conversation: Conversation = api.get(&format!("{path}/export")).await?;
            let written = if self.json {
                serde_json::to_string(&conversation)
            } else {
                serde_json::to_string_pretty(&conversation)
            };
            let text = written.context("the conversation cannot be serialised")?;
            match &self.output {
                None => print_json_text(&text),
                Some(path) => {
                    write_file(path, text + "\n")?;
                    let (entries, messages) = (conversation.history.len(), conversation.messages.len());
                    print_stderr(&format!(
                        "{entries} entries and {messages} messages written to {}",
                        path.display()
                    ));
                }
            }
            Ok(())
        })
    }
}

/// Create an agent from an exported conversation. An invalid document is refused with the position and the reason, and
/// nothing is created.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The exported file; `-` reads stdin
    file: PathBuf,
    /// User of the new agent, `user_…`
    #[arg(long)]
    user: UserId,
    /// Title of the new agent [default: that of the document]
    #[arg(long)]
    title: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Import {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        let max_bytes = context.loaded.settings.server.conversation.max_bytes;
        let conversation = read(&self.file, max_bytes).map_err(Failure::Usage)?;
        agent_type(&context.loaded, &conversation.kind)?;
        context.with_api(async |api| {
            let path = format!("/v1/import/{}s", conversation.kind);
            let title: Option<String> =
                self.title.as_ref().map(|title| title.chars().take(MAX_TITLE_CHARS).collect());
            let wanted = json!({"user_id": self.user, "title": title, "conversation": conversation});
            let api = api.find(self.user).await?.ok_or_else(|| anyhow!("there is no {}", self.user))?;
            let made = api.change(Method::POST, &path, &wanted).await;
            let made: AgentableResponse = made.map_err(|error| refused(&self.file, error))?;
            print_either(self.json, &json!({"id": made.id}), &made.id);
            Ok(())
        })
    }
}

/// Reads a document. Errors of its shape have a JSON pointer.
fn read(path: &Path, max_bytes: usize) -> anyhow::Result<Conversation> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| anyhow!("{shown} cannot be read: {error}");
    let most = u64::try_from(max_bytes).unwrap_or(u64::MAX).saturating_add(1);
    let text = open(path, most).and_then(std::io::read_to_string).map_err(unreadable)?;
    anyhow::ensure!(
        text.len() <= max_bytes,
        "{shown} is longer than the {max_bytes} bytes that server.conversation.max_bytes allows"
    );
    houston_api::parse(text.as_bytes()).map_err(|error| match error {
        ApiError::InvalidRequest(errors) => faulty(path, &errors),
        ApiError::InvalidJson { line, column, reason } => {
            anyhow!("{shown} is not valid JSON: {reason}, at line {line}, column {column}")
        }
        other => anyhow!("{shown}: {other}"),
    })
}

/// What is wrong with a document, with positions in it.
fn faulty(path: &Path, errors: &[FieldError]) -> anyhow::Error {
    let reasons = errors.iter().map(|fault| match fault.pointer.as_deref().unwrap_or_default() {
        "" => fault.detail.clone(),
        pointer => {
            format!("{}: {}", pointer.strip_prefix("/conversation").unwrap_or(pointer), fault.detail)
        }
    });
    anyhow!("{}: {}", path.display(), reasons.collect::<Vec<_>>().join("; "))
}

fn refused(path: &Path, error: LocalError) -> Failure {
    match error.problem().map(|problem| problem.errors.as_ref()).unwrap_or_default() {
        [] => error.into(),
        errors => Failure::Usage(faulty(path, errors)),
    }
}

/// Copy a conversation up to an entry, into a new agent of the same user that continues from there.
#[derive(Debug, Args)]
pub(crate) struct Fork {
    #[command(flatten)]
    agent: AgentArg,
    /// Position of the last entry to copy, as `houston history` prints it [default: all]
    #[arg(long)]
    position: Option<i64>,
    /// Title of the copy [default: the original's]
    #[arg(long)]
    title: Option<String>,
    /// Do not copy notes and learnings
    #[arg(long)]
    no_knowledge: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Fork {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        self.agent.with_api(context, async |api, path| {
            let wanted = ForkConversation {
                position: self.position,
                title: self.title.map(|title| title.chars().take(MAX_TITLE_CHARS).collect()),
                knowledge: !self.no_knowledge,
            };
            // That it does not exist is said before what its kind allows.
            api.get::<AgentableResponse>(path).await?;
            let made: AgentableResponse = api.change(Method::POST, &format!("{path}/fork"), &wanted).await?;
            if self.json {
                let (kind, original) = path.rsplit_once('/').unwrap_or_default();
                let copy: Conversation = api.get(&format!("{kind}/{}/export", made.id)).await?;
                let entries = copy.history.len();
                print_json(&json!({"id": made.id, "forked_from": original, "entries": entries}));
            } else {
                print(&made.id);
            }
            Ok(())
        })
    }
}
