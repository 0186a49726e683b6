//! Shared state: [`State`], which the process provides, and `App`, which adds the crate's caches and limits. Each of those is a
//! module here that does not know the `App`: it is passed what it needs.

pub(crate) mod caches;
pub(crate) mod config;
pub(crate) mod cors;
pub(crate) mod documents;
pub(crate) mod issuers;
pub(crate) mod keys;
pub(crate) mod log_throttle;
pub(crate) mod offload;
pub(crate) mod peers;
pub(crate) mod streams;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use axum::response::Response;
use chrono::{DateTime, Utc};
use houston_domain::agentable::{AgentType, Urgency};
use houston_domain::budget::Budget;
use houston_domain::cell::{CellName, Cells, ShardRange};
use houston_domain::check_in::CheckInLimits;
use houston_domain::event::{Live, LiveItem};
use houston_domain::id::{AgentableId, Ids, RunId, Shard};
use houston_domain::plan::{Limits as PlanLimits, Templates};
use houston_domain::schedule::FeedConfig;
use houston_domain::sealed::SecretKeys;
use houston_domain::team::RuleLimits;
use houston_meter::Turns;
use houston_metrics::Metrics;
use houston_protocol::run::CancelledRunsResponse;
use houston_queue::{DeltaBus, Hint, HintSender, RedisHealth};
use houston_store::audit::NewRecord;
use houston_store::{ApiStore, TenantStore};
use houston_web::{Client, Sinks};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admission;
use crate::caller::Caller;
use crate::state::caches::{AgentableCache, Disk, EndedRuns, Owners, Speeds};
use crate::state::config::Config;
use crate::state::documents::DocumentMemory;
use crate::state::issuers::Issuers;
use crate::state::keys::KeyCache;
use crate::state::offload::Offload;
use crate::state::peers::Peers;
use crate::state::streams::Streams;
use crate::state::streams::feeds::Feeds;
use crate::wiring::{AgentSources, Explain, ForeignServers, ModelCatalogue};

/// Everything the server needs: settings, connections and agent types.
#[derive(Debug, Clone)]
pub struct State {
    /// `jobs/server.toml`.
    pub config: Config,
    /// Postgres.
    pub store: ApiStore,
    /// Delta bus: streams subscribe to it, and posted messages are published on it.
    pub bus: DeltaBus,
    /// Sends hints to workers.
    pub hints: HintSender,
    /// Health of Redis for `/readyz`: that of the process's longest-lived connection.
    pub redis: RedisHealth,
    /// Generates ids; also provides the clock.
    pub ids: Arc<Ids>,
    /// Counts requests, streams and runs.
    pub metrics: Arc<Metrics>,
    /// Begins spans, if traces are exported.
    pub spans: houston_spans::Spans,
    /// Agent types by kind.
    pub agent_types: Arc<BTreeMap<String, AgentType>>,
    /// What the settings of agents may refer to: tools, models, files.
    pub agents: Arc<AgentSources>,
    /// The keys of tenants' secrets; without, none can be stored.
    pub secret_keys: Option<SecretKeys>,
    /// Sends test events to webhooks, and says which addresses they may have.
    pub sinks: Arc<Sinks>,
    /// Reaches MCP servers of tenants and users.
    pub foreign_servers: Arc<dyn ForeignServers>,
    /// The configured models.
    pub models: Arc<dyn ModelCatalogue>,
    /// Computes the prompt and the tools of an agentable, for debugging.
    pub explain: Explain,
    /// `jobs/feed_generation.toml`.
    pub feed: Arc<FeedConfig>,
    /// `[limits]` of `jobs/agent_check_in.toml`.
    pub check_ins: CheckInLimits,
    /// `jobs/plans/*.json`.
    pub plan_templates: Arc<Templates>,
    /// `[rules]` of `jobs/teams.toml`.
    pub team_rules: RuleLimits,
    /// `jobs/plans.toml`.
    pub plans: PlanLimits,
    /// `[budget]` of `jobs/orchestrator.toml`, for operators to see.
    pub budget: Budget,
    /// Cancelled before the process shuts down: then `/readyz` answers 503 and streams are aborted, so that their
    /// clients reconnect to another process; other requests are still served.
    pub draining: CancellationToken,
}

/// The state of the endpoints: [`State`] with the caches and limits of this process.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) state: State,
    pub(crate) keys: Arc<KeyCache>,
    pub(crate) issuers: Arc<Issuers>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) agentables: AgentableCache,
    pub(crate) owners: Owners,
    pub(crate) streams: Arc<Streams>,
    pub(crate) feeds: Arc<Feeds>,
    pub(crate) offload: Offload,
    /// Requests that are handled.
    pub(crate) places: Arc<Turns>,
    pub(crate) documents: Arc<DocumentMemory>,
    /// The memory of files that are being posted.
    pub(crate) uploads: Arc<DocumentMemory>,
    pub(crate) disk: Disk,
    /// Held by the probe that connects to Postgres itself.
    pub(crate) connecting: tokio::sync::Mutex<()>,
    pub(crate) speeds: Speeds,
    pub(crate) ended: EndedRuns,
    /// Fetches images whose URLs are posted; made with the first of them.
    pub(crate) images: OnceLock<Client>,
    /// Records of the audit log that are being written.
    pub(crate) records: TaskTracker,
    /// The apps of all cells, if there are several.
    cells: OnceLock<Cells<Weak<App>>>,
}

impl App {
    /// The apps of all cells. They share the limits per client address, and the keys of issuers.
    pub(crate) fn of_cells(states: &Cells<State>) -> Cells<Arc<Self>> {
        let peers = Arc::new(Peers::new(states.home().config.clients.clone()));
        let issuers: Arc<Issuers> = Arc::default();
        let apps = states.map(|state| {
            let (state, config) = (state.clone(), &state.config);
            let keys = Arc::new(KeyCache::new(Duration::from_secs(config.key_cache_s)));
            let streams = Streams::new(config, Arc::clone(&keys), Arc::clone(&state.metrics));
            Arc::new(Self {
                state,
                keys,
                issuers: Arc::clone(&issuers),
                peers: Arc::clone(&peers),
                agentables: AgentableCache::default(),
                owners: Owners::default(),
                streams: Arc::new(streams),
                feeds: Arc::default(),
                offload: Offload::default(),
                places: admission::places(),
                documents: Arc::new(DocumentMemory::new(config.conversation.max_bytes_at_once)),
                uploads: Arc::new(DocumentMemory::new(config.attachments.max_bytes_at_once)),
                disk: Disk::default(),
                connecting: tokio::sync::Mutex::default(),
                speeds: Speeds::new(Duration::from_secs(60)),
                ended: EndedRuns::new(Duration::from_secs(15)),
                images: OnceLock::new(),
                records: TaskTracker::new(),
                cells: OnceLock::new(),
            })
        });
        if apps.count() > 1 {
            let weak = apps.map(Arc::downgrade);
            apps.iter().for_each(|app| drop(app.cells.set(weak.clone())));
        }
        apps
    }

    /// What the caller's tenant may do. There is no other way to reach the rows of a tenant.
    pub(crate) fn store(&self, caller: Caller) -> TenantStore<'_> {
        self.state.store.tenant(caller.principal())
    }

    /// Records what the caller changed in the audit log of its tenant, or in that of the installation.
    pub(crate) async fn record(&self, by: Caller, whole: bool, new: &NewRecord) -> houston_store::Result<()> {
        match whole {
            true => self.state.store.record_of_installation(new).await,
            false => self.state.store.record(by.principal(), new).await,
        }
    }

    /// What needs no tenant: keys, readiness, positions of streams.
    pub(crate) fn api_store(&self) -> &ApiStore {
        &self.state.store
    }

    /// The app of the cell with this shard: of a user whom the path of a request does not name.
    pub(crate) fn with_shard(self: &Arc<Self>, shard: Shard) -> Arc<Self> {
        self.cell_of(shard).unwrap_or_else(|| Arc::clone(self))
    }

    /// The app of the cell with this shard, if there are several cells.
    pub(crate) fn cell_of(&self, shard: Shard) -> Option<Arc<Self>> {
        let cells = self.cells.get()?;
        let number = cells.number_of(shard);
        let _ = CONTINUED.try_with(|continued| continued.set(Some((number, shard))));
        cells.get(number)?.upgrade()
    }

    /// The apps of all cells; the first is this one, if it is the only one.
    pub(crate) fn all_cells(self: &Arc<Self>) -> Vec<Arc<Self>> {
        let cells = self.cells.get().map(|cells| cells.iter().filter_map(Weak::upgrade).collect());
        cells.unwrap_or_else(|| vec![Arc::clone(self)])
    }

    /// The apps of all cells with their names, in order.
    pub(crate) fn cells_by_name(self: &Arc<Self>) -> Vec<(CellName, Arc<Self>)> {
        let cells = self.cells.get().map(|cells| {
            cells.named().filter_map(|(name, cell)| Some((name.clone(), cell.upgrade()?))).collect()
        });
        cells.unwrap_or_else(|| vec![(ShardRange::ALL.into(), Arc::clone(self))])
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.state.ids.clock().now()
    }

    /// Ends the streams of an erased agentable and removes it from the cache.
    pub(crate) fn forget(&self, agentable: AgentableId) {
        self.agentables.forget(agentable);
        self.streams.end(agentable);
    }

    /// Lets a worker of this process claim the run of `agentable`, or sends a hint to all workers. Never waits, never
    /// fails.
    pub(crate) fn send_hint(&self, agentable: AgentableId, urgency: Urgency) {
        if urgency == Urgency::Interactive && self.state.store.claim_directly(agentable) {
            return;
        }
        self.state.hints.send(urgency.into(), Hint::run(agentable));
    }

    /// Notifies the worker that drives `run` of its cancellation, before it reads that from Postgres. Never waits,
    /// never fails.
    pub(crate) fn publish_cancel(&self, agentable: AgentableId, run: RunId) {
        self.state.bus.publish_control(LiveItem { agentable, live: Live::CancelRequested(run) });
    }

    /// Makes open streams read Postgres for newly committed events.
    pub(crate) fn publish_nudge(&self, agentable: AgentableId) {
        self.state.bus.publish(agentable, Live::Nudge);
    }

    /// The urgency of the runs of a kind.
    pub(crate) fn urgency(&self, kind: &str) -> Urgency {
        self.state.agent_types.get(kind).map(|kind| kind.urgency).unwrap_or_default()
    }
}

/// What answers a request: the process, for the caller. An endpoint that takes it as an argument requires a valid API key.
#[derive(Debug, Clone)]
pub(crate) struct Ctx {
    pub(crate) app: Arc<App>,
    pub(crate) caller: Caller,
}

impl Ctx {
    /// What the caller's tenant may do.
    pub(crate) fn store(&self) -> TenantStore<'_> {
        self.app.store(self.caller)
    }

    /// For the same caller, the process of the cell with this shard ([`App::with_shard`]).
    pub(crate) fn with_shard(&self, shard: Shard) -> Self {
        Self { app: self.app.with_shard(shard), caller: self.caller }
    }

    /// Requests the cancellation of a run, and has it carried out. `false`: it had ended already.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn cancel_run(&self, run: RunId) -> houston_store::Result<bool> {
        let Some((agentable, kind)) = self.store().cancel_run(run).await? else { return Ok(false) };
        self.publish_cancel(agentable, run);
        self.send_hint(agentable, self.urgency(&kind));
        Ok(true)
    }

    /// Cancels the open run of an agentable, and those of its tasks, and archives it if asked. Its workers are told over the bus
    /// and by hints, so that they need not wait for their next read of Postgres.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn cancel_agentable(
        &self,
        kind: &str,
        id: AgentableId,
        archives: bool,
    ) -> houston_store::Result<CancelledRunsResponse> {
        let data = self.store().cancel_agentable(kind, id, archives).await?;
        for one in &data {
            self.publish_cancel(one.owner.id, one.run_id);
            self.send_hint(one.owner.id, self.urgency(&one.owner.kind));
        }
        Ok(CancelledRunsResponse { data })
    }
}

impl Deref for Ctx {
    type Target = Arc<App>;

    fn deref(&self) -> &Arc<App> {
        &self.app
    }
}

tokio::task_local! {
    /// The number of the cell in which the request of this task continues, and for which shard.
    static CONTINUED: Cell<Option<(usize, Shard)>>;
}

/// Carries a request out; returns also in which cell it continued, and for which shard.
pub(crate) async fn noting_cell(
    request: impl Future<Output = Response>,
) -> (Response, Option<(usize, Shard)>) {
    let with_cell = async {
        let response = request.await;
        (response, CONTINUED.try_with(Cell::get).ok().flatten())
    };
    CONTINUED.scope(Cell::default(), with_cell).await
}
