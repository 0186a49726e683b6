//! [`System`]: API and worker over one store, one bus, one set of models; the same wiring for every command and
//! for tests.

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

/// Everything shared by the roles of one process.
pub(crate) struct System {
    pub(crate) loaded: Loaded,
    pub(crate) store: Store,
    pub(crate) database_url: String,
    pub(crate) redis: Redis,
    pub(crate) ids: Arc<Ids>,
    pub(crate) bus: DeltaBus,
    pub(crate) hints: HintSender,
    pub(crate) tracker: TaskTracker,
    /// Drains.
    pub(crate) stop: CancellationToken,
    /// Cancelled when nothing is driven or served any more.
    pub(crate) gone: CancellationToken,
}

impl System {
    /// Wires the parts every role needs.
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

    /// Starts driving runs.
    pub(crate) fn start_worker(&self, registry: Registry, models: &Models) -> Result<Running, Failure> {
        let orchestrator = &self.loaded.settings.orchestrator;
        let engine = Engine::new(Parts {
            store: self.store.clone(),
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
            store: self.store.clone(),
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
            .context("the worker could not be started")?;
        Ok(running)
    }

    /// What the API works with.
    pub(crate) fn api_state(&self, explain: Explain) -> houston_api::State {
        houston_api::State {
            config: self.loaded.settings.server.clone(),
            store: self.store.clone(),
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

    /// Ends what is left, within a moment: with the drain time (20 s) and the lease (2 s) it stays within 25 s.
    pub(crate) async fn close_quickly(&self) {
        self.gone.cancel();
        self.tracker.close();
        let _ = tokio::time::timeout(Duration::from_millis(1500), self.tracker.wait()).await;
        let _ = tokio::time::timeout(Duration::from_secs(1), self.store.close()).await;
    }

    /// Default agents that nobody changed say what the files say with which this process began.
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
        match self.store.follow_agent_files(&defaults).await {
            Ok(0) => {}
            Ok(agents) => tracing::info!(agents, "default agents follow the files of jobs/agents"),
            Err(error) => {
                tracing::warn!(%error, "default agents stay as they are: POST /v1/agents/resync mends that");
            }
        }
    }

    /// Serves until told to stop; then requests at hand get as long as runs do, and no longer.
    pub(crate) async fn serve(&self, listener: tokio::net::TcpListener, explain: Explain) {
        self.follow_agent_files().await;
        let drain = Duration::from_secs(self.loaded.settings.orchestrator.worker.drain_s);
        let too_late = async {
            self.stop.cancelled().await;
            tokio::time::sleep(drain).await;
        };
        tokio::select! {
            () = houston_api::serve(listener, self.api_state(explain), self.stop.clone()) => {}
            () = too_late => tracing::warn!("drain time is over, requests are cut off"),
        }
    }
}

/// This machine's name, for operators.
fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "host".to_owned(), |name| name.trim().to_owned())
}
