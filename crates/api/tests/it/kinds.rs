use serde_json::json;

use crate::app::{App, KEY, bearer, make_tenant};

#[tokio::test]
async fn what_people_begin_is_made_and_listed_and_the_rest_says_who_makes_it() {
    let app = App::start().await;
    let body = json!({"user_id": app.user, "title": "x"});
    let told = app.post("/v1/user_agents", body.clone()).await.refused(409, "not_creatable");
    assert!(told["detail"].as_str().unwrap().contains("made with its user"), "{told}");
    let told = app.post("/v1/tasks", body.clone()).await.refused(409, "not_creatable");
    assert!(told["detail"].as_str().unwrap().contains("an agent begins it"), "{told}");
    app.post("/v1/unicorns", body).await.refused(404, "not_found");

    let second = app.make_goal("Sail").await;
    let list = |rest: &str| {
        let path = format!("/v1/goals?user_id={}{rest}", app.user);
        let app = &app;
        async move { app.get(&path).await }
    };
    let page = list("&limit=1").await.ok();
    assert_eq!((&page["data"][0]["id"], &page["has_more"]), (&json!(second), &json!(true)));
    let cursor = page["next_cursor"].as_str().unwrap();
    let page = list(&format!("&cursor={cursor}")).await.ok();
    assert_eq!((&page["data"][0]["id"], &page["has_more"]), (&json!(app.goal), &json!(false)));
    assert_eq!(page["data"][0]["status"], "waiting");
    let own = app.get(&format!("/v1/user_agents?user_id={}", app.user)).await.ok();
    assert_eq!(own["data"].as_array().unwrap().len(), 1, "made with the user");

    let problem = app.get("/v1/goals?user_id=").await.refused(422, "invalid_request");
    assert_eq!(problem["errors"][0]["parameter"], "user_id");
    app.get(&format!("/v1/goals?user_id={}&cursor=m1", app.user)).await.refused(422, "invalid_cursor");
    let other = "hou_other_0123456789abcdef";
    make_tenant(&app.state, "other", other).await;
    let path = format!("/v1/goals?user_id={}", app.user);
    app.get_with(&path, &[("authorization", &bearer(other))]).await.refused(404, "not_found");
    assert_eq!(app.get_with(&path, &[("authorization", &bearer(KEY))]).await.status, 200);
}

#[tokio::test]
async fn each_kind_that_says_so_is_made_with_the_user_and_shown_under_its_name() {
    let app = App::start_for(|kind| kind.made_with_user |= kind.kind == "task").await;
    let user = app.post("/v1/users", json!({"name": "Grace"})).await.ok();
    for kind in ["task", "user_agent"] {
        let id = user[format!("{kind}_id")].as_str().unwrap_or_else(|| panic!("no {kind}: {user}"));
        let own = app.get(&format!("/v1/{kind}s/{id}")).await.ok();
        assert_eq!((&own["user_id"], &own["title"]), (&user["id"], &json!("Grace")));
    }
    assert_eq!(app.get(&format!("/v1/users/{}", user["id"].as_str().unwrap())).await.ok(), user);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_may_be_left_out_where_one_is_found_and_nowhere_else() {
    let app = App::start().await;
    for body in [json!({"user_id": app.user}), json!({"user_id": app.user, "title": ""})] {
        let goal = app.post("/v1/goals", body).await.ok();
        assert_eq!(goal["title"], "");
        let read = app.get(&format!("/v1/goals/{}", goal["id"].as_str().unwrap())).await.ok();
        assert_eq!(read["title"], "");
        let none = app.get(&format!("/v1/goals/{}/compressions", goal["id"].as_str().unwrap())).await.ok();
        assert_eq!((&none["data"], &none["has_more"]), (&json!([]), &json!(false)));
    }
    for title in ["  ", "a\nb\0", &"x".repeat(201)] {
        let refused = app.post("/v1/goals", json!({"user_id": app.user, "title": title})).await;
        assert_eq!(refused.refused(422, "invalid_request")["errors"][0]["pointer"], "/title", "{title}");
    }

    let app = App::start_for(|kind| kind.titles = false).await;
    for body in [json!({"user_id": app.user}), json!({"user_id": app.user, "title": ""})] {
        let refused = app.post("/v1/goals", body).await;
        assert_eq!(refused.refused(422, "invalid_request")["errors"][0]["pointer"], "/title");
    }
    app.get("/v1/goals/goal_00000000000000000000000000000000/compressions").await.refused(404, "not_found");
}
