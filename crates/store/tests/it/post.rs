use std::collections::HashSet;

use houston_domain::id::{AgentableId, TenantId};
use houston_domain::knowledge::PromptLimits;
use houston_domain::message::MessageStatus;
use houston_store::Error;
use houston_store::idempotency::{Created, IdempotencyKey};
use houston_store::listen::Notification;

use crate::fresh::{Fresh, goal};

async fn goal_of_another(fresh: &Fresh) -> uuid::Uuid {
    goal(&fresh.store, &fresh.ids, fresh.tenant).await.0
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_stores_one_message_however_many_send_it_at_once() {
    let fresh = Fresh::start().await;
    let key = IdempotencyKey { key: "k", request_sha256: b"request" };
    let posts = (0..20).map(|_| fresh.try_post("hello", Some(key)));
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
            Created::KeyReused => panic!("it is the same request"),
        }
    }
    assert_eq!((new, ids.len()), (1, 1));
    assert_eq!(fresh.store.messages(fresh.tenant, fresh.goal, None, 100).await.unwrap().len(), 1);
    let other = IdempotencyKey { key: "k", request_sha256: b"another" };
    assert_eq!(fresh.try_post("other", Some(other)).await.unwrap(), Created::KeyReused);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_tenant_has_is_not_found() {
    let fresh = Fresh::start().await;
    let posted = fresh.post("hello").await;
    let stranger: TenantId = fresh.store.ensure_tenant(fresh.ids.next(), "stranger").await.unwrap();
    let missing = |error: Error| assert!(matches!(error, Error::NotFound { .. }), "{error}");
    missing(fresh.store.agentable(stranger, "goal", fresh.goal).await.unwrap_err());
    missing(fresh.store.message(stranger, posted.id).await.unwrap_err());
    missing(fresh.store.run(stranger, posted.run).await.unwrap_err());
    missing(fresh.store.cancel_run(stranger, posted.run).await.unwrap_err());
    missing(fresh.store.stream_head(stranger, "goal", fresh.goal).await.unwrap_err());
    assert!(fresh.store.messages(stranger, fresh.goal, None, 10).await.unwrap().is_empty());
    assert!(fresh.store.history(stranger, fresh.goal, 0, 10).await.unwrap().is_empty());
    let nobody = AgentableId(fresh.ids.next());
    missing(fresh.store.agentable(fresh.tenant, "goal", nobody).await.unwrap_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_claimed_once_and_reads_what_was_posted_before() {
    let fresh = Fresh::start().await;
    assert!(fresh.claim().await.is_none(), "nothing is open");
    let first = fresh.post("one").await;
    let second = fresh.post("two").await;
    assert!(first.opened && !second.opened && first.run == second.run);
    let claimed = fresh.claim().await.unwrap();
    assert_eq!((claimed.run, claimed.attempt), (first.run, 1));
    assert!(fresh.claim().await.is_none(), "its holder is alive");
    let context =
        fresh.store.run_context(fresh.goal, claimed.run, 10, &PromptLimits::default()).await.unwrap();
    assert_eq!(context.history[0].text(), "one\n\ntwo");
    assert_eq!(context.of_this_run, 1);
    let message = fresh.store.message(fresh.tenant, second.id).await.unwrap();
    assert_eq!(message.status, Some(MessageStatus::Processing));
    let other = goal(&fresh.store, &fresh.ids, fresh.tenant).await;
    assert_eq!(fresh.store.due(None, 10).await.unwrap().due, vec![], "{other} has nothing to do");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_posts_from_sql_in_its_own_transaction() {
    let fresh = Fresh::start().await;
    let mut notifications = fresh.store.listen().await.unwrap();
    let goal = fresh.goal.0;
    let post = format!("select houston.post_message('{goal}', 'from sql', 'key 1')");
    fresh.sql(&format!("begin; {post}; rollback"));
    assert!(fresh.claim().await.is_none(), "what was rolled back was never posted");
    let first = fresh.sql(&post);
    assert_eq!(fresh.sql(&post), first, "the same key, the same message");
    assert_eq!(notifications.recv().await.unwrap(), Some(Notification::Posted(fresh.goal)));
    assert!(fresh.claim().await.is_some());
    let other = goal_of_another(&fresh).await;
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
        let told = fresh.try_sql(&call);
        assert!(told.as_ref().is_err_and(|told| told.contains(word)), "{told:?}");
    }
}
