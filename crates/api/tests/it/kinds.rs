use serde_json::json;

use crate::test_api::{KEY, TestApi, bearer, make_tenant};

#[tokio::test]
async fn only_user_creatable_kinds_are_created_all_are_listed() {
    let api = TestApi::start().await;
    let body = json!({"user_id": api.user, "title": "x"});
    let problem = api.post("/v1/user_agents", body.clone()).await.refused(409, "not_creatable");
    assert!(problem["detail"].as_str().unwrap().contains("created with its user"), "{problem}");
    let problem = api.post("/v1/tasks", body.clone()).await.refused(409, "not_creatable");
    assert!(problem["detail"].as_str().unwrap().contains("only agents create it"), "{problem}");
    api.post("/v1/unicorns", body).await.refused(404, "not_found");

    let second = api.make_goal("Sail").await;
    let list = |rest: &str| {
        let path = format!("/v1/goals?user_id={}{rest}", api.user);
        let api = &api;
        async move { api.get(&path).await }
    };
    let page = list("&limit=1").await.ok();
    assert_eq!((&page["data"][0]["id"], &page["has_more"]), (&json!(second), &json!(true)));
    let cursor = page["next_cursor"].as_str().unwrap();
    let page = list(&format!("&cursor={cursor}")).await.ok();
    assert_eq!((&page["data"][0]["id"], &page["has_more"]), (&json!(api.goal), &json!(false)));
    assert_eq!(page["data"][0]["status"], "waiting");
    let own = api.get(&format!("/v1/user_agents?user_id={}", api.user)).await.ok();
    assert_eq!(own["data"].as_array().unwrap().len(), 1, "created with the user");

    let problem = api.get("/v1/goals?user_id=").await.refused(422, "invalid_request");
    assert_eq!(problem["errors"][0]["parameter"], "user_id");
    api.get(&format!("/v1/goals?user_id={}&cursor=m1", api.user)).await.refused(422, "invalid_cursor");
    let other = "hou_other_0123456789abcdef";
    make_tenant(&api.store, &api.state.ids, "other", other).await;
    let path = format!("/v1/goals?user_id={}", api.user);
    api.get_with(&path, &[("authorization", &bearer(other))]).await.refused(404, "not_found");
    assert_eq!(api.get_with(&path, &[("authorization", &bearer(KEY))]).await.status, 200);
}

#[tokio::test]
async fn made_with_user_kinds_are_created_and_shown_with_users() {
    let api = TestApi::start_with_types(|kind| kind.made_with_user |= kind.kind == "task").await;
    let user = api.post("/v1/users", json!({"name": "Grace"})).await.ok();
    for kind in ["task", "user_agent"] {
        let id = user[format!("{kind}_id")].as_str().unwrap_or_else(|| panic!("no {kind}: {user}"));
        let own = api.get(&format!("/v1/{kind}s/{id}")).await.ok();
        assert_eq!((&own["user_id"], &own["title"]), (&user["id"], &json!("Grace")));
    }
    assert_eq!(api.get(&format!("/v1/users/{}", user["id"].as_str().unwrap())).await.ok(), user);
}

#[tokio::test(flavor = "multi_thread")]
async fn title_is_optional_only_for_kinds_that_generate_titles() {
    let api = TestApi::start().await;
    for body in [json!({"user_id": api.user}), json!({"user_id": api.user, "title": ""})] {
        let goal = api.post("/v1/goals", body).await.ok();
        assert_eq!(goal["title"], "");
        let read = api.get(&format!("/v1/goals/{}", goal["id"].as_str().unwrap())).await.ok();
        assert_eq!(read["title"], "");
        let none = api.get(&format!("/v1/goals/{}/compressions", goal["id"].as_str().unwrap())).await.ok();
        assert_eq!((&none["data"], &none["has_more"]), (&json!([]), &json!(false)));
    }
    for title in ["  ", "a\nb\0", &"x".repeat(201)] {
        let refused = api.post("/v1/goals", json!({"user_id": api.user, "title": title})).await;
        assert_eq!(refused.refused(422, "invalid_request")["errors"][0]["pointer"], "/title", "{title}");
    }

    let api = TestApi::start_with_types(|kind| kind.titles = false).await;
    for body in [json!({"user_id": api.user}), json!({"user_id": api.user, "title": ""})] {
        let refused = api.post("/v1/goals", body).await;
        assert_eq!(refused.refused(422, "invalid_request")["errors"][0]["pointer"], "/title");
    }
    api.get("/v1/goals/goal_00000000000000000000000000000000/compressions").await.refused(404, "not_found");
}
