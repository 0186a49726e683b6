//! Plans on real servers: steps side by side, executors, ends that are told once, whatever dies.

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
    let notes =
        "select string_agg(title, ', ' order by title) from houston.knowledge_items where kind = 'note'";
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
