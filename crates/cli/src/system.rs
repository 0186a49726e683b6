//! [`System`]: the API and the worker, with the store, the delta bus and the models they share. Every command and test
//! uses this wiring.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use houston_api::Explain;
use houston_domain::agent_settings::AgentSettings;
use houston_domain::clock::{Clock, SystemClock};
use houston_domain::id::Ids;
use houston_domain::schedule::Schedules;
use houston_engine::{Engine, Parts};
use houston_queue::{DEFAULT_PREFIX, DeltaBus, HintSender, Redis};
use houston_store::Store;
use houston_store::agent::DefaultAgent;
use houston_tools::Registry;
use houston_worker::{Running, Worker};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::commands::Failure;
use crate::config::Loaded;
use crate::explain::engine_config;
use crate::models::Models;

/// What all roles of one process share.
pub(crate) struct System {
    pub(crate) loaded: Loaded,
    pub(crate) store: Store,
    pub(crate) database_url: String,
    pub(crate) redis: Redis,
    pub(crate) ids: Arc<Ids>,
    pub(crate) bus: DeltaBus,
    pub(crate) hints: HintSender,
    pub(crate) tracker: TaskTracker,
    /// Cancelled to start the drain.
    pub(crate) stop: CancellationToken,
    /// Cancelled when no run and no request is left.
    pub(crate) gone: CancellationToken,
}

impl System {
    /// Builds the parts that every role needs.
    pub(crate) fn new(
        loaded: Loaded,
        store: Store,
        database_url: &str,
        redis_url: &str,
    ) -> Result<Self, Failure> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let ids = Arc::new(Ids::new(Arc::clone(&clock)));
        let redis =
            Redis::open(redis_url, DEFAULT_PREFIX, clock).map_err(|error| Failure::Usage(error.into()))?;
        let (tracker, gone) = (TaskTracker::new(), CancellationToken::new());
        let bus = DeltaBus::start(Some(redis.clone()), ids.next(), &tracker, gone.clone());
        let hints = HintSender::start(Some(redis.clone()), &tracker, gone.clone());
        Ok(Self {
            store: store.with_archiving(loaded.archiving()),
            loaded,
            database_url: database_url.to_owned(),
            redis,
            ids,
            bus,
            hints,
            tracker,
            stop: CancellationToken::new(),
            gone,
        })
    }

    /// Starts the worker.
    pub(crate) fn start_worker(&self, registry: Registry, models: &Models) -> Result<Running, Failure> {
        let orchestrator = &self.loaded.settings.orchestrator;
        let engine = Engine::new(Parts {
            store: self.store.runs().clone(),
            bus: self.bus.clone(),
            hints: self.hints.clone(),
            ids: Arc::clone(&self.ids),
            config: engine_config(&self.loaded.settings),
            agent_types: self.loaded.agent_types().into_values().collect(),
            tools: registry,
            models: models.by_use_case.clone(),
            make_model: Arc::clone(&models.make),
        })
        .map_err(|error| Failure::Usage(error.into()))?;
        let worker = Worker {
            engine: Arc::new(engine),
            store: self.store.runs().clone(),
            database_url: self.database_url.clone(),
            redis: Some(self.redis.clone()),
            hints: self.hints.clone(),
            bus: self.bus.clone(),
            ids: Arc::clone(&self.ids),
            name: format!("{}-{}", host(), std::process::id()),
            lease: orchestrator.lease,
            sweep: orchestrator.sweep,
            worker: orchestrator.worker,
            monitor: self.loaded.settings.health_monitor,
            schedules: Schedules {
                feed: self.loaded.settings.feed_generation.clone(),
                check_in: self.loaded.settings.agent_check_in.clone(),
            },
        };
        let running = worker
            .start(&self.tracker, self.stop.clone(), CancellationToken::new())
            .context("cannot start the worker")?;
        Ok(running)
    }

    /// The state of the API.
    pub(crate) fn api_state(&self, explain: Explain) -> houston_api::State {
        houston_api::State {
            config: self.loaded.settings.server.clone(),
            store: self.store.api(),
            bus: self.bus.clone(),
            hints: self.hints.clone(),
            redis: self.bus.health().clone(),
            ids: Arc::clone(&self.ids),
            agent_types: Arc::new(self.loaded.agent_types()),
            agents: Arc::new(self.loaded.agent_sources()),
            explain,
            feed: Arc::new(self.loaded.settings.feed_generation.clone()),
            check_ins: self.loaded.settings.agent_check_in.limits,
            team_rules: self.loaded.settings.teams.rules,
            draining: self.stop.clone(),
        }
    }

    /// Closes what is left within 2.5 s: with the drain (20 s) and the lease (2 s) shutdown takes less than 25 s.
    pub(crate) async fn close_quickly(&self) {
        self.gone.cancel();
        self.tracker.close();
        let _ = tokio::time::timeout(Duration::from_millis(1500), self.tracker.wait()).await;
        let _ = tokio::time::timeout(Duration::from_secs(1), self.store.close()).await;
    }

    /// Updates default agents that no client has changed to the agent files of this process.
    async fn follow_agent_files(&self) {
        let kinds = self.loaded.agent_types();
        let defaults: Vec<DefaultAgent<'_>> = kinds
            .values()
            .map(|kind| DefaultAgent {
                id: self.ids.next(),
                kind: &kind.kind,
                settings: AgentSettings::of(kind),
            })
            .collect();
        match self.store.operator().follow_agent_files(&defaults).await {
            Ok(0) => {}
            Ok(agents) => tracing::info!(agents, "default agents follow the files of jobs/agents"),
            Err(error) => {
                tracing::warn!(%error, "default agents were not updated: POST /v1/agents/resync does it later");
            }
        }
    }

    /// Serves until `stop` is cancelled. Open requests then get as much time as runs (`drain_s`).
    pub(crate) async fn serve(&self, listener: tokio::net::TcpListener, explain: Explain) {
        self.follow_agent_files().await;
        let drain = Duration::from_secs(self.loaded.settings.orchestrator.worker.drain_s);
        let too_late = async {
            self.stop.cancelled().await;
            tokio::time::sleep(drain).await;
        };
        tokio::select! {
            () = houston_api::serve(listener, self.api_state(explain), self.stop.clone()) => {}
                        () = too_late => tracing::warn!("the drain time is over: open requests are cut off"),
        }
    }
}

/// The host name, for the worker's name.
fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "host".to_owned(), |name| name.trim().to_owned())
}
