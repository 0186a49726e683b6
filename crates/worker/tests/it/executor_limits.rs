//! The limits of executors: what exceeds one fails its step, with a code of its own.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use houston_domain::history::Block;
use houston_domain::model::{ModelError, StopReason};
use houston_domain::run::RunStatus;
use houston_llm::{Choice, Description, Event as ModelEvent, EventStream, Model, Request, Simulated};
use serde_json::{Value, json};

use crate::cluster::{TestCluster, assert_status};

/// A model whose executors call a tool again and again, and whose planner gives up.
struct Restless(Description);

impl Model for Restless {
    fn description(&self) -> &Description {
        &self.0
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        let is = |text: &str| request.system.iter().any(|part| part.text.contains(text));
        let (works, plans) = (is("carry out one step of a plan on your own"), is("A step of a plan failed"));
        // Two at a time, of two kinds in turn, so that neither the repetition of one tool nor the iterations end the run first.
        let tool = |name: &str, input: Value| Block::ToolUse {
            id: String::new(),
            name: name.to_owned(),
            input,
            raw: None,
        };
        let nth = request.entries.len();
        let calls = vec![
            tool("calculate", json!({"expression": format!("{nth} + 1")})),
            tool("get_current_time", json!({})),
        ];
        Box::pin(async move {
            let inner = Simulated::new().with_delay(Duration::ZERO).stream(request).await?;
            let changed = inner.map(move |event| match event {
                Ok(ModelEvent::Done(mut turn)) if works => {
                    (turn.content, turn.stop) = (calls.clone(), StopReason::ToolUse);
                    Ok(ModelEvent::Done(turn))
                }
                Ok(ModelEvent::Done(mut turn)) if plans => {
                    turn.content = vec![Block::text(r#"{"give_up": "no"}"#)];
                    Ok(ModelEvent::Done(turn))
                }
                other => other,
            });
            Ok(Box::pin(changed) as EventStream)
        })
    }
}

/// Runs a plan of one step. Returns the end of the step: status, attempt and code.
async fn failed(cluster: &TestCluster, step: Value) -> String {
    let arguments = json!({"goal": "Limits", "steps": [step], "output": ""});
    let text = format!("/sim tool=create_plan args={arguments}");
    let posted = cluster.post(cluster.goal, &text).await;
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    let end = "select concat_ws(' ', status, attempt, state -> 'error' ->> 'code') from houston.plan_steps";
    cluster.servers.sql(end).unwrap().trim().to_owned()
}

async fn restless() -> (TestCluster, crate::workers::TestWorker) {
    let cluster = TestCluster::start().await;
    let model = Restless(Choice::new("openai", "gpt-test").description());
    let worker = cluster.worker_with(Arc::new(model), vec![]);
    (cluster, worker)
}

#[tokio::test(flavor = "multi_thread")]
async fn executor_that_asks_for_an_eleventh_call_fails() {
    let (cluster, worker) = restless().await;
    let step = json!({"id": "look", "type": "task", "title": "Look", "instructions": "Go on for ever"});
    assert_eq!(failed(&cluster, step).await, "failed 1 TOOL_CALL_LIMIT");
    let calls = "select count(*) filter (where b ->> 'type' = 'tool_use'),
                        count(*) filter (where b ->> 'content' like 'not executed%')
                   from houston.history h join houston.agentables a on a.id = h.agentable_id
                  cross join jsonb_array_elements(h.content) b where a.kind = 'executor'";
    assert_eq!(cluster.servers.sql(calls).unwrap().trim(), "12|2", "the first ten are executed");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn request_of_more_than_ten_thousand_tokens_is_not_sent() {
    // Each of its characters is a token.
    let long = "{% for i in range(3000) %}1-2-{% endfor %}";
    let steps = [
        json!({"id": "look", "type": "llm", "title": "Look", "prompt": long}),
        json!({"id": "look", "type": "task", "title": "Look", "instructions": long}),
    ];
    for step in steps {
        let (cluster, worker) = restless().await;
        assert_eq!(failed(&cluster, step).await, "failed 1 REQUEST_TOO_LARGE");
        worker.drain().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn executor_that_takes_too_long_is_tried_three_times() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let step = json!({"id": "look", "type": "task", "title": "Look", "instructions": "/sim hold_ms=60000",
                      "timeout_s": 1, "retry": {"max": 2, "base_ms": 1}});
    assert_eq!(failed(&cluster, step).await, "failed 3 TIMEOUT");
    let executors = "select count(*) from houston.agentables where kind = 'executor'";
    assert_eq!(cluster.servers.sql(executors).unwrap().trim(), "3");
    worker.drain().await;
}
