//! A fresh database with one user and one goal.

use std::sync::Arc;
use std::time::Duration;

use houston_domain::agentable::DoubleTexting;
use houston_domain::clock::SystemClock;
use houston_domain::id::{AgentableId, Ids, TenantId, WorkerId};
use houston_domain::model::Usage;
use houston_store::agentable::NewAgentable;
use houston_store::claim::{Claimed, Crashes};
use houston_store::idempotency::{Created, IdempotencyKey};
use houston_store::lease::LeaseConnection;
use houston_store::message::{NewPost, Posted};
use houston_store::step::{Step, Then};
use houston_store::user::User;
use houston_store::{Config, Result, Store};
use houston_testkit::servers::TestServers;
use serde_json::Value;

pub(crate) struct Fresh {
    pub(crate) servers: TestServers,
    pub(crate) store: Store,
    pub(crate) ids: Ids,
    pub(crate) tenant: TenantId,
    pub(crate) goal: AgentableId,
    pub(crate) worker: WorkerId,
    _lease: LeaseConnection,
}

impl Fresh {
    pub(crate) async fn start() -> Self {
        let servers = TestServers::start().unwrap();
        let config = Config {
            url: servers.database_url().to_owned(),
            max_connections: 10,
            acquire_timeout: Duration::from_secs(5),
        };
        let (store, ids) = (Store::open(&config).unwrap(), Ids::new(Arc::new(SystemClock)));
        store.migrate().await.unwrap();
        let tenant = store.ensure_tenant(ids.next(), "test").await.unwrap();
        let goal = goal(&store, &ids, tenant).await;
        let worker = ids.next();
        let mut lease = LeaseConnection::open(&config.url, worker, Duration::from_secs(60)).await.unwrap();
        lease.register("test").await.unwrap();
        Self { servers, store, ids, tenant, goal, worker, _lease: lease }
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
        let post = NewPost {
            id: self.ids.next(),
            run: self.ids.next(),
            content,
            metadata: &metadata,
            double_texting,
        };
        self.store.post_message(self.tenant, self.goal, &post, key).await
    }

    pub(crate) async fn post(&self, content: &str) -> Posted {
        match self.try_post(content, None).await.unwrap() {
            Created::New(posted) => posted,
            other => panic!("{other:?}"),
        }
    }

    /// Statements through `psql`: what it says, or its complaint.
    pub(crate) fn try_sql(&self, text: &str) -> Result<String, String> {
        use std::io::Write as _;
        use std::process::{Command, Stdio};
        let mut psql = Command::new("psql")
            .args([self.servers.database_url(), "-v", "ON_ERROR_STOP=1", "-qtA"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        psql.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = psql.wait_with_output().unwrap();
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
    }

    pub(crate) fn sql(&self, text: &str) -> String {
        self.try_sql(text).unwrap()
    }

    pub(crate) async fn claim(&self) -> Option<Claimed> {
        self.store
            .claim_run(self.goal, self.worker, self.ids.next(), self.ids.next(), Crashes::default())
            .await
            .unwrap()
    }

    pub(crate) fn step(&self, claimed: &Claimed, then: Then) -> Step {
        Step {
            write: self.ids.next(),
            run: claimed.run,
            entries: vec![],
            events: vec![],
            messages: vec![],
            intents: vec![],
            responses: vec![],
            cells: vec![],
            aside: vec![],
            iterations: 1,
            usage: Usage::default(),
            model: None,
            call: None,
            then,
        }
    }
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
    store.create_user(tenant, &user, &[new(ids.next(), "user_agent")], None, &Value::Null).await.unwrap();
    let goal = new(ids.next(), "goal");
    store.create_agentable(tenant, &goal, None, &Value::Null).await.unwrap();
    goal.id
}
