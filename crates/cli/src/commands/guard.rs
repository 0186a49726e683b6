//! `houston guard`: explains what the guards say of tool calls; prints, replaces and edits those of tenants, users, agents
//! and agentables.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use houston_domain::cell::Cells;
use houston_domain::guard::{Decision, GuardSettings};
use houston_engine::prompt::preview::GuardPreview;
use houston_store::guards::GuardOwner;
use houston_store::{Error, Store};
use serde_json::Value;

use super::agentable::{AgentArg, Database, parse, table};
use super::{Context, Failure, audit};
use crate::config::Loaded;
use crate::explain::Explainer;
use crate::output::{print, print_json};

/// Explain what agents may do with their tools (jobs/guards.toml), or restrict it for a tenant, a user, an agent or a
/// conversation.
#[derive(Debug, Args)]
pub(crate) struct Guard {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print which rule of which layer would decide about a tool call, and each step before it
    Explain {
        /// The id of an agent: `goal_…`, `task_…`, `user_agent_…`, or of a custom kind
        id: String,
        /// The name of the tool
        tool: String,
        /// Its arguments, a JSON object
        #[arg(default_value = "{}")]
        input: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        database: Database,
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
struct OwnerArg {
    /// `tenant_…`, `user_…`, `agent_…`, or the id of a conversation: `goal_…`, `user_agent_…`
    owner: String,
    #[command(flatten)]
    database: Database,
}

impl Guard {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        match self.action {
            Action::Explain { id, tool, input, json, database } => {
                explain(context, id, tool, &input, json, database)
            }
            Action::Show { owner, json } => owner.with(context, async |(owner, _), stores| {
                print_guards(&read(stores, owner).await?.unwrap_or_default(), json)
            }),
            Action::Set { owner, file } => {
                let text = read_file(&file).map_err(Failure::Usage)?;
                owner.with(context, async |(owner, id), stores| {
                    let wrong = |error| Failure::Usage(anyhow!("{}: {error}", file.display()));
                    let settings = GuardSettings::from_toml(owner.layer(), &text).map_err(wrong)?;
                    settings.check(owner.layer()).map_err(wrong)?;
                    write(stores, (owner, id), (!settings.is_empty()).then_some(&settings)).await
                })
            }
            Action::Off { owner, tools } => owner.with(context, async |(owner, id), stores| {
                let mut settings = read(stores, owner).await?.unwrap_or_default();
                let denied = settings.denied.get_or_insert_default();
                denied.extend(tools.into_iter().filter(|tool| !denied.contains(tool)).collect::<Vec<_>>());
                settings.check(owner.layer()).map_err(|error| Failure::Usage(error.into()))?;
                write(stores, (owner, id), Some(&settings)).await
            }),
            Action::On { owner, tools } => owner.with(context, async |(owner, id), stores| {
                let mut settings = read(stores, owner).await?.unwrap_or_default();
                let denied = settings.denied.take().unwrap_or_default();
                if let Some(other) = tools.iter().find(|tool| !denied.contains(tool)) {
                    let off = if denied.is_empty() { "none".to_owned() } else { denied.join(", ") };
                    let wrong =
                        anyhow!("`{other}` is not switched off for this {}; off: {off}", owner.layer());
                    return Err(Failure::Usage(wrong));
                }
                let left: Vec<String> = denied.into_iter().filter(|tool| !tools.contains(tool)).collect();
                settings.denied = (!left.is_empty()).then_some(left);
                write(stores, (owner, id), (!settings.is_empty()).then_some(&settings)).await
            }),
            Action::Clear { owner } => {
                owner.with(context, async |(owner, id), stores| write(stores, (owner, id), None).await)
            }
        }
    }
}

impl OwnerArg {
    fn with(
        self,
        context: Context,
        work: impl AsyncFnOnce((GuardOwner, &str), &Cells<Store>) -> Result<(), Failure>,
    ) -> Result<ExitCode, Failure> {
        let owner = owner(&context.loaded, &self.owner).map_err(Failure::Usage)?;
        self.database.with(context, async |_, stores| {
            work((owner, &self.owner), &stores).await.map_err(|error| match error {
                Failure::Other(error) if error.downcast_ref::<Error>().is_some_and(is_not_found) => {
                    Failure::Other(anyhow!("there is no {}", self.owner))
                }
                error => error,
            })?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

fn is_not_found(error: &Error) -> bool {
    matches!(error, Error::NotFound { .. })
}

/// The owner with this id.
fn owner(loaded: &Loaded, id: &str) -> anyhow::Result<GuardOwner> {
    Ok(match id.rsplit_once('_').map(|(kind, _)| kind) {
        Some("tenant") => GuardOwner::Tenant(id.parse()?),
        Some("user") => GuardOwner::User(id.parse()?),
        Some("agent") => GuardOwner::Agent(id.parse()?),
        _ => GuardOwner::Agentable(parse(loaded, id)?.1),
    })
}

/// The stores that have the owner: each cell has a copy of tenants and agents.
fn stores_of(stores: &Cells<Store>, owner: GuardOwner) -> Vec<&Store> {
    match owner {
        GuardOwner::Tenant(_) | GuardOwner::Agent(_) => stores.iter().collect(),
        GuardOwner::User(id) => vec![stores.of(id)],
        GuardOwner::Agentable(id) => vec![stores.of(id)],
    }
}

async fn read(stores: &Cells<Store>, owner: GuardOwner) -> Result<Option<GuardSettings>, Failure> {
    let mut guards = None;
    for store in stores_of(stores, owner).into_iter().take(1) {
        guards = store.operator().guards(owner).await?;
    }
    Ok(guards)
}

async fn write(
    stores: &Cells<Store>,
    (owner, id): (GuardOwner, &str),
    guards: Option<&GuardSettings>,
) -> Result<(), Failure> {
    for store in stores_of(stores, owner) {
        store.operator().set_guards(owner, guards).await?;
    }
    record(stores, owner, id).await?;
    let owner = owner.layer();
    match guards {
        Some(_) => print(&format!("the guards of the {owner} are set; they hold from the next run on")),
        None => print(&format!("the {owner} has no guards of its own from the next run on")),
    }
    Ok(())
}

/// Records the change, as the request would be that does the same.
async fn record(stores: &Cells<Store>, owner: GuardOwner, id: &str) -> Result<(), Failure> {
    let (operation, store, thing) = match owner {
        GuardOwner::Tenant(tenant) => {
            audit::record(stores.home(), Some(tenant), "set_guards_of_tenant", id.to_owned()).await;
            return Ok(());
        }
        GuardOwner::User(id) => ("set_guards_of_user", stores.of(id), id.0),
        GuardOwner::Agent(id) => ("set_guards_of_agent", stores.home(), id.0),
        GuardOwner::Agentable(id) => ("set_guards_of_agentable", stores.of(id), id.0),
    };
    if let Some(tenant) = store.operator().tenant_of_thing(thing).await? {
        audit::record(store, Some(tenant), operation, id.to_owned()).await;
    }
    Ok(())
}

fn read_file(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        return std::io::read_to_string(std::io::stdin()).context("standard input");
    }
    std::fs::read_to_string(file).with_context(|| file.display().to_string())
}

fn print_guards(guards: &GuardSettings, json: bool) -> Result<(), Failure> {
    if json {
        print_json(guards);
        return Ok(());
    }
    let text = toml::to_string(guards).context("these guards cannot be written as TOML; use --json")?;
    text.lines().for_each(print);
    Ok(())
}

fn explain(
    context: Context,
    id: String,
    tool: String,
    input: &str,
    json: bool,
    database: Database,
) -> Result<ExitCode, Failure> {
    let input: serde_json::Map<String, Value> = serde_json::from_str(input)
        .context("the arguments must be a JSON object, for example '{\"path\": \"notes.md\"}'")
        .map_err(Failure::Usage)?;
    AgentArg::new(id, database).with(context, async |found| {
        let explainer = Explainer::new(found.context.loaded, found.context.registry);
        let (store, agentable) = (found.store.runs(), &found.agentable);
        let preview = explainer.guard(store, agentable, tool, Value::Object(input)).await?;
        if json {
            print_json(&preview);
        } else {
            show(&preview);
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn show(preview: &GuardPreview) {
    let GuardPreview { tool, lowered, explanation, .. } = preview;
    let rows: Vec<[String; 4]> = explanation
        .steps
        .iter()
        .map(|taken| {
            let layer = taken.name.clone().or_else(|| taken.layer.map(|layer| layer.to_string()));
            let outcome = format!("{:?}", taken.outcome).to_lowercase();
            [taken.step.to_string(), layer.unwrap_or_default(), outcome, taken.why.clone()]
        })
        .collect();
    table(&["STEP", "LAYER", "OUTCOME", "WHY"], &rows).iter().for_each(|line| print(line));
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
