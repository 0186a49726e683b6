//! Many at once.

use futures_util::StreamExt;

use crate::house::House;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_runs_at_once_on_twenty_connections_are_all_answered() {
    let house = House::start();
    let mut goals = Vec::new();
    for nth in 0..1000 {
        goals.push(house.goal(&format!("goal {nth}")).await);
    }
    let _worker = house.worker_with(&[("HOUSTON_ORCHESTRATOR__WORKER__DATABASE_CONNECTIONS", "20")]);
    // The model thinks for two seconds, a thousand times side by side.
    let posts = goals.iter().map(|goal| house.post(goal, goal, "/sim hold_ms=2000 chunks=3"));
    let messages: Vec<_> = futures_util::stream::iter(posts).buffer_unordered(50).collect().await;
    for message in &messages {
        assert_eq!(house.answered(message).await["status"], "answered");
    }
    for goal in goals.iter().step_by(97) {
        assert_eq!(house.said(goal).await.len(), 1);
    }
}
