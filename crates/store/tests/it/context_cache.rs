//! What providers have answered, and what the last run with a focus was about.

use std::time::Duration;

use houston_domain::client_offer::ClientOffer;
use houston_domain::focus::{Focus, FocusRef};
use houston_domain::id::UserId;
use houston_domain::knowledge::PromptLimits;
use houston_store::context_cache::CacheKey;
use houston_store::idempotency::Created;
use houston_store::message::{NewPost, Posted};
use serde_json::json;

use crate::test_store::TestStore;

const WITHIN: Duration = Duration::from_secs(30);
const FRESH: Duration = Duration::from_secs(300);

fn user(test: &TestStore) -> UserId {
    let user = test.sql(&format!("select user_id from houston.agentables where id = '{}'", test.goal.0));
    UserId(user.trim().parse().unwrap())
}

fn key(test: &TestStore, id: &str) -> CacheKey {
    let (kind, tool) = ("order".to_owned(), "get_order".to_owned());
    CacheKey { tenant: test.tenant, user: user(test), kind, id: id.to_owned(), tool }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_kept_for_five_minutes_and_asked_once() {
    let test = TestStore::start().await;
    let (cache, key) = (test.runs().context_cache(), key(&test, "17"));
    assert_eq!(cache.get(&key, FRESH).await.unwrap(), None);
    let began = cache.begin(&key, WITHIN).await.unwrap().unwrap();
    assert_eq!(cache.begin(&key, WITHIN).await.unwrap(), None, "another asks");
    cache.end(&key, began, Some("open")).await.unwrap();
    let found = cache.get(&key, FRESH).await.unwrap().unwrap();
    assert_eq!((found.answer.as_str(), found.is_fresh), ("open", true));

    test.sql("update houston.context_cache set fetched_at = now() - interval '301 s'");
    let found = cache.get(&key, FRESH).await.unwrap().unwrap();
    assert_eq!((found.answer.as_str(), found.is_fresh), ("open", false), "it is used while it is asked anew");
    let again = cache.begin(&key, WITHIN).await.unwrap().unwrap();
    cache.end(&key, again, None).await.unwrap();
    assert_eq!(cache.get(&key, FRESH).await.unwrap().unwrap().answer, "open", "a failure keeps the old one");
    let again = cache.begin(&key, WITHIN).await.unwrap().unwrap();
    cache.end(&key, again, Some(&"x".repeat(70_000))).await.unwrap();
    assert_eq!(cache.get(&key, FRESH).await.unwrap().unwrap().answer, "open", "what is too long is not kept");

    let other = CacheKey { user: test.ids.next(), ..key.clone() };
    assert_eq!(cache.get(&other, FRESH).await.unwrap(), None);
    assert_eq!(cache.begin(&other, WITHIN).await.unwrap(), None, "there is no such user");
    let other = CacheKey { tenant: test.ids.next(), ..key };
    assert_eq!(cache.get(&other, FRESH).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn written_thing_voids_its_answers_also_those_under_way() {
    let test = TestStore::start().await;
    let (cache, key, other) = (test.runs().context_cache(), key(&test, "17"), key(&test, "18"));
    for key in [&key, &other] {
        let began = cache.begin(key, WITHIN).await.unwrap().unwrap();
        cache.end(key, began, Some("open")).await.unwrap();
    }
    test.sql("update houston.context_cache set fetched_at = now() - interval '301 s'");
    let before = cache.begin(&key, WITHIN).await.unwrap().unwrap();
    cache.void(test.tenant, user(&test), &["17".to_owned(), "19".to_owned()]).await.unwrap();
    assert_eq!(cache.get(&key, FRESH).await.unwrap(), None);
    cache.end(&key, before, Some("open")).await.unwrap();
    assert_eq!(cache.get(&key, FRESH).await.unwrap(), None, "it was asked for before the thing was written");
    assert!(cache.get(&other, FRESH).await.unwrap().is_some());
    let after = cache.begin(&key, WITHIN).await.unwrap().unwrap();
    cache.end(&key, after, Some("paid")).await.unwrap();
    assert_eq!(cache.get(&key, FRESH).await.unwrap().unwrap().answer, "paid");
}

#[tokio::test(flavor = "multi_thread")]
async fn number_of_answers_of_a_user_is_bounded() {
    let test = TestStore::start().await;
    let cache = test.runs().context_cache();
    for nth in 0..205 {
        let key = key(&test, &nth.to_string());
        let began = cache.begin(&key, WITHIN).await.unwrap().unwrap();
        cache.end(&key, began, Some("open")).await.unwrap();
    }
    let kept: u32 = test.sql("select count(*) from houston.context_cache").trim().parse().unwrap();
    assert!(kept <= 201, "{kept}");
    assert!(cache.get(&key(&test, "204"), FRESH).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_older_than_a_day_are_neither_shown_nor_kept() {
    let test = TestStore::start().await;
    let (cache, key, failed) = (test.runs().context_cache(), key(&test, "17"), key(&test, "18"));
    let began = cache.begin(&key, WITHIN).await.unwrap().unwrap();
    cache.end(&key, began, Some("open")).await.unwrap();
    let began = cache.begin(&failed, WITHIN).await.unwrap().unwrap();
    cache.end(&failed, began, None).await.unwrap();
    assert!(cache.begin(&failed, WITHIN).await.unwrap().is_some(), "after a failure the next one asks");
    let order = FocusRef { kind: "order".to_owned(), id: "17".to_owned() };
    let seen = cache.of_agentable(test.goal, &order, "get_order", FRESH);
    assert_eq!(seen.await.unwrap().unwrap().answer, "open");
    assert_eq!(cache.forget_old(10).await.unwrap(), 0);
    test.sql(
        "update houston.context_cache set fetched_at = fetched_at - interval '25 h',
                refreshing_until = refreshing_until - interval '25 h'",
    );
    assert_eq!(cache.get(&key, FRESH).await.unwrap(), None);
    assert_eq!(cache.forget_old(1).await.unwrap(), 1);
    assert_eq!(cache.forget_old(10).await.unwrap(), 1, "one that was never answered is forgotten, too");
}

async fn post(test: &TestStore, id: &str) -> Posted {
    let focus = Focus { kind: "order".to_owned(), id: id.to_owned(), data: None };
    let offer = ClientOffer { focus: Some(focus), ..ClientOffer::default() };
    let mut post = NewPost::new(test.ids.next(), test.ids.next(), "hi", json!({}));
    post.starts = true;
    post.kind = Some("goal".to_owned());
    match test.requests().post_message_with_offer(test.goal, &post, &offer, None).await.unwrap() {
        Created::New(posted) => posted,
        other => panic!("{other:?}"),
    }
}

/// The focuses of the last run and of this one.
async fn focuses(test: &TestStore, posted: &Posted) -> (Option<String>, Option<String>) {
    let context = test.runs().run_context(test.goal, posted.run, 10, &PromptLimits::default()).await.unwrap();
    let client = context.client.unwrap();
    (client.last_focus.map(|focus| focus.id), client.focus.map(|focus| focus.id))
}

#[tokio::test(flavor = "multi_thread")]
async fn last_focus_is_that_of_another_run() {
    let test = TestStore::start().await;
    let id = |id: &str| Some(id.to_owned());
    let first = post(&test, "17").await;
    assert_eq!(focuses(&test, &first).await, (None, id("17")));
    let joined = post(&test, "18").await;
    assert_eq!(joined.run, first.run);
    assert_eq!(focuses(&test, &joined).await, (None, id("18")), "of one run's messages the last counts");
    test.sql("update houston.messages set run_id = gen_random_uuid()");
    let next = post(&test, "19").await;
    assert_eq!(focuses(&test, &next).await, (id("18"), id("19")));
    let joined = post(&test, "20").await;
    assert_eq!(focuses(&test, &joined).await, (id("18"), id("20")));
}
