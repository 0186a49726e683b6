//! A store on a database of its own, with one tenant, one user, one goal and one registered worker.

use std::sync::Arc;
use std::time::Duration;

use houston_domain::agentable::DoubleTexting;
use houston_domain::check_in::CheckInLimits;
use houston_domain::clock::SystemClock;
use houston_domain::id::{AgentableId, Ids, MessageId, RunToken, TenantId, WorkerId};
use houston_domain::model::Usage;
use houston_domain::reach::ReachLimits;
use houston_domain::step::{RunTransition, Step};
use houston_domain::task::TaskLimits;
use houston_store::agentable::NewAgentable;
use houston_store::claim::{Claim, ClaimRequest, ClaimedRun, CrashPolicy, Trial};
use houston_store::idempotency::{Created, IdempotencyKey};
use houston_store::lease::{LeaseConnection, WorkerDescription};
use houston_store::message::{NewPost, Posted};
use houston_store::record::{FencedTx, Owner, RecordIds, RecordLimits, RecordTx};
use houston_store::user::User;
use houston_store::{Config, Result, RunStore, Store, TenantStore};
use houston_testkit::database::TestDatabase;
use serde_json::Value;

/// How long a worker lives that never renews its lease: longer than any test, however busy the machine is.
pub(crate) const LEASE: Duration = Duration::from_secs(3600);

/// Claims without the context of the run, which these tests read themselves, if they do.
pub(crate) trait ClaimRun {
    async fn claim_run(
        &self,
        agentable: AgentableId,
        worker: WorkerId,
        token: RunToken,
        next_message: MessageId,
        crashes: CrashPolicy,
    ) -> Result<Option<ClaimedRun>>;
}

impl ClaimRun for RunStore {
    async fn claim_run(
        &self,
        agentable: AgentableId,
        worker: WorkerId,
        token: RunToken,
        next_message: MessageId,
        crashes: CrashPolicy,
    ) -> Result<Option<ClaimedRun>> {
        let trial = Trial::None;
        let request = ClaimRequest { agentable, worker, token, next_message, crashes, trial, context: None };
        match self.claim(request).await? {
            Claim::Run(run) => Ok(Some(*run)),
            Claim::PutOff(_) | Claim::Accused | Claim::Postponed { .. } | Claim::Nothing => Ok(None),
        }
    }
}

pub(crate) struct TestStore {
    pub(crate) database: TestDatabase,
    pub(crate) store: Store,
    pub(crate) ids: Ids,
    pub(crate) tenant: TenantId,
    pub(crate) goal: AgentableId,
    pub(crate) worker: WorkerId,
    _lease: LeaseConnection,
}

impl TestStore {
    pub(crate) async fn start() -> Self {
        Self::on(TestDatabase::shared(migrate).unwrap()).await
    }

    pub(crate) async fn start_with_own_postgres() -> Self {
        Self::on(TestDatabase::on_own_server(migrate).unwrap()).await
    }

    async fn on(database: TestDatabase) -> Self {
        let (store, ids) = (open(database.url()), Ids::new(Arc::new(SystemClock)));
        let tenant = store.operator().ensure_tenant(ids.next(), "test").await.unwrap();
        let goal = goal(&store, &ids, tenant).await;
        let worker = ids.next();
        let mut lease = LeaseConnection::open(database.url(), worker, LEASE).await.unwrap();
        lease
            .register(WorkerDescription { name: "test".into(), ..WorkerDescription::default() })
            .await
            .unwrap();
        Self { database, store, ids, tenant, goal, worker, _lease: lease }
    }

    /// What runs and workers may do.
    pub(crate) fn runs(&self) -> &RunStore {
        self.store.runs()
    }

    /// What a request of the tenant may do.
    pub(crate) fn requests(&self) -> TenantStore<'_> {
        self.store.tenant(self.tenant)
    }

    pub(crate) async fn try_post(
        &self,
        content: &str,
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Created<Posted>> {
        self.try_post_as(content, DoubleTexting::Enqueue, key).await
    }

    pub(crate) async fn try_post_as(
        &self,
        content: &str,
        double_texting: DoubleTexting,
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Created<Posted>> {
        let metadata = Value::Object(serde_json::Map::new());
        let mut post = NewPost::new(self.ids.next(), self.ids.next(), content, metadata);
        post.double_texting = double_texting;
        self.requests().post_message(self.goal, &post, key).await
    }

    /// Posts to a goal other than `self.goal`.
    pub(crate) async fn post_to(&self, goal: AgentableId, content: &str) -> Result<Created<Posted>> {
        let metadata = Value::Object(serde_json::Map::new());
        let post = NewPost::new(self.ids.next(), self.ids.next(), content, metadata);
        self.requests().post_message(goal, &post, None).await
    }

    pub(crate) async fn post(&self, content: &str) -> Posted {
        match self.try_post(content, None).await.unwrap() {
            Created::New(posted) => posted,
            other => panic!("{other:?}"),
        }
    }

    /// The output of `psql`, or its error message.
    pub(crate) fn try_sql(&self, text: &str) -> Result<String, String> {
        self.database.sql(text).map_err(|error| error.to_string())
    }

    pub(crate) fn sql(&self, text: &str) -> String {
        self.try_sql(text).unwrap()
    }

    pub(crate) async fn claim(&self) -> Option<ClaimedRun> {
        self.claim_of(self.goal).await
    }

    pub(crate) async fn claim_of(&self, goal: AgentableId) -> Option<ClaimedRun> {
        self.runs()
            .claim_run(goal, self.worker, self.ids.next(), self.ids.next(), CrashPolicy::default())
            .await
            .unwrap()
    }

    /// The tables of one tool call of the run in `tx`.
    pub(crate) fn rows<'t>(&self, tx: &'t mut FencedTx, owner: Owner) -> RecordTx<'t> {
        let ids = RecordIds { row: self.ids.next(), run: self.ids.next(), message: self.ids.next() };
        let check_ins = CheckInLimits {
            max_pending: 3,
            min_delay_s: 1,
            max_delay_s: 86_400 * 7,
            earliest: "00:00".parse().unwrap(),
            latest: "23:59".parse().unwrap(),
        };
        tx.rows(
            owner,
            ids,
            RecordLimits {
                tasks: TaskLimits::default(),
                reach: ReachLimits::default(),
                check_ins,
                page_bytes: 600,
            },
        )
    }

    pub(crate) fn step(&self, claimed: &ClaimedRun, transition: RunTransition) -> Step {
        Step {
            write: self.ids.next(),
            run: claimed.run,
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
            transition,
        }
    }
}

pub(crate) fn open(url: &str) -> Store {
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

pub(crate) async fn goal(store: &Store, ids: &Ids, tenant: TenantId) -> AgentableId {
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
