//! A run that calls tools, on a database of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use houston_domain::check_in::CheckInLimits;
use houston_domain::clock::SystemClock;
use houston_domain::guard::{GuardSettings, Layer, LayerKind};
use houston_domain::id::{AgentableId, Ids, TenantId};
use houston_domain::knowledge::KnowledgeLimits;
use houston_domain::model::Usage;
use houston_domain::reach::ReachLimits;
use houston_domain::step::{RunTransition, Step};
use houston_domain::task::TaskLimits;
use houston_domain::tool_call::{ToolCall, ToolResponse};
use houston_folder::Root;
use houston_sandbox::{Program, Sandbox, Shell};
use houston_store::agentable::NewAgentable;
use houston_store::claim::{Claim, ClaimRequest, ClaimedRun, CrashPolicy, Trial};
use houston_store::cost::Cost;
use houston_store::lease::{LeaseConnection, WorkerDescription};
use houston_store::message::NewPost;
use houston_store::record::{FencedTx, Owner, RecordIds, RecordLimits};
use houston_store::user::User;
use houston_store::{Config, RunStore, Store};
use houston_testkit::database::TestDatabase;
use houston_tools::shared_state::update_state;
use houston_tools::{CallContext, Offer, Outside, Plan, Registry, builtin};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A claimed run of a goal, to whose agent all tools are offered.
pub(crate) struct TestRun {
    pub(crate) database: TestDatabase,
    pub(crate) store: Store,
    pub(crate) ids: Ids,
    pub(crate) tenant: TenantId,
    pub(crate) goal: AgentableId,
    pub(crate) claimed: ClaimedRun,
    offer: Offer,
    guards: Arc<[Arc<Layer>]>,
    /// The folder of workspaces, if there is one.
    pub(crate) folder: Option<TempDir>,
    _lease: LeaseConnection,
}

/// Where files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Files {
    Rows,
    Folder,
}

impl Files {
    pub(crate) const BOTH: [Self; 2] = [Self::Rows, Self::Folder];
}

impl TestRun {
    pub(crate) async fn start() -> Self {
        Self::start_with(KnowledgeLimits::default()).await
    }

    /// A run whose calls were judged by these settings of its kind.
    pub(crate) async fn start_guarded(settings: &str) -> Self {
        let kind = LayerKind::Kind;
        let settings = GuardSettings::from_toml(kind, settings).unwrap();
        let layer = Layer::compile(kind, "goal", &settings).unwrap();
        Self { guards: Arc::new([Arc::new(layer)]), ..Self::start().await }
    }

    /// A run whose calls were judged by these settings, with files there.
    pub(crate) async fn start_guarded_in(files: Files, settings: &str) -> Self {
        let guards = Self::start_guarded(settings).await.guards;
        Self { guards, ..Self::start_in(files).await }
    }

    pub(crate) async fn start_in(files: Files) -> Self {
        Self::start_in_with(files, KnowledgeLimits::default()).await
    }

    pub(crate) async fn start_with(limits: KnowledgeLimits) -> Self {
        Self::start_in_with(Files::Rows, limits).await
    }

    pub(crate) async fn start_in_with(files: Files, limits: KnowledgeLimits) -> Self {
        let database = TestDatabase::shared(migrate).unwrap();
        let mut store = open(database.url()).with(|own| own.knowledge_limits = limits);
        let folder = (files == Files::Folder).then(|| tempfile::tempdir().unwrap());
        if let Some(folder) = &folder {
            store = store.with_folder(Arc::new(Root::open(folder.path()).unwrap()));
            store.check_folder(false).await.unwrap();
        }
        let ids = Ids::new(Arc::new(SystemClock));
        let tenant = store.operator().ensure_tenant(ids.next(), "test").await.unwrap();
        let goal = goal(&store, &ids, tenant).await;
        let worker = ids.next();
        let mut lease = LeaseConnection::open(database.url(), worker, Duration::from_secs(60)).await.unwrap();
        lease
            .register(WorkerDescription { name: "test".into(), ..WorkerDescription::default() })
            .await
            .unwrap();
        let post = NewPost::new(ids.next(), ids.next(), "hello", json!({}));
        store.tenant(tenant).post_message(goal, &post, None).await.unwrap();
        let request = ClaimRequest {
            agentable: goal,
            worker,
            token: ids.next(),
            next_message: ids.next(),
            crashes: CrashPolicy::default(),
            trial: Trial::None,
            context: None,
        };
        let claimed = match store.runs().claim(request).await.unwrap() {
            Claim::Run(claimed) => *claimed,
            other => panic!("{other:?}"),
        };
        let offer = all_tools(files);
        Self {
            database,
            store,
            ids,
            tenant,
            goal,
            claimed,
            offer,
            guards: Arc::new([]),
            folder,
            _lease: lease,
        }
    }

    pub(crate) fn runs(&self) -> &RunStore {
        self.store.runs()
    }

    pub(crate) fn owner(&self) -> Owner {
        let ClaimedRun { tenant, user, run, fence, .. } = &self.claimed;
        Owner { tenant: *tenant, user: *user, agentable: fence.agentable, run: *run, untrusted: false }
    }

    /// Executes the calls of one step and commits it. Calls with invalid arguments fail the test.
    pub(crate) async fn call_as(&self, owner: Owner, calls: &[(&str, Value)]) -> Vec<ToolResponse> {
        let (tx, answers) = self.apply(owner, calls).await;
        tx.commit(&self.step()).await.unwrap();
        answers
    }

    /// As [`Self::call_as`], for a step that may be refused.
    pub(crate) async fn try_call(
        &self,
        owner: Owner,
        calls: &[(&str, Value)],
    ) -> houston_store::Result<Vec<ToolResponse>> {
        let (tx, answers) = self.try_apply(owner, calls).await?;
        tx.commit(&self.step()).await.map(|_| answers)
    }

    /// Executes the calls of one step, and loses the connection before it is committed.
    pub(crate) async fn call_and_drop(&self, calls: &[(&str, Value)]) -> Vec<ToolResponse> {
        let (tx, answers) = self.apply(self.owner(), calls).await;
        drop(tx);
        answers
    }

    async fn apply(&self, owner: Owner, calls: &[(&str, Value)]) -> (FencedTx, Vec<ToolResponse>) {
        self.try_apply(owner, calls).await.unwrap()
    }

    async fn try_apply(
        &self,
        owner: Owner,
        calls: &[(&str, Value)],
    ) -> houston_store::Result<(FencedTx, Vec<ToolResponse>)> {
        let mut tx = self.runs().begin_fenced(&self.claimed.fence).await?;
        let mut answers = Vec::new();
        for (name, input) in calls {
            let call =
                ToolCall { id: "c".into(), name: (*name).to_owned(), input: input.clone(), malformed: None };
            let Plan::Record(record) = self.offer.plan(&call, &self.context(owner)) else {
                panic!("{name} {input}")
            };
            let ids = RecordIds { row: self.ids.next(), run: self.ids.next(), message: self.ids.next() };
            answers.push(record.apply(tx.rows(owner, ids, limits())).await?);
        }
        Ok((tx, answers))
    }

    /// The response to a call that needs nothing but its arguments.
    pub(crate) fn answer(&self, name: &str, input: Value) -> ToolResponse {
        let call = ToolCall { id: "c".into(), name: name.to_owned(), input, malformed: None };
        let Plan::Answer(response) = self.offer.plan(&call, &self.context(self.owner())) else {
            panic!("{name}")
        };
        response
    }

    /// Executes a call that acts outside of Houston's tables.
    pub(crate) async fn execute(&self, name: &str, input: Value) -> ToolResponse {
        let call = ToolCall { id: "c".into(), name: name.to_owned(), input, malformed: None };
        let Plan::Execute(work) = self.offer.plan(&call, &self.context(self.owner())) else {
            panic!("{name}")
        };
        work.await
    }

    /// What a person reads of a call that waits for a yes.
    pub(crate) async fn preview(&self, name: &str, input: &Value) -> Option<String> {
        let call = ToolCall { id: "c".into(), name: name.to_owned(), input: input.clone(), malformed: None };
        let Plan::Record(record) = self.offer.plan(&call, &self.context(self.owner())) else {
            panic!("{name} {input}")
        };
        let mut tx = self.runs().begin_fenced(&self.claimed.fence).await.unwrap();
        let ids = RecordIds { row: self.ids.next(), run: self.ids.next(), message: self.ids.next() };
        record.preview(tx.rows(self.owner(), ids, limits())).await.unwrap()
    }

    pub(crate) async fn call(&self, name: &str, input: Value) -> ToolResponse {
        self.call_as(self.owner(), &[(name, input)]).await.remove(0)
    }

    /// What the model reads of a call that succeeds.
    pub(crate) async fn says(&self, name: &str, input: Value) -> String {
        let answer = self.call(name, input).await;
        assert!(answer.is_success(), "{answer:?}");
        answer.text().to_owned()
    }

    /// The path of something in the folder of a workspace, for what others than Houston do there.
    pub(crate) fn inside(&self, path: &str) -> PathBuf {
        let folder = self.folder.as_ref().unwrap().path();
        folder.join(self.tenant.0.to_string()).join(self.goal.0.to_string()).join("files").join(path)
    }

    pub(crate) fn sql(&self, text: &str) -> String {
        self.database.sql(text).unwrap()
    }

    fn context(&self, owner: Owner) -> CallContext {
        CallContext {
            tenant: owner.tenant,
            agentable: owner.agentable,
            user: owner.user,
            run: owner.run,
            idempotency_key: String::new(),
            now: self.ids.clock().now(),
            zone: chrono_tz::UTC,
            tasks: Arc::new([]),
            reached: Arc::new([toml::from_str(include_str!("../../../../jobs/agents/goal.toml")).unwrap()]),
            guards: Arc::clone(&self.guards),
            skills: None,
            files: self.runs().command_files(owner.tenant, owner.agentable),
            stop: tokio_util::sync::CancellationToken::new(),
            progress: houston_tools::Progress::default(),
        }
    }

    fn step(&self) -> Step {
        Step {
            write: self.ids.next(),
            run: self.claimed.run,
            entries: vec![],
            frames: vec![],
            events: vec![],
            messages: vec![],
            intents: vec![],
            responses: vec![],
            cells: vec![],
            pauses: vec![],
            large_results: vec![],
            more_calls: vec![],
            questions: None,
            state: None,
            plan: None,
            untrusted: false,
            iterations: 1,
            usage: Usage::default(),
            model: None,
            call: None,
            transition: RunTransition::Continue { read: false, event: None },
        }
    }
}

fn all_tools(files: Files) -> Offer {
    let mut registry = Registry::default();
    // Nothing is run here; without a sandbox, the tools for code are not offered.
    let sandbox = Some(Sandbox::new(Program::this(), 1));
    let (shell, shell_time) = (Shell::find(2).ok(), Duration::from_secs(20));
    let keeps_files = files == Files::Folder;
    for tool in builtin::all(&Outside {
        sandbox,
        snippet_tools: 2,
        shell,
        shell_time,
        keeps_files,
        ..Outside::default()
    }) {
        registry.add(tool).unwrap();
    }
    let offer = registry.offer(&registry.names()).unwrap();
    let schema = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {"items": {"type": "array", "items": {"type": "string"}}, "note": {"type": "string"}},
    });
    let declared = serde_json::from_value(json!({"schema": schema, "initial": {"items": []}})).unwrap();
    offer.with_of_run(&[update_state(&Arc::new(declared))])
}

fn limits() -> RecordLimits {
    let check_ins = CheckInLimits {
        max_pending: 3,
        min_delay_s: 1,
        max_delay_s: 86_400 * 7,
        earliest: "00:00".parse().unwrap(),
        latest: "23:59".parse().unwrap(),
    };
    RecordLimits { tasks: TaskLimits::default(), reach: ReachLimits::default(), check_ins, page_bytes: 600 }
}

fn open(url: &str) -> Store {
    let config = Config {
        url: url.to_owned(),
        connections: houston_store::Sizes::ones(),
        acquire_timeout: Duration::from_secs(30),
    };
    Store::open(&config).unwrap()
}

async fn migrate(url: String) {
    let store = open(&url);
    store.migrate().await.unwrap();
    store.close().await;
}

/// A goal of a new user.
pub(crate) async fn goal(store: &Store, ids: &Ids, tenant: TenantId) -> AgentableId {
    let created_at = ids.clock().now();
    let (name, time_zone) = ("Ann".to_owned(), "UTC".to_owned());
    let user = User { id: ids.next(), external_id: None, name, time_zone, created_at, cost: Cost::NOTHING };
    let new = |id, kind| NewAgentable {
        id,
        user: user.id,
        kind,
        title: "Tokyo",
        description: "",
        status: None,
        tools: None,
        created_at,
    };
    let own = [new(ids.next(), "user_agent")];
    store.tenant(tenant).create_user(&user, &own, (None, &Value::Null)).await.unwrap();
    let goal = new(ids.next(), "goal");
    store.tenant(tenant).create_agentable(&goal, (None, &Value::Null)).await.unwrap();
    goal.id
}
