use super::*;

fn target(method: Method, path: &str) -> Target {
    Target::of(&method, &path.parse().unwrap())
}

#[test]
fn the_id_in_a_path_names_the_cell() {
    let goal = "goal_019000000000700080000000000012ab";
    for path in [format!("/v1/goals/{goal}"), format!("/v1/goals/{goal}/messages?limit=3")] {
        assert_eq!(target(Method::POST, &path), Target::Of(Shard(0x12ab)), "{path}");
    }
    let link = format!("/approve/{}/0123", goal.replace("goal", "question"));
    assert_eq!(target(Method::POST, &link), Target::Of(Shard(0x12ab)));
    let login = format!("/mcp/login?code=x&state={}.0123", goal.replace("goal", "user"));
    assert_eq!(target(Method::GET, &login), Target::Of(Shard(0x12ab)));
    assert_eq!(target(Method::GET, "/mcp/login?state=tenant.0123"), Target::Home);
    let of_user = format!("/v1/goals?user_id={}&limit=2", goal.replace("goal", "user"));
    assert_eq!(target(Method::GET, &of_user), Target::Of(Shard(0x12ab)));
    assert_eq!(target(Method::GET, "/v1/goals/goal_12"), Target::Home, "the endpoint refuses it");
    let delivery = goal.replace("goal", "delivery");
    let again = format!("/v1/webhooks/webhook_1/deliveries/{delivery}/redeliver");
    assert_eq!(target(Method::POST, &again), Target::Of(Shard(0x12ab)));
    let hook = format!("/hooks/{}", goal.replace("goal", "hook"));
    assert_eq!(target(Method::POST, &hook), Target::Of(Shard(0x12ab)));
}

#[test]
fn requests_without_an_id_go_to_the_home_or_to_all() {
    let agent = "/v1/agents/agent_019000000000700080000000000012ab";
    assert_eq!(target(Method::PATCH, agent), Target::Copied);
    for copied in ["/v1/teams", "/v1/webhooks/webhook_1", "/v1/skills/one", agent] {
        assert_eq!(target(Method::GET, copied), Target::Any, "{copied}");
        assert_eq!(target(Method::PUT, copied), Target::Copied, "{copied}");
    }
    assert_eq!(target(Method::GET, "/v1/kinds"), Target::Copied);
    assert_eq!(target(Method::PATCH, "/v1/webhooks/webhook_1"), Target::Copied);
    assert_eq!(target(Method::GET, "/v1/events"), Target::Home);
    for path in ["/v1/key", "/v1/models", "/v1/models/openai%2Fgpt-5-mini", "/compat/openai/v1/models"] {
        assert_eq!(target(Method::GET, path), Target::Any, "{path}");
    }
    let deliveries = "/v1/webhooks/webhook_1/deliveries";
    assert_eq!(target(Method::GET, deliveries), Target::Page(List::Deliveries));
    assert_eq!(target(Method::GET, "/v1/users?external_id=7"), Target::Page(List::Users));
    assert_eq!(target(Method::GET, "/v1/projects"), Target::Page(List::Agentables));
    assert_eq!(target(Method::GET, "/v1/erasures"), Target::Page(List::Erasures));
    assert_eq!(target(Method::GET, "/v1/questions"), Target::Page(List::Questions));
    assert_eq!(target(Method::GET, "/v1/health"), Target::Health);
    assert_eq!(target(Method::GET, "/v1/health/history"), Target::Any);
    assert_eq!(target(Method::GET, "/readyz"), Target::Ready);
    assert_eq!(target(Method::GET, "/v1/workers"), Target::Any);
    assert_eq!(target(Method::GET, "/v1/runs?status=failed"), Target::Any);
    assert_eq!(target(Method::GET, "/v1/triggers"), Target::Any);
    assert_eq!(target(Method::POST, "/v1/runs/retry"), Target::Home);
    assert_eq!(target(Method::POST, &format!("/v1/workers/worker_{}/drain", "0".repeat(32))), Target::Home);
    for path in [
        "/v1/users",
        "/v1/goals",
        "/v1/goals/import",
        "/v1/import/goals",
        "/v1/models/estimate",
        "/compat/openai/v1/responses",
        "/compat/openai/v1/responses/resp_1/cancel",
        "/compat/ai-sdk/goal",
        "/ag-ui/goal",
        "/a2a/goal/message:send",
    ] {
        assert_eq!(target(Method::POST, path), Target::Any, "{path}");
    }
    for path in ["/", "/openapi.json"] {
        assert_eq!(target(Method::POST, path), Target::Home, "{path}");
    }
}
