//! What the tests of this folder drive: a process without servers, a claimed run, tools.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::DateTime;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use houston_domain::agentable::AgentType;
use houston_domain::clock::ManualClock;
use houston_domain::event::{Committed, Event as RunEvent, Live};
use houston_domain::guard::{Layer, LayerKind, ToolFacts};
use houston_domain::history::{Block, Entry};
use houston_domain::id::{AgentableId, Ids, MessageId};
use houston_domain::model::Usage;
use houston_domain::tool_call::{EffectClass, ToolCall, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_llm::Model;
use houston_queue::{DeltaBus, HintSender};
use houston_store::claim::{ClaimedRun, Fence};
use houston_tools::{
    Acted, CallContext, CheckOutcome, InvalidInput, Outside, Paused, Plan, Registry, Tool, builtin,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::memory_storage::MemoryStorage;
use super::pausing_tool::{self, Pausing};
use super::scripted_code::code;
pub(in crate::run) use super::scripted_model::{
    Script, ScriptedModel, USAGE, begins_with, calls_tools, calls_with, gone, only_thinks, says, submitted,
};
use super::test_config::config;
use crate::driver::Driver;
use crate::error::Interrupted;
use crate::holder::Holder;
use crate::live::{LiveRuns, Registration};
use crate::run::driver::{DriveOutcome, drive_claimed};
use crate::run::journal::Journal;
use crate::run::services::Services;
use crate::run::signals::Signals;
use crate::setup::Setup;
use crate::setup::kinds::Setups;

/// What a [`TestTool`] does.
#[derive(Clone, Copy)]
pub(in crate::run) enum Behaviour {
    Answers,
    Fails(ToolErrorCode),
    Hangs,
    Panics,
    /// Answers once it is asked to stop.
    AnswersWhenStopped,
    /// Runs code: the tools that it calls, round by round. Each gets the number of the call.
    Calls(&'static [&'static [&'static str]]),
    /// The same, and each gets the number of the execution as well: a replay makes other calls.
    CallsOtherwise(&'static [&'static [&'static str]]),
    /// Pauses in its middle.
    Pauses(Pausing),
}

/// A tool that acts outside of Houston, and counts how often.
pub(in crate::run) struct TestTool {
    definition: ToolDefinition,
    behaviour: Behaviour,
    check: CheckOutcome,
    facts: Option<ToolFacts>,
    pub(in crate::run) executed: Arc<AtomicUsize>,
    /// What it went on with after its pauses, and what it gave up.
    pub(in crate::run) went_on: Arc<Mutex<Vec<Value>>>,
    /// The arguments it was executed with.
    pub(in crate::run) inputs: Arc<Mutex<Vec<Value>>>,
}

impl TestTool {
    pub(in crate::run) fn new(name: &str, effect: EffectClass, behaviour: Behaviour) -> Self {
        let definition = ToolDefinition {
            name: name.to_owned(),
            description: String::new(),
            input_schema: json!({"type": "object"}).into(),
            effect,
            timeout: Duration::from_secs(30),
        };
        let (executed, inputs, went_on) = (Arc::default(), Arc::default(), Arc::default());
        Self { definition, behaviour, check: CheckOutcome::Unknown, facts: None, executed, inputs, went_on }
    }

    /// What guards rely on.
    pub(in crate::run) fn with_facts(self, facts: ToolFacts) -> Self {
        Self { facts: Some(facts), ..self }
    }

    pub(in crate::run) fn checked(self, check: CheckOutcome) -> Self {
        Self { check, ..self }
    }
}

impl Tool for TestTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn facts(&self) -> ToolFacts {
        self.facts.clone().unwrap_or_else(|| ToolFacts::of_effect(self.definition.effect))
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let (behaviour, executed) = (self.behaviour, Arc::clone(&self.executed));
        if let Behaviour::Calls(rounds) | Behaviour::CallsOtherwise(rounds) = behaviour {
            let drifts = matches!(behaviour, Behaviour::CallsOtherwise(_));
            return Ok(Plan::Code(code(rounds, executed, drifts)));
        }
        if let Behaviour::Pauses(pausing) = behaviour {
            executed.fetch_add(1, Ordering::Relaxed);
            return Ok(Plan::Begin(pausing_tool::begin(pausing)));
        }
        let (input, inputs) = (input.clone(), Arc::clone(&self.inputs));
        let (stop, progress) = (context.stop.clone(), context.progress.clone());
        Ok(Plan::Execute(Box::pin(async move {
            executed.fetch_add(1, Ordering::Relaxed);
            inputs.lock().unwrap().push(input);
            match behaviour {
                Behaviour::Fails(code) => return ToolResponse::failure(code, "It is down."),
                Behaviour::Answers => {
                    (0..100).for_each(|nth| progress.report(f64::from(nth), Some(100.0), "counting"))
                }
                Behaviour::Hangs => std::future::pending().await,
                Behaviour::Panics => panic!("a tool of a test"),
                Behaviour::AnswersWhenStopped => stop.cancelled().await,
                Behaviour::Calls(_) | Behaviour::CallsOtherwise(_) | Behaviour::Pauses(_) => {}
            }
            ToolResponse::success("Done.")
        })))
    }

    fn go_on(&self, paused: Paused, _: &Value, _: &CallContext) -> BoxFuture<'static, Acted> {
        pausing_tool::go_on(paused, &self.went_on)
    }

    fn give_up(&self, state: Value) -> BoxFuture<'static, ()> {
        self.went_on.lock().unwrap().push(json!({"gave up": state}));
        Box::pin(std::future::ready(()))
    }

    fn stop_within(&self) -> Duration {
        match self.behaviour {
            Behaviour::AnswersWhenStopped => Duration::from_secs(5),
            _ => Duration::ZERO,
        }
    }

    fn check<'a>(&'a self, _: &'a Value, _: &'a CallContext) -> BoxFuture<'a, CheckOutcome> {
        Box::pin(std::future::ready(self.check.clone()))
    }
}

/// A process without servers.
pub(in crate::run) struct Process {
    pub(in crate::run) services: Services,
    pub(in crate::run) storage: MemoryStorage,
    pub(in crate::run) holder: Holder,
    pub(in crate::run) trusted: Arc<AtomicBool>,
    pub(in crate::run) claimed: ClaimedRun,
    pub(in crate::run) registration: Registration,
}

/// The kind of all test runs.
pub(in crate::run) const KIND: &str = "goal";

impl Process {
    /// A process with this model and, besides the built-in tools, these.
    pub(in crate::run) fn new(model: Arc<ScriptedModel>, tools: Vec<TestTool>) -> Self {
        Self::guarded(model, tools, "")
    }

    /// The same with these guards of the kind, in TOML.
    pub(in crate::run) fn guarded(
        model: Arc<ScriptedModel>,
        tools: Vec<TestTool>,
        guards_of_kind: &str,
    ) -> Self {
        let guards = Some(Box::new(toml::from_str(guards_of_kind).unwrap()));
        Self::changed(model, tools, |agent_type| agent_type.guards = guards)
    }

    /// The same with a change of the agent type.
    pub(in crate::run) fn changed(
        model: Arc<ScriptedModel>,
        tools: Vec<TestTool>,
        change: impl FnOnce(&mut AgentType),
    ) -> Self {
        let mut agent_type: AgentType =
            toml::from_str(include_str!("../../../../../jobs/agents/goal.toml")).unwrap();
        let mut registry = Registry::default();
        for tool in builtin::all(&Outside::default()) {
            registry.add(tool).unwrap();
        }
        for tool in tools {
            agent_type.tools.push(tool.definition.name.clone());
            registry.add(Arc::new(tool)).unwrap();
        }
        agent_type.titles = false;
        change(&mut agent_type);
        let models: BTreeMap<String, Arc<dyn Model>> =
            BTreeMap::from([(agent_type.use_case.clone(), Arc::clone(&model) as Arc<dyn Model>)]);
        let make_model: crate::MakeModel = Arc::new(move |_| {
            let model: Arc<dyn Model> = model.clone();
            std::future::ready(model).boxed()
        });
        let setups = Setups::new(vec![agent_type], config(), registry, models, make_model, guards()).unwrap();
        let (bus, live) = (DeltaBus::within_process(), LiveRuns::default());
        let ids = Ids::seeded(Arc::new(ManualClock::at(DateTime::UNIX_EPOCH)), 1);
        let claimed = claimed(&ids);
        let registration = live.register(claimed.fence.agentable, claimed.run, bus.clone());
        let hints = HintSender::start(None, &TaskTracker::new(), CancellationToken::new());
        let trusted = Arc::new(AtomicBool::new(true));
        let is_trusted = Arc::clone(&trusted);
        let holder = Holder {
            worker: ids.next(),
            lost: CancellationToken::new(),
            drain: CancellationToken::new(),
            trusted: Arc::new(move || is_trusted.load(Ordering::Relaxed)),
            send_hint: Arc::new(|_, _| {}),
        };
        let services = Services {
            bus,
            hints,
            ids: Arc::new(ids),
            config: config(),
            setups,
            live,
            titles: tokio::sync::mpsc::unbounded_channel().0,
            summaries: None,
            side_models: BTreeMap::new(),
            rates: crate::rates::Rates::default(),
            fallbacks: Default::default(),
            pdf: Default::default(),
            providers: Default::default(),
            observers: crate::observer::Observers::default(),
            metrics: Default::default(),
            spans: Default::default(),
        };
        let storage = MemoryStorage::with_history(vec![Entry::user(vec![Block::text("Hello")])]);
        storage.set_run(claimed.run);
        Self { services, storage, holder, trusted, claimed, registration }
    }

    /// The same with a driver in place of the model's loop.
    pub(in crate::run) fn driven_by(
        model: Arc<ScriptedModel>,
        tools: Vec<TestTool>,
        driver: Arc<dyn Driver>,
    ) -> Self {
        let mut process = Self::new(model, tools);
        process.services.setups.set_driver(KIND, driver);
        process
    }

    /// Drives the run once; `attempt` is the number of the attempt.
    pub(in crate::run) async fn drive(&self, attempt: i32) -> Result<DriveOutcome, Interrupted> {
        self.drive_claim(self.claimed.clone(), attempt).await
    }

    /// Drives a run that was claimed like this.
    pub(in crate::run) async fn drive_claim(
        &self,
        mut claimed: ClaimedRun,
        attempt: i32,
    ) -> Result<DriveOutcome, Interrupted> {
        let Self { storage, services, holder, .. } = self;
        if attempt > 1 {
            storage.claim();
            claimed.submission = storage.submission();
        }
        claimed.attempt = attempt;
        drive_claimed(storage, services, holder, claimed, Default::default()).await
    }

    /// The same; from the second attempt on as a claim of a run that waited.
    pub(in crate::run) async fn resumed(&self, attempt: i32) -> Result<DriveOutcome, Interrupted> {
        let mut claimed = self.claimed.clone();
        if let RunEvent::AttemptStarted { resumed, .. } = &mut claimed.event.event {
            *resumed = attempt > 1;
        }
        self.drive_claim(claimed, attempt).await
    }

    /// The journal of the claimed run.
    pub(in crate::run) fn journal(&self) -> Journal<'_, MemoryStorage> {
        let signals =
            Signals::new(&self.holder, self.registration.live.cancel.clone(), &self.services.config);
        Journal::new(&self.storage, &self.services, &self.holder, signals, &mut self.claimed.clone())
    }

    pub(in crate::run) fn setup(&self) -> Arc<Setup> {
        self.services.setup(KIND).unwrap().clone()
    }

    pub(in crate::run) fn agentable(&self) -> AgentableId {
        self.claimed.fence.agentable
    }

    pub(in crate::run) fn message(&self) -> MessageId {
        self.claimed.next_message
    }
}

/// The text that streams received as the message.
pub(in crate::run) fn streamed(items: &mut houston_queue::Subscription) -> String {
    let mut text = String::new();
    while let Some(houston_queue::Received::Item(item)) = items.try_recv() {
        if let Live::Delta(delta) = &item.live {
            text.push_str(&delta.text);
        }
    }
    text
}

/// A call of a tool without arguments.
pub(in crate::run) fn call(id: &str, name: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), input: json!({}), malformed: None }
}

fn claimed(ids: &Ids) -> ClaimedRun {
    let (agentable, run) = (ids.next(), ids.next());
    let next_message: MessageId = ids.next();
    let event = RunEvent::AttemptStarted {
        attempt: 1,
        iteration: 1,
        next_message_id: next_message,
        takeover: false,
        resumed: false,
    };
    ClaimedRun {
        traceparent: None,
        fence: Fence { agentable, epoch: 1, token: ids.next() },
        tenant: ids.next(),
        user: ids.next(),
        kind: KIND.to_owned(),
        title: "Tokyo".to_owned(),
        description: String::new(),
        parent: None,
        run,
        attempt: 1,
        iterations: 0,
        deaths: 0,
        is_given_up: false,
        claims: 1,
        failed_attempts: 0,
        cancel_seq: None,
        usage: Usage::default(),
        error: None,
        next_message,
        event: Committed { seq: 1, run_id: run, at: DateTime::UNIX_EPOCH, event, body: None },
        posted: Vec::new(),
        booked: None,
        submission: None,
        context: None,
    }
}

/// The guards that Houston comes with.
pub(in crate::run) fn guards() -> Arc<Layer> {
    let settings = toml::from_str(include_str!("../../../../../jobs/guards.toml")).unwrap();
    Arc::new(Layer::compile(LayerKind::Installation, "jobs/guards.toml", &settings).unwrap())
}
