//! [`System`]: the API and the worker, with the store, the delta bus and the models they share. Every command and test
//! uses this wiring.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use houston_console::Console;
use houston_domain::agent_settings::AgentSettings;
use houston_domain::cell::Cells;
use houston_domain::clock::{Clock, SystemClock};
use houston_domain::id::{Ids, ProcessId, WorkerId};
use houston_domain::schedule::Schedules;
use houston_engine::{Engine, Parts};
use houston_queue::{DEFAULT_PREFIX, DeltaBus, HintSender, Redis, Slots};
use houston_store::Store;
use houston_store::agent::DefaultAgent;
use houston_store::claim::Trial;
use houston_store::copies::Copies;
use houston_store::lease::WorkerDescription;
use houston_store::moves::Moves;
use houston_tools::Registry;
use houston_web::Sinks;
use houston_worker::{Running, TryAlone, Webhooks, Worker};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Loaded;
use crate::connect::{self, CellAddresses};
use crate::console_sign_in::{SECRET, SignIn};
use crate::environment::environment;
use crate::explain::{Explainer, setups};
use crate::failure::{Failure, Result};
use crate::foreign_servers::{Foreign, StoredRows};
use crate::models::Models;

/// What all roles of one process share.
pub(crate) struct System {
    pub(crate) loaded: Loaded,
    pub(crate) cells: Cells<Cell>,
    pub(crate) copies: Copies,
    pub(crate) ids: Arc<Ids>,
    pub(crate) tracker: TaskTracker,
    /// Cancelled to start the drain.
    pub(crate) stop: CancellationToken,
    /// Cancelled when no run and no request is left.
    pub(crate) gone: CancellationToken,
    /// Tries runs in processes of their own.
    alone: Option<TryAlone>,
}

/// The connections to one cell.
pub(crate) struct Cell {
    pub(crate) store: Store,
    database_url: String,
    /// `None`: nobody is told of what the process writes, and workers find it themselves.
    redis: Option<Redis>,
    pub(crate) bus: DeltaBus,
    pub(crate) hints: HintSender,
}

/// Where a process takes connections.
pub(crate) struct Listeners {
    pub(crate) api: tokio::net::TcpListener,
    /// The console's own; `None`: it is served with the API.
    pub(crate) console: Option<tokio::net::TcpListener>,
}

impl Listeners {
    /// Listens at the addresses of the settings.
    pub(crate) async fn open(loaded: &Loaded) -> Result<Self> {
        let settings = &loaded.settings;
        let own = Some(&settings.console.address).filter(|own| settings.console.enabled && !own.is_empty());
        Ok(Self {
            api: connect::listen(&settings.server.address).await?,
            console: match own {
                Some(address) => Some(connect::listen(address).await?),
                None => None,
            },
        })
    }

    /// The address of the API.
    pub(crate) fn url(&self) -> std::io::Result<String> {
        Ok(format!("http://{}", self.api.local_addr()?))
    }

    /// The address of the console.
    pub(crate) fn console_url(&self) -> std::io::Result<String> {
        Ok(format!("http://{}", self.console.as_ref().unwrap_or(&self.api).local_addr()?))
    }
}

/// The workers of a process, one for each cell.
pub(crate) struct Workers {
    running: Vec<Running>,
    /// Which they share.
    pub(crate) slots: Slots,
}

impl Workers {
    /// Waits until all may claim.
    pub(crate) async fn registered(&self) {
        for running in &self.running {
            running.registered().await;
        }
    }

    /// Waits until all have ended, or the first has failed.
    pub(crate) async fn ended(self) -> Result<(), houston_worker::Error> {
        futures_util::future::try_join_all(self.running.into_iter().map(Running::ended)).await.map(drop)
    }
}

impl System {
    /// Builds the parts that every role needs.
    pub(crate) fn new(
        loaded: Loaded,
        stores: &Cells<Store>,
        addresses: &Cells<CellAddresses>,
    ) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let ids = Arc::new(Ids::new(Arc::clone(&clock)));
        let (tracker, gone) = (TaskTracker::new(), CancellationToken::new());
        // Made of the stores, so that all follow the same moves.
        let mut nth = 0..stores.count();
        let cells = stores.try_map(|store| {
            let nth = nth.next().unwrap_or_default();
            let addresses = addresses.get(nth).cloned().unwrap_or_default();
            let others = stores.iter().enumerate().filter(|(other, _)| *other != nth).map(|(_, store)| store);
            let redis = Some(&addresses.redis_url)
                .filter(|url| !url.is_empty())
                .map(|url| Redis::open(url, DEFAULT_PREFIX, Arc::clone(&clock)))
                .transpose()
                .map_err(Failure::usage)?;
            let (followed, until) = (store.clone(), gone.clone());
            tracker
                .spawn(async move { until.run_until_cancelled(Box::pin(followed.follow_primary())).await });
            Ok::<_, Failure>(Cell {
                store: store
                    .clone()
                    .with(|own| {
                        own.archiving = Arc::new(loaded.archiving());
                        own.reach = Arc::new(loaded.reach());
                    })
                    .with_other_cells(others),
                database_url: addresses.database_url,
                bus: DeltaBus::start(redis.clone(), ids.next(), &tracker, gone.clone()),
                hints: HintSender::start(redis.clone(), &tracker, gone.clone()),
                redis,
            })
        })?;
        let apis = stores.map(Store::api);
        let (copies, moves, until) = (Copies::new(&apis), Moves::new(&apis), gone.clone());
        if stores.count() > 1 {
            tracker.spawn(async move { until.run_until_cancelled(Box::pin(moves.follow())).await });
        }
        let (runs, keys) = (stores.map(|store| store.runs().clone()), loaded.secret_keys.clone());
        let rows = StoredRows { stores: runs, copies: copies.clone(), keys, ids: Arc::clone(&ids) };
        loaded.mcp.own.store_in(Arc::new(rows));
        Ok(Self { copies, cells, loaded, ids, tracker, stop: CancellationToken::new(), gone, alone: None })
    }

    /// The same whose workers try a run alone before it is given up.
    pub(crate) fn with_trials(self, alone: TryAlone) -> Self {
        Self { alone: Some(alone), ..self }
    }

    /// Starts a worker for each cell.
    pub(crate) fn start_workers(&self, registry: &Registry, models: &Models) -> Result<Workers> {
        let slots = self.loaded.settings.orchestrator.worker.slots();
        let process = self.ids.next::<WorkerId>().process();
        // An operator who asks one of them to drain means the process: its slots are shared. The API of `houston dev` goes on.
        let stop = self.stop.child_token();
        let start = |cell| {
            let worker = self.worker(cell, process, &slots, registry, models)?;
            let running = worker.start(&self.tracker, stop.clone(), CancellationToken::new());
            Ok::<_, Failure>(running.context("cannot start the worker")?)
        };
        let running = self.cells.iter().map(start).collect::<Result<_, _>>()?;
        Ok(Workers { running, slots })
    }

    /// A worker for the runs of a cell.
    pub(crate) fn worker(
        &self,
        cell: &Cell,
        process: ProcessId,
        slots: &Slots,
        registry: &Registry,
        models: &Models,
    ) -> Result<Worker> {
        let orchestrator = &self.loaded.settings.orchestrator;
        Ok(Worker {
            engine: Arc::new(self.engine(cell, registry, models)?),
            store: cell.store.runs().clone(),
            background: cell.store.background().clone().in_process(process),
            database_url: cell.database_url.clone(),
            redis: cell.redis.clone(),
            hints: cell.hints.clone(),
            bus: cell.bus.clone(),
            ids: Arc::clone(&self.ids),
            metrics: Arc::clone(&self.loaded.instruments.metrics),
            process,
            description: description(),
            lease: orchestrator.lease,
            sweep: orchestrator.sweep,
            worker: orchestrator.worker,
            slots: slots.clone(),
            monitor: self.loaded.settings.health_monitor.clone(),
            schedules: Schedules {
                feed: self.loaded.settings.feed_generation.clone(),
                check_in: self.loaded.settings.agent_check_in.clone(),
            },
            triggers: self.loaded.settings.triggers,
            alone: self.alone.clone(),
            webhooks: Webhooks {
                config: self.loaded.settings.webhooks.clone(),
                sinks: self.sinks(),
                keys: self.loaded.secret_keys.clone(),
                copies: Some(self.copies.clone()),
            },
        })
    }

    fn engine(&self, cell: &Cell, registry: &Registry, models: &Models) -> Result<Engine> {
        let setups = setups(&self.loaded, registry, models);
        let mut setups =
            setups.and_then(|all| all.with_drivers(&self.loaded.drivers)).map_err(Failure::usage)?;
        setups.hooks.clone_from(&self.loaded.callbacks.hooks);
        Ok(Engine::new(Parts {
            store: cell.store.runs().clone(),
            bus: cell.bus.clone(),
            hints: cell.hints.clone(),
            ids: Arc::clone(&self.ids),
            setups,
            fallbacks: self.loaded.settings.tools.clone(),
            observers: self.loaded.callbacks.observers.clone(),
            pdf: self.loaded.pdf.clone(),
            metrics: Arc::clone(&self.loaded.instruments.metrics),
            spans: self.loaded.instruments.spans.clone(),
            trial: if self.alone.is_some() { Trial::Possible } else { Trial::None },
        }))
    }

    /// Sends to webhooks.
    fn sinks(&self) -> Arc<Sinks> {
        let config = &self.loaded.settings.webhooks;
        Arc::new(Sinks::new(&config.hosts, config.timeout()))
    }

    /// The state of the API for a cell.
    pub(crate) fn api_state(&self, cell: &Cell, explainer: &Arc<Explainer>) -> houston_api::State {
        houston_api::State {
            config: self.loaded.settings.server.clone(),
            store: cell.store.api(),
            bus: cell.bus.clone(),
            hints: cell.hints.clone(),
            redis: cell.bus.health.clone(),
            ids: Arc::clone(&self.ids),
            metrics: Arc::clone(&self.loaded.instruments.metrics),
            spans: self.loaded.instruments.spans.clone(),
            agent_types: Arc::new(self.loaded.agent_types()),
            agents: Arc::new(self.loaded.agent_sources()),
            secret_keys: self.loaded.secret_keys.clone(),
            sinks: self.sinks(),
            foreign_servers: Arc::new(Foreign(self.loaded.mcp.own.clone())),
            models: Arc::clone(explainer) as Arc<_>,
            explain: explainer.explain(cell.store.background()),
            feed: Arc::new(self.loaded.settings.feed_generation.clone()),
            check_ins: self.loaded.settings.agent_check_in.limits,
            plan_templates: Arc::clone(&self.loaded.templates),
            team_rules: self.loaded.settings.teams.rules,
            plans: self.loaded.settings.plans,
            budget: self.loaded.settings.orchestrator.budget,
            draining: self.stop.clone(),
        }
    }

    /// Closes what is left within 2.5 s: with the drain (20 s) and the lease (2 s) shutdown takes less than 25 s.
    pub(crate) async fn close_quickly(&self) {
        self.gone.cancel();
        self.tracker.close();
        let _ = tokio::time::timeout(Duration::from_millis(1500), self.tracker.wait()).await;
        let closed = futures_util::future::join_all(self.cells.iter().map(|cell| cell.store.close()));
        // A process of an MCP server that is left after that is killed with the runtime.
        let servers = async {
            let of_operator = async {
                if let Some(pool) = &self.loaded.mcp.pool {
                    pool.close().await;
                }
            };
            tokio::join!(of_operator, self.loaded.mcp.own.close());
        };
        let _ = tokio::time::timeout(Duration::from_secs(1), async { tokio::join!(closed, servers) }).await;
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
        match self.cells.home().store.operator().follow_agent_files(&defaults).await {
            Ok(0) => {}
            Ok(agents) => tracing::info!(agents, "default agents follow the files of jobs/agents"),
            Err(error) => {
                tracing::warn!(%error, "default agents were not updated: POST /v1/agents/resync does it later");
            }
        }
    }

    /// The console, if it is switched on.
    pub(crate) fn console(&self) -> Option<Console> {
        let config = self.loaded.settings.console.clone();
        let (keys, ids) = (self.loaded.secret_keys.clone(), Arc::clone(&self.ids));
        let home = self.cells.home().store.clone();
        let sign_in = SignIn::new(home, self.copies.clone(), Arc::clone(&self.ids));
        let outside = (Arc::new(sign_in) as Arc<_>, environment(SECRET).map(Into::into));
        config.enabled.then(|| Console::new(config, keys, ids, houston_api::carry_client, Some(outside)))
    }

    /// Serves until `stop` is cancelled. Open requests then get as much time as runs (`drain_s`).
    pub(crate) async fn serve(
        &self,
        listeners: Listeners,
        console: Option<Console>,
        explainer: &Arc<Explainer>,
    ) {
        self.follow_agent_files().await;
        let states = self.cells.map(|cell| self.api_state(cell, explainer));
        let Listeners { api, console: own } = listeners;
        let is_alone = own.is_some();
        let listeners = std::iter::once(api).chain(own).collect();
        let copied = async {
            while let Err(error) = self.copies.copy_all().await {
                tracing::warn!(%error, "agents and keys were not copied to all cells; trying again");
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
            std::future::pending::<()>().await;
        };
        let drain = Duration::from_secs(self.loaded.settings.orchestrator.worker.drain_s);
        let too_late = async {
            self.stop.cancelled().await;
            tokio::time::sleep(drain).await;
        };
        tokio::select! {
            () = houston_api::serve_with(listeners, states, self.stop.clone(), |api| match console {
                None => vec![api],
                Some(console) if is_alone => vec![api.clone(), console.alone(api)],
                Some(console) => vec![console.over(api)],
            }) => {}
            () = copied => {}
            () = too_late => tracing::warn!("the drain time is over: open requests are cut off"),
        }
    }
}

/// What operators read of the worker.
fn description() -> WorkerDescription {
    let (host, pid) = (host(), std::process::id());
    WorkerDescription {
        name: format!("{host}-{pid}"),
        host: Some(host),
        pid: i32::try_from(pid).ok(),
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        ..WorkerDescription::default()
    }
}

/// The host name, for the worker's name.
pub(crate) fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "host".to_owned(), |name| name.trim().to_owned())
}
