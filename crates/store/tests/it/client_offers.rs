//! What clients offer runs: it is stored with its message, and only the run that reads the message has it.

use std::sync::Arc;

use houston_domain::client_offer::{ClientOffer, ClientTool, ContextItem};
use houston_domain::id::RunId;
use houston_domain::knowledge::PromptLimits;
use houston_domain::model_policy::{CachePolicy, Latency, ModelPolicy};
use houston_store::idempotency::{Created, IdempotencyKey};
use houston_store::message::{NewPost, Posted};
use serde_json::json;

use crate::test_store::TestStore;

fn offer(tool: &str) -> ClientOffer {
    let parameters = Arc::new(json!({"type": "object"}));
    ClientOffer {
        tools: vec![ClientTool { name: tool.to_owned(), description: "…".to_owned(), parameters }],
        context: vec![ContextItem { description: "page".to_owned(), value: "/hotels".to_owned() }],
        ..ClientOffer::default()
    }
}

/// Where the messages of a client belong.
const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

async fn post(test: &TestStore, offer: &ClientOffer, key: Option<IdempotencyKey<'_>>) -> Created<Posted> {
    let mut post = NewPost::new(test.ids.next(), test.ids.next(), "hi", json!({}));
    post.starts = true;
    post.kind = Some("goal".to_owned());
    post.traceparent = Some(TRACE.to_owned());
    test.requests().post_message_with_offer(test.goal, &post, offer, key).await.unwrap()
}

async fn offered(test: &TestStore, run: RunId) -> Option<ClientOffer> {
    let context = test.runs().run_context(test.goal, run, 10, &PromptLimits::default()).await.unwrap();
    context.client.map(|offer| *offer)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_run_of_its_message_has_an_offer() {
    let test = TestStore::start().await;
    let Created::New(posted) = post(&test, &offer("show_map"), None).await else { panic!("not new") };
    assert_eq!(offered(&test, posted.run).await, Some(offer("show_map")));
    assert_eq!(offered(&test, test.ids.next()).await, None, "another run");
    assert_eq!(test.sql("select traceparent from houston.runs").trim(), TRACE);
    assert_eq!(test.requests().client_tools(test.goal).await.unwrap(), ["show_map"]);

    let joined = test.post("and this").await;
    assert_eq!(joined.run, posted.run);
    assert_eq!(offered(&test, posted.run).await, Some(offer("show_map")), "a message without an offer");
    post(&test, &offer("go_back"), None).await;
    assert_eq!(offered(&test, posted.run).await, Some(offer("go_back")));
    test.requests().change_client_offer(test.goal, &offer("open_page")).await.unwrap();
    assert_eq!(offered(&test, posted.run).await, Some(offer("open_page")));
    assert_eq!(test.sql("select count(*) from houston.client_offers").trim(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_message_changes_no_offer() {
    let test = TestStore::start().await;
    let key = IdempotencyKey { key: "k", request_sha256: &[1; 32] };
    let Created::New(first) = post(&test, &offer("show_map"), Some(key)).await else { panic!("not new") };
    let Created::Replayed(again) = post(&test, &offer("go_back"), Some(key)).await else { panic!("not old") };
    assert_eq!(first.id, again.id);
    assert_eq!(offered(&test, first.run).await, Some(offer("show_map")));
    let other = IdempotencyKey { key: "k", request_sha256: &[2; 32] };
    assert!(matches!(post(&test, &offer("go_back"), Some(other)).await, Created::KeyReused));
}

#[tokio::test(flavor = "multi_thread")]
async fn task_has_the_model_policy_of_the_message_behind_it() {
    let test = TestStore::start().await;
    let model_policy = ModelPolicy { cache: Some(CachePolicy::Long), latency: Some(Latency::Relaxed) };
    post(&test, &ClientOffer { model_policy, ..offer("show_map") }, None).await;
    let claimed = test.claim().await.unwrap();
    let task = crate::tasks::create(&test, &claimed).await.unwrap().unwrap();
    let context = test.runs().run_context(task.id, task.run, 10, &PromptLimits::default()).await.unwrap();
    // Nothing else of what the client offers.
    let expected = ClientOffer { model_policy, ..ClientOffer::default() };
    assert_eq!(context.client.as_deref(), Some(&expected));
    // What the call says counts more, and what it leaves out does not.
    let task = crate::tasks::create_within(&test, &claimed, Latency::Batch).await.unwrap().unwrap();
    let context = test.runs().run_context(task.id, task.run, 10, &PromptLimits::default()).await.unwrap();
    let model_policy = ModelPolicy { latency: Some(Latency::Batch), ..model_policy };
    assert_eq!(context.client.as_deref(), Some(&ClientOffer { model_policy, ..ClientOffer::default() }));
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_other_messages_cost_no_row() {
    let test = TestStore::start().await;
    post(&test, &offer("show_map"), None).await;
    let claimed = test.claim().await.unwrap();
    crate::tasks::create(&test, &claimed).await.unwrap().unwrap();
    assert_eq!(test.sql("select count(*) from houston.client_offers").trim(), "1");
    let task = crate::tasks::create_within(&test, &claimed, Latency::Batch).await.unwrap().unwrap();
    let context = test.runs().run_context(task.id, task.run, 10, &PromptLimits::default()).await.unwrap();
    let latency = context.client.unwrap().model_policy.latency;
    assert_eq!(latency, Some(Latency::Batch));
}

#[tokio::test(flavor = "multi_thread")]
async fn context_has_the_pauses_between_answers_and_messages() {
    use houston_domain::history::{Block, Entry};
    use houston_domain::step::{RunTransition, Step};
    let test = TestStore::start().await;
    test.post("go").await;
    let claimed = test.claim().await.unwrap();
    let said = |text: &str| vec![Block::text(text)];
    let entries = vec![
        Entry::assistant(said("one")),
        Entry::user(said("two")),
        Entry::assistant(said("three")),
        Entry::user(said("four")),
        Entry::assistant(said("five")),
    ];
    let step = Step { entries, ..test.step(&claimed, RunTransition::Continue { read: true, event: None }) };
    test.runs().commit(&claimed.fence, &step).await.unwrap();
    test.sql(
        "update houston.history h set created_at = '2026-11-22T12:00:00Z'::timestamptz + n.seconds * interval '1 second'
           from (select position, (array[0, 10, 70, 75, 675, 680])[row_number() over (order by position)] as seconds
                   from houston.history) n where n.position = h.position",
    );
    let mut context =
        test.runs().run_context(test.goal, claimed.run, 10, &PromptLimits::default()).await.unwrap();
    assert_eq!(context.pauses, [60, 600]);
    assert_eq!(context.pauses_until("2026-11-22T12:12:00Z".parse().unwrap()), [60, 600, 40]);
}
