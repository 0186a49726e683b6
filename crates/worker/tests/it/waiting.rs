//! Runs that something other than a model drives, and that wait: on real servers, with workers that end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use houston_domain::event::Event;
use houston_domain::history::Role;
use houston_domain::id::{AgentableId, QuestionId, RunId};
use houston_domain::question::{QuestionKind, QuestionState};
use houston_domain::run::RunStatus;
use houston_engine::driver::{Decision, DrivenRun, Driver, Then};
use houston_store::answer::Answered;
use serde_json::{Value, json};

use crate::cluster::{TestCluster, assert_status, eventually};

/// Asks for a city, waits for the answer, waits until a time, says the city, and finishes.
struct Trip {
    /// How long it waits after the answer.
    pause: TimeDelta,
    /// How long a question is open.
    patience: Option<TimeDelta>,
}

impl Trip {
    fn decide(&self, run: DrivenRun<'_>) -> Decision {
        let Some(question) = run.questions.first() else {
            let mut question = run.question(QuestionKind::Input, "Which city?");
            question.expires_at = self.patience.map(|patience| run.now + patience);
            question.default_value = Some(json!("Rome"));
            return Decision::ask(question).then(Then::Wait { until: None });
        };
        if question.state == QuestionState::Open {
            // The first message began the run; a later one ends it.
            let entries = run.history.iter().rev().take(run.own_entries);
            return match entries.filter(|entry| entry.role == Role::User).count() {
                0 | 1 => Decision::from(Then::Wait { until: None }),
                _ => Decision::say("Never mind.").then(Then::Finish),
            };
        }
        let due = run.state.and_then(|state| state["due"].as_i64()).and_then(DateTime::from_timestamp_millis);
        match due {
            None => {
                let due = run.now + self.pause;
                Decision::from(Then::Wait { until: Some(due) })
                    .remember(json!({"due": due.timestamp_millis()}))
            }
            Some(due) if run.now < due => Decision::from(Then::Wait { until: Some(due) }),
            Some(_) => {
                let city = question.outcome().and_then(Value::as_str).unwrap_or("nowhere");
                Decision::say(format!("{city} it is.")).then(Then::Finish)
            }
        }
    }
}

impl Driver for Trip {
    fn next<'a>(&'a self, run: DrivenRun<'a>) -> BoxFuture<'a, Decision> {
        std::future::ready(self.decide(run)).boxed()
    }
}

async fn cluster(pause_ms: i64, patience_ms: Option<i64>) -> TestCluster {
    let mut cluster = TestCluster::start().await;
    let patience = patience_ms.map(TimeDelta::milliseconds);
    cluster.driver = Some(Arc::new(Trip { pause: TimeDelta::milliseconds(pause_ms), patience }));
    cluster
}

impl TestCluster {
    pub(crate) async fn waits(&self, run: RunId) {
        eventually("the run waits", || async {
            (self.requests().run(run).await.ok()?.status == RunStatus::Waiting).then_some(())
        })
        .await;
    }

    /// The open question of a goal.
    pub(crate) async fn question(&self, goal: AgentableId) -> QuestionId {
        eventually("it asks", || async {
            let open = self.requests().open_questions(None, None, None, 100).await.ok()?;
            open.iter().find(|of| of.agentable == goal).map(|of| of.question.asked.id)
        })
        .await
    }

    pub(crate) async fn held(&self) -> String {
        let held = "select count(*) filter (where r.held_for is not null) + count(*) filter (where l.holder is not null)
                      from houston.runs r join houston.run_locks l on l.agentable_id = r.agentable_id";
        self.servers.sql(held).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn run_without_a_model_waits_while_no_worker_lives() {
    let cluster = cluster(300, None).await;
    let first = cluster.worker();
    let posted = cluster.post(cluster.goal, "Plan a trip").await;
    cluster.waits(posted.run).await;
    assert_eq!(cluster.held().await, "0", "neither a lock nor a slot");
    first.drain().await;
    let id = cluster.question(cluster.goal).await;
    let answered = cluster.requests().answer_question(id, &json!("Oslo"), Some("Ann")).await.unwrap();
    assert!(matches!(answered, Answered::Now(_)));
    let second = cluster.worker();
    let ended = cluster.wait_for_end(posted.run).await;
    assert_status(&ended, RunStatus::Completed);
    assert_eq!(ended.attempt, 3, "one for the question, one for the answer, one after the time");
    assert_eq!((ended.iterations, ended.usage.input_tokens), (1, 0), "no model was called");
    assert_eq!(cluster.agent_messages(cluster.goal).await, ["Oslo it is."]);
    let events = cluster.events(cluster.goal).await;
    let waits = events.iter().filter(|of| matches!(of.event, Event::RunWaiting { .. })).count();
    let resumed =
        events.iter().filter(|of| matches!(of.event, Event::AttemptStarted { resumed: true, .. })).count();
    assert_eq!((waits, resumed), (2, 2));
    second.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_runs_leave_the_slots_of_their_user_free() {
    let cluster = cluster(0, None).await;
    let worker = cluster.worker();
    // More than a user may hold at once.
    let goals = cluster.create_agentables("goal", 12).await;
    let mut runs = Vec::new();
    for goal in &goals {
        runs.push(cluster.post(*goal, "Plan a trip").await.run);
    }
    for run in &runs {
        cluster.waits(*run).await;
    }
    assert_eq!(cluster.held().await, "0");
    for goal in &goals {
        let id = cluster.question(*goal).await;
        cluster.requests().answer_question(id, &json!("Oslo"), None).await.unwrap();
    }
    for run in &runs {
        assert_status(&cluster.wait_for_end(*run).await, RunStatus::Completed);
    }
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn question_that_nobody_answers_expires_with_its_default() {
    let cluster = cluster(0, Some(200)).await;
    let worker = cluster.worker();
    let posted = cluster.post(cluster.goal, "Plan a trip").await;
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::Completed);
    assert_eq!(cluster.agent_messages(cluster.goal).await, ["Rome it is."]);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn message_and_cancel_reach_a_waiting_run() {
    let cluster = cluster(0, None).await;
    let worker = cluster.worker();
    let posted = cluster.post(cluster.goal, "Plan a trip").await;
    cluster.waits(posted.run).await;
    let second = cluster.post(cluster.goal, "Forget it").await;
    assert_eq!(second.run, posted.run, "the message joins the run that waits");
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::Completed);
    assert_eq!(cluster.agent_messages(cluster.goal).await, ["Never mind."]);
    let other = cluster.new_goal().await;
    let posted = cluster.post(other, "Plan a trip").await;
    cluster.waits(posted.run).await;
    let id = cluster.question(other).await;
    cluster.requests().cancel_run(posted.run).await.unwrap().unwrap();
    cluster.send_hint(other);
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::Cancelled);
    let question = cluster.requests().question(id).await.unwrap().question;
    assert_eq!(question.state, QuestionState::Cancelled);
    worker.drain().await;
}

/// Says a part, and hangs before the next one while the test says so.
struct Parts {
    hangs: Arc<AtomicBool>,
}

impl Driver for Parts {
    fn next<'a>(&'a self, run: DrivenRun<'a>) -> BoxFuture<'a, Decision> {
        let done = run.state.and_then(Value::as_i64).unwrap_or(0);
        let hangs = done == 1 && self.hangs.load(Ordering::Relaxed);
        async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            match done {
                2 => Decision::say("That is all.").then(Then::Finish),
                done => Decision::say(format!("Part {}.", done + 1)).remember(json!(done + 1)),
            }
        }
        .boxed()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_worker_loses_no_step_of_a_driven_run() {
    let mut cluster = TestCluster::start().await;
    let hangs = Arc::new(AtomicBool::new(true));
    cluster.driver = Some(Arc::new(Parts { hangs: Arc::clone(&hangs) }));
    let doomed = cluster.worker();
    let posted = cluster.post(cluster.goal, "Go").await;
    eventually("the first part is said", || async {
        (cluster.agent_messages(cluster.goal).await == ["Part 1."]).then_some(())
    })
    .await;
    hangs.store(false, Ordering::Relaxed);
    doomed.kill.cancel();
    let heir = cluster.worker();
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::Completed);
    assert_eq!(cluster.agent_messages(cluster.goal).await, ["Part 1.", "Part 2.", "That is all."]);
    heir.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn far_deadline_is_left_to_the_sweep() {
    // Longer than a worker's timers: only the sweep can wake the run.
    let cluster = cluster(120_000, None).await;
    let worker = cluster.worker();
    let posted = cluster.post(cluster.goal, "Plan a trip").await;
    cluster.waits(posted.run).await;
    let id = cluster.question(cluster.goal).await;
    cluster.requests().answer_question(id, &json!("Oslo"), None).await.unwrap();
    let until = eventually("it waits until a time", || async {
        cluster.requests().run(posted.run).await.ok()?.waits_until
    })
    .await;
    assert!(until.0 > cluster.ids.clock().now() + Duration::from_secs(60));
    let earlier = "update houston.run_locks set next_attempt_at = now() where next_attempt_at is not null";
    cluster.servers.sql(earlier).unwrap();
    let sooner = "update houston.runs set driver_state = '{\"due\": 0}'";
    cluster.servers.sql(sooner).unwrap();
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::Completed);
    worker.drain().await;
}
