//! A cancelled run closes its connection to the model.

use std::time::Duration;

use houston_testkit::model_server::{Ending, ModelServer, Reply, script};

use crate::test_houston::TestHouston;

/// How long the model server waits for its connection to be closed; its answers take ten minutes.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_run_closes_the_model_connection() {
    let words = 6000;
    let reply = Reply::text("word ".repeat(words)).in_pieces(words).every(Duration::from_millis(100));
    let model = ModelServer::start(script::always(reply)).await.unwrap();
    let left = |count: usize| {
        model.journal().wait_until(PATIENCE, move |journal| {
            let left = |ending| ending == Ending::ClientLeft;
            journal.exchanges().iter().filter(|exchange| left(exchange.ending)).count() >= count
        })
    };
    let houston = TestHouston::start();
    let url = model.url();
    for (turn, redis) in [None, Some("redis://127.0.0.1:1")].into_iter().enumerate() {
        let mut variables =
            vec![("HOUSTON_MODEL", "local/x"), ("HOUSTON_LOCAL_URL", &url), ("HOUSTON_MODEL_TOOLS", "false")];
        variables.extend(redis.map(|redis| ("HOUSTON_REDIS_URL", redis)));
        let worker = houston.worker_with(&variables);
        let goal = houston.goal(&format!("turn {turn}")).await;
        let message = houston.post(&goal, &format!("message {turn}"), "write").await;
        let run = message["run_id"].as_str().unwrap();
        assert!(model.journal().wait_until(PATIENCE, |journal| journal.open() == 1).await);
        houston.cancel(run).await;
        assert!(left(turn + 1).await, "the model writes on: {}", worker.log());
        let path = format!("/v1/runs/{run}");
        let ended = houston.wait_until(&path, "its end", |run| !run["ended_at"].is_null()).await;
        assert_eq!((&ended["status"], &ended["cancelled_by"]), (&"cancelled".into(), &"user".into()));
    }
}
