//! Guards of tenants, users, agents and agentables: they hold from the next run on, also for tasks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use houston_domain::agent_settings::AgentSettings;
use houston_domain::event::Event;
use houston_domain::guard::{GuardSettings, LayerKind, Risk};
use houston_domain::id::RunId;
use houston_domain::knowledge::PromptLimits;
use houston_domain::model::ModelError;
use houston_domain::run::RunStatus;
use houston_llm::{Description, EventStream, Model, Request};
use houston_store::agent::DefaultAgent;
use houston_store::guards::GuardOwner;
use serde_json::json;

use crate::approvals::{ASKS, Wipe};
use crate::cluster::{TestCluster, assert_status};
use crate::workers::{agent_types, simulated};

fn denying(tool: &str) -> GuardSettings {
    GuardSettings { denied: Some(vec![tool.to_owned()]), ..GuardSettings::default() }
}

impl TestCluster {
    /// Everything that may have guards: the tenant, the user, the agent that answers, the goal.
    async fn owners(&self) -> [GuardOwner; 4] {
        let mut settings = AgentSettings::of(&agent_types()[0]);
        settings.tools.push("wipe".to_owned());
        let default = DefaultAgent { id: self.ids.next(), kind: "goal", settings };
        self.requests().ensure_default_agents(std::slice::from_ref(&default)).await.unwrap();
        let user = self.requests().agentable("goal", self.goal).await.unwrap().user;
        [
            GuardOwner::Tenant,
            GuardOwner::User(user),
            GuardOwner::Agent(default.id),
            GuardOwner::Agentable(self.goal),
        ]
    }

    async fn guard(&self, owner: GuardOwner, guards: Option<&GuardSettings>) {
        self.requests().set_guards(owner, guards).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_owner_can_deny_a_tool_and_allow_it_again() {
    let cluster = TestCluster::start().await;
    let executed: Arc<AtomicUsize> = Arc::default();
    let worker = cluster.worker_with(simulated(), vec![Wipe::new(&executed, Duration::ZERO)]);
    for owner in cluster.owners().await {
        let denying = denying("wi*");
        cluster.guard(owner, Some(&denying)).await;
        assert_eq!(cluster.requests().guards(owner).await.unwrap(), Some(denying));
        let posted = cluster.post(cluster.goal, ASKS).await;
        assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
        let events = cluster.events(cluster.goal).await;
        let mut deciding = events.iter().filter_map(|committed| match &committed.event {
            Event::ToolCalled { name, decided_by: Some(by), .. } if name == "wipe" => by.layer,
            _ => None,
        });
        let last = deciding.next_back();
        assert_eq!(last, Some(owner.layer()), "the event names the layer");
        cluster.guard(owner, None).await;
        assert_eq!(cluster.requests().guards(owner).await.unwrap(), None);
    }
    assert_eq!(executed.load(Ordering::SeqCst), 0);
    // Without them, a person is asked as before.
    cluster.asks().await;
    worker.drain().await;
}

/// A model that remembers the tools of each request.
pub(crate) struct Remembering {
    inner: Arc<dyn Model>,
    offered: Mutex<Vec<Vec<String>>>,
}

impl Remembering {
    pub(crate) fn new(inner: Arc<dyn Model>) -> Self {
        Self { inner, offered: Mutex::default() }
    }

    /// The tools of the last request.
    pub(crate) fn last(&self) -> Vec<String> {
        self.offered.lock().unwrap().last().unwrap().clone()
    }
}

impl Model for Remembering {
    fn description(&self) -> &Description {
        self.inner.description()
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        let names = request.tools.iter().map(|tool| tool.name.clone()).collect();
        self.offered.lock().unwrap().push(names);
        self.inner.stream(request)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_that_is_off_is_not_offered_and_refused_if_it_waits() {
    let cluster = TestCluster::start().await;
    let executed: Arc<AtomicUsize> = Arc::default();
    let model = Arc::new(Remembering::new(simulated()));
    let worker = cluster.worker_with(Arc::clone(&model) as _, vec![Wipe::new(&executed, Duration::ZERO)]);
    let offered = async |message: &str| {
        let posted = cluster.post(cluster.goal, message).await;
        assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
        model.last()
    };
    let all = offered("hello").await;
    assert!(all.contains(&"wipe".to_owned()), "{all:?}");
    let [tenant, user, _, goal] = cluster.owners().await;
    for owner in [tenant, user, goal] {
        cluster.guard(owner, Some(&denying("wi*"))).await;
        let left = offered("hello").await;
        let others: Vec<&String> = all.iter().filter(|name| *name != "wipe").collect();
        assert_eq!(left.iter().collect::<Vec<_>>(), others, "the others stay in their order");
        cluster.guard(owner, None).await;
        assert_eq!(offered("hello").await, all, "on again");
    }
    let (run, question) = cluster.asks().await;
    cluster.guard(goal, Some(&denying("wipe"))).await;
    cluster.decide(question, json!({"decision": "approve"})).await;
    assert_status(&cluster.wait_for_end(run).await, RunStatus::MessageSent);
    assert_eq!(executed.load(Ordering::SeqCst), 0);
    let refusal = cluster.servers.sql(
        "select e.data ->> 'content' from houston.events e where e.data ->> 'type' = 'tool_returned' and e.data ->> 'is_error' = 'true'",
    );
    assert!(refusal.unwrap().contains("wipe"), "the model reads why");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guards_that_cannot_be_read_deny_every_tool() {
    let cluster = TestCluster::start().await;
    let executed: Arc<AtomicUsize> = Arc::default();
    let worker = cluster.worker_with(simulated(), vec![Wipe::new(&executed, Duration::ZERO)]);
    let newer = r#"update houston.users set guards = '{"moods": ["calm"]}'"#;
    cluster.servers.sql(newer).unwrap();
    let posted = cluster.post(cluster.goal, ASKS).await;
    // The reply to the user passes.
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    assert_eq!(executed.load(Ordering::SeqCst), 0);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn task_has_the_guards_of_what_is_above_it() {
    let cluster = TestCluster::start().await;
    let task = cluster.new_task().await;
    let [tenant, user, _, goal] = cluster.owners().await;
    for owner in [GuardOwner::Agentable(task), goal, user, tenant] {
        cluster.guard(owner, Some(&denying(owner.layer().as_str()))).await;
    }
    let nil = RunId(uuid::Uuid::nil());
    let context = cluster.runs().run_context(task, nil, 10, &PromptLimits::default()).await.unwrap();
    let layers: Vec<LayerKind> = context.guards.iter().map(|guards| guards.layer).collect();
    let agentable = LayerKind::Agentable;
    assert_eq!(layers, [LayerKind::Tenant, LayerKind::User, agentable, agentable]);
    let read = context.guards.iter().map(|of| GuardSettings::from_json(of.layer, &of.settings).unwrap());
    let denied: Vec<String> = read.map(|settings| settings.denied.unwrap().concat()).collect();
    assert_eq!(denied, ["tenant", "user", "agentable", "agentable"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lasting_yes_answers_later_calls_until_revoked() {
    let cluster = TestCluster::start().await;
    let executed: Arc<AtomicUsize> = Arc::default();
    let tool = Wipe::of_risk(&executed, Duration::ZERO, Risk::External);
    let worker = cluster.worker_with(simulated(), vec![tool]);
    let user = cluster.requests().agentable("goal", cluster.goal).await.unwrap().user;
    let (run, question) = cluster.asks().await;
    let remember = json!({"scope": "agentable", "when": {"/what": {"equals": "drafts"}}});
    cluster.decide(question, json!({"decision": "approve", "remember": remember})).await;
    assert_status(&cluster.wait_for_end(run).await, RunStatus::MessageSent);
    // The same call of the same goal is carried out at once.
    let posted = cluster.post(cluster.goal, ASKS).await;
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    assert_eq!(executed.load(Ordering::SeqCst), 2);
    // Other arguments are asked about, and so is the same call of another goal.
    let others = [(cluster.goal, ASKS.replace("drafts", "all")), (cluster.new_goal().await, ASKS.to_owned())];
    for (goal, asks) in others {
        let posted = cluster.post(goal, &asks).await;
        cluster.waits(posted.run).await;
        cluster.decide(cluster.question(goal).await, json!({"decision": "reject"})).await;
        assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    }
    assert_eq!(executed.load(Ordering::SeqCst), 2);
    let [grant] = cluster.requests().grants(user, None, 10).await.unwrap().try_into().unwrap();
    assert_eq!((grant.tool.as_str(), grant.granted_by.as_deref()), ("wipe", Some("Ann")));
    cluster.requests().revoke_grant(grant.id).await.unwrap();
    cluster.asks().await;
    assert_eq!(executed.load(Ordering::SeqCst), 2);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lasting_yes_never_covers_what_destroys_something() {
    let cluster = TestCluster::start().await;
    let executed: Arc<AtomicUsize> = Arc::default();
    let worker = cluster.worker_with(simulated(), vec![Wipe::new(&executed, Duration::ZERO)]);
    let (_, question) = cluster.asks().await;
    let user = cluster.requests().agentable("goal", cluster.goal).await.unwrap().user;
    cluster.decide(question, json!({"decision": "approve", "remember": {"scope": "user"}})).await;
    assert_eq!(cluster.requests().grants(user, None, 10).await.unwrap(), []);
    worker.drain().await;
}
