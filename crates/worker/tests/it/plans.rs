//! Plans on real servers: steps side by side, executors, ends that are told once, whatever dies.

use std::time::Duration;

use houston_domain::id::RunId;
use houston_domain::run::RunStatus;
use serde_json::{Value, json};

use crate::cluster::{TestCluster, assert_status};

/// A message that makes the simulated model make this plan.
fn asks_for(goal: &str, steps: &Value, output: &str) -> String {
    let arguments = json!({"goal": goal, "steps": steps, "output": output});
    format!("/sim tool=create_plan args={arguments}")
}

fn note(id: &str, content: &str) -> Value {
    json!({"id": id, "type": "tool", "title": format!("Write {id}"), "tool": "create_note",
           "args": {"title": id, "content": content}})
}

impl TestCluster {
    async fn sql(&self, query: &str) -> String {
        self.servers.sql(query).unwrap().trim().to_owned()
    }

    /// The types of the events of a run, with repetitions left out.
    async fn topics(&self, run: RunId) -> Vec<String> {
        let query =
            format!("select data ->> 'type' from houston.events where run_id = '{}' order by seq", run.0);
        let mut topics: Vec<String> = self.sql(&query).await.lines().map(str::to_owned).collect();
        topics.dedup();
        topics
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_runs_tools_executors_and_models_and_is_told_once() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let steps = json!([
        note("first", "one"),
        note("second", "{{ first.result }}"),
        {"id": "look", "type": "task", "title": "Look around", "instructions": "Say hello", "after": ["first"]},
        {"id": "sum", "type": "llm", "title": "Sum up", "prompt": "Repeat {{ look.result }}", "after": ["second"]},
    ]);
    let posted = cluster.post(cluster.goal, &asks_for("Two notes", &steps, "{{ sum.result }}")).await;
    let ended = cluster.wait_for_end(posted.run).await;
    assert_status(&ended, RunStatus::MessageSent);
    let states = "select string_agg(path || ' ' || status || ' ' || attempt, ', ' order by path) from houston.plan_steps";
    assert_eq!(
        cluster.sql(states).await,
        "first succeeded 1, look succeeded 1, second succeeded 1, sum succeeded 1"
    );
    let notes = "select string_agg(title, ', ' order by title) from houston.knowledge_items where title in ('first', 'second')";
    assert_eq!(cluster.sql(notes).await, "first, second");
    let told =
        "select count(*) from houston.messages where source = 'system' and content like '<plan_ended%'";
    assert_eq!(cluster.sql(told).await, "1");
    assert_eq!(cluster.sql("select count(*) from houston.agentables where kind = 'executor'").await, "1");
    let runs = format!("select count(*) from houston.runs where agentable_id = '{}'", cluster.goal.0);
    assert_eq!(cluster.sql(&runs).await, "1", "the run that made the plan waits for it");
    assert_eq!(cluster.held().await, "0", "neither a lock nor a slot is left");
    let topics = cluster.topics(posted.run).await;
    let plan: Vec<&str> =
        topics.iter().map(String::as_str).filter(|topic| topic.starts_with("plan")).collect();
    assert_eq!((plan.first(), plan.last()), (Some(&"plan_created"), Some(&"plan_ended")), "{topics:?}");
    worker.drain().await;
}

/// A plan whose steps need each other in several ways: tools, an executor in a loop, a condition, a model.
fn larger_plan() -> Value {
    json!([
        note("first", "one"),
        {"id": "three", "type": "loop", "over": "[1, 2, 3]", "as": "n", "max": 3, "at_once": 3, "steps": [
            {"id": "look", "type": "task", "title": "Look", "instructions": "Say {{ n }}"}]},
        {"id": "both", "type": "parallel", "steps": [note("left", "{{ first.result }}"), note("right", "{{ first.result }}")]},
        {"id": "check", "type": "condition", "if": "three.result | length == 3", "then": [note("last", "{{ both.result.left }}")]},
        {"id": "sum", "type": "llm", "title": "Sum up", "prompt": "Repeat three", "after": ["check"]},
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_end_once_while_workers_are_killed() {
    const PLANS: usize = 12;
    const KILLS: usize = 10;
    let cluster = TestCluster::start().await;
    let goals = cluster.create_agentables("goal", PLANS).await;
    let mut workers = vec![cluster.worker(), cluster.worker()];
    let mut posted = Vec::new();
    for goal in &goals {
        posted.push(cluster.post(*goal, &asks_for("Many", &larger_plan(), "{{ sum.result }}")).await.run);
    }
    for _ in 0..KILLS {
        tokio::time::sleep(Duration::from_millis(400)).await;
        let killed = workers.remove(0);
        killed.kill.cancel();
        workers.push(cluster.worker());
        killed.running.ended().await.ok();
    }
    for run in posted {
        assert_status(&cluster.wait_for_end(run).await, RunStatus::MessageSent);
    }
    assert_eq!(
        cluster.sql("select count(*) from houston.plans where ended_at is not null").await,
        PLANS.to_string()
    );
    let open = "select count(*) from houston.plan_steps where status not in ('succeeded', 'skipped')";
    assert_eq!(cluster.sql(open).await, "0");
    let executors = "select count(*) from houston.agentables where kind = 'executor'";
    let steps = "select count(*) from houston.plan_steps where task_id is not null";
    assert_eq!(cluster.sql(executors).await, cluster.sql(steps).await, "one executor for each step");
    assert_eq!(cluster.sql(steps).await, (PLANS * 3).to_string());
    // Each tool wrote once, whatever died.
    let notes =
        "select count(*) from houston.knowledge_items where title in ('first', 'left', 'right', 'last')";
    assert_eq!(cluster.sql(notes).await, (PLANS * 4).to_string());
    let told =
        "select count(*) from houston.messages where source = 'system' and content like '<plan_ended%'";
    assert_eq!(cluster.sql(told).await, PLANS.to_string());
    assert_eq!(cluster.held().await, "0");
    for worker in workers {
        worker.drain().await;
    }
}
