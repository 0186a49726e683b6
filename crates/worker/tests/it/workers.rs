//! Workers of a [`TestCluster`], which share only its servers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use houston_domain::agent::limits::Limits;
use houston_domain::agentable::AgentType;
use houston_domain::budget::Budget;
use houston_domain::guard::{Layer, LayerKind};
use houston_domain::plan::{Template, Templates};
use houston_domain::retry::DelayedRetry;
use houston_domain::schedule::Schedules;
use houston_domain::task::TaskLimits;
use houston_engine::config::{ContextConfig, TeamsConfig, WatchdogConfig};
use houston_engine::{Config, Drivers, Engine, MakeModel, Parts, Setups};
use houston_llm::{Model, Simulated};
use houston_queue::{DeltaBus, HintSender};
use houston_store::Store;
use houston_store::lease::WorkerDescription;
use houston_tools::{Outside, Registry, SharedTool, builtin};
use houston_worker::{
    LeaseConfig, MonitorConfig, Running, SweepConfig, TriggersConfig, Worker, WorkerConfig,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::cluster::{TestCluster, monitor_config, open, redis};

const LEASE: LeaseConfig = LeaseConfig {
    ttl_s: 30,
    renew_s: 5,
    look_ms: 100,
    trust_s: 25,
    max_crashes: 3,
    max_claims: 20,
    doubt_ms: 500,
};

/// A worker of the cluster, with its own pool and connections.
pub(crate) struct TestWorker {
    pub(crate) running: Running,
    pub(crate) stop: CancellationToken,
    pub(crate) kill: CancellationToken,
    store: Store,
}

pub(crate) fn agent_types() -> Vec<AgentType> {
    [
        include_str!("../../../../jobs/agents/goal.toml"),
        include_str!("../../../../jobs/agents/task.toml"),
        include_str!("../../../../jobs/agents/user_agent.toml"),
        include_str!("../../../../jobs/agents/plan.toml"),
        include_str!("../../../../jobs/agents/executor.toml"),
    ]
    .map(|text| toml::from_str(text).unwrap())
    .to_vec()
}

/// The guards that Houston comes with.
pub(crate) fn guards() -> Arc<Layer> {
    let settings = toml::from_str(include_str!("../../../../jobs/guards.toml")).unwrap();
    Arc::new(Layer::compile(LayerKind::Installation, "jobs/guards.toml", &settings).unwrap())
}

impl TestCluster {
    pub(crate) fn worker(&self) -> TestWorker {
        self.worker_with(simulated(), vec![])
    }

    pub(crate) fn worker_with(&self, model: Arc<dyn Model>, tools: Vec<SharedTool>) -> TestWorker {
        self.worker_of(config(), model, tools)
    }

    /// A worker whose health monitor runs every `every_s` seconds.
    pub(crate) fn ticking_worker(&self, every_s: u64) -> TestWorker {
        let mut monitor = monitor_config();
        monitor.tick.every_s = every_s;
        self.build(config(), simulated(), vec![], monitor)
    }

    pub(crate) fn worker_of(
        &self,
        config: Config,
        model: Arc<dyn Model>,
        tools: Vec<SharedTool>,
    ) -> TestWorker {
        self.build(config, model, tools, monitor_config())
    }

    fn sweep(&self) -> SweepConfig {
        SweepConfig {
            every_ms: self.sweep_ms,
            without_redis_ms: 200,
            reap_every_ms: self.reap_every_ms,
            suspect_ms: self.suspect_ms,
            grace_ms: 150,
            limit: 500,
            erase_every_ms: 200,
            erase_rows: 1000,
        }
    }

    /// The drivers of a worker. The cluster's drives the runs of `goal`.
    fn drivers(&self, goal: &mut AgentType) -> Drivers {
        let mut drivers = Drivers::default();
        if let Some(driver) = &self.driver {
            drivers.insert("test".to_owned(), Arc::clone(driver));
            goal.driver = Some("test".into());
        }
        drivers
    }

    /// The kinds, which have these tools as well.
    fn kinds(&self, tools: &[SharedTool]) -> Vec<AgentType> {
        let extra = tools.iter().map(|tool| tool.definition().name.clone());
        let mut types = agent_types();
        types.iter_mut().for_each(|agent_type| agent_type.tools.extend(extra.clone()));
        types[0].context_providers = self.providers.clone();
        types[0].plans = self.plans;
        types
    }

    /// What previews of such a worker's prompts are made with.
    pub(crate) fn setups(&self, model: Arc<dyn Model>, tools: Vec<SharedTool>) -> Setups {
        set_up(self.kinds(&tools), config(), model, tools)
    }

    fn build(
        &self,
        config: Config,
        model: Arc<dyn Model>,
        tools: Vec<SharedTool>,
        monitor: MonitorConfig,
    ) -> TestWorker {
        let mut types = self.kinds(&tools);
        let drivers = self.drivers(&mut types[0]);
        let setups = set_up(types, config, model, tools).with_drivers(&drivers).unwrap();
        let (store, redis) = (open(self.servers.database_url()), redis(&self.servers));
        let bus = DeltaBus::start(Some(redis.clone()), self.ids.next(), &self.tracker, self.gone.clone());
        let hints = HintSender::start(Some(redis.clone()), &self.tracker, self.gone.clone());
        let engine = Arc::new(Engine::new(Parts {
            store: store.runs().clone(),
            bus: bus.clone(),
            hints: hints.clone(),
            ids: Arc::clone(&self.worker_ids),
            setups: setups.with_own_tools(self.own_tools.clone()),
            fallbacks: houston_domain::fallback::Fallbacks::default(),
            observers: Vec::new(),
            pdf: houston_tools::PdfReader::default(),
            metrics: Arc::default(),
            spans: Default::default(),
            trial: houston_store::claim::Trial::None,
        }));
        let config = WorkerConfig {
            slots: self.slots,
            background_percent: 50,
            maintenance_percent: 25,
            database_connections: 20,
            run_connections_percent: 35,
            background_connections_percent: 20,
            hand_over_ms: 1200,
            drain_s: 5,
        };
        let worker = Worker {
            engine,
            store: store.runs().clone(),
            background: store.background().clone(),
            database_url: self.servers.database_url().to_owned(),
            redis: Some(redis),
            hints,
            bus,
            ids: Arc::clone(&self.worker_ids),
            metrics: Arc::default(),
            process: self.worker_ids.next::<houston_domain::id::WorkerId>().process(),
            description: WorkerDescription { name: "test".into(), ..WorkerDescription::default() },
            lease: LEASE,
            sweep: self.sweep(),
            worker: config,
            slots: config.slots(),
            monitor,
            schedules: schedules(),
            webhooks: self.webhooks.clone(),
            triggers: triggers(),
            alone: None,
        };
        let (stop, kill) = (CancellationToken::new(), CancellationToken::new());
        let running = worker.start(&self.tracker, stop.clone(), kill.clone()).unwrap();
        TestWorker { running, stop, kill, store }
    }
}

/// A template of plans that need nothing from outside.
fn templates() -> Templates {
    let file = json!({"name": "notes", "description": "Writes notes side by side.", "input": {
        "type": "object", "required": ["titles"], "properties": {
            "titles": {"type": "array", "items": {"type": "string"}, "minItems": 1}}},
        "document": {"v": 1, "goal": "Write notes", "output": "{{ each.result | length }}", "steps": [
            {"id": "each", "type": "loop", "over": "input.titles", "as": "title", "max": 5, "at_once": 5, "steps": [
                {"id": "write", "type": "tool", "tool": "create_note", "args": {"title": "{{ title }}", "content": "x"}}]}]}});
    Templates::new([Template::parse(&file.to_string(), "notes", &["create_note"]).unwrap()])
}

/// The built-in tools and these.
fn registry_with(tools: Vec<SharedTool>) -> Registry {
    let mut registry = Registry::default();
    let outside = Outside { plan_templates: Arc::new(templates()), ..Outside::default() };
    for tool in builtin::all(&outside).into_iter().chain(tools) {
        registry.add(tool).unwrap();
    }
    registry
}

fn set_up(types: Vec<AgentType>, config: Config, model: Arc<dyn Model>, tools: Vec<SharedTool>) -> Setups {
    let models = BTreeMap::from([("agent".to_owned(), Arc::clone(&model))]);
    let make_model: MakeModel = Arc::new(move |_| Box::pin(std::future::ready(Arc::clone(&model))));
    Setups::new(types, config, registry_with(tools), models, make_model, guards()).unwrap()
}

impl TestWorker {
    /// Kills the worker. Its connections are closed, as those of a process are that has died.
    pub(crate) async fn kill(self) {
        self.kill.cancel();
        self.running.ended().await.ok();
        // What a process takes with it: without this, tasks go on that only a drain ends, with connections of their own.
        self.stop.cancel();
        self.store.close().await;
    }

    /// Drains the worker and waits for its end.
    pub(crate) async fn drain(self) {
        self.stop.cancel();
        self.running.ended().await.unwrap();
    }
}

/// The shipped settings of feeds and check-ins.
pub(crate) fn schedules() -> Schedules {
    Schedules {
        feed: toml::from_str(include_str!("../../../../jobs/feed_generation.toml")).unwrap(),
        check_in: toml::from_str(include_str!("../../../../jobs/agent_check_in.toml")).unwrap(),
    }
}

/// The shipped settings of triggers, with shorter waits.
fn triggers() -> TriggersConfig {
    let shipped: TriggersConfig = toml::from_str(include_str!("../../../../jobs/triggers.toml")).unwrap();
    TriggersConfig { poll_ms: 100, idle_s: 1, ..shipped }
}

pub(crate) fn simulated() -> Arc<dyn Model> {
    Arc::new(Simulated::new().with_delay(Duration::ZERO))
}

/// `[context]` of `jobs/orchestrator.toml`.
fn shipped_context() -> ContextConfig {
    let mut shipped: toml::Table =
        toml::from_str(include_str!("../../../../jobs/orchestrator.toml")).unwrap();
    shipped.remove("context").unwrap().try_into().unwrap()
}

pub(crate) fn config() -> Config {
    Config {
        limits: Limits { max_output_tokens: 1000, ..Limits::USUAL },
        budget: Budget::default(),
        context: ContextConfig {
            images: houston_domain::image::ContextImages::default(),
            attachments: Default::default(),
            max_tool_result_bytes: 262_144,
            direct_tokens: 5_000,
            ..shipped_context()
        },
        tasks: TaskLimits::default(),
        reach: houston_domain::reach::ReachLimits::default(),
        plans: houston_domain::plan::Limits::default(),
        check_ins: schedules().check_in.limits,
        delayed: DelayedRetry {
            rate_limited: 5,
            network: 3,
            other: 2,
            base_ms: 50,
            max_ms: 200,
            patience_s: 3600,
        },
        max_crashes: 3,
        max_claims: 20,
        doubt_ms: 500,
        hand_over_ms: 1200,
        watchdog: WatchdogConfig { grace_s: 30 },
        overseer: houston_domain::overseer::Settings::default(),
        teams: TeamsConfig {
            message_chars: 8000,
            earlier_texts: 4,
            earlier_chars: 300,
            timeout_ms: 10_000,
            max_output_tokens: 1000,
            limits: houston_domain::team::TeamLimits::default(),
            rules: houston_domain::team::RuleLimits::default(),
        },
    }
}
