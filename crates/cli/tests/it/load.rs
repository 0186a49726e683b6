//! Many concurrent runs.

use futures_util::StreamExt;

use crate::test_houston::TestHouston;

#[tokio::test(flavor = "multi_thread")]
async fn thousand_concurrent_runs_on_twenty_connections_finish() {
    let houston = TestHouston::start();
    let mut goals = Vec::new();
    for nth in 0..1000 {
        goals.push(houston.goal(&format!("goal {nth}")).await);
    }
    let _worker = houston.worker_with(&[("HOUSTON_ORCHESTRATOR__WORKER__DATABASE_CONNECTIONS", "20")]);
    // The model takes two seconds for each of a thousand parallel calls.
    let posts = goals.iter().map(|goal| houston.post(goal, goal, "/sim hold_ms=2000 chunks=3"));
    let messages: Vec<_> = futures_util::stream::iter(posts).buffer_unordered(50).collect().await;
    for message in &messages {
        assert_eq!(houston.wait_until_answered(message).await["status"], "answered");
    }
    for goal in goals.iter().step_by(97) {
        assert_eq!(houston.agent_texts(goal).await.len(), 1);
    }
}
