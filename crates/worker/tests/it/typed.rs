//! Answers of a form that a message, a task or a team wants: the value is the message's and that of the end of the run. And
//! answers that come later.

use houston_domain::answering::Output;
use houston_domain::client_offer::ClientOffer;
use houston_domain::event::Event;
use houston_domain::id::{AgentableId, RunId};
use houston_domain::message::{Source, result_of};
use houston_domain::model_policy::{Latency, ModelPolicy};
use houston_domain::run::RunStatus;
use houston_domain::team::{Router, RouterKind};
use houston_domain::time::Time;
use houston_store::idempotency::Created;
use houston_store::message::NewPost;
use houston_store::serving::ServedBy;
use houston_store::team::Team;
use serde_json::{Value, json};

use crate::cluster::{TestCluster, assert_status, eventually};
use crate::serving::{agent, assign};

fn trip() -> Output {
    Output::of(
        json!({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"]}),
    )
}

/// The value of the run, which its last message has, too.
async fn value_of(cluster: &TestCluster, agentable: AgentableId, run: RunId) -> Value {
    let events = cluster.events(agentable).await;
    let ended = events.iter().find_map(|committed| match &committed.event {
        Event::RunFinished { result, .. } if committed.run_id == run => Some(result.clone()),
        _ => None,
    });
    let value = *ended.expect("the run has ended").expect("it has a value");
    let mut said = events.iter().filter(|committed| committed.run_id == run).filter_map(|committed| {
        let body = committed.body.as_ref().filter(|body| body.source == Source::Agent)?;
        result_of(&body.metadata, &body.content)
    });
    assert_eq!(said.next_back().as_ref(), Some(&value));
    assert!(value["city"].is_string() && value["days"].is_i64(), "{value}");
    value
}

#[tokio::test]
async fn message_a_task_and_a_team_get_values() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let offer = ClientOffer { output: Some(trip()), ..ClientOffer::default() };
    let post = NewPost::new(cluster.ids.next(), cluster.ids.next(), "Where to?", json!({}));
    let posted = cluster.requests().post_message_with_offer(cluster.goal, &post, &offer, None).await.unwrap();
    let Created::New(posted) = posted else { panic!("{posted:?}") };
    cluster.send_hint(cluster.goal);
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::Completed);
    value_of(&cluster, cluster.goal, posted.run).await;

    // The next message says nothing of a form.
    let plain = cluster.post(cluster.goal, "hello").await;
    assert_status(&cluster.wait_for_end(plain.run).await, RunStatus::MessageSent);

    let args = json!({"title": "Trip", "instructions": "Find a trip.", "output": *trip().schema});
    let creating = cluster.post(cluster.goal, &format!("/sim delay_ms=0 tool=create_task args={args}")).await;
    assert_status(&cluster.wait_for_end(creating.run).await, RunStatus::MessageSent);
    let created = async || {
        let tasks = cluster.requests().tasks(cluster.goal, None, 1).await.unwrap();
        tasks.into_iter().next().filter(|task| task.run.is_some())
    };
    let task = eventually("the task", created).await;
    let run = task.run.unwrap();
    assert_status(&cluster.wait_for_end(run).await, RunStatus::Completed);
    value_of(&cluster, task.id, run).await;

    let (goal, one) = (cluster.new_goal().await, agent(&cluster, "one").await);
    let now = cluster.ids.clock().now();
    let team = Team {
        id: cluster.ids.next(),
        kind: "goal".to_owned(),
        name: "travellers".to_owned(),
        description: String::new(),
        agents: vec![one],
        fallback: one,
        router: Router { by: RouterKind::Rules, rules: Vec::new() },
        output: Some(trip()),
        version: 1,
        created_at: Time(now),
        updated_at: Time(now),
    };
    cluster.requests().create_team(&team, (None, &Value::Null)).await.unwrap();
    assign(&cluster, goal, ServedBy { agent: None, team: Some(team.id) }).await;
    let routed = cluster.post(goal, "Where to?").await;
    assert_status(&cluster.wait_for_end(routed.run).await, RunStatus::Completed);
    value_of(&cluster, goal, routed.run).await;
    worker.drain().await;
}

/// The run waits without a worker, and another one fetches the answer.
#[tokio::test]
async fn answer_that_comes_later_is_fetched_by_another_worker() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let model_policy = ModelPolicy { latency: Some(Latency::Batch), ..ModelPolicy::default() };
    let offer = ClientOffer { output: Some(trip()), model_policy, ..ClientOffer::default() };
    let post = NewPost::new(cluster.ids.next(), cluster.ids.next(), "Where to? No hurry.", json!({}));
    let posted = cluster.requests().post_message_with_offer(cluster.goal, &post, &offer, None).await.unwrap();
    let Created::New(posted) = posted else { panic!("{posted:?}") };
    cluster.send_hint(cluster.goal);
    let waits = async || {
        let run = cluster.requests().run(posted.run).await.unwrap();
        (run.status == RunStatus::Waiting).then_some(())
    };
    eventually("the run waits", waits).await;
    // The answer that is on its way does not know it: the run reads it afterwards.
    let meanwhile = cluster.post(cluster.goal, "hello").await;
    assert_eq!(meanwhile.run, posted.run);
    eventually("the run waits again", waits).await;
    worker.drain().await;
    let worker = cluster.worker();
    cluster.wait_for_end(posted.run).await;
    let said = cluster.events(cluster.goal).await.into_iter().filter_map(|committed| {
        committed.body.filter(|body| body.source == Source::Agent).map(|body| body.content)
    });
    let said: Vec<String> = said.collect();
    assert!(said.len() >= 2 && said[0].contains("\"city\""), "{said:?}");
    let calls = cluster.requests().model_calls(posted.run).await.unwrap();
    let first = calls.iter().filter(|call| call.call.iteration == 1).count();
    assert_eq!(first, 1, "it is counted once");
    worker.drain().await;
}
