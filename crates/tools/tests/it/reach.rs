//! Posting to other conversations: with the step or not at all, within limits, to the user's own only.

use houston_domain::id::AgentableId;
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use serde_json::{Value, json};

use crate::test_run::{TestRun, goal};

fn message(to: AgentableId) -> Value {
    json!({"conversation_id": to.public_id("goal"), "text": "Book it."})
}

impl TestRun {
    /// Another goal of the user of the run.
    async fn beside(&self) -> AgentableId {
        let other = goal(&self.store, &self.ids, self.tenant).await;
        self.sql(&format!(
            "update houston.agentables set user_id = '{user}' where id = '{other}';
             update houston.run_locks set user_id = '{user}' where agentable_id = '{other}'",
            user = self.owner().user.0,
            other = other.0
        ));
        other
    }

    /// The agentables that the sweep finds, without any hint.
    async fn found_by_sweep(&self) -> Vec<AgentableId> {
        self.runs().due(None, 10).await.unwrap().due.into_iter().map(|due| due.agentable).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn post_is_committed_with_its_step_and_found_without_a_hint() {
    let run = TestRun::start().await;
    let to = run.beside().await;
    run.call_and_drop(&[("post_to_conversation", message(to))]).await;
    let rows = "select count(*) from houston.messages where source = 'system'";
    assert_eq!(run.sql(rows).trim(), "0", "a worker that dies before the commit posts nothing");
    assert_eq!(run.found_by_sweep().await, []);
    assert!(run.says("post_to_conversation", message(to)).await.starts_with("Posted to"));
    assert_eq!((run.sql(rows).trim(), run.found_by_sweep().await), ("1", vec![to]));
}

#[tokio::test(flavor = "multi_thread")]
async fn run_posts_a_limited_number_and_to_its_own_user_only() {
    let run = TestRun::start().await;
    let (to, strange) = (run.beside().await, goal(&run.store, &run.ids, run.tenant).await);
    for unknown in [strange, run.goal] {
        for (tool, input) in [
            ("post_to_conversation", message(unknown)),
            ("read_conversation", json!({"conversation_id": unknown.public_id("goal")})),
        ] {
            let answer = run.call(tool, input).await;
            assert!(
                matches!(answer, ToolResponse::Failure { code: ToolErrorCode::NotFound, .. }),
                "{answer:?}"
            );
        }
    }
    // Parallel calls of one step count, too.
    let calls: Vec<_> = (0..6).map(|_| ("post_to_conversation", message(to))).collect();
    let answers = run.call_as(run.owner(), &calls).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_success()).count(), 5);
    assert!(answers[5].text().contains("you have posted 5 messages in this run"), "{:?}", answers[5]);
    let page =
        run.says("read_conversation", json!({"conversation_id": to.public_id("goal"), "limit": 2})).await;
    assert!(page.contains("There are older ones: ask again with `before`"), "{page}");
}
