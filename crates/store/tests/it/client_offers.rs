//! What clients offer runs: it is stored with its message, and only the run that reads the message has it.

use std::sync::Arc;

use houston_domain::agentable::DoubleTexting;
use houston_domain::client_offer::{ClientOffer, ClientTool, ContextItem};
use houston_domain::id::RunId;
use houston_domain::knowledge::PromptLimits;
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
    let metadata = json!({});
    let post = NewPost {
        traceparent: Some(TRACE),
        kind: Some("goal"),
        id: test.ids.next(),
        run: test.ids.next(),
        content: "hi",
        metadata: &metadata,
        double_texting: DoubleTexting::Enqueue,
        starts: true,
    };
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
