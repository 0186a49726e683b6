use std::collections::HashSet;

use houston_domain::id::{AgentableId, TenantId};
use houston_domain::knowledge::PromptLimits;
use houston_domain::message::MessageStatus;
use houston_store::Error;
use houston_store::idempotency::{Created, IdempotencyKey};
use houston_store::listen::Notification;

use crate::test_store::{TestStore, goal};

async fn goal_of_another(test: &TestStore) -> uuid::Uuid {
    goal(&test.store, &test.ids, test.tenant).await.0
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_posts_with_one_key_store_one_message() {
    let test = TestStore::start().await;
    let key = IdempotencyKey { key: "k", request_sha256: b"request" };
    let posts = (0..20).map(|_| test.try_post("hello", Some(key)));
    let posted = futures_util::future::join_all(posts).await;
    let mut ids = HashSet::new();
    let mut new = 0;
    for one in posted {
        match one.unwrap() {
            Created::New(posted) => {
                new += 1;
                ids.insert(posted.id);
            }
            Created::Replayed(posted) => {
                ids.insert(posted.id);
            }
            Created::KeyReused => panic!("the same request was sent"),
        }
    }
    assert_eq!((new, ids.len()), (1, 1));
    assert_eq!(test.requests().messages(test.goal, None, 100).await.unwrap().len(), 1);
    let other = IdempotencyKey { key: "k", request_sha256: b"another" };
    assert_eq!(test.try_post("other", Some(other)).await.unwrap(), Created::KeyReused);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_another_tenant_are_not_found() {
    let test = TestStore::start().await;
    let posted = test.post("hello").await;
    let stranger: TenantId = test.store.operator().ensure_tenant(test.ids.next(), "stranger").await.unwrap();
    let missing = |error: Error| assert!(matches!(error, Error::NotFound { .. }), "{error}");
    missing(test.store.tenant(stranger).agentable("goal", test.goal).await.unwrap_err());
    missing(test.store.tenant(stranger).message(posted.id).await.unwrap_err());
    missing(test.store.tenant(stranger).run(posted.run).await.unwrap_err());
    missing(test.store.tenant(stranger).cancel_run(posted.run).await.unwrap_err());
    missing(test.store.tenant(stranger).open_stream("goal", test.goal, None, 1).await.unwrap_err());
    assert!(test.store.tenant(stranger).messages(test.goal, None, 10).await.unwrap().is_empty());
    assert!(test.store.tenant(stranger).history(test.goal, 0, 10).await.unwrap().is_empty());
    let missing_goal = AgentableId(test.ids.next());
    missing(test.requests().agentable("goal", missing_goal).await.unwrap_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_claimed_once_and_reads_what_was_posted_before() {
    let test = TestStore::start().await;
    assert!(test.claim().await.is_none(), "no run is open");
    let first = test.post("one").await;
    let second = test.post("two").await;
    assert!(first.opened && !second.opened && first.run == second.run);
    let claimed = test.claim().await.unwrap();
    assert_eq!((claimed.run, claimed.attempt), (first.run, 1));
    assert!(test.claim().await.is_none(), "its holder is alive");
    let context =
        test.runs().run_context(test.goal, claimed.run, 10, &PromptLimits::default()).await.unwrap();
    assert_eq!(context.history[0].text(), "one\n\ntwo");
    assert_eq!(context.run_entries, 1);
    let message = test.requests().message(second.id).await.unwrap();
    assert_eq!(message.status, Some(MessageStatus::Processing));
    let other = goal(&test.store, &test.ids, test.tenant).await;
    assert_eq!(test.runs().due(None, 10).await.unwrap().due, vec![], "{other} has nothing to do");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_posts_from_sql_in_its_own_transaction() {
    let test = TestStore::start().await;
    let mut notifications = test.runs().listen().await.unwrap();
    let goal = test.goal.0;
    let post = format!("select houston.post_message('{goal}', 'from sql', 'key 1')");
    test.sql(&format!("begin; {post}; rollback"));
    assert!(test.claim().await.is_none(), "a rolled-back post opens no run");
    let first = test.sql(&post);
    assert_eq!(test.sql(&post), first, "the same key, the same message");
    assert_eq!(notifications.recv().await.unwrap(), Some(Notification::Posted(test.goal)));
    assert!(test.claim().await.is_some());
    let other = goal_of_another(&test).await;
    for (call, word) in [
        (format!("select houston.post_message('{goal}', 'other words', 'key 1')"), "for another message"),
        (
            format!("select houston.post_message('{goal}', 'from sql', 'key 1', 'interrupt')"),
            "for another message",
        ),
        (format!("select houston.post_message('{other}', 'from sql', 'key 1')"), "for another message"),
        (format!("select houston.post_message('{goal}', ' ')"), "empty"),
        (format!("select houston.post_message('{goal}', repeat('x', 300000))"), "262144"),
        ("select houston.post_message(gen_random_uuid(), 'hi')".to_owned(), "not found"),
    ] {
        let result = test.try_sql(&call);
        assert!(result.as_ref().is_err_and(|error| error.contains(word)), "{result:?}");
    }
}
