//! Rate limits over HTTP: headers, refusals, what is counted and what is not.

use houston_domain::rate::{Quota, RateLimits, TokenQuota, WhenExceeded};
use serde_json::{Value, json};

use crate::http::Answer;
use crate::test_api::TestApi;

/// Long, so that little comes back while a test runs.
const WINDOW: u32 = 6_000;

const LIMITS: RateLimits = RateLimits { requests: Quota { quota: 3, window_s: WINDOW }, ..RateLimits::USUAL };

const POLICY: &str = r#""requests";q=3;w=6000, "tokens";q=30000;w=60"#;

fn left(answer: &Answer) -> u32 {
    let text = answer.header("ratelimit");
    let rest = text.strip_prefix("\"requests\";r=").unwrap_or_else(|| panic!("{text:?}"));
    rest.split(';').next().unwrap().parse().unwrap()
}

async fn post(api: &TestApi, headers: &[(&str, &str)]) -> Answer {
    api.post_with(&api.path("/messages"), headers, json!({"content": "hello"})).await
}

/// Lets time pass for all limits.
fn pass(api: &TestApi, seconds: u32) {
    api.sql(&format!("update houston.rates set free_at = free_at - make_interval(secs => {seconds})"));
}

#[tokio::test]
async fn requests_beyond_the_limit_are_refused_until_they_may_come() {
    let api = TestApi::start_with_rates(LIMITS).await;
    for expected in [2, 1, 0] {
        let answer = post(&api, &[("idempotency-key", &format!("key {expected}"))]).await;
        assert_eq!((answer.status, left(&answer)), (202, expected), "{}", answer.text());
        assert_eq!(answer.header("ratelimit-policy"), POLICY);
        assert!(answer.header("ratelimit").ends_with(r#", "tokens";r=30000;t=0"#));
    }
    let refused = post(&api, &[]).await;
    let problem = refused.refused(429, "rate_limited");
    assert_eq!(problem["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
    assert_eq!((&problem["violated-policies"], &problem["limit"]), (&json!(["requests"]), &json!(3)));
    let seconds: u64 = refused.header("retry-after").parse().unwrap();
    let millis = problem["retry_after_ms"].as_u64().unwrap();
    assert!((1..=2_000).contains(&seconds) && millis.div_ceil(1000).max(1) == seconds, "{seconds} {millis}");
    assert_eq!((left(&refused), refused.header("ratelimit-policy")), (0, POLICY));
    let replayed = post(&api, &[("idempotency-key", "key 1")]).await;
    assert_eq!((replayed.status, left(&replayed)), (202, 0), "what was posted before is answered");
    assert_eq!(replayed.header("idempotent-replayed"), "true");
    let bob = api.post("/v1/users", json!({"name": "Bob"})).await.ok()["id"].clone();
    let goal = api.post("/v1/goals", json!({"user_id": bob, "title": "x"})).await.ok()["id"].clone();
    let path = format!("/v1/goals/{}/messages", goal.as_str().unwrap());
    assert_eq!(left(&api.post(&path, json!({"content": "hi"})).await), 2, "another user");
    assert_eq!(post(&api, &[]).await.status, 429);
    pass(&api, 2_000);
    assert_eq!(post(&api, &[]).await.status, 202, "accepted after Retry-After");
}

#[tokio::test]
async fn everything_that_starts_work_is_counted_and_nothing_else() {
    let limits = RateLimits { requests: Quota { quota: 10, window_s: WINDOW }, ..LIMITS };
    let api = TestApi::start_with_rates(limits).await;
    let check_in = json!({"in_minutes": 60, "reason": "look"});
    assert_eq!(left(&api.post(&api.path("/check-ins"), check_in).await), 9);
    let with_message = json!({"user_id": api.user, "title": "t", "message": {"content": "hi"}});
    assert_eq!(left(&api.post("/v1/goals", with_message).await), 8);
    assert_eq!(left(&api.post(&format!("/v1/users/{}/feed/generate", api.user), Value::Null).await), 7);
    let run = json!({"threadId": api.goal, "runId": "1", "messages": [{"id": "a", "role": "user", "content": "hi"}],
                     "tools": [], "context": [], "state": {}, "forwardedProps": {}});
    let key = crate::test_api::bearer(crate::test_api::KEY);
    let headers = [("authorization", key.as_str()), ("content-type", "application/json")];
    let path = api.path("/ag-ui");
    let streams = crate::http::Stream::send(api.address, "POST", &path, &headers, &run.to_string()).await;
    let stream = streams.unwrap();
    assert_eq!(stream.status, 200);
    assert!(
        stream.headers["ratelimit"].to_str().unwrap().starts_with("\"requests\";r=6;"),
        "{:?}",
        stream.headers
    );
    let without_message = api.post("/v1/goals", json!({"user_id": api.user, "title": "t"})).await;
    assert_eq!((without_message.status, without_message.header("ratelimit-policy").len() > 9), (201, true));
    assert!(without_message.headers.get("ratelimit").is_none(), "nothing was asked");
    let invalid = api.post(&api.path("/messages"), json!({"content": ""})).await;
    invalid.refused(422, "empty_message");
    assert!(!invalid.header("ratelimit-policy").is_empty());
    assert!(api.get(&api.path("/messages")).await.headers.get("ratelimit-policy").is_none());
    assert_eq!(left(&post(&api, &[]).await), 5);
}

#[tokio::test]
async fn user_created_by_the_same_request_is_counted() {
    let keys = Quota { quota: 2, window_s: WINDOW };
    let api = TestApi::start_with_rates(RateLimits { keys, ..LIMITS }).await;
    let new = |name: &str| {
        let user = json!({"name": name, "external_id": name});
        json!({"user": user, "title": "t", "message": {"content": "hi"}})
    };
    let made = api.post("/v1/goals", new("Ann")).await;
    assert_eq!((made.status, left(&made)), (201, 2), "{}", made.text());
    let path = format!("/v1/goals/{}/messages", made.json()["id"].as_str().unwrap());
    assert_eq!(left(&api.post(&path, json!({"content": "more"})).await), 1, "the same user");
    let refused = api.post("/v1/goals", new("Bob")).await;
    assert_eq!(refused.refused(429, "rate_limited")["violated-policies"], json!(["key"]));
    assert_eq!(api.get("/v1/users?external_id=Bob").await.ok()["data"], json!([]), "no user was created");
}

#[tokio::test]
async fn used_up_tokens_refuse_requests_only_if_configured() {
    for (when_exceeded, status) in [(WhenExceeded::Wait, 202), (WhenExceeded::Reject, 429)] {
        let tokens = TokenQuota { when_exceeded, ..RateLimits::USUAL.tokens };
        let api = TestApi::start_with_rates(RateLimits { tokens, ..LIMITS }).await;
        api.sql(
            "insert into houston.rates (owner_id, name, free_at)
             select id, 'tokens', now() + interval '90 seconds' from houston.users",
        );
        let answer = post(&api, &[]).await;
        assert_eq!(answer.status, status, "{}", answer.text());
        assert!(answer.header("ratelimit").contains(r#""tokens";r=0;t="#), "{}", answer.header("ratelimit"));
        if status == 429 {
            let problem = answer.refused(429, "rate_limited");
            assert_eq!(problem["violated-policies"], json!(["tokens"]));
            assert_eq!(left(&answer), 3, "it was not counted");
        }
    }
}

#[tokio::test]
async fn without_limits_nothing_is_asked_and_no_header_is_sent() {
    let api = TestApi::start().await;
    for _ in 0..30 {
        let answer = post(&api, &[]).await;
        assert_eq!(answer.status, 202);
        assert!(answer.headers.keys().all(|name| !name.as_str().starts_with("ratelimit")));
    }
    assert_eq!(api.sql("select count(*) from houston.rates").trim(), "0");
}
