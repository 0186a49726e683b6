//! Many concurrent runs.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::test_houston::{PATIENCE, TestHouston};

/// A user's runs that are driven at once (`fairness.max_running`).
const PER_USER: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn thousand_concurrent_runs_on_twenty_connections_finish() {
    let houston = TestHouston::start();
    let users = (0..100).map(async |nth| {
        let name = format!("user {nth}");
        houston.create("/v1/users", &name, &json!({"name": name})).await
    });
    let users: Vec<Value> = futures_util::stream::iter(users).buffer_unordered(20).collect().await;
    let goals = (0..100 * PER_USER).map(async |nth| {
        let (title, message) = (format!("goal {nth}"), json!({"content": "/sim hold_ms=2000 chunks=3"}));
        let user = &users[nth / PER_USER]["id"];
        let goal = json!({"user_id": user, "title": title, "message": message});
        houston.create("/v1/goals", &title, &goal).await["id"].as_str().unwrap().to_owned()
    });
    let goals: Vec<String> = futures_util::stream::iter(goals).buffer_unordered(50).collect().await;
    // The model takes two seconds for each of a thousand parallel calls.
    let _worker = houston.worker_with(&[("HOUSTON_ORCHESTRATOR__WORKER__DATABASE_CONNECTIONS", "20")]);
    // However long a busy machine takes, some end all the time.
    let (mut before, mut since) = (0, Instant::now());
    while before < goals.len() {
        let ended = "select count(*) from houston.runs where status in ('completed', 'message_sent')";
        let now = houston.sql(ended).parse().unwrap();
        if now > before {
            (before, since) = (now, Instant::now());
        }
        assert!(since.elapsed() < PATIENCE, "{before} runs have ended, and no more");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    for goal in goals.iter().step_by(97) {
        assert_eq!(houston.agent_texts(goal).await.len(), 1);
    }
}
