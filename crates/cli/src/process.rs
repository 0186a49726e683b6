//! [`Process`]: a worker with its servers inside another program, without the API and the command line. The crate `houston` is
//! the interface to it.
//!
//! Settings come from `jobs/` as it was compiled in, the folder that the program names, and the environment, as for
//! `houston dev`; the user's own folder (`~/.config/houston`) is not read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt as _;
use houston_domain::agentable::{AgentType, check_kind};
use houston_domain::event::{Committed, Live};
use houston_domain::id::{AgentableId, Ids, Shard, TenantId, UserId};
use houston_engine::{Observer, RunHook};
use houston_llm::Model;
use houston_queue::{DeltaBus, HintSender, Received};
use houston_store::TenantStore;
use houston_store::agentable::NewAgentable;
use houston_store::cost::Cost;
use houston_store::user::User;
use houston_tools::{Registry, SharedTool};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::config::{self, Kind, Loaded};
use crate::connect::{self, ServerSupervisor};
use crate::environment::DEFAULT_FOLDER;
use crate::failure::Failure;
use crate::instruments::Callbacks;
use crate::models::{self, Models, Routes};
use crate::system::System;
use crate::toolbox::{Toolbox, outside_without_sandbox};

/// What a program wants to run, besides its agent.
#[derive(Default)]
pub struct Plan {
    /// Folder for the data of embedded servers; `None`: `.houston` in the current folder.
    pub folder: Option<PathBuf>,
    /// Folder with files that override those of `jobs/`.
    pub jobs: Option<PathBuf>,
    /// Connection URL of Postgres; `None`: `DATABASE_URL`, else an embedded Postgres.
    pub database_url: Option<String>,
    /// URL of Redis; `None`: `HOUSTON_REDIS_URL`, else an embedded Redis.
    pub redis_url: Option<String>,
    /// Whether a Postgres that is not embedded is migrated. Embedded ones always are.
    pub migrates: bool,
    /// The model of all use cases.
    pub model: PlannedModel,
    /// Tools besides Houston's own.
    pub tools: Vec<SharedTool>,
    /// The tenant to which everything belongs; `None`: `default`.
    pub tenant: Option<String>,
    /// Changes what runs start with, in this order.
    pub hooks: Vec<Arc<dyn RunHook>>,
    /// Observes the runs.
    pub observers: Vec<Arc<dyn Observer>>,
}

/// Which model a program uses.
#[derive(Default)]
pub enum PlannedModel {
    /// That of the settings: `jobs/models.toml` and `HOUSTON_MODEL`, else the first provider whose key is set, a local Ollama, or
    /// the simulated model.
    #[default]
    Settings,
    /// `provider/model`, or several with commas between them.
    Named(String),
    /// One of the program itself.
    Own(Arc<dyn Model>),
}

/// Why a process could not be started or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// Wrong settings: another attempt fails in the same way.
    #[error("{0:#}")]
    Settings(anyhow::Error),
    /// A server cannot be started or reached, or the worker cannot be started.
    #[error("{0:#}")]
    Start(anyhow::Error),
    /// An embedded server did not stop.
    #[error("{0:#}")]
    Stop(anyhow::Error),
}

impl From<Failure> for ProcessError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Usage(error) => Self::Settings(error),
            Failure::Other(error) => Self::Start(error),
        }
    }
}

fn settings(error: impl Into<anyhow::Error>) -> ProcessError {
    ProcessError::Settings(error.into())
}

fn start(error: impl Into<anyhow::Error>) -> ProcessError {
    ProcessError::Start(error.into())
}

/// A running worker with its servers.
pub struct Process {
    system: System,
    /// The tenant to which everything of the program belongs.
    pub tenant: TenantId,
    /// The kind of the program's agent.
    pub agent: AgentType,
    /// Taken when the process is stopped.
    running: Mutex<Option<Parts>>,
    /// Cancelled when the worker has ended: after [`Self::stop`], or because it failed.
    pub ended: CancellationToken,
}

/// What is stopped in the end.
struct Parts {
    worker: tokio::task::JoinHandle<()>,
    supervisor: Option<ServerSupervisor>,
}

impl Process {
    /// Starts the servers that no URL names, and a worker, and waits until it may claim. `agent`: the kind of the program's agent.
    ///
    /// # Errors
    /// [`ProcessError::Settings`] for wrong settings, tools or names, [`ProcessError::Start`] when a server or the worker cannot
    /// be started.
    pub async fn start(plan: Plan, agent: AgentType) -> Result<Self, ProcessError> {
        let Plan { folder, model, tenant, migrates, .. } = &plan;
        let folder = folder.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_FOLDER));
        let (loaded, registry) = load(&plan, &agent, &folder)?;
        let (addresses, supervisor) = servers(&loaded, folder).await?;
        let stores = connect::stores(&loaded.settings, &addresses).await?;
        let embedded = supervisor.is_some();
        connect::prepare_schema(&stores, &loaded.settings, embedded || *migrates).await?;
        let models = models_of(&loaded, model).await?;
        let system = System::new(loaded, &stores, &addresses.cells)?;
        let operator = system.cells.home().store.operator();
        let tenant = tenant.as_deref().unwrap_or("default");
        let tenant = operator.ensure_tenant(system.ids.next(), tenant).await.map_err(start)?;
        system.copies.copy(tenant).await.map_err(start)?;
        let workers = system.start_workers(&registry, &models)?;
        workers.registered().await;
        let ended = CancellationToken::new();
        let over = ended.clone();
        let worker = system.tracker.spawn(async move {
            if let Err(error) = workers.ended().await {
                tracing::error!(%error, "the worker stopped unexpectedly");
            }
            over.cancel();
        });
        let running = Mutex::new(Some(Parts { worker, supervisor }));
        Ok(Self { system, tenant, agent, running, ended })
    }

    /// Generates ids, and has the clock.
    pub fn ids(&self) -> &Ids {
        &self.system.ids
    }

    /// What the program may do with the rows of its tenant that have this shard.
    pub fn store(&self, shard: Shard) -> TenantStore<'_> {
        self.system.cells.with(shard).store.tenant(self.tenant)
    }

    /// What runs of this shard publish.
    pub fn bus(&self, shard: Shard) -> &DeltaBus {
        &self.system.cells.with(shard).bus
    }

    /// Hints for the workers of this shard.
    pub fn hints(&self, shard: Shard) -> &HintSender {
        &self.system.cells.with(shard).hints
    }

    /// Calls `hear` with each event that this process commits, in the order of each agentable, until the worker has ended. It is
    /// called in a task of its own; events that come faster than it returns are left out.
    pub fn follow(&self, hear: impl Fn(AgentableId, &Committed) + Send + Sync + 'static) {
        let hear = Arc::new(hear);
        for cell in self.system.cells.iter() {
            let (bus, ended, hear) = (cell.bus.clone(), self.ended.clone(), Arc::clone(&hear));
            self.system.tracker.spawn(async move { follow(&bus, &ended, &*hear).await });
        }
    }

    /// Stops gracefully: no new runs are claimed; open ones finish their step or are handed over, within the drain time
    /// (`worker.drain_s`). Then it stops embedded servers. A second call returns at once.
    ///
    /// # Errors
    /// [`ProcessError::Stop`] when an embedded server does not stop.
    pub async fn stop(&self) -> Result<(), ProcessError> {
        let parts = self.running.lock().take();
        let Some(Parts { worker, supervisor }) = parts else { return Ok(()) };
        self.system.stop.cancel();
        // Its failure was logged.
        let _ = worker.await;
        self.system.close_quickly().await;
        let Some(supervisor) = supervisor else { return Ok(()) };
        let stopped = tokio::task::spawn_blocking(move || supervisor.stop()).await;
        stopped.map_err(|panic| ProcessError::Stop(panic.into()))?.map_err(ProcessError::Stop)
    }
}

/// A user whom the program, or a demo, calls `external_id`.
pub fn new_user(ids: &Ids, shard: Shard, external_id: &str, name: &str) -> User {
    User {
        id: ids.next_in(shard),
        external_id: Some(external_id.to_owned()),
        name: name.to_owned(),
        time_zone: "UTC".to_owned(),
        cost: Cost::NOTHING,
        created_at: ids.clock().now(),
    }
}

/// An agentable of this kind for a user.
pub fn new_agentable<'a>(
    ids: &Ids,
    user: UserId,
    kind: &'a AgentType,
    title: &'a str,
    description: &'a str,
) -> NewAgentable<'a> {
    NewAgentable {
        id: ids.beside(user),
        user,
        kind: &kind.kind,
        title,
        description,
        status: kind.initial_status(),
        tools: None,
        created_at: ids.clock().now(),
    }
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process")
            .field("tenant", &self.tenant)
            .field("kind", &self.agent.kind)
            .finish_non_exhaustive()
    }
}

/// Loads the settings with the program's kind, and the tools.
fn load(plan: &Plan, agent: &AgentType, folder: &Path) -> Result<(Loaded, Registry), ProcessError> {
    let folders = || plan.jobs.iter().map(PathBuf::as_path);
    let toolbox = Toolbox::read(folders(), plan.tools.clone()).map_err(settings)?;
    let mut loaded = config::load(folders(), &toolbox.names().map_err(settings)?).map_err(settings)?;
    loaded.mcp.check_pins().map_err(settings)?;
    loaded.without_usual_rates();
    loaded.callbacks = Callbacks { hooks: plan.hooks.clone(), observers: plan.observers.clone() };
    let given = &mut loaded.settings;
    given.database_url = plan.database_url.clone();
    given.redis_url = plan.redis_url.clone().or(given.redis_url.take());
    if let PlannedModel::Named(name) = &plan.model {
        config::ModelSelection::One(name.clone())
            .check()
            .map_err(|error| settings(anyhow::anyhow!("the model `{name}` cannot be used: {error}")))?;
        given.model = Some(name.clone());
    }
    let outside = outside_without_sandbox(given);
    let registry = toolbox.fill(&mut loaded, outside, folder).map_err(settings)?;
    let AgentType { kind, tools, .. } = agent;
    check_kind(kind).map_err(|error| settings(anyhow::anyhow!(error)))?;
    registry.offer(tools).map_err(settings)?;
    if loaded.kinds.contains_key(kind) {
        return Err(settings(anyhow::anyhow!(
            "`{kind}` cannot be the name of the agent: there is an agent type of this name; there are: {}",
            loaded.kinds.keys().cloned().collect::<Vec<_>>().join(", ")
        )));
    }
    let added = Kind { agent_type: agent.clone(), origin: "the program".to_owned() };
    loaded.kinds.insert(kind.clone(), added);
    Ok((loaded, registry))
}

/// Finds the servers, and starts those that no URL names.
async fn servers(
    loaded: &Loaded,
    folder: PathBuf,
) -> Result<(connect::Addresses, Option<ServerSupervisor>), ProcessError> {
    let settings = loaded.settings.clone();
    let find = move || {
        let mut progress = |line: &str| tracing::info!("{line}");
        connect::find_with(&settings, &folder, true, &mut progress)
    };
    let mut addresses = tokio::task::spawn_blocking(find).await.map_err(start)??;
    let supervisor = addresses.supervise(|line| tracing::warn!("{line}"));
    Ok((addresses, supervisor))
}

/// The models of the plan, for all use cases.
async fn models_of(loaded: &Loaded, planned: &PlannedModel) -> Result<Models, ProcessError> {
    let PlannedModel::Own(model) = planned else {
        return models::build(loaded).await.map_err(settings);
    };
    let by_use_case = config::USE_CASES.iter().map(|name| ((*name).to_owned(), Arc::clone(model))).collect();
    let own = Arc::clone(model);
    let make = Arc::new(move |_| std::future::ready(Arc::clone(&own)).boxed());
    Ok(Models { by_use_case, make, summary: Vec::new(), routes: Routes::default() })
}

async fn follow(bus: &DeltaBus, ended: &CancellationToken, hear: &(impl Fn(AgentableId, &Committed) + Sync)) {
    let mut heard = bus.subscribe_committed();
    loop {
        let received = tokio::select! {
            biased;
            received = heard.recv() => received,
            () = ended.cancelled() => return,
        };
        match received {
            Received::Item(item) => {
                if let Live::Committed(events) = &item.live {
                    events.iter().for_each(|event| hear(item.agentable, event));
                }
            }
            Received::Lagged => {
                tracing::warn!("events came faster than the program hears them, and some were left out");
                heard = bus.subscribe_committed();
            }
        }
    }
}
