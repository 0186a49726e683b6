//! Calls that wait for a person, on real servers, with workers that die.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use houston_domain::guard::{Risk, ToolFacts};
use houston_domain::id::{QuestionId, RunId};
use houston_domain::question::{QuestionKind, QuestionState};
use houston_domain::run::RunStatus;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::answer::Answered;
use houston_tools::{CallContext, InvalidInput, Plan, Tool};
use serde_json::{Value, json};

use crate::cluster::{TestCluster, assert_status, eventually};
use crate::workers::simulated;

/// A tool that destroys something, and counts how often.
pub(crate) struct Wipe {
    definition: ToolDefinition,
    executed: Arc<AtomicUsize>,
    takes: Duration,
    risk: Risk,
}

impl Wipe {
    pub(crate) fn new(executed: &Arc<AtomicUsize>, takes: Duration) -> Arc<Self> {
        Self::of_risk(executed, takes, Risk::Destructive)
    }

    pub(crate) fn of_risk(executed: &Arc<AtomicUsize>, takes: Duration, risk: Risk) -> Arc<Self> {
        let definition = ToolDefinition {
            name: "wipe".to_owned(),
            description: "Wipes.".to_owned(),
            input_schema: json!({"type": "object", "properties": {"what": {"type": "string"}}}).into(),
            effect: EffectClass::Effect,
            timeout: Duration::from_secs(60),
        };
        Arc::new(Self { definition, executed: Arc::clone(executed), takes, risk })
    }
}

impl Tool for Wipe {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn facts(&self) -> ToolFacts {
        ToolFacts { risk: self.risk, ..ToolFacts::of_effect(EffectClass::Effect) }
    }

    fn plan(&self, input: &Value, _: &CallContext) -> Result<Plan, InvalidInput> {
        let (executed, takes) = (Arc::clone(&self.executed), self.takes);
        let what = input["what"].as_str().unwrap_or("all").to_owned();
        Ok(Plan::Execute(Box::pin(async move {
            executed.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(takes).await;
            ToolResponse::success(format!("Wiped {what}."))
        })))
    }
}

pub(crate) const ASKS: &str = "/sim tool=wipe args={\"what\":\"drafts\"}";

impl TestCluster {
    /// Posts a message that makes the model wipe something, and waits until the run waits.
    pub(crate) async fn asks(&self) -> (RunId, QuestionId) {
        let posted = self.post(self.goal, ASKS).await;
        self.waits(posted.run).await;
        (posted.run, self.question(self.goal).await)
    }

    pub(crate) async fn decide(&self, question: QuestionId, answer: Value) -> Answered {
        loop {
            match self.requests().answer_question(question, &answer, Some("Ann")).await {
                // On a busy machine, others hold the lock longer than a statement waits for it.
                Err(error) if error.sqlstate().as_deref() == Some("55P03") => {}
                answered => return answered.unwrap(),
            }
        }
    }

    /// The result of the only tool call besides `send_message`.
    async fn result(&self) -> String {
        self.servers
            .sql(
                "select e.data ->> 'content' from houston.events e where e.data ->> 'type' = 'tool_returned'",
            )
            .unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn call_waits_while_no_worker_lives_and_runs_once() {
    let cluster = TestCluster::start().await;
    let executed = Arc::default();
    let first = cluster.worker_with(simulated(), vec![Wipe::new(&executed, Duration::ZERO)]);
    let (run, question) = cluster.asks().await;
    assert_eq!(cluster.held().await, "0", "neither a lock nor a slot");
    first.drain().await;
    let asked =
        cluster.requests().open_questions(None, Some(QuestionKind::Approval), None, 10).await.unwrap();
    let approval = asked[0].question.asked.approval.clone().unwrap();
    assert_eq!((approval.tool.as_str(), approval.input), ("wipe", json!({"what": "drafts"})));
    let answered = cluster.decide(question, json!({"decision": "approve"})).await;
    assert!(matches!(answered, Answered::Now(_)), "{answered:?}");
    let second = cluster.worker_with(simulated(), vec![Wipe::new(&executed, Duration::ZERO)]);
    assert_status(&cluster.wait_for_end(run).await, RunStatus::MessageSent);
    assert_eq!(executed.load(Ordering::SeqCst), 1);
    second.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_decisions_at_once_one_counts() {
    let cluster = TestCluster::start().await;
    let executed = Arc::default();
    let worker = cluster.worker_with(simulated(), vec![Wipe::new(&executed, Duration::ZERO)]);
    let (run, question) = cluster.asks().await;
    let answers = (0..16).map(|nth| match nth % 2 {
        0 => json!({"decision": "approve"}),
        _ => json!({"decision": "reject", "message": nth.to_string()}),
    });
    let outcomes = join_all(answers.map(|answer| cluster.decide(question, answer))).await;
    let accepted: Vec<&Value> = outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Answered::Now(asked) => asked.question.answer.as_ref(),
            Answered::Closed(_) => None,
        })
        .collect();
    assert_eq!(accepted.len(), 1, "{outcomes:?}");
    assert_status(&cluster.wait_for_end(run).await, RunStatus::MessageSent);
    let expected = usize::from(accepted[0]["decision"] == "approve");
    assert_eq!(executed.load(Ordering::SeqCst), expected);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_worker_does_not_execute_an_approved_call_twice() {
    let cluster = TestCluster::start().await;
    let executed = Arc::default();
    let first = cluster.worker_with(simulated(), vec![Wipe::new(&executed, Duration::from_secs(600))]);
    let (run, question) = cluster.asks().await;
    cluster.decide(question, json!({"decision": "approve"})).await;
    eventually("the call executes", || async { (executed.load(Ordering::SeqCst) == 1).then_some(()) }).await;
    first.kill.cancel();
    let second = cluster.worker_with(simulated(), vec![Wipe::new(&executed, Duration::ZERO)]);
    assert_status(&cluster.wait_for_end(run).await, RunStatus::MessageSent);
    assert_eq!(executed.load(Ordering::SeqCst), 1);
    assert!(cluster.result().await.contains("outcome unknown"), "{}", cluster.result().await);
    second.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn message_supersedes_a_call_that_waits() {
    let cluster = TestCluster::start().await;
    let executed = Arc::default();
    let worker = cluster.worker_with(simulated(), vec![Wipe::new(&executed, Duration::ZERO)]);
    let (run, question) = cluster.asks().await;
    cluster.post(cluster.goal, "Never mind").await;
    assert_status(&cluster.wait_for_end(run).await, RunStatus::MessageSent);
    assert_eq!(executed.load(Ordering::SeqCst), 0);
    let closed = cluster.requests().question(question).await.unwrap().question;
    assert_eq!(closed.state, QuestionState::Superseded);
    let late = cluster.decide(question, json!({"decision": "approve"})).await;
    assert!(matches!(late, Answered::Closed(_)), "{late:?}");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_ends_a_run_whose_call_waits() {
    let cluster = TestCluster::start().await;
    let executed = Arc::default();
    let worker = cluster.worker_with(simulated(), vec![Wipe::new(&executed, Duration::ZERO)]);
    let (run, question) = cluster.asks().await;
    cluster.requests().cancel_run(run).await.unwrap();
    assert_status(&cluster.wait_for_end(run).await, RunStatus::Cancelled);
    assert_eq!(executed.load(Ordering::SeqCst), 0);
    let closed = cluster.requests().question(question).await.unwrap().question;
    assert_eq!(closed.state, QuestionState::Cancelled);
    worker.drain().await;
}
