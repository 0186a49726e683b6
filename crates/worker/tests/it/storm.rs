//! Many threads at once, with every policy, cancels, tools and failures in random order, while workers are killed:
//! whatever the order, each message ends, each run ends once, and no model is ever sent a history it would refuse.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use houston_domain::agentable::DoubleTexting::{self, Enqueue, Interrupt, Reject, Rollback};
use houston_domain::event::Event;
use houston_domain::history::{Block, Entry, Role, validate};
use houston_domain::id::{AgentableId, RunId};
use houston_domain::message::{MessageStatus, Source};
use houston_domain::model::ModelError;
use houston_domain::run::RunStatus;
use houston_llm::{Description, EventStream, Model, Request, Simulated};
use houston_store::Error;
use houston_store::message::Posted;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt as _, SeedableRng as _};
use serde::Deserialize;

use crate::cluster::{PATIENCE, TestCluster, eventually};
use crate::texting::Endless;

const THREADS: u64 = 16;
const ACTIONS: usize = 30;
const KILLS: usize = 8;

/// A model that validates its requests, as a provider would.
struct Strict {
    inner: Simulated,
    refused: Arc<Mutex<Vec<String>>>,
}

impl Model for Strict {
    fn description(&self) -> &Description {
        self.inner.description()
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        if let Err(fault) = validate(request.entries) {
            self.refused.lock().unwrap().push(format!("{fault}: {:?}", request.entries));
        }
        self.inner.stream(request)
    }
}

/// What one client received about its thread.
#[derive(Default)]
struct Told {
    accepted: Vec<(Posted, DoubleTexting)>,
    rejected: usize,
    cancelled: Vec<RunId>,
}

/// Repeats a request while a lock is not to be had in time, as clients repeat one that gets 503.
async fn again<T>(request: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
    loop {
        match request().await {
            Err(error) if error.sqlstate().as_deref() == Some("55P03") => {}
            result => return result,
        }
    }
}

/// Posts, cancels and waits, as decided by the seed.
async fn talk(cluster: &TestCluster, goal: AgentableId, seed: u64) -> Told {
    let mut random = StdRng::seed_from_u64(seed);
    let mut told = Told::default();
    for _ in 0..ACTIONS {
        // Often at the moment in which a run begins or ends.
        let pause = *[0, 1, 2, 4, 8, 16, 60].choose(&mut random).unwrap();
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let text = *[
            "hello",
            "/sim hold_ms=40",
            "/sim chunks=30 delay_ms=3",
            "/sim tool=endless",
            "/sim tool=create_note args={\"title\":\"a\",\"content\":\"b\"} tool=list_notes",
            "/sim tool=endless tool=create_note args={\"title\":\"a\",\"content\":\"b\"}",
            "/sim fail=network_error",
            "/sim fail=rate_limited fail_after=2",
        ]
        .choose(&mut random)
        .unwrap();
        let policy = *[Enqueue, Interrupt, Reject, Rollback].choose(&mut random).unwrap();
        match again(async || cluster.try_post(goal, text, policy).await).await {
            Ok(posted) => {
                cluster.send_hint(goal);
                told.accepted.push((posted, policy));
            }
            Err(Error::RunInProgress { .. }) if policy == Reject => told.rejected += 1,
            Err(error) => panic!("seed {seed}: {error}"),
        }
        if random.random_ratio(1, 6)
            && let Some((posted, _)) = told.accepted.last()
            && again(async || cluster.requests().cancel_run(posted.run).await).await.unwrap().is_some()
        {
            told.cancelled.push(posted.run);
        }
    }
    // Endless tools end only by this.
    let last = again(async || cluster.try_post(goal, "hello", Interrupt).await).await.unwrap();
    cluster.send_hint(goal);
    told.accepted.push((last, Interrupt));
    told
}

/// A stored history entry, rolled back or not.
#[derive(Deserialize)]
struct Stored {
    run_id: uuid::Uuid,
    rolled_back: bool,
    role: Role,
    content: Vec<Block>,
}

fn stored(cluster: &TestCluster, goal: AgentableId) -> Vec<Stored> {
    let sql = format!(
        "select coalesce(json_agg(h order by position), '[]') from houston.entries h where agentable_id = '{}'",
        goal.0
    );
    serde_json::from_str(&cluster.servers.sql(&sql).unwrap()).unwrap()
}

/// Every history that was ever committed, including entries of runs that were rolled back.
fn assert_every_prefix_valid(stored: &[Stored]) {
    for end in 1..=stored.len() {
        let newest = stored[end - 1].run_id;
        for forgotten in [false, true] {
            let seen: Vec<Entry> = stored[..end]
                .iter()
                .filter(|entry| !entry.rolled_back || (entry.run_id == newest && !forgotten))
                .map(|entry| Entry { role: entry.role, content: entry.content.clone() })
                .collect();
            validate(&seen).unwrap();
        }
    }
}

/// Compares the final state of a thread with what its client received.
async fn check(cluster: &TestCluster, goal: AgentableId, seed: u64, told: &Told) {
    let mut ends: BTreeMap<RunId, (RunStatus, Option<String>)> = BTreeMap::new();
    let mut open = None;
    for committed in cluster.events(goal).await {
        match committed.event {
            Event::RunQueued {} => {
                assert_eq!(open.replace(committed.run_id), None, "seed {seed}: two runs are open")
            }
            Event::RunFinished { status, code, .. } => {
                assert_eq!(open.take(), Some(committed.run_id), "seed {seed}: a run ended that was not open");
                let before = ends.insert(committed.run_id, (status, code));
                assert_eq!(before, None, "seed {seed}: a run ended twice");
            }
            _ => {}
        }
    }
    assert_eq!(open, None, "seed {seed}: a run is still open");
    for (id, (status, code)) in &ends {
        let run = cluster.requests().run(*id).await.unwrap();
        assert_eq!(run.status, *status, "seed {seed}: {run:?}");
        if *status == RunStatus::Cancelled {
            assert_eq!(run.cancelled_by, *code, "seed {seed}: {run:?}");
        }
    }
    let forgotten = |run: RunId| ends[&run].1.as_deref() == Some("rollback");
    for (posted, policy) in &told.accepted {
        if policy.cancels() && !posted.opened {
            assert_eq!(ends[&posted.run].0, RunStatus::Cancelled, "seed {seed}: {posted:?}");
            assert!(*policy != Rollback || forgotten(posted.run), "seed {seed}: {posted:?}");
        }
        let message = cluster.message(posted.id).await;
        let run = message.run_id.unwrap();
        let answered = ends[&run].0.answers();
        let status = if answered { MessageStatus::Answered } else { MessageStatus::Failed };
        assert_eq!(message.status, Some(status), "seed {seed}: {message:?}");
    }
    for run in &told.cancelled {
        assert_eq!(ends[run].0, RunStatus::Cancelled, "seed {seed}: a cancel was acknowledged and forgotten");
    }
    let thread = cluster.requests().messages(goal, None, 10_000).await.unwrap();
    let posted = thread.iter().filter(|one| one.source == Source::User).count();
    assert_eq!(posted, told.accepted.len(), "seed {seed}: what was rejected is not stored");
    for one in thread {
        let (marked, run) = (one.metadata["rolled_back"] == true, one.run_id.unwrap());
        assert_eq!(marked, forgotten(run), "seed {seed}: {one:?}");
    }
    let stored = stored(cluster, goal);
    assert_every_prefix_valid(&stored);
    for entry in &stored {
        assert_eq!(entry.rolled_back, forgotten(RunId(entry.run_id)), "seed {seed}");
    }
    cluster.history(goal).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_run_ends_once_under_random_messages_and_crashes() {
    let cluster = TestCluster::start().await;
    let refused: Arc<Mutex<Vec<String>>> = Arc::default();
    let start = || {
        let inner = Simulated::new().with_delay(Duration::ZERO);
        let model = Strict { inner, refused: Arc::clone(&refused) };
        cluster.worker_with(Arc::new(model), vec![Arc::new(Endless::new(Duration::from_millis(20)))])
    };
    let mut goals = Vec::new();
    for _ in 0..THREADS {
        goals.push(cluster.new_goal().await);
    }
    let talks = goals.iter().zip(0..).map(|(goal, seed)| talk(&cluster, *goal, seed));
    let killing = async {
        let mut workers = vec![start(), start()];
        for _ in 0..KILLS {
            tokio::time::sleep(Duration::from_millis(120)).await;
            let doomed = workers.remove(0);
            doomed.kill.cancel();
            workers.push(start());
            doomed.running.ended().await.unwrap();
        }
        workers
    };
    let (told, workers) = futures_util::join!(futures_util::future::join_all(talks), killing);
    for (goal, (told, seed)) in goals.iter().zip(told.iter().zip(0..)) {
        let over = eventually("nothing is open", || async {
            let (head, _) = cluster.requests().open_stream("goal", *goal, None, 1).await.unwrap();
            (!head.run_open).then_some(())
        });
        if tokio::time::timeout(PATIENCE / 2, over).await.is_err() {
            let of = |table: &str| {
                let sql =
                    format!("select to_json(t) from houston.{table} t where agentable_id = '{}'", goal.0);
                cluster.servers.sql(&sql).unwrap()
            };
            panic!("seed {seed}: still open\n{}\n{}\n{}", of("run_locks"), of("runs"), of("events"));
        }
        check(&cluster, *goal, seed, told).await;
    }
    let rejected: usize = told.iter().map(|told| told.rejected).sum();
    assert!(rejected > 0, "nothing was rejected: the storm was none");
    let refused = refused.lock().unwrap().clone();
    assert!(refused.is_empty(), "{refused:#?}");
    for worker in workers {
        worker.drain().await;
    }
}
