//! A server for one test, with one tenant, one user and one goal.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use houston_api::{
    AgentSources, BegunForeignLogin, Config, Explain, ExplainTopic, ForeignServer, ForeignServers,
    ProviderName, ReturnedLogin, State, serve,
};
use houston_domain::agent::limits::Limits;
use houston_domain::agentable::AgentType;
use houston_domain::budget::Budget;
use houston_domain::clock::SystemClock;
use houston_domain::event::Live;
use houston_domain::id::{AgentableId, ApiKeyId, Ids, TenantId, parse_prefixed};
use houston_domain::mcp_server::pin::ListedTool;
use houston_domain::plan::{Limits as PlanLimits, Template, Templates};
use houston_domain::rate::RateLimits;
use houston_domain::schedule::CheckInConfig;
use houston_domain::scope::Scopes;
use houston_domain::sealed::SecretKeys;
use houston_domain::team::RuleLimits;
use houston_queue::{DeltaBus, HintSender, Redis};
use houston_store::Store;
use houston_store::api_key::NewApiKey;
use houston_testkit::installation::TestInstallation;
use houston_web::Sinks;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::http::{Answer, Stream, request};
use crate::models::TwoModels;

pub(crate) const KEY: &str = "hou_test_0123456789abcdef";
/// 32 bytes, in base64.
const SECRETS_KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
const PREFIX: &str = "houston";

/// The server, its Postgres and Redis, and the ids of its user and goal.
pub(crate) struct TestApi {
    pub(crate) servers: TestInstallation,
    pub(crate) address: SocketAddr,
    pub(crate) state: State,
    pub(crate) store: Store,
    pub(crate) tenant: TenantId,
    pub(crate) stop: CancellationToken,
    pub(crate) redis: Redis,
    pub(crate) ended: Option<oneshot::Receiver<()>>,
    pub(crate) user: String,
    pub(crate) goal: String,
}

/// What the engine would say.
fn explained(question: &ExplainTopic, title: &str) -> Value {
    if *question != ExplainTopic::Snapshot {
        return json!({"asked": format!("{question:?}"), "title": title});
    }
    let limits =
        json!({"max_iterations": 20, "max_same_tool": 5, "max_duration_s": 600, "max_output_tokens": 4096});
    json!({"conversational": true, "reply": "text", "limits": limits, "tools": []})
}

/// Those that are shipped.
fn check_in_limits() -> houston_domain::check_in::CheckInLimits {
    let shipped = include_str!("../../../../jobs/agent_check_in.toml");
    toml::from_str::<CheckInConfig>(shipped).unwrap().limits
}

impl TestApi {
    /// Starts a server with the default settings.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Starts a server whose settings are changed by `change`.
    pub(crate) async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        Self::set_up(TestInstallation::start(migrate).unwrap(), change, |_| {}).await
    }

    /// Starts a server with rate limits.
    pub(crate) async fn start_with_rates(rates: RateLimits) -> Self {
        let servers = TestInstallation::start(migrate).unwrap();
        let store = open_store(servers.database_url()).with(|own| own.rates = rates);
        Self::set_up_with(servers, store, |_| {}, agent_types()).await
    }

    /// Starts a server with a Postgres of its own, which the test may kill.
    pub(crate) async fn start_with_own_postgres(change: impl FnOnce(&mut Config)) -> Self {
        let servers = TestInstallation::start_with_own_postgres(migrate).unwrap();
        // Shorter than the time limit of a request, which is refused while Postgres is away.
        let store = open_store_within(servers.database_url(), Duration::from_secs(3));
        Self::set_up_with(servers, store, change, agent_types()).await
    }

    /// Starts a server whose agent types are changed by `change`.
    pub(crate) async fn start_with_types(change: impl FnMut(&mut AgentType)) -> Self {
        Self::set_up(TestInstallation::start(migrate).unwrap(), |_| {}, change).await
    }

    async fn set_up(
        servers: TestInstallation,
        change: impl FnOnce(&mut Config),
        change_type: impl FnMut(&mut AgentType),
    ) -> Self {
        let mut agent_types = agent_types();
        agent_types.values_mut().for_each(change_type);
        let store = open_store(servers.database_url());
        Self::set_up_with(servers, store, change, agent_types).await
    }

    async fn set_up_with(
        servers: TestInstallation,
        store: Store,
        change: impl FnOnce(&mut Config),
        agent_types: BTreeMap<String, AgentType>,
    ) -> Self {
        let redis = Redis::open(servers.redis_url(), PREFIX, Arc::new(SystemClock)).unwrap();
        let ids = Arc::new(Ids::new(Arc::new(SystemClock)));
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let shipped: Config = toml::from_str(include_str!("../../../../jobs/server.toml")).unwrap();
        let mut config = Config { poll_ms: 50, ..shipped };
        change(&mut config);
        let bus = DeltaBus::start(Some(redis.clone()), ids.next(), &tasks, stop.clone());
        let state = State {
            config,
            store: store.api(),
            redis: bus.health.clone(),
            bus,
            hints: HintSender::start(Some(redis.clone()), &tasks, stop.clone()),
            ids,
            metrics: Arc::default(),
            spans: Default::default(),
            agents: Arc::new(sources(agent_types.clone())),
            agent_types: Arc::new(agent_types),
            secret_keys: Some(SecretKeys::parse(SECRETS_KEY).unwrap()),
            sinks: Arc::new(Sinks::new(&["http://127.0.0.1:9".to_owned()], Duration::from_secs(2))),
            foreign_servers: Arc::new(NoServers),
            models: Arc::new(TwoModels),
            explain: Explain::new(|question, agentable| {
                let body = explained(&question, &agentable.title);
                Box::pin(std::future::ready(Ok(body)))
            }),
            feed: Arc::new(toml::from_str(include_str!("../../../../jobs/feed_generation.toml")).unwrap()),
            check_ins: check_in_limits(),
            plan_templates: Arc::new(templates()),
            team_rules: RuleLimits::default(),
            plans: PlanLimits { steps_of_request: 12, ..PlanLimits::default() },
            budget: Budget { per_user_day: Some(1_000.into()), ..Budget::default() },
            draining: CancellationToken::new(),
        };
        let tenant = make_tenant(&store, &state.ids, "acme", KEY).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end_sender, ended) = oneshot::channel();
        let serving = serve(listener, state.clone(), stop.clone());
        tasks.spawn(async move {
            serving.await;
            let _ = end_sender.send(());
        });
        let mut api = Self {
            servers,
            address,
            state,
            store,
            tenant,
            stop,
            redis,
            ended: Some(ended),
            user: String::new(),
            goal: String::new(),
        };
        api.user =
            api.post("/v1/users", json!({"name": "Ada"})).await.ok()["id"].as_str().unwrap().to_owned();
        api.goal = api.make_goal("Learn Rust").await;
        api
    }

    /// Runs SQL statements directly.
    pub(crate) fn sql(&self, statements: &str) -> String {
        self.servers.sql(statements).unwrap()
    }

    pub(crate) async fn make_goal(&self, title: &str) -> String {
        let body = json!({"user_id": self.user, "title": title});
        self.post("/v1/goals", body).await.ok()["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn agentable(&self) -> AgentableId {
        parse_prefixed("goal", &self.goal).unwrap().into()
    }

    /// The path of the goal followed by `rest`.
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/goals/{}{rest}", self.goal)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        request(self.address, "GET", path, &[("authorization", &bearer(KEY))], "").await
    }

    pub(crate) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        request(self.address, "GET", path, headers, "").await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.post_with(path, &[], body).await
    }

    pub(crate) async fn post_with(&self, path: &str, headers: &[(&str, &str)], body: Value) -> Answer {
        let key = bearer(KEY);
        let mut all = vec![("authorization", key.as_str()), ("content-type", "application/json")];
        all.extend(headers);
        request(self.address, "POST", path, &all, &body.to_string()).await
    }

    /// Posts a text that is no JSON.
    pub(crate) async fn post_text(&self, path: &str, headers: &[(&str, &str)], text: &str) -> Answer {
        let authorization = bearer(KEY);
        let mut all = vec![("authorization", authorization.as_str())];
        all.extend(headers);
        request(self.address, "POST", path, &all, text).await
    }

    /// Sends a request with any method.
    pub(crate) async fn send(&self, method: &str, path: &str, body: Value) -> Answer {
        self.send_as(KEY, method, path, body).await
    }

    /// Sends a request with any method and API key.
    pub(crate) async fn send_as(&self, key: &str, method: &str, path: &str, body: Value) -> Answer {
        let key = bearer(key);
        let headers = [("authorization", key.as_str()), ("content-type", "application/json")];
        request(self.address, method, path, &headers, &body.to_string()).await
    }

    /// Posts a message to the goal.
    pub(crate) async fn post_message(&self, content: &str) -> Value {
        let answer = self.post(&self.path("/messages"), json!({"content": content})).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        answer.json()
    }

    /// Opens the goal's stream with `query` after `/events` and a `Last-Event-ID`.
    pub(crate) async fn stream(&self, query: &str, last_id: Option<&str>) -> Stream {
        let path = self.path(&format!("/events{query}"));
        self.stream_at(&path, last_id).await.unwrap()
    }

    /// Opens a stream at any path; `None` if the connection broke before there was a response.
    pub(crate) async fn stream_at(&self, path: &str, last_id: Option<&str>) -> Option<Stream> {
        let key = bearer(KEY);
        let mut headers = vec![("authorization", key.as_str())];
        headers.extend(last_id.map(|id| ("last-event-id", id)));
        Stream::open(self.address, path, &headers).await
    }

    pub(crate) fn publish(&self, live: Live) {
        self.state.bus.publish(self.agentable(), live);
    }
}

/// Starts another server of the installation.
pub(crate) async fn serve_also(api: &TestApi, state: State) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    TaskTracker::new().spawn(serve(listener, state, api.stop.clone()));
    address
}

pub(crate) fn bearer(key: &str) -> String {
    format!("Bearer {key}")
}

pub(crate) async fn make_tenant(store: &Store, ids: &Ids, name: &str, key: &str) -> TenantId {
    let tenant = store.operator().ensure_tenant(ids.next(), name).await.unwrap();
    let id: ApiKeyId = ids.next();
    let new = NewApiKey {
        id,
        name: "test",
        key,
        scopes: Scopes::ADMIN,
        user: None,
        expires_at: None,
        issuer: None,
    };
    store.operator().create_api_key(tenant, &new).await.unwrap();
    tenant
}

fn open_store(url: &str) -> Store {
    open_store_within(url, Duration::from_secs(30))
}

fn open_store_within(url: &str, acquire_timeout: Duration) -> Store {
    let config = houston_store::Config {
        url: url.to_owned(),
        connections: houston_store::Sizes::ones(),
        acquire_timeout,
    };
    Store::open(&config).unwrap()
}

async fn migrate(url: String) {
    let store = open_store(&url);
    store.migrate().await.unwrap();
    store.close().await;
}

/// Sources of agent settings: the tools of the kinds and one more, two providers.
fn sources(agent_types: BTreeMap<String, AgentType>) -> AgentSources {
    let provider = |name: &str, needs_model| ProviderName {
        name: name.to_owned(),
        aliases: Vec::new(),
        needs_model,
        is_listed: !needs_model,
    };
    let own = agent_types.values().flat_map(|kind| kind.tools.iter().cloned());
    AgentSources {
        tools: own.chain(["launch_rocket".to_owned()]).collect(),
        use_cases: ["agent", "titles"].map(String::from).to_vec(),
        providers: vec![provider("openai", false), provider("custom", true)],
        overseer: houston_domain::overseer::Settings::default(),
        nearest_model: |_, model| (model != "gpt-5").then_some("gpt-5"),
        limits: Limits { max_output_tokens: 1000, ..Limits::USUAL },
        read_files: Arc::new(move || Ok(agent_types.clone())),
    }
}

fn agent_types() -> BTreeMap<String, AgentType> {
    [
        include_str!("../../../../jobs/agents/goal.toml"),
        include_str!("../../../../jobs/agents/task.toml"),
        include_str!("../../../../jobs/agents/plan.toml"),
        include_str!("../../../../jobs/agents/executor.toml"),
        include_str!("../../../../jobs/agents/user_agent.toml"),
    ]
    .map(|text| toml::from_str::<AgentType>(text).unwrap())
    .into_iter()
    .map(|kind| (kind.kind.clone(), kind))
    .collect()
}

/// Nothing is reached: requests to servers are tested with the whole service.
#[derive(Debug)]
struct NoServers;

impl ForeignServers for NoServers {
    fn problem(&self, _: &str, _: &BTreeMap<String, SecretString>) -> Option<(&'static str, String)> {
        None
    }

    fn tools(&self, _: ForeignServer) -> BoxFuture<'static, Result<Vec<ListedTool>, String>> {
        Box::pin(std::future::ready(Err("there is no server".to_owned())))
    }

    fn begin_login(
        &self,
        _: ForeignServer,
        _: String,
    ) -> BoxFuture<'static, Result<BegunForeignLogin, String>> {
        Box::pin(std::future::ready(Err("there is no server".to_owned())))
    }

    fn finish_login(&self, _: ReturnedLogin) -> BoxFuture<'static, Result<SecretString, String>> {
        Box::pin(std::future::ready(Err("there is no server".to_owned())))
    }
}

/// The templates of plans that Houston comes with.
fn templates() -> Templates {
    let research = include_str!("../../../../jobs/plans/research.json");
    Templates::new([Template::parse(research, "research", &["search_web"]).unwrap()])
}
