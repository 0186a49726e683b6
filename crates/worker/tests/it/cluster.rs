//! [`TestCluster`]: a test installation with servers, a user with a goal, and workers that share only the servers.

use std::sync::Arc;
use std::time::Duration;

use houston_domain::agentable::{DoubleTexting, Planning};
use houston_domain::clock::SystemClock;
use houston_domain::focus::ContextProviders;
use houston_domain::history::{Entry, validate};
use houston_domain::id::{AgentableId, Ids, MessageId, RunId, TenantId, UserId};
use houston_domain::message::Source;
use houston_domain::run::{Run, RunStatus};
use houston_engine::{Driver, OwnToolsParts};
use houston_queue::{DEFAULT_PREFIX, DeltaBus, Hint, HintSender, Lane, Redis};
use houston_store::agentable::NewAgentable;
use houston_store::idempotency::Created;
use houston_store::message::{NewPost, Posted};
use houston_store::user::User;
use houston_store::{Config as StoreConfig, RunStore, Store, TenantStore};
use houston_testkit::installation::TestInstallation;
use houston_worker::{Kinds, Monitor, MonitorConfig, Webhooks};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::workers::agent_types;

/// Servers, a tenant with a user and a goal, and settings of the workers that tests start.
pub(crate) struct TestCluster {
    pub(crate) servers: TestInstallation,
    pub(crate) store: Store,
    pub(crate) ids: Arc<Ids>,
    /// Ids and clock of the workers; tests may make the clock wrong.
    pub(crate) worker_ids: Arc<Ids>,
    pub(crate) tenant: TenantId,
    pub(crate) goal: AgentableId,
    pub(crate) hints: HintSender,
    /// Milliseconds between two searches of workers for cancelled runs.
    pub(crate) reap_every_ms: u64,
    /// Slots of each worker, half of them for background runs.
    pub(crate) slots: usize,
    /// Milliseconds between two sweeps.
    pub(crate) sweep_ms: u64,
    /// For how long a worker without its lock is only suspected.
    pub(crate) suspect_ms: u64,
    /// What drives the runs of goals, if it is not a model.
    pub(crate) driver: Option<Arc<dyn Driver>>,
    /// When goals plan.
    pub(crate) plans: Planning,
    /// The context providers of goals.
    pub(crate) providers: ContextProviders,
    /// What the tools of tenants' own need.
    pub(crate) own_tools: OwnToolsParts,
    /// How events are sent to webhooks.
    pub(crate) webhooks: Webhooks,
    pub(crate) tracker: TaskTracker,
    pub(crate) gone: CancellationToken,
}

impl TestCluster {
    pub(crate) async fn start() -> Self {
        Self::over(TestInstallation::start(migrate).unwrap()).await
    }

    pub(crate) async fn start_with_own_postgres() -> Self {
        Self::over(TestInstallation::start_with_own_postgres(migrate).unwrap()).await
    }

    async fn over(servers: TestInstallation) -> Self {
        let ids = Arc::new(Ids::new(Arc::new(SystemClock)));
        let store = open(servers.database_url());
        let tenant = store.operator().ensure_tenant(ids.next(), "test").await.unwrap();
        let tracker = TaskTracker::new();
        let gone = CancellationToken::new();
        let redis = redis(&servers);
        let hints = HintSender::start(Some(redis), &tracker, gone.clone());
        let goal = make_goal(&store, &ids, tenant).await;
        Self {
            servers,
            store,
            worker_ids: Arc::clone(&ids),
            ids,
            tenant,
            goal,
            hints,
            reap_every_ms: 200,
            slots: 2000,
            sweep_ms: 500,
            suspect_ms: 1_500,
            driver: None,
            plans: Planning::Offer,
            providers: ContextProviders::new(),
            own_tools: OwnToolsParts::default(),
            webhooks: crate::webhooks::settings(&[]),
            tracker,
            gone,
        }
    }

    /// What runs and workers may do.
    pub(crate) fn runs(&self) -> &RunStore {
        self.store.runs()
    }

    /// What a request of the tenant may do.
    pub(crate) fn requests(&self) -> TenantStore<'_> {
        self.store.tenant(self.tenant)
    }

    pub(crate) async fn new_goal(&self) -> AgentableId {
        make_goal(&self.store, &self.ids, self.tenant).await
    }

    /// A health monitor with the shipped thresholds, outside of any worker.
    pub(crate) fn monitor(&self) -> Monitor {
        let redis = redis(&self.servers);
        Monitor {
            store: open(self.servers.database_url()).runs().clone(),
            bus: DeltaBus::start(Some(redis.clone()), self.ids.next(), &self.tracker, self.gone.clone()),
            hints: self.hints.clone(),
            redis: Some(redis),
            clock: Arc::clone(self.ids.clock()),
            kinds: Kinds::of(agent_types().iter().map(|agent_type| (agent_type, 630))),
            config: monitor_config(),
        }
    }

    /// Creates a task of the cluster's goal.
    pub(crate) async fn new_task(&self) -> AgentableId {
        let id: AgentableId = self.ids.next();
        let user =
            self.servers.sql(&format!("select user_id from houston.agentables where id = '{}'", self.goal.0));
        let task = NewAgentable {
            id,
            user: UserId(user.unwrap().parse().unwrap()),
            kind: "task",
            title: "Find hotels",
            description: "",
            status: None,
            tools: None,
            created_at: self.ids.clock().now(),
        };
        self.requests().create_agentable(&task, (None, &Value::Null)).await.unwrap();
        let child = format!(
            "update houston.agentables set parent_id = '{}', depth = 1 where id = '{}'",
            self.goal.0, id.0
        );
        self.servers.sql(&child).unwrap();
        id
    }

    /// Creates `count` more agentables of the user of the first goal.
    pub(crate) async fn create_agentables(&self, kind: &str, count: usize) -> Vec<AgentableId> {
        let user = self.requests().agentable("goal", self.goal).await.unwrap().user;
        let mut made = Vec::new();
        for _ in 0..count {
            let new = NewAgentable {
                id: self.ids.next(),
                user,
                kind,
                title: "Tokyo",
                description: "",
                status: None,
                tools: None,
                created_at: self.ids.clock().now(),
            };
            self.requests().create_agentable(&new, (None, &Value::Null)).await.unwrap();
            made.push(new.id);
        }
        made
    }

    /// Posts a message and sends a hint, as the API does.
    pub(crate) async fn post(&self, goal: AgentableId, content: &str) -> Posted {
        let posted = self.post_silently(goal, content).await;
        self.send_hint(goal);
        posted
    }

    /// Posts a message without a hint, as if it were lost.
    pub(crate) async fn post_silently(&self, goal: AgentableId, content: &str) -> Posted {
        self.try_post(goal, content, DoubleTexting::Enqueue).await.unwrap()
    }

    /// [`Self::post_silently`] with a double-texting policy.
    pub(crate) async fn try_post(
        &self,
        goal: AgentableId,
        content: &str,
        double_texting: DoubleTexting,
    ) -> houston_store::Result<Posted> {
        let mut post =
            NewPost::new(self.ids.next(), self.ids.next(), content, Value::Object(serde_json::Map::new()));
        post.double_texting = double_texting;
        match self.requests().post_message(goal, &post, None).await? {
            Created::New(posted) => Ok(posted),
            other => panic!("{other:?}"),
        }
    }

    /// Posts a message with a double-texting policy and sends a hint.
    pub(crate) async fn post_as(
        &self,
        goal: AgentableId,
        content: &str,
        double_texting: DoubleTexting,
    ) -> Posted {
        let posted = self.try_post(goal, content, double_texting).await.unwrap();
        self.send_hint(goal);
        posted
    }

    /// Sends a hint to the workers.
    pub(crate) fn send_hint(&self, goal: AgentableId) {
        self.hints.send(Lane::Interactive, Hint::run(goal));
    }

    /// Waits for the end of a run.
    pub(crate) async fn wait_for_end(&self, run: RunId) -> Run {
        eventually("the run ends", || async {
            let found = self.requests().run(run).await.ok()?;
            found.status.is_terminal().then_some(found)
        })
        .await
    }

    /// The agent's messages, oldest first.
    pub(crate) async fn agent_messages(&self, goal: AgentableId) -> Vec<String> {
        let mut messages = self.requests().messages(goal, None, 1000).await.unwrap();
        messages.reverse();
        messages
            .into_iter()
            .filter(|m| m.source == Source::Agent && m.message_type.as_str() == "text")
            .map(|m| m.content)
            .collect()
    }

    /// The whole history. Asserts that providers accept each prefix, and that epochs never decrease.
    pub(crate) async fn history(&self, goal: AgentableId) -> Vec<Entry> {
        let placed = self.requests().history(goal, 0, 10_000).await.unwrap();
        assert!(placed.is_sorted_by_key(|entry| entry.epoch), "a zombie wrote");
        let entries: Vec<Entry> = placed.into_iter().map(|placed| placed.entry).collect();
        for end in 0..=entries.len() {
            validate(&entries[..end]).unwrap();
        }
        entries
    }

    /// All events. Asserts that their positions have no gap.
    pub(crate) async fn events(&self, goal: AgentableId) -> Vec<houston_domain::event::Committed> {
        let events = self.requests().events_after(goal, 0, 10_000).await.unwrap();
        for (event, seq) in events.iter().zip(1..) {
            assert_eq!(event.seq, seq, "the stream has a gap");
        }
        events
    }

    pub(crate) async fn message(&self, id: MessageId) -> houston_store::message::Message {
        self.requests().message(id).await.unwrap()
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        self.gone.cancel();
    }
}

/// The shipped settings of the health monitor.
pub(crate) fn monitor_config() -> MonitorConfig {
    toml::from_str(include_str!("../../../../jobs/health_monitor.toml")).unwrap()
}

/// Opens a pool; each worker has its own.
pub(crate) fn open(url: &str) -> Store {
    let config = StoreConfig {
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

pub(crate) fn redis(servers: &TestInstallation) -> Redis {
    Redis::open(servers.redis_url(), DEFAULT_PREFIX, Arc::new(SystemClock)).unwrap()
}

async fn make_goal(store: &Store, ids: &Ids, tenant: TenantId) -> AgentableId {
    let now = ids.clock().now();
    let user = User {
        id: ids.next(),
        external_id: None,
        name: "Ann".into(),
        time_zone: "UTC".into(),
        created_at: now,
        cost: houston_store::cost::Cost::NOTHING,
    };
    let new = |id, kind| NewAgentable {
        id,
        user: user.id,
        kind,
        title: "Tokyo",
        description: "",
        status: None,
        tools: None,
        created_at: now,
    };
    store
        .tenant(tenant)
        .create_user(&user, &[new(ids.next(), "user_agent")], (None, &Value::Null))
        .await
        .unwrap();
    let goal = new(ids.next(), "goal");
    store.tenant(tenant).create_agentable(&goal, (None, &Value::Null)).await.unwrap();
    goal.id
}

/// Time-out of everything tests wait for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Calls `ask` until it returns `Some`; panics after [`PATIENCE`].
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut ask: impl FnMut() -> F,
) -> T {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(found) = ask().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "timed out waiting for: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn assert_status(run: &Run, status: RunStatus) {
    assert_eq!(run.status, status, "{run:?}");
}
