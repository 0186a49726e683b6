//! Settings. Each layer overrides the ones before it: the files of `jobs/` (embedded in the binary), the user's folder
//! (`~/.config/houston`), the project's folder (`--jobs`), the environment
//! (`HOUSTON_ORCHESTRATOR__LIMITS__MAX_ITERATIONS=30`).
//!
//! # Add a setting
//! Two files, besides the code that needs it:
//! 1. Add the key to `jobs/<file>.toml`; its comment says what it does, and why it has that value. Prefer a section whose struct
//!    the code has already; any other has to be handed over to it.
//! 2. Add the field to the struct of that section, whose type is named in `Settings` or `Orchestrator` below. Which numbers are
//!    allowed is said there ([`houston_domain::setting`]): `#[serde(deserialize_with = "positive")]`. The end of a time's name
//!    (`_ms`, `_s`, `_hours`, `_days`) only refuses more than a hundred years: one that must not be 0 is `positive`, too. A rule
//!    about two settings belongs to the struct's `check`, and has a test; that of a new struct is called by
//!    `Settings::check`.
//!
//! Tests that make the struct need the field, and `jobs/README.md` and `deploy/README.md` the key where they name the old
//! value. A new file of `jobs/` is named in `FILES` (`config/layers.rs`), in `Settings`, and in the table of `jobs/README.md`.
//!
//! What operators would tune gets a key. What nobody tunes stays a constant beside its use. Unknown keys are errors, so that a
//! typo cannot be taken for a setting.

mod cells;
mod error;
mod folder;
mod kinds;
mod layers;
mod mcp;
mod models;
mod outside;
pub(crate) mod secrets;
mod skills;
mod storage;
mod templates;
#[cfg(test)]
mod tests;
mod times;
mod tools;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use houston_domain::agent::limits::Limits;
use houston_domain::agentable::AgentType;
use houston_domain::budget::Budget;
use houston_domain::custom_table::{TablePresets, texts};
use houston_domain::fallback::Fallbacks;
use houston_domain::guard::{GuardSettings, Layer, LayerKind};
use houston_domain::knowledge::KnowledgeLimits;
use houston_domain::overseer;
use houston_domain::plan::{Limits as PlanLimits, Templates};
use houston_domain::rate::RateLimits;
use houston_domain::reach::ReachLimits;
use houston_domain::retry::DelayedRetry;
use houston_domain::schedule::{CheckInConfig, FeedConfig};
use houston_domain::sealed::SecretKeys;
use houston_domain::session::SessionArchive;
use houston_domain::setting::WrongSetting;
use houston_domain::skill::BundledSkill;
use houston_domain::task::TaskLimits;
use houston_engine::Drivers;
use houston_engine::config::{ContextConfig, TeamsConfig, WatchdogConfig};
use houston_llm::{BreakerPolicy, Provider, RetryBudgetPolicy};
use houston_mcp::McpSettings;
use houston_store::Fairness;
use houston_tools::PdfReader;
use houston_worker::{LeaseConfig, MonitorConfig, SweepConfig, TriggersConfig, WebhooksConfig, WorkerConfig};
use serde::{Deserialize, Serialize};

use self::cells::CellSettings;
use self::error::Result;
use self::kinds::Packs;
use self::layers::{FILES, Layers};
use self::outside::WebSettings;
use self::skills::SkillSettings;
use self::storage::{AttachmentSettings, WorkspaceSettings};
use crate::instruments::{Callbacks, Instruments};

pub(crate) use self::cells::CellConfig;
pub(crate) use self::error::{ConfigError, like};
pub(crate) use self::folder::{of_user, user_path};
pub(crate) use self::kinds::Kind;
pub(crate) use self::models::{AUTO, ModelSelection, Models, ProviderSettings, Routed, USE_CASES};
pub(crate) use self::outside::{SandboxSettings, ShellProgram, endpoints};

/// Where the rate limits come from if no others are set.
const RATES_ORIGIN: &str = "jobs/rates.toml";

/// All settings.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// The address of Postgres that a program gives; `None`: `DATABASE_URL`.
    #[serde(skip)]
    pub(crate) database_url: Option<String>,
    /// `HOUSTON_REDIS_URL`.
    #[serde(skip_serializing)]
    pub(crate) redis_url: Option<String>,
    /// `HOUSTON_MODEL`: `provider/model`, or several with commas between them, for all use cases.
    pub(crate) model: Option<String>,
    /// `HOUSTON_MODEL_TOOLS`: `false` for a model that cannot call tools: its text is the reply.
    pub(crate) model_tools: Option<bool>,
    /// `HOUSTON_LOG`: the log filter, e.g. `info,houston_engine=debug`.
    pub(crate) log: Option<String>,
    /// `HOUSTON_LOG_FORMAT`: `text` or `json`; by default text on a terminal.
    pub(crate) log_format: Option<LogFormat>,
    /// `HOUSTON_METRICS_ADDRESS`: where Prometheus reads `/metrics`; nowhere by default.
    pub(crate) metrics_address: Option<String>,
    /// `jobs/orchestrator.toml`.
    pub(crate) orchestrator: Orchestrator,
    /// `jobs/server.toml`.
    pub(crate) server: houston_api::Config,
    /// `jobs/health_monitor.toml`.
    pub(crate) health_monitor: MonitorConfig,
    /// `jobs/session_archive.toml`.
    pub(crate) session_archive: SessionArchive,
    /// `jobs/feed_generation.toml`.
    pub(crate) feed_generation: FeedConfig,
    /// `jobs/agent_check_in.toml`.
    pub(crate) agent_check_in: CheckInConfig,
    /// `jobs/knowledge.toml`.
    pub(crate) knowledge: KnowledgeLimits,
    /// `jobs/models.toml`.
    pub(crate) models: Models,
    /// `jobs/providers.toml`.
    #[serde(default)]
    pub(crate) providers: BTreeMap<String, ProviderSettings>,
    /// `jobs/teams.toml`.
    pub(crate) teams: TeamsConfig,
    /// `jobs/cells.toml`.
    #[serde(default)]
    pub(crate) cells: CellSettings,
    /// `jobs/guards.toml`.
    pub(crate) guards: GuardSettings,
    /// `jobs/web.toml`.
    pub(crate) web: WebSettings,
    /// `jobs/sandbox.toml`.
    pub(crate) sandbox: SandboxSettings,
    /// `jobs/mcp.toml`.
    pub(crate) mcp: McpSettings,
    /// `jobs/overseer.toml`.
    pub(crate) overseer: overseer::Settings,
    /// `jobs/packs.toml`.
    pub(crate) packs: Packs,
    /// `jobs/tools.toml`.
    #[serde(default)]
    pub(crate) tools: Fallbacks,
    /// `jobs/skills.toml`.
    pub(crate) skills: SkillSettings,
    /// `jobs/tables.toml`.
    pub(crate) tables: TablePresets,
    /// `jobs/workspaces.toml`.
    pub(crate) workspaces: WorkspaceSettings,
    /// `jobs/rates.toml`.
    pub(crate) rates: RateLimits,
    /// `jobs/webhooks.toml`.
    pub(crate) webhooks: WebhooksConfig,
    /// `jobs/plans.toml`.
    pub(crate) plans: PlanLimits,
    /// `jobs/triggers.toml`.
    pub(crate) triggers: TriggersConfig,
    /// `jobs/attachments.toml`.
    pub(crate) attachments: AttachmentSettings,
    /// `jobs/console.toml`.
    pub(crate) console: houston_console::Config,
}

impl Settings {
    /// Checks what more than one setting decides, or the environment, each beside the struct that it is about.
    fn check(&self) -> Result<(), WrongSetting> {
        let Orchestrator { lease, sweep, worker, context, .. } = &self.orchestrator;
        for (section, checked) in [
            ("/mcp", self.mcp.check()),
            ("/console", self.console.check()),
            ("", self.check_cells()),
            ("/overseer", self.overseer.check()),
            ("/models", self.models.check()),
            ("", self.check_names()),
            ("/orchestrator/lease", lease.check()),
            ("/orchestrator/sweep", sweep.check(lease)),
            ("/orchestrator/worker", worker.check()),
            ("/orchestrator/context", context.check()),
            ("/agent_check_in/limits", self.agent_check_in.limits.check()),
            ("/web", self.web.check()),
            ("/workspaces", self.workspaces.check()),
            ("/webhooks", self.webhooks.check()),
            ("/health_monitor/tick", self.health_monitor.tick.check()),
            ("/server", self.server.check()),
        ] {
            checked.map_err(|wrong| wrong.below(section))?;
        }
        Ok(())
    }

    /// `HOUSTON_MODEL`, and the names of providers.
    fn check_names(&self) -> Result<(), WrongSetting> {
        if let Some(model) = &self.model {
            let checked = ModelSelection::One(model.clone()).check();
            checked.map_err(|reason| WrongSetting::new("/model", reason))?;
        }
        for name in self.providers.keys() {
            let known = Provider::named(name);
            known.map_err(|error| WrongSetting::new(format!("/providers/{name}"), error.message))?;
        }
        Ok(())
    }
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    /// Plain lines.
    Text,
    /// One JSON object per line.
    Json,
}

/// The loaded configuration.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    /// The settings.
    pub(crate) settings: Settings,
    /// The agent types, by kind.
    pub(crate) kinds: BTreeMap<String, Kind>,
    /// The folders that were read; later ones override earlier ones.
    folders: Vec<PathBuf>,
    /// The names of the registered tools, with those of MCP servers.
    tools: Vec<String>,
    /// The MCP servers.
    pub(crate) mcp: mcp::Mcp,
    /// The templates of plans.
    pub(crate) templates: Arc<Templates>,
    /// The skills of the installation, enabled or not.
    pub(crate) skills: Vec<BundledSkill>,
    /// The drivers that agent types may name.
    pub(crate) drivers: Drivers,
    /// `HOUSTON_SECRETS_KEY`: the keys of tenants' secrets.
    pub(crate) secret_keys: Option<SecretKeys>,
    /// Reads PDFs for models that take none.
    pub(crate) pdf: PdfReader,
    /// The hooks and observers of the program.
    pub(crate) callbacks: Callbacks,
    /// What the process counts, and the spans that it makes.
    pub(crate) instruments: Instruments,
    /// The compiled `settings.guards`.
    pub(crate) guards: Arc<Layer>,
    layers: Layers,
}

/// Loads the settings and the agent types. Each of `folders` overrides those before it; `tools` are the names that
/// agent types may list.
///
/// # Errors
/// [`ConfigError`] with the key or file, its origin and what is allowed.
pub(crate) fn load<'f>(folders: impl IntoIterator<Item = &'f Path>, tools: &[String]) -> Result<Loaded> {
    let folders: Vec<PathBuf> = folders.into_iter().map(Path::to_owned).collect();
    let mut layers = Layers::built_in()?;
    for folder in &folders {
        folder::check(folder)?;
        layers.add_folder(folder)?;
    }
    layers.add_variables(std::env::vars_os());
    let settings: Settings = layers.read()?;
    times::check(&settings, |key| layers.origin(key))?;
    settings.check().map_err(|wrong| layers.refuse(wrong.key(), wrong.reason))?;
    let guards = Layer::compile(LayerKind::Installation, "jobs/guards.toml", &settings.guards);
    let guards = guards.map(Arc::new).map_err(|error| layers.refuse("guards", error.to_string()))?;
    let mcp = mcp::Mcp::load(&settings.mcp, &folders);
    let tools: Vec<String> = tools.iter().chain(mcp.servers.tools()).cloned().collect();
    settings.packs.check(&tools, &mcp.servers, &layers)?;
    let tables = settings.tables.check(&settings.knowledge.tables);
    tables.map_err(|(name, faults)| layers.refuse(format!("tables.{name}"), texts(&faults)))?;
    tools::check(&settings.tools, &tools, &layers)?;
    let kinds = kinds::load(&folders, &tools, &mcp.servers, &settings.packs)?;
    for (name, Kind { agent_type, origin }) in &kinds {
        times::check(&BTreeMap::from([(format!("agents.{name}"), agent_type)]), |_| origin.clone())?;
    }
    mcp.servers.check_kinds(&kinds, &layers)?;
    let skills = settings.skills.load(&folders, &layers)?;
    let templates = Arc::new(templates::load(&folders, &tools)?);
    let secret_keys = secrets::from_environment()?;
    Ok(Loaded {
        settings,
        kinds,
        folders,
        tools,
        mcp,
        templates,
        skills,
        drivers: Drivers::default(),
        pdf: PdfReader::default(),
        callbacks: Callbacks::default(),
        instruments: Instruments::default(),
        secret_keys,
        guards,
        layers,
    })
}

/// A setting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// As JSON.
    pub(crate) value: String,
    /// The file or variable that sets it.
    pub(crate) origin: String,
}

impl Loaded {
    /// Every setting, for `houston config show --origin`.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let of_settings = flattened("", &self.settings).into_iter();
        let of_settings =
            of_settings.map(|(key, value)| Entry { origin: self.layers.origin(&key), key, value });
        let of_kinds = self.kinds.iter().flat_map(|(kind, Kind { agent_type, origin })| {
            let of_kind = flattened(&format!("agents.{kind}"), agent_type).into_iter();
            of_kind.map(|(key, value)| Entry { key, value, origin: origin.clone() })
        });
        of_settings.chain(of_kinds).collect()
    }

    /// Switches rate limits off that no file and no variable sets: for one person's own machine, and for programs that embed
    /// Houston.
    pub(crate) fn without_usual_rates(&mut self) {
        let Self { settings: Settings { rates, .. }, layers, .. } = self;
        for (key, quota) in [
            ("requests", &mut rates.requests.quota),
            ("keys", &mut rates.keys.quota),
            ("tokens", &mut rates.tokens.quota),
        ] {
            if layers.origin(&format!("rates.{key}.quota")) == RATES_ORIGIN {
                *quota = 0;
            }
        }
    }

    /// The folders that were read; later ones override earlier ones.
    pub(crate) fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// The agent types, by kind.
    pub(crate) fn agent_types(&self) -> BTreeMap<String, AgentType> {
        kinds::agent_types(self.kinds.clone())
    }

    /// The kind of the demo: the first that users can create; built-in kinds come first.
    pub(crate) fn first_kind(&self) -> Option<&AgentType> {
        let built_in = kinds::BUILT_IN.iter().filter_map(|(name, _)| self.kinds.get(*name));
        built_in.chain(self.kinds.values()).map(|kind| &kind.agent_type).find(|kind| kind.user_creatable())
    }
}

/// Each value with its key; what is not set is left out.
fn flattened(prefix: &str, of: &impl Serialize) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    flatten(prefix.to_owned(), &serde_json::to_value(of).unwrap_or_default(), &mut lines);
    lines
}

fn flatten(prefix: String, value: &serde_json::Value, lines: &mut Vec<(String, String)>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (key, value) in fields {
                let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(key, value, lines);
            }
        }
        serde_json::Value::Null => {}
        value => lines.push((prefix, value.to_string())),
    }
}

/// `jobs/orchestrator.toml`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Orchestrator {
    /// Limits of a run.
    pub(crate) limits: Limits,
    /// Budgets in US dollars.
    pub(crate) budget: Budget,
    /// Limits of the prompt and the history.
    pub(crate) context: ContextConfig,
    /// Limits on tasks.
    pub(crate) tasks: TaskLimits,
    /// Limits on what agents post to other conversations.
    pub(crate) reach: ReachLimits,
    /// Retries.
    pub(crate) retry: Retry,
    /// Time-outs of a model call.
    pub(crate) model: ModelTimeouts,
    /// When an attempt is aborted.
    pub(crate) watchdog: WatchdogConfig,
    /// How long to wait for Postgres at the start.
    pub(crate) startup: Startup,
    /// Leases of workers.
    pub(crate) lease: LeaseConfig,
    /// Intervals of the sweep and the reaper.
    pub(crate) sweep: SweepConfig,
    /// Limits per user.
    pub(crate) fairness: Fairness,
    /// Slots, connections and drain of a worker.
    pub(crate) worker: WorkerConfig,
}

/// `[startup]`: how long to wait for Postgres at the start.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Startup {
    /// After this many seconds the process gives up.
    pub(crate) wait_s: u64,
    /// Seconds between two attempts; each failed one prints a line.
    pub(crate) retry_s: u64,
}

/// Both tiers of retries.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Retry {
    /// Retries within a model call.
    pub(crate) immediate: ImmediateRetry,
    /// A retry budget per provider for the immediate retries.
    pub(crate) budget: RetryBudgetPolicy,
    /// The circuit breaker of a provider.
    pub(crate) breaker: BreakerPolicy,
    /// Retries of a run, as further attempts.
    pub(crate) delayed: DelayedRetry,
}

/// Retries of a model call before its first token.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImmediateRetry {
    /// Retries per call.
    pub(crate) attempts: u32,
    /// The delay before each retry, in ms.
    pub(crate) delay_ms: u64,
    /// The longest wait a provider may ask for, in ms.
    pub(crate) max_wait_ms: u64,
}

/// Time-outs of a model call, in seconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelTimeouts {
    /// Until the connection is established.
    pub(crate) connect_timeout_s: u64,
    /// Until the first byte.
    pub(crate) first_byte_timeout_s: u64,
    /// Between bytes.
    pub(crate) idle_timeout_s: u64,
    /// Until the response is complete.
    pub(crate) total_timeout_s: u64,
}
