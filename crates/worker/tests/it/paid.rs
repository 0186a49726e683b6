//! Model calls whose answers nobody reads to the end are paid for: each that was begun is counted once, in the commit that follows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use houston_domain::agentable::DoubleTexting;
use houston_domain::model::ModelError;
use houston_domain::run::RunStatus;
use houston_domain::step::ModelCall;
use houston_llm::{Choice, Description, Event, EventStream, Http, Model, Request, Secret, Timeouts, connect};
use houston_store::message::Posted;
use houston_testkit::model_server::script::in_turn;
use houston_testkit::model_server::{Fault, Gate, ModelServer, Reply};
use serde_json::json;

use crate::cluster::{TestCluster, assert_status, eventually};

/// A model that counts the pieces of its answers.
struct Counting(Arc<dyn Model>, Arc<AtomicUsize>);

impl Model for Counting {
    fn description(&self) -> &Description {
        self.0.description()
    }

    fn is_metered(&self) -> bool {
        self.0.is_metered()
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        Box::pin(async move {
            let (inner, count) = (self.0.stream(request).await?, Arc::clone(&self.1));
            let counted = inner.inspect(move |event| {
                let is_piece = matches!(event, Ok(Event::ToolArguments { .. }));
                count.fetch_add(usize::from(is_piece), Ordering::Relaxed);
            });
            Ok(Box::pin(counted) as EventStream)
        })
    }
}

/// Provider and model of a wire, and whether it reports the tokens of a request before it answers.
const WIRES: [(&str, &str, bool); 2] =
    [("openai", "gpt-5-mini", false), ("anthropic", "claude-sonnet-4-5", true)];

/// How a run is kept from the end of its first answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Cancel,
    Interrupt,
    RollBack,
    /// The worker hands the run over, dies, or is cut from its provider; another answer follows.
    Drain,
    Kill,
    Cut,
    CancelAfterKill,
}

const WAYS: [Way; 7] =
    [Way::Cancel, Way::Interrupt, Way::RollBack, Way::Drain, Way::Kill, Way::Cut, Way::CancelAfterKill];

impl Way {
    /// Whether the same run answers in the end.
    fn answers(self) -> bool {
        matches!(self, Self::Drain | Self::Kill | Self::Cut)
    }
}

fn says() -> Reply {
    Reply::tool("send_message", json!({"content": "It is a long way to Tipperary."})).usage(5_000, 40)
}

/// What is known of a case once its first run has ended.
struct Case {
    calls: Vec<ModelCall>,
    said: String,
}

async fn run(way: Way, (provider, name, _): (&str, &str, bool)) -> Case {
    let cluster = TestCluster::start().await;
    let held = match way {
        Way::Cut => says().in_pieces(20).fault(Fault::CutAfterChunks(10)),
        _ => says().in_pieces(20).held_after(10, &Gate::new()),
    };
    let server = ModelServer::start(in_turn([held, says()])).await.unwrap();
    let choice = Choice {
        base_url: Some(server.url()),
        key: Some(Secret::new("sk-test")),
        ..Choice::new(provider, name)
    };
    let http = Http::new(Timeouts::default(), &|_| None).unwrap();
    let pieces = Arc::new(AtomicUsize::new(0));
    let model = || -> Arc<dyn Model> {
        Arc::new(Counting(connect(&choice, &http, &|_| None).unwrap(), Arc::clone(&pieces)))
    };
    let worker = cluster.worker_with(model(), vec![]);
    let posted = cluster.post(cluster.goal, "sing").await;
    eventually("half of the answer has come", || async {
        (pieces.load(Ordering::Relaxed) >= 5).then_some(())
    })
    .await;
    let worker = end(&cluster, way, &posted, worker, model).await;
    let run = cluster.wait_for_end(posted.run).await;
    assert_status(&run, if way.answers() { RunStatus::MessageSent } else { RunStatus::Cancelled });
    let calls: Vec<ModelCall> =
        cluster.requests().model_calls(posted.run).await.unwrap().into_iter().map(|one| one.call).collect();
    let said = format!("{provider}, {way:?}: {calls:?}");
    // The sums of the run, of the agentable and of the user, and what the quota of tokens is counted by.
    let cost = calls.iter().filter_map(|call| call.usage.cost).sum();
    assert_eq!((run.cost, run.unpriced_calls), (Some(cost), 0), "{said}");
    let input: u64 = calls.iter().map(|call| call.usage.input_tokens).sum();
    assert_eq!(run.usage.input_tokens, input, "{said}");
    let goal = cluster.requests().agentable("goal", cluster.goal).await.unwrap();
    worker.drain().await;
    let (_, days) = cluster.requests().user_costs(goal.user, 5).await.unwrap();
    let counted = usize::try_from(days.iter().map(|day| day.model_calls).sum::<i32>()).unwrap();
    let more = usize::from(matches!(way, Way::Interrupt | Way::RollBack));
    assert!(counted == calls.len() || counted == calls.len() + more, "{said}: {counted}");
    Case { calls, said }
}

/// Lets it happen. Returns the worker that is left.
async fn end(
    cluster: &TestCluster,
    way: Way,
    posted: &Posted,
    worker: crate::workers::TestWorker,
    model: impl Fn() -> Arc<dyn Model>,
) -> crate::workers::TestWorker {
    match way {
        Way::Cut => worker,
        Way::Cancel => {
            cluster.requests().cancel_run(posted.run).await.unwrap();
            worker
        }
        Way::Interrupt => {
            cluster.post_as(cluster.goal, "stop", DoubleTexting::Interrupt).await;
            worker
        }
        Way::RollBack => {
            cluster.post_as(cluster.goal, "no", DoubleTexting::Rollback).await;
            worker
        }
        Way::Drain => {
            let next = cluster.worker_with(model(), vec![]);
            worker.drain().await;
            next
        }
        Way::Kill => {
            worker.kill().await;
            cluster.worker_with(model(), vec![])
        }
        Way::CancelAfterKill => {
            worker.kill().await;
            cluster.requests().cancel_run(posted.run).await.unwrap();
            cluster.worker_with(model(), vec![])
        }
    }
}

async fn every_way(wire: (&'static str, &'static str, bool)) {
    for way in WAYS {
        let Case { calls, said } = run(way, wire).await;
        assert_eq!(calls.len(), 1 + usize::from(way.answers()), "{said}");
        let lost = matches!(way, Way::Kill | Way::CancelAfterKill);
        let cut = &calls[0];
        assert!(cut.estimated, "{said}");
        // The prompt of a goal is a few thousand tokens.
        let is_reported = wire.2 && !lost;
        assert_eq!(cut.usage.input_tokens == 5_000, is_reported, "{said}");
        assert!(cut.usage.input_tokens > 500, "{said}");
        assert_eq!(cut.usage.output_tokens > 1, !lost, "{said}");
        assert!(cut.usage.cost.is_some_and(|cost| !cost.is_zero()), "{said}");
        assert!(calls.iter().skip(1).all(|call| !call.estimated && call.usage.output_tokens == 40), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn begun_answer_without_report_is_estimated_and_paid_once() {
    every_way(WIRES[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn begun_answer_with_a_report_is_paid_once() {
    every_way(WIRES[1]).await;
}
