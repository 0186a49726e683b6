//! What people change in a plan while a call of it returns: the change counts, and the call is made once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use houston_domain::id::{AgentableId, RunId};
use houston_domain::model::ModelError;
use houston_domain::plan::skip;
use houston_domain::run::RunStatus;
use houston_llm::{Choice, Description, EventStream, Model, Request, Simulated};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::cluster::{TestCluster, assert_status, eventually};
use crate::workers::TestWorker;

/// A model whose answers to steps of plans wait until the test lets them go.
struct HeldModel {
    description: Description,
    calls: Arc<AtomicUsize>,
    free: Arc<Semaphore>,
}

impl Model for HeldModel {
    fn description(&self) -> &Description {
        &self.description
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        let is_step = request.system.iter().any(|part| part.text.starts_with("You carry out one step"));
        Box::pin(async move {
            if is_step {
                self.calls.fetch_add(1, Ordering::SeqCst);
                self.free.acquire().await.unwrap().forget();
            }
            Simulated::new().with_delay(Duration::ZERO).stream(request).await
        })
    }
}

/// A plan whose model is being asked for its first step.
struct Asking {
    cluster: TestCluster,
    worker: TestWorker,
    calls: Arc<AtomicUsize>,
    free: Arc<Semaphore>,
    run: RunId,
    plan: AgentableId,
}

impl Asking {
    async fn start() -> Self {
        let cluster = TestCluster::start().await;
        let (calls, free) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let description = Choice::new("openai", "gpt-test").description();
        let model = HeldModel { description, calls: Arc::clone(&calls), free: Arc::clone(&free) };
        let worker = cluster.worker_with(Arc::new(model), vec![]);
        let steps = json!([
            {"id": "slow", "type": "llm", "title": "Think", "prompt": "Say hello"},
            {"id": "write", "type": "tool", "title": "Write", "tool": "create_note",
             "args": {"title": "after", "content": "{{ slow.result }}"}},
            {"id": "last", "type": "tool", "title": "Read", "tool": "list_notes", "args": {}, "after": ["write"]}]);
        let arguments = json!({"goal": "Held", "steps": steps, "output": "{{ slow.result }}"});
        let posted = cluster.post(cluster.goal, &format!("/sim tool=create_plan args={arguments}")).await;
        eventually("the model is asked", || async { (calls.load(Ordering::SeqCst) == 1).then_some(()) })
            .await;
        let plan = cluster.servers.sql("select agentable_id from houston.plans").unwrap();
        let plan = AgentableId(plan.trim().parse().unwrap());
        Self { cluster, worker, calls, free, run: posted.run, plan }
    }

    /// The statuses of the steps, once `slow` has settled.
    async fn settled(&self) -> String {
        eventually("the answer is committed", || async {
            let query =
                "select string_agg(path || ' ' || status, ', ' order by path) from houston.plan_steps";
            let states = self.cluster.servers.sql(query).unwrap().trim().to_owned();
            states.contains("slow succeeded").then_some(states)
        })
        .await
    }

    async fn ends(self, states: &str) {
        assert_status(&self.cluster.wait_for_end(self.run).await, RunStatus::MessageSent);
        assert_eq!(self.settled().await, states);
        assert_eq!(self.calls.load(Ordering::SeqCst), 1, "the model was asked once");
        let notes = "select count(*) from houston.knowledge_items where title = 'after'";
        let expected = if states.contains("write succeeded") { "1" } else { "0" };
        assert_eq!(self.cluster.servers.sql(notes).unwrap().trim(), expected);
        let calls = "select count(*) from houston.model_calls c where c.agentable_id in (select agentable_id from houston.plans)";
        assert_eq!(self.cluster.servers.sql(calls).unwrap().trim(), "1", "it is paid once");
        self.worker.drain().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pause_before_an_answer_is_committed_lets_nothing_begin() {
    let asking = Asking::start().await;
    let requests = asking.cluster.requests();
    requests.pause_plan(asking.plan, true).await.unwrap().unwrap();
    asking.free.add_permits(1);
    assert_eq!(asking.settled().await, "slow succeeded");
    requests.pause_plan(asking.plan, false).await.unwrap().unwrap();
    asking.ends("last succeeded, slow succeeded, write succeeded").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn step_skipped_before_an_answer_is_committed_stays_so() {
    let asking = Asking::start().await;
    let rule = |document: &_, states: &_| skip(document, states, "write");
    asking.cluster.requests().change_plan_steps(asking.plan, rule).await.unwrap().unwrap();
    asking.free.add_permits(1);
    asking.ends("last succeeded, slow succeeded, write skipped").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn document_changed_before_an_answer_is_committed_counts() {
    let asking = Asking::start().await;
    let rule = |document: &Value, states: &houston_domain::plan::States| {
        let mut shorter = document.clone();
        shorter["steps"].as_array_mut().unwrap().truncate(1);
        let states = states.clone();
        Ok::<_, ()>(houston_store::plan::PlanChange { document: shorter, states, reason: "shorter".into() })
    };
    asking.cluster.requests().change_plan(asking.plan, 1, rule).await.unwrap().unwrap();
    asking.free.add_permits(1);
    asking.ends("slow succeeded").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_after_a_change_ends_the_plan() {
    let asking = Asking::start().await;
    let requests = asking.cluster.requests();
    requests.pause_plan(asking.plan, true).await.unwrap().unwrap();
    requests.cancel_agentable("goal", asking.cluster.goal, false).await.unwrap();
    assert_status(&asking.cluster.wait_for_end(asking.run).await, RunStatus::Cancelled);
    eventually("the plan ends", || async {
        let ended = "select count(*) from houston.plans where ended_at is not null";
        (asking.cluster.servers.sql(ended).unwrap().trim() == "1").then_some(())
    })
    .await;
    let states = "select string_agg(path || ' ' || status, ', ' order by path) from houston.plan_steps where path = 'slow'";
    assert_eq!(asking.cluster.servers.sql(states).unwrap().trim(), "slow cancelled");
    asking.worker.drain().await;
}
