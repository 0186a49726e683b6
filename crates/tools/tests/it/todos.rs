//! The tools for todos.

use houston_domain::tool_call::ToolErrorCode;
use houston_store::record::Owner;
use serde_json::json;

use crate::test_run::{TestRun, goal};

/// The ids that an answer names, in its order.
fn ids(answer: &str) -> Vec<String> {
    let words = answer.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("todo_") && word.len() > 30).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn todos_are_added_ordered_completed_and_deleted() {
    let tools = TestRun::start().await;
    assert_eq!(tools.says("list_todos", json!({})).await, "There are no such todos.");
    let add = json!({"action": "add", "titles": ["Buy milk", "Call Ann", "Pay rent"], "list": "errands",
                     "due": "2026-01-02", "priority": "high"});
    let made = ids(&tools.says("manage_todos", add).await);
    let [milk, ann, rent] = made.as_slice() else { panic!("{made:?}") };
    let listed = tools.says("list_todos", json!({})).await;
    assert_eq!(ids(&listed), made, "in the order in which they were given");
    let line = format!("{milk}: Buy milk (high, due 2026-01-02, overdue, list: errands)");
    assert!(listed.contains(&line), "{listed}");

    tools.says("manage_todos", json!({"action": "update", "ids": [rent], "before": milk})).await;
    assert_eq!(ids(&tools.says("list_todos", json!({})).await), [rent.clone(), milk.clone(), ann.clone()]);
    let changed = json!({"action": "update", "ids": [ann], "titles": ["Call Ann back"], "due": "none", "list": "",
                         "priority": "normal", "details": "About the trip."});
    let changed = tools.says("manage_todos", changed).await;
    assert_eq!(changed, format!("{ann}: Call Ann back\n  About the trip."));

    let done = tools.says("manage_todos", json!({"action": "complete", "ids": [milk, rent]})).await;
    assert!(done.contains("Buy milk (done, high") && !done.contains("overdue"), "{done}");
    assert_eq!(ids(&tools.says("list_todos", json!({})).await), std::slice::from_ref(ann));
    for (filter, expected) in [
        (json!({"status": "done"}), vec![rent, milk]),
        (json!({"status": "all"}), vec![ann, rent, milk]),
        (json!({"status": "all", "list": "ERRANDS"}), vec![rent, milk]),
        (json!({"status": "all", "due_by": "2026-01-01"}), vec![]),
        (json!({"status": "all", "due_by": "now"}), vec![rent, milk]),
        (json!({"status": "all", "query": "TRIP"}), vec![ann]),
        (json!({"status": "all", "after": rent}), vec![milk]),
        (json!({"status": "all", "here": true, "limit": 1}), vec![ann]),
    ] {
        let listed = tools.says("list_todos", filter.clone()).await;
        assert_eq!(ids(&listed).iter().collect::<Vec<_>>(), expected, "{filter}: {listed}");
    }
    tools.says("manage_todos", json!({"action": "reopen", "ids": [milk]})).await;
    let gone = tools.says("manage_todos", json!({"action": "delete", "ids": [milk, rent]})).await;
    assert_eq!(gone, "Deleted 2.");
    let missing = tools.call("manage_todos", json!({"action": "complete", "ids": [milk]})).await;
    assert!(!missing.is_success() && missing.text().contains("list_todos"), "{missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn order_holds_when_no_number_is_left_between_two() {
    let tools = TestRun::start().await;
    let add = json!({"action": "add", "titles": ["a", "b", "c"]});
    let mut order = ids(&tools.says("manage_todos", add).await);
    // Each move halves the distance before the last one.
    for _ in 0..70 {
        order.swap(0, 1);
        let (moved, next) = (&order[1], &order[2]);
        tools.says("manage_todos", json!({"action": "update", "ids": [moved], "before": next})).await;
        assert_eq!(ids(&tools.says("list_todos", json!({})).await), order);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn todos_of_others_and_of_strangers_texts() {
    let tools = TestRun::start().await;
    let marked = Owner { untrusted: true, ..tools.owner() };
    let add = |title: &str| ("manage_todos", json!({"action": "add", "titles": [title]}));
    tools.call_as(marked, &[add("Wire money")]).await;
    tools.call_as(tools.owner(), &[add("Buy milk")]).await;
    let listed = tools.says("list_todos", json!({})).await;
    assert!(
        listed.contains("<untrusted source=\"todo_") && listed.contains("\nWire money\n</untrusted>"),
        "{listed}"
    );
    assert!(listed.contains(": Buy milk"), "{listed}");

    let todo = &ids(&listed)[0];
    let other = goal(&tools.store, &tools.ids, tools.tenant).await;
    let other = tools.store.tenant(tools.tenant).agentable("goal", other).await.unwrap();
    let stranger = Owner { user: other.user, agentable: other.id, ..tools.owner() };
    let calls = [
        ("list_todos", json!({"status": "all"})),
        ("manage_todos", json!({"action": "complete", "ids": [todo]})),
        ("manage_todos", json!({"action": "delete", "ids": [todo]})),
        ("manage_todos", json!({"action": "update", "ids": [todo], "before": todo})),
    ];
    let answers = tools.call_as(stranger, &calls).await;
    assert_eq!(answers[0].text(), "There are no such todos.");
    assert!(answers[1..].iter().all(|answer| !answer.is_success()), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn full_todos_are_reported_and_none_is_added() {
    let tools = TestRun::start().await;
    tools.sql(&format!(
        "insert into houston.todos (id, tenant_id, user_id, title, position, created_at, updated_at)
         select gen_random_uuid(), '{}', '{}', 'x', n, now(), now() from generate_series(1, 999) n",
        tools.tenant.0, tools.claimed.user.0
    ));
    let two = tools.call("manage_todos", json!({"action": "add", "titles": ["a", "b"]})).await;
    let houston_domain::tool_call::ToolResponse::Failure { error, code } = two else { panic!("{two:?}") };
    assert!(code == ToolErrorCode::RateLimited && error.contains("1000 todos of a user"), "{error}");
    tools.says("manage_todos", json!({"action": "add", "titles": ["a"]})).await;
}
