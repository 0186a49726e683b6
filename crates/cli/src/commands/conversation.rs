//! Conversations that are copied: `houston export` writes one as a document, `houston import` makes an agent of a document, and
//! `houston fork` copies one up to an entry.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use clap::Args;
use houston_api::ApiError;
use houston_domain::agentable::{AgentType, MAX_TITLE_CHARS};
use houston_domain::clock::SystemClock;
use houston_domain::conversation::Conversation;
use houston_domain::id::{AgentableId, Ids, TenantId, UserId};
use houston_store::agentable::NewAgentable;
use houston_store::conversation::{ExportOptions, NewConversation, Origin};
use houston_store::{Error, Store};
use serde_json::Value;

use super::agentable::{AgentArg, Database, agent_type};
use super::{Context, Failure, audit};
use crate::output::{print, print_json, print_json_text, print_stderr};

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
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        self.agent.with(context, async |found| {
            let max_bytes = found.context.loaded.settings.server.conversation.max_bytes;
            let options = ExportOptions { until: None, knowledge: true, max_bytes };
            let conversation =
                found.store.tenant(found.tenant).conversation(&found.agentable, &options).await?;
            let written = if self.json {
                serde_json::to_string(&conversation)
            } else {
                serde_json::to_string_pretty(&conversation)
            };
            let text = written.context("the conversation cannot be serialised")?;
            match &self.output {
                None => print_json_text(&text),
                Some(path) => {
                    std::fs::write(path, text + "\n")
                        .with_context(|| format!("{} cannot be written", path.display()))?;
                    let (entries, messages) = (conversation.history.len(), conversation.messages.len());
                    print_stderr(&format!(
                        "{entries} entries and {messages} messages written to {}",
                        path.display()
                    ));
                }
            }
            Ok(ExitCode::SUCCESS)
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
    user: String,
    /// Title of the new agent [default: that of the document]
    #[arg(long)]
    title: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    database: Database,
}

impl Import {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        let user: UserId = self.user.parse().map_err(|error| Failure::Usage(anyhow!("{error}")))?;
        let max_bytes = context.loaded.settings.server.conversation.max_bytes;
        let mut conversation = read(&self.file, max_bytes).map_err(Failure::Usage)?;
        let digest = conversation.digest();
        if let Some(title) = self.title {
            conversation.title = title.chars().take(MAX_TITLE_CHARS).collect();
        }
        let shown = self.file.display();
        conversation.check().map_err(|invalid| Failure::Usage(anyhow!("{shown}: {invalid}")))?;
        let conversation = conversation.upgraded();
        let kind: AgentType = agent_type(&context.loaded, &conversation.kind)?.clone();
        let unknown = conversation.tools.iter().flatten().find(|name| !kind.tools.contains(name));
        if let Some(name) = unknown {
            let (kind, allowed) = (&kind.kind, kind.tools.join(", "));
            let reason = format!("/tools: a {kind} cannot use `{name}`; allowed are: {allowed}");
            return Err(Failure::Usage(anyhow!("{shown}: {reason}")));
        }
        self.database.with(context, async |_, stores| {
            let store = stores.of(user);
            let tenant = store.operator().tenant_of(user).await.map_err(|error| match error {
                houston_store::Error::NotFound { .. } => Failure::Other(anyhow!("there is no {user}")),
                error => error.into(),
            })?;
            let id = create(store, tenant, user, &kind, (&conversation, Some(digest)), None).await?;
            audit::record_of(store.tenant(tenant), "import_conversation", &id).await;
            if self.json {
                print_json(&serde_json::json!({"id": id}));
            } else {
                print(&id);
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Reads a document. Errors of its shape have a JSON pointer.
fn read(path: &Path, max_bytes: usize) -> anyhow::Result<Conversation> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| anyhow!("{shown} cannot be read: {error}");
    let source: Box<dyn std::io::Read> = if path.as_os_str() == "-" {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(path).map_err(unreadable)?)
    };
    let mut text = String::new();
    let most = u64::try_from(max_bytes).unwrap_or(u64::MAX);
    source.take(most.saturating_add(1)).read_to_string(&mut text).map_err(unreadable)?;
    anyhow::ensure!(
        text.len() <= max_bytes,
        "{shown} is longer than the {max_bytes} bytes that server.conversation.max_bytes allows"
    );
    houston_api::parse(text.as_bytes()).map_err(|error| match error {
        ApiError::InvalidRequest { errors } => {
            let reasons = errors.iter().map(|fault| match &fault.pointer {
                Some(pointer) if !pointer.is_empty() => format!("{pointer}: {}", fault.detail),
                _ => fault.detail.clone(),
            });
            anyhow!("{shown}: {}", reasons.collect::<Vec<_>>().join("; "))
        }
        ApiError::InvalidJson { line, column, reason } => {
            anyhow!("{shown} is not valid JSON: {reason}, at line {line}, column {column}")
        }
        other => anyhow!("{shown}: {other}"),
    })
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
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        self.agent.with(context, async |found| {
            let max_bytes = found.context.loaded.settings.server.conversation.max_bytes;
            let options = ExportOptions { until: self.position, knowledge: !self.no_knowledge, max_bytes };
            let original = &found.agentable;
            let read = found.store.tenant(found.tenant).conversation(original, &options).await;
            let mut conversation = read.map_err(|error| match error {
                Error::NoSuchPosition { .. } | Error::InsideTurn { .. } => Failure::Usage(anyhow!("{error}")),
                error => error.into(),
            })?;
            if let Some(title) = self.title {
                conversation.title = title.chars().take(MAX_TITLE_CHARS).collect();
            }
            let (kind, user) = (found.agent_type()?, original.user);
            let origin = Origin { id: original.id, served_by: original.served_by };
            let id =
                create(&found.store, found.tenant, user, kind, (&conversation, None), Some(origin)).await?;
            audit::record_of(found.store.tenant(found.tenant), "fork_conversation", found.public_id()).await;
            let entries = conversation.history.len();
            if self.json {
                print_json(
                    &serde_json::json!({"id": id, "forked_from": found.public_id(), "entries": entries}),
                );
            } else {
                print(&id);
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Creates the agent and returns its public id. `digest`: of the document as it was received; `None`
/// for a fork.
async fn create(
    store: &Store,
    tenant: TenantId,
    user: UserId,
    kind: &AgentType,
    (conversation, digest): (&Conversation, Option<[u8; 32]>),
    origin: Option<Origin>,
) -> Result<String, Failure> {
    if !kind.user_creatable() {
        let reason =
            if kind.made_with_user { "it is created with its user" } else { "only agents create it" };
        return Err(Failure::Usage(anyhow!(
            "a {} cannot be created from a conversation: {reason}",
            kind.kind
        )));
    }
    let ids = Ids::new(Arc::new(SystemClock));
    let id: AgentableId = ids.beside(user);
    let agentable = NewAgentable {
        id,
        user,
        kind: &kind.kind,
        title: &conversation.title,
        description: &conversation.description,
        status: kind.initial_status(),
        tools: conversation.tools.as_deref(),
        created_at: ids.clock().now(),
    };
    let new = NewConversation { agentable, conversation, digest, run: ids.beside(user), origin };
    store.tenant(tenant).create_conversation(&new, &ids, None, &Value::Null).await?;
    Ok(id.public_id(&kind.kind))
}
