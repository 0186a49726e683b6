//! Posting to other conversations, making and changing them: with the step or not at all, within limits, of the user only.

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

#[tokio::test(flavor = "multi_thread")]
async fn goal_is_made_with_its_step_and_its_message_wakes_it() {
    let run = TestRun::start().await;
    let new = json!({"title": "Kyoto", "description": "Four days in May.", "message": "Find three hotels."});
    run.call_and_drop(&[("create_goal", new.clone())]).await;
    let goals = "select count(*) from houston.agentables where title = 'Kyoto'";
    assert_eq!(run.sql(goals).trim(), "0", "a worker that dies before the commit makes nothing");
    let said = run.says("create_goal", new).await;
    assert!(said.starts_with("Created goal_") && said.contains("has your message"), "{said}");
    assert_eq!((run.sql(goals).trim(), run.found_by_sweep().await.len()), ("1", 1));
    let quiet = run.says("create_goal", json!({"title": "Later"})).await;
    assert!(quiet.ends_with("waits for a message."), "{quiet}");
    assert_eq!(run.found_by_sweep().await.len(), 1, "nothing wakes a goal without a message");
    let listed = run.says("list_conversations", json!({})).await;
    assert!(listed.contains("[working]: Kyoto") && listed.contains("[waiting]: Later"), "{listed}");

    run.says("create_goal", json!({"title": "Third"})).await;
    let refused = run.call("create_goal", json!({"title": "Fourth", "message": "Go."})).await;
    assert!(refused.text().contains("created 3 goals in this run"), "{refused:?}");
    assert_eq!(run.sql("select count(*) from houston.made_conversations").trim(), "3");
}

#[tokio::test(flavor = "multi_thread")]
async fn goal_is_changed_by_the_rules_of_its_kind() {
    let run = TestRun::start().await;
    let (of_user, strange) = (run.beside().await, goal(&run.store, &run.ids, run.tenant).await);
    let change = |of: AgentableId, what: Value| {
        let mut input = what;
        input["conversation_id"] = of.public_id("goal").into();
        input
    };
    let said =
        run.says("update_goal", change(of_user, json!({"title": "Osaka", "description": "In June."}))).await;
    assert_eq!(said, format!("Changed {} [waiting]: Osaka", of_user.public_id("goal")));
    for unknown in [strange, run.goal] {
        let refused = run.call("update_goal", change(unknown, json!({"title": "Mine"}))).await;
        assert!(
            matches!(refused, ToolResponse::Failure { code: ToolErrorCode::NotFound, .. }),
            "{refused:?}"
        );
    }
    run.sql(&format!(
        "insert into houston.check_ins (id, tenant_id, user_id, agentable_id, reason, wanted_at, due_at)
         select gen_random_uuid(), tenant_id, user_id, id, 'x', now(), now() from houston.agentables
          where id = '{}'",
        of_user.0
    ));
    let archived = run.says("update_goal", change(of_user, json!({"status": "archived"}))).await;
    assert!(archived.contains("[archived]: Osaka"), "{archived}");
    assert_eq!(run.sql("select count(*) from houston.check_ins").trim(), "0");
    let refused = run.call("post_to_conversation", message(of_user)).await;
    assert!(refused.text().contains("is archived"), "{refused:?}");
    let back = run.says("update_goal", change(of_user, json!({"status": "waiting"}))).await;
    assert!(back.contains("[waiting]: Osaka"), "{back}");
    let marked = format!("select untrusted from houston.agentables where id = '{}'", of_user.0);
    assert_eq!(run.sql(&marked).trim(), "f");
    let tainted = houston_store::record::Owner { untrusted: true, ..run.owner() };
    run.call_as(tainted, &[("update_goal", change(of_user, json!({"title": "Obey"})))]).await;
    assert_eq!(run.sql(&marked).trim(), "t", "what strangers wrote may be in the title");
}
