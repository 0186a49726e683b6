//! `houston guard`: explains what the guards say of tool calls; prints, replaces and edits those of tenants, users, agents
//! and agentables.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use houston_api::Local;
use houston_domain::guard::{Decision, GuardSettings, LayerKind};
use houston_domain::id::{AgentId, TenantId, UserId};
use houston_engine::prompt::preview::GuardPreview;
use houston_protocol::guard::GuardedCall;
use reqwest::Method;
use serde_json::Value;
use uuid::Uuid;

use super::agentable::{AgentArg, parse, print_table};
use super::{Context, Failure, Result};
use crate::config::Loaded;
use crate::output::{print, print_json};

/// Explain what agents may do with their tools (jobs/guards.toml), or restrict it for a tenant, a user, an agent or a
/// conversation.
#[derive(Debug, Subcommand)]
pub(crate) enum Guard {
    /// Print which rule of which layer would decide about a tool call, and each step before it
    Explain {
        #[command(flatten)]
        agent: AgentArg,
        /// The name of the tool
        tool: String,
        /// Its arguments, a JSON object
        #[arg(default_value = "{}")]
        input: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print the guards of one owner, as TOML
    Show {
        #[command(flatten)]
        owner: OwnerArg,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Replace the guards of one owner; they hold from the next run on
    Set {
        #[command(flatten)]
        owner: OwnerArg,
        /// A file of the same shape as jobs/guards.toml, each key optional; `-`: standard input
        file: PathBuf,
    },
    /// Switch tools off for one owner: its agents are not offered them from the next run on
    Off {
        #[command(flatten)]
        owner: OwnerArg,
        /// Their names, or patterns such as 'github__*'
        #[arg(required = true)]
        tools: Vec<String>,
    },
    /// Switch tools on again that were switched off for this owner, by the same name or pattern
    On {
        #[command(flatten)]
        owner: OwnerArg,
        /// As they were given to `off`
        #[arg(required = true)]
        tools: Vec<String>,
    },
    /// Remove the guards of one owner
    Clear {
        #[command(flatten)]
        owner: OwnerArg,
    },
}

/// Whose guards a command is about.
#[derive(Debug, Args)]
pub(crate) struct OwnerArg {
    /// `tenant_…`, `user_…`, `agent_…`, or the id of a conversation: `goal_…`, `user_agent_…`
    owner: String,
}

impl Guard {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        match self {
            Self::Explain { agent, tool, input, json } => explain(context, agent, tool, &input, json),
            Self::Show { owner, json } => {
                owner.with(context, async |guards| print_guards(&guards.read().await?, json))
            }
            Self::Set { owner, file } => {
                let text = read_file(&file).map_err(Failure::Usage)?;
                owner.with(context, async |guards| {
                    let wrong = |error| Failure::Usage(anyhow!("{}: {error}", file.display()));
                    let settings = GuardSettings::from_toml(guards.layer, &text).map_err(wrong)?;
                    settings.check(guards.layer).map_err(wrong)?;
                    guards.write(&settings).await
                })
            }
            Self::Off { owner, tools } => owner.with(context, async |guards| {
                let mut settings = guards.read().await?;
                let denied = settings.denied.get_or_insert_default();
                denied.extend(tools.into_iter().filter(|tool| !denied.contains(tool)).collect::<Vec<_>>());
                settings.check(guards.layer).map_err(Failure::usage)?;
                guards.write(&settings).await
            }),
            Self::On { owner, tools } => owner.with(context, async |guards| {
                let mut settings = guards.read().await?;
                let denied = settings.denied.take().unwrap_or_default();
                if let Some(other) = tools.iter().find(|tool| !denied.contains(tool)) {
                    let off = if denied.is_empty() { "none".to_owned() } else { denied.join(", ") };
                    let wrong =
                        anyhow!("`{other}` is not switched off for this {}; off: {off}", guards.layer);
                    return Err(Failure::Usage(wrong));
                }
                let left: Vec<String> = denied.into_iter().filter(|tool| !tools.contains(tool)).collect();
                settings.denied = (!left.is_empty()).then_some(left);
                guards.write(&settings).await
            }),
            Self::Clear { owner } => {
                owner.with(context, async |guards| guards.write(&GuardSettings::default()).await)
            }
        }
    }
}

/// The guards of one owner, which exists.
struct Guards {
    api: Local,
    /// Where the API has them.
    path: String,
    layer: LayerKind,
}

impl OwnerArg {
    fn with(self, context: Context, work: impl AsyncFnOnce(Guards) -> Result<()>) -> Result<()> {
        let Self { owner } = self;
        let (id, path, layer) = found(&context.loaded, &owner).map_err(Failure::Usage)?;
        context.with_api(async |api| {
            let api = api.find(id).await?.ok_or_else(|| anyhow!("there is no {owner}"))?;
            work(Guards { api, path, layer }).await
        })
    }
}

/// The owner with this id, and where the API has its guards.
fn found(loaded: &Loaded, id: &str) -> anyhow::Result<(Uuid, String, LayerKind)> {
    Ok(match id.rsplit_once('_').map(|(kind, _)| kind) {
        Some("tenant") => (id.parse::<TenantId>()?.0, "/v1/guards".to_owned(), LayerKind::Tenant),
        Some("user") => (id.parse::<UserId>()?.0, format!("/v1/users/{id}/guards"), LayerKind::User),
        Some("agent") => (id.parse::<AgentId>()?.0, format!("/v1/agents/{id}/guards"), LayerKind::Agent),
        _ => {
            let (kind, of) = parse(loaded, id)?;
            (of.0, format!("/v1/{kind}s/{id}/guards"), LayerKind::Agentable)
        }
    })
}

impl Guards {
    async fn read(&self) -> Result<GuardSettings> {
        Ok(self.api.get(&self.path).await?)
    }

    async fn write(&self, guards: &GuardSettings) -> Result<()> {
        let written: GuardSettings = self.api.change(Method::PUT, &self.path, guards).await?;
        let owner = self.layer;
        match written.is_empty() {
            false => print(&format!("the guards of the {owner} are set; they hold from the next run on")),
            true => print(&format!("the {owner} has no guards of its own from the next run on")),
        }
        Ok(())
    }
}

fn read_file(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        return std::io::read_to_string(std::io::stdin()).context("standard input");
    }
    std::fs::read_to_string(file).with_context(|| file.display().to_string())
}

fn print_guards(guards: &GuardSettings, json: bool) -> Result<()> {
    if json {
        print_json(guards);
        return Ok(());
    }
    let text = toml::to_string(guards).context("these guards cannot be written as TOML; use --json")?;
    text.lines().for_each(print);
    Ok(())
}

fn explain(context: Context, agent: AgentArg, tool: String, input: &str, json: bool) -> Result<()> {
    let input: serde_json::Map<String, Value> = serde_json::from_str(input)
        .context("the arguments must be a JSON object, for example '{\"path\": \"notes.md\"}'")
        .map_err(Failure::Usage)?;
    agent.with_api(context, async |api, path| {
        let path = format!("{path}/guards/explain");
        let preview: GuardPreview = api.change(Method::POST, &path, &GuardedCall { tool, input }).await?;
        if json {
            print_json(&preview);
        } else {
            show(&preview);
        }
        Ok(())
    })
}

fn show(preview: &GuardPreview) {
    let GuardPreview { tool, lowered, explanation, .. } = preview;
    let rows = explanation.steps.iter().map(|taken| {
        let layer = taken.name.clone().or_else(|| taken.layer.map(|layer| layer.to_string()));
        let outcome = format!("{:?}", taken.outcome).to_lowercase();
        [taken.step.to_string(), layer.unwrap_or_default(), outcome, taken.why.clone()]
    });
    print_table(["STEP", "LAYER", "OUTCOME", "WHY"], rows);
    print("");
    lowered.iter().for_each(|note| print(note));
    let verdict = &explanation.verdict;
    let decided = match &verdict.decision {
        Decision::Allow => "allowed".to_owned(),
        Decision::Ask { why, .. } => format!("asks a person first: {why}"),
        Decision::Deny { why, .. } => format!("refused: {why}"),
    };
    let layer = verdict.by.layer.map_or_else(String::new, |layer| format!("{layer}, "));
    print(&format!("{tool}: {decided} ({layer}{})", verdict.by.rule));
}
