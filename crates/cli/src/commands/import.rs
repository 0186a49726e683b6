//! `houston import`: creates an agent from an exported conversation.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;
use clap::Args;
use houston_api::ApiError;
use houston_domain::agentable::{AgentType, MAX_TITLE_CHARS};
use houston_domain::conversation::Conversation;
use houston_domain::id::UserId;

use super::agentable::{Database, agent_type};
use super::conversation::create;
use super::{Context, Failure, audit};
use crate::output::{print, print_json};

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
