//! Runs that pause because they get nowhere, or because their budget is reached, on real servers.

use std::sync::Arc;

use futures_util::future::join_all;
use houston_domain::budget::{BUDGET_EXCEEDED, Budget, WhenReached};
use houston_domain::id::{QuestionId, RunId};
use houston_domain::overseer::{OVERSEER_STOPPED, Settings, Thresholds};
use houston_domain::question::{QuestionKind, QuestionState};
use houston_domain::run::RunStatus;
use houston_engine::Config;
use houston_store::answer::Answered;
use houston_testkit::model_server::ModelServer;
use houston_testkit::model_server::script::always;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::cluster::{TestCluster, assert_status, open};
use crate::spending::{PRICED, dollars, model, says};
use crate::workers::{TestWorker, config, simulated};

/// The fourth call with the same result pauses a run; without that, the seventh ends it.
fn pausing(cluster: &TestCluster) -> TestWorker {
    let overseer = Settings { repeats: Thresholds { warn: 3, pause: 4, kill: 0 }, ..Settings::default() };
    let mut config = Config { overseer, ..config() };
    (config.limits.max_iterations, config.limits.max_same_tool) = (7, 100);
    cluster.worker_of(config, simulated(), vec![])
}

impl TestCluster {
    /// Posts a message that makes the model repeat itself, and waits until the run waits.
    async fn pauses(&self) -> (RunId, QuestionId) {
        let posted = self.post(self.goal, "/sim loop=list_notes").await;
        self.waits(posted.run).await;
        (posted.run, self.question(self.goal).await)
    }

    /// Empties Redis.
    async fn flush_redis(&self) {
        let url = self.servers.redis_url();
        let socket = url.split_once("://").unwrap().1.split('?').next().unwrap();
        let mut redis = UnixStream::connect(socket).await.unwrap();
        redis.write_all(b"FLUSHALL\r\n").await.unwrap();
        let mut answer = [0; 3];
        redis.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"+OK");
    }

    async fn answers(&self, question: QuestionId, answer: Value) -> Answered {
        self.requests().answer_question(question, &answer, Some("Ann")).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_run_goes_on_after_a_yes_although_redis_was_flushed() {
    let cluster = TestCluster::start().await;
    let first = pausing(&cluster);
    let (run, question) = cluster.pauses().await;
    assert_eq!(cluster.held().await, "0", "neither a lock nor a slot");
    first.drain().await;
    let asked =
        cluster.requests().open_questions(None, Some(QuestionKind::Approval), None, 10).await.unwrap();
    assert!(asked[0].question.asked.text.contains("4 times in a row"), "{:?}", asked[0]);
    let store = open(cluster.servers.database_url());
    let listed = store.operator().open_approvals(10).await.unwrap();
    assert_eq!(listed.first().map(|asked| asked.question.asked.id), Some(question), "`houston approvals`");
    cluster.flush_redis().await;
    let answers = (0..8).map(|_| cluster.answers(question, json!({"decision": "continue"})));
    let accepted = join_all(answers).await;
    let accepted = accepted.iter().filter(|answer| matches!(answer, Answered::Now(_))).count();
    assert_eq!(accepted, 1, "of many answers at once one counts");
    cluster.flush_redis().await;
    let second = pausing(&cluster);
    assert_status(&cluster.wait_for_end(run).await, RunStatus::MaxIterations);
    cluster.history(cluster.goal).await;
    second.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_run_ends_after_a_no() {
    let cluster = TestCluster::start().await;
    let worker = pausing(&cluster);
    let (run, question) = cluster.pauses().await;
    cluster.answers(question, json!({"decision": "stop"})).await;
    let late = cluster.answers(question, json!({"decision": "continue"})).await;
    assert!(matches!(late, Answered::Closed(_)), "{late:?}");
    let run = cluster.wait_for_end(run).await;
    assert_eq!((run.status, run.error_code()), (RunStatus::Failed, Some(OVERSEER_STOPPED)));
    cluster.history(cluster.goal).await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn message_supersedes_a_pause_and_is_answered() {
    let cluster = TestCluster::start().await;
    let worker = pausing(&cluster);
    let (run, question) = cluster.pauses().await;
    cluster.post(cluster.goal, "Never mind").await;
    assert_status(&cluster.wait_for_end(run).await, RunStatus::MessageSent);
    let closed = cluster.requests().question(question).await.unwrap().question;
    assert_eq!(closed.state, QuestionState::Superseded);
    worker.drain().await;
}

fn asking(cluster: &TestCluster, server: &ModelServer, budget: Budget) -> TestWorker {
    let budget = Budget { when_reached: WhenReached::Ask, ..budget };
    cluster.worker_of(Config { budget, ..config() }, model(server, PRICED), vec![])
}

#[tokio::test(flavor = "multi_thread")]
async fn raised_budget_of_an_agentable_holds_for_later_runs() {
    let cluster = TestCluster::start().await;
    // Each call costs 0.052.
    let server = ModelServer::start(always(says(200_000, 1_000))).await.unwrap();
    let budget = Budget { per_agentable: dollars("0.054"), ..Budget::default() };
    let first = asking(&cluster, &server, budget);
    let one = cluster.post(cluster.goal, "one").await;
    assert_status(&cluster.wait_for_end(one.run).await, RunStatus::MessageSent);
    let two = cluster.post(cluster.goal, "two").await;
    cluster.waits(two.run).await;
    let question = cluster.question(cluster.goal).await;
    assert_eq!((cluster.held().await.as_str(), server.journal().calls()), ("0", 1));
    first.drain().await;
    cluster.flush_redis().await;
    let answered = cluster.answers(question, json!({"decision": "raise", "amount": 1})).await;
    assert!(matches!(answered, Answered::Now(_)), "{answered:?}");
    let second = asking(&cluster, &server, budget);
    assert_status(&cluster.wait_for_end(two.run).await, RunStatus::MessageSent);
    let three = cluster.post(cluster.goal, "three").await;
    assert_status(&cluster.wait_for_end(three.run).await, RunStatus::MessageSent);
    assert_eq!(server.journal().calls(), 3);
    second.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_and_expiry_end_a_run_whose_budget_is_reached() {
    let cluster = TestCluster::start().await;
    let server = Arc::new(ModelServer::start(always(says(10, 5))).await.unwrap());
    let worker = asking(&cluster, &server, Budget { per_run: dollars("0"), ..Budget::default() });
    for expires in [false, true] {
        let goal = cluster.new_goal().await;
        let posted = cluster.post(goal, "hello").await;
        cluster.waits(posted.run).await;
        let question = cluster.question(goal).await;
        if expires {
            let past =
                "update houston.questions set expires_at = now() - interval '1 second' where state = 'open'";
            cluster.servers.sql(past).unwrap();
        } else {
            cluster.answers(question, json!({"decision": "stop"})).await;
        }
        let run = cluster.wait_for_end(posted.run).await;
        assert_eq!(run.error_code(), Some(BUDGET_EXCEEDED));
        let expected = if expires { QuestionState::Expired } else { QuestionState::Answered };
        assert_eq!(cluster.requests().question(question).await.unwrap().question.state, expected);
    }
    assert_eq!(server.journal().calls(), 0);
    worker.drain().await;
}
