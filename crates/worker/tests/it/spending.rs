//! Costs of runs, and budgets that end them, with a model that has a price in the price table.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use houston_domain::budget::{BUDGET_EXCEEDED, Budget};
use houston_domain::event::Event;
use houston_domain::history::Block;
use houston_domain::id::AgentableId;
use houston_domain::message::{Message, MessageStatus, Source};
use houston_domain::model::{ModelAnswer, ModelError, StopReason, Usage};
use houston_domain::run::{Run, RunStatus};
use houston_engine::Config;
use houston_llm::{
    Choice, Description, Event as ModelEvent, EventStream, Http, Model, Request, Secret, Simulated, Timeouts,
    connect,
};
use houston_store::cost::Cost;
use houston_testkit::model_server::script::{after_faults, always, in_turn};
use houston_testkit::model_server::{ModelServer, Reply};
use serde_json::json;

use crate::cluster::{TestCluster, assert_status, eventually};
use crate::workers::{TestWorker, config};

/// In US dollars per million: 0.25 in, 2 out, since it came out.
pub(crate) const PRICED: &str = "gpt-5-mini";
const UNPRICED: &str = "gpt-of-my-own";

pub(crate) fn model(server: &ModelServer, name: &str) -> Arc<dyn Model> {
    let http = Http::new(Timeouts::default(), &|_| None).unwrap();
    let choice = Choice {
        base_url: Some(server.url()),
        key: Some(Secret::new("sk-test")),
        ..Choice::new("openai", name)
    };
    connect(&choice, &http, &|_| None).unwrap()
}

fn worker(cluster: &TestCluster, server: &ModelServer, name: &str, budget: Budget) -> TestWorker {
    cluster.worker_of(Config { budget, ..config() }, model(server, name), vec![])
}

pub(crate) fn dollars(text: &str) -> Option<rust_decimal::Decimal> {
    Some(text.parse().unwrap())
}

fn known(text: &str) -> Cost {
    Cost { total: dollars(text), unpriced_calls: 0 }
}

fn cost_of(run: &Run) -> Cost {
    Cost { total: run.cost, unpriced_calls: run.unpriced_calls }
}

fn looks(input: u64, output: u64) -> Reply {
    Reply::tool("list_notes", json!({})).usage(input, output)
}

pub(crate) fn says(input: u64, output: u64) -> Reply {
    Reply::tool("send_message", json!({"content": "Hello!"})).usage(input, output)
}

async fn errors(cluster: &TestCluster, goal: AgentableId) -> Vec<Message> {
    let messages = cluster.requests().messages(goal, None, 1000).await.unwrap();
    messages.into_iter().filter(|message| message.source == Source::Error).collect()
}

/// The cost in the event that ended the latest run.
async fn told(cluster: &TestCluster, goal: AgentableId) -> Option<rust_decimal::Decimal> {
    cluster.events(goal).await.into_iter().rev().find_map(|committed| match committed.event {
        Event::RunFinished { usage, .. } => usage.cost,
        _ => None,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn cost_of_a_run_is_the_sum_of_its_calls_over_workers() {
    let cluster = TestCluster::start().await;
    let replies = in_turn([looks(1_000, 100), Reply::hang(), says(2_000, 50)]);
    let server = ModelServer::start(replies).await.unwrap();
    let first = worker(&cluster, &server, PRICED, Budget::default());
    let posted = cluster.post(cluster.goal, "what do I have?").await;
    eventually("the second call hangs", || async { (server.journal().calls() == 2).then_some(()) }).await;
    first.kill.cancel();
    first.running.ended().await.ok();
    let second = worker(&cluster, &server, PRICED, Budget::default());
    let run = cluster.wait_for_end(posted.run).await;
    assert_status(&run, RunStatus::MessageSent);
    assert!(run.attempt > 1);

    // The worker has given the run back: what it had asked for is not known to the other.
    assert_eq!(cost_of(&run), known("0.00105"));
    let goal = cluster.requests().agentable("goal", cluster.goal).await.unwrap();
    assert_eq!(goal.cost, known("0.00105"));
    let (total, days) = cluster.requests().user_costs(goal.user, 5).await.unwrap();
    assert_eq!((total, days.iter().map(|day| day.model_calls).sum::<i32>()), (known("0.00105"), 2));
    assert_eq!(told(&cluster, cluster.goal).await, dollars("0.00105"));
    let calls = cluster.requests().model_calls(posted.run).await.unwrap();
    let costs: Vec<_> = calls.iter().map(|one| (one.call.iteration, one.call.usage.cost)).collect();
    assert_eq!(costs, [(1, dollars("0.00045")), (2, dollars("0.0006"))]);
    second.drain().await;
}

/// At a973ab4 the event said 0 after a retry: the sum of a run that has no priced call yet is 0 in the database.
#[tokio::test(flavor = "multi_thread")]
async fn unknown_cost_is_null_after_a_retry_too() {
    let cluster = TestCluster::start().await;
    let busy = || Reply::status(429);
    let replies = in_turn([busy(), busy(), looks(1_000, 100), busy(), busy(), says(2_000, 50)]);
    let server = ModelServer::start(replies).await.unwrap();
    let worker = worker(&cluster, &server, UNPRICED, Budget::default());
    let posted = cluster.post(cluster.goal, "what do I have?").await;
    let run = cluster.wait_for_end(posted.run).await;
    assert_status(&run, RunStatus::MessageSent);
    assert!(run.attempt > 2, "{}", run.attempt);
    assert_eq!(cost_of(&run), Cost { total: None, unpriced_calls: 2 });
    assert_eq!(told(&cluster, cluster.goal).await, None);
    worker.drain().await;
}

/// A model whose content filter stops its answer in mid-sentence.
struct Filtered(Description, &'static [&'static str]);

impl Model for Filtered {
    fn description(&self) -> &Description {
        &self.0
    }

    fn stream<'a>(&'a self, _: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        let content = self.1.iter().map(|text| Block::text(*text)).collect();
        let turn =
            ModelAnswer { content, malformed: vec![], stop: StopReason::Refusal, usage: Usage::default() };
        let done = Ok(ModelEvent::Done(Box::new(turn)));
        Box::pin(async move { Ok(futures_util::stream::iter([done]).boxed()) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn content_filter_is_reported_to_the_user_and_in_the_run() {
    let cluster = TestCluster::start().await;
    for texts in [&["Half a"][..], &[]] {
        let goal = cluster.new_goal().await;
        let description = model_description();
        let worker = cluster.worker_with(Arc::new(Filtered(description, texts)), vec![]);
        let posted = cluster.post(goal, "hello").await;
        let run = cluster.wait_for_end(posted.run).await;
        assert_status(&run, RunStatus::Completed);
        assert_eq!((run.attempt, run.error_code()), (1, Some("CONTENT_FILTER")));
        assert_eq!(run.stop_reason.as_deref(), Some("content_filter"));
        let shown = errors(&cluster, goal).await;
        assert_eq!(shown.len(), 1);
        assert!(shown[0].content.contains("content filter"), "{}", shown[0].content);
        assert_eq!(shown[0].metadata, json!({"code": "CONTENT_FILTER", "retryable": false, "stopped": true}));
        assert_eq!(cluster.agent_messages(goal).await, texts, "what was written stays");
        let ended =
            cluster.events(goal).await.into_iter().rev().find_map(|committed| match committed.event {
                Event::RunFinished { status, code, .. } => Some((status, code)),
                _ => None,
            });
        assert_eq!(ended, Some((RunStatus::Completed, Some("CONTENT_FILTER".to_owned()))));
        cluster.history(goal).await;
        worker.drain().await;
    }
}

fn model_description() -> Description {
    Description { provider: "p".into(), model: "m".into(), simulated: false, supports_tools: true }
}

#[tokio::test(flavor = "multi_thread")]
async fn budget_ends_a_run_before_the_call_that_might_exceed_it() {
    let cluster = TestCluster::start().await;
    // The first call costs 0.052; the second would send its input again.
    let server = ModelServer::start(in_turn([looks(200_000, 1_000), says(10, 5)])).await.unwrap();
    let budget = Budget { per_run: dollars("0.10"), ..Budget::default() };
    let worker = worker(&cluster, &server, PRICED, budget);
    let posted = cluster.post(cluster.goal, "what do I have?").await;
    let run = cluster.wait_for_end(posted.run).await;
    assert_status(&run, RunStatus::Failed);
    assert_eq!((server.journal().calls(), run.attempt, cost_of(&run)), (1, 1, known("0.052")));
    assert_eq!(run.error_code(), Some(BUDGET_EXCEEDED));
    assert_eq!(cluster.message(posted.id).await.status, Some(MessageStatus::Failed));
    let shown = errors(&cluster, cluster.goal).await;
    assert_eq!(shown.len(), 1);
    let gone = json!({"code": BUDGET_EXCEEDED, "retryable": false, "failed_permanently": true});
    assert_eq!(shown[0].metadata, gone);
    for part in ["for this run is $0.10", "$0.052 of it is spent", "budget.per_run"] {
        let error = run.error_message().unwrap();
        assert!(error.contains(part), "for operators: {error}");
        assert!(!shown[0].content.contains(part), "not for users: {}", shown[0].content);
    }
    cluster.history(cluster.goal).await;

    // The next run has its own budget, and continues from a history the provider accepts.
    let next = cluster.post(cluster.goal, "hello").await;
    assert_status(&cluster.wait_for_end(next.run).await, RunStatus::MessageSent);
    cluster.history(cluster.goal).await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn budgets_hold_per_user_and_day_and_per_agentable() {
    let cluster = TestCluster::start().await;
    let server = ModelServer::start(always(says(200_000, 1_000))).await.unwrap();
    let of_a_day = Budget { per_user_day: dollars("0.054"), ..Budget::default() };
    let of_a_goal = Budget { per_agentable: dollars("0.054"), ..Budget::default() };
    for (budget, told) in [(of_a_day, "00:00 UTC"), (of_a_goal, "budget.per_agentable")] {
        let goal = cluster.new_goal().await;
        let worker = worker(&cluster, &server, PRICED, budget);
        let asked = server.journal().calls();
        assert_status(
            &cluster.wait_for_end(cluster.post(goal, "one").await.run).await,
            RunStatus::MessageSent,
        );
        let refused = cluster.wait_for_end(cluster.post(goal, "two").await.run).await;
        assert_eq!((refused.error_code(), cost_of(&refused)), (Some(BUDGET_EXCEEDED), Cost::NOTHING));
        assert!(refused.error_message().unwrap().contains(told));
        assert_eq!(server.journal().calls(), asked + 1);
        // Other agentables are not affected.
        let other = cluster.new_goal().await;
        assert_status(
            &cluster.wait_for_end(cluster.post(other, "one").await.run).await,
            RunStatus::MessageSent,
        );
        cluster.servers.sql("update houston.spending set day = day - 1").unwrap();
        let status = cluster.wait_for_end(cluster.post(goal, "three").await.run).await.status;
        assert_eq!(status == RunStatus::MessageSent, budget == of_a_day, "a new day has a new budget");
        cluster.servers.sql("truncate houston.spending").unwrap();
        worker.drain().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unpriced_model_has_unknown_cost_or_is_refused() {
    let cluster = TestCluster::start().await;
    let server = ModelServer::start(always(says(10, 5))).await.unwrap();
    let lax = Budget { per_run: dollars("0.000001"), ..Budget::default() };
    let lets = worker(&cluster, &server, UNPRICED, lax);
    let run = cluster.wait_for_end(cluster.post(cluster.goal, "hello").await.run).await;
    assert_status(&run, RunStatus::MessageSent);
    assert_eq!(cost_of(&run), Cost { total: None, unpriced_calls: 1 });
    assert_eq!(told(&cluster, cluster.goal).await, None);
    lets.drain().await;

    let refuses = worker(&cluster, &server, UNPRICED, Budget { refuse_unpriced: true, ..lax });
    let run = cluster.wait_for_end(cluster.post(cluster.goal, "hello").await.run).await;
    assert_eq!((run.error_code(), server.journal().calls()), (Some(BUDGET_EXCEEDED), 1));
    assert!(run.error_message().unwrap().contains("refuse_unpriced"));
    refuses.drain().await;
}

/// A model whose provider reports the cost of each call, as OpenRouter does.
struct Telling(Description);

impl Model for Telling {
    fn description(&self) -> &Description {
        &self.0
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        Box::pin(async move {
            let inner = Simulated::new().with_delay(Duration::ZERO).stream(request).await?;
            let told = inner.map(|event| match event {
                Ok(ModelEvent::Done(mut turn)) => {
                    turn.usage.cost = dollars("0.0421");
                    Ok(ModelEvent::Done(turn))
                }
                other => other,
            });
            Ok(Box::pin(told) as EventStream)
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reported_cost_takes_precedence_over_the_price_table() {
    let cluster = TestCluster::start().await;
    for name in [PRICED, UNPRICED] {
        let goal = cluster.new_goal().await;
        let worker =
            cluster.worker_with(Arc::new(Telling(Choice::new("openai", name).description())), vec![]);
        let posted = cluster.post(goal, "hello").await;
        let run = cluster.wait_for_end(posted.run).await;
        let calls = cluster.requests().model_calls(posted.run).await.unwrap();
        assert_eq!(
            (cost_of(&run), calls.len(), calls[0].call.reported),
            (known("0.0421"), 1, true),
            "{name}"
        );
        worker.drain().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_answer_counts_towards_the_costs() {
    let cluster = TestCluster::start().await;
    let nothing = Reply::empty().usage(1_000_000, 0);
    let server = ModelServer::start(after_faults(1, nothing, always(says(2_000, 50)))).await.unwrap();
    let worker = worker(&cluster, &server, PRICED, Budget::default());
    let run = cluster.wait_for_end(cluster.post(cluster.goal, "hello").await.run).await;
    assert_status(&run, RunStatus::MessageSent);
    assert_eq!((run.attempt, cost_of(&run)), (2, known("0.2506")));
    worker.drain().await;
}
