use serde_json::json;

use crate::test_api::{KEY, TestApi, bearer, make_tenant};

#[tokio::test]
async fn unchanged_answers_are_not_sent_again() {
    let api = TestApi::start().await;
    let key = bearer(KEY);
    for path in ["/v1/goals".to_owned(), api.path(""), api.path("/messages")] {
        let first = api.get(&path).await;
        let tag = first.header("etag").to_owned();
        assert!(first.status == 200 && tag.starts_with("W/\""), "{path}: {tag}");
        assert_eq!(first.header("cache-control"), "no-store");
        let with = [("authorization", key.as_str()), ("if-none-match", tag.as_str())];
        let same = api.get_with(&path, &with).await;
        assert_eq!((same.status, same.body.len(), same.header("etag")), (304, 0, tag.as_str()), "{path}");
        let other = [("authorization", key.as_str()), ("if-none-match", "W/\"other\"")];
        assert_eq!(api.get_with(&path, &other).await.status, 200, "{path}");
        api.post_message("hello").await;
        api.send("PATCH", &api.path(""), json!({"title": path})).await.ok();
        let changed = api.get_with(&path, &with).await;
        assert!(changed.status == 200 && changed.header("etag") != tag, "{path}: {}", changed.status);
    }
}

#[tokio::test]
async fn only_json_answers_of_get_have_tags() {
    let api = TestApi::start().await;
    api.post_message("hello").await;
    let missing = api.get("/v1/runs/run_00000000000000000000000000000000").await;
    assert_eq!((missing.status, missing.header("etag")), (404, ""));
    let posted = api.post("/v1/users", json!({"name": "Bob"})).await;
    assert_eq!((posted.status, posted.header("etag")), (201, ""));
    let path = api.path("/events?after=0");
    let stream = api.stream_at(&path, None).await.unwrap();
    assert!(stream.headers.get("etag").is_none());
    // The tag of one caller is of no use to another.
    let tag = api.get(&api.path("")).await.header("etag").to_owned();
    make_tenant(&api.store, &api.state.ids, "other", "hou_other_0123456789").await;
    let key = bearer("hou_other_0123456789");
    let with = [("authorization", key.as_str()), ("if-none-match", tag.as_str())];
    api.get_with(&api.path(""), &with).await.refused(404, "not_found");
}
