//! Teams: a rule or a model picks the agent that answers, once per run, and every view names it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use houston_testkit::model_server::{Gate, Reply};
use serde_json::{Value, json};

use crate::scripted::{Asked, Scripted, answer};
use crate::test_houston::PATIENCE;

/// A routing answer that picks this agent.
fn routing_answer(agent: &str) -> Reply {
    Reply::text(json!({"agent": agent, "reason": "it knows"}).to_string())
}

/// The routing events of a goal's stream.
async fn routed(scripted: &Scripted, goal: &str) -> Vec<Value> {
    let events = Mutex::new(Vec::new());
    scripted
        .houston
        .watch_with(&format!("/v1/goals/{goal}/events?after=0"), |event| {
            if event["name"] == "houston.team.routed" {
                events.lock().unwrap().push(event["value"].clone());
            }
        })
        .await;
    events.into_inner().unwrap()
}

/// Creates two agents, a cook and a clerk.
async fn two_agents(scripted: &Scripted) -> [String; 2] {
    let cook =
        scripted.agent("cook", json!({"description": "knows recipes", "tools": ["send_message"]})).await;
    let clerk = scripted.agent("clerk", json!({"description": "knows invoices", "model": "rare"})).await;
    [cook, clerk]
}

/// Creates a team and a goal that it answers.
async fn goal_of_team(scripted: &Scripted, agents: &[String; 2], router: Value) -> (String, String) {
    let body = json!({"name": "office", "agents": agents, "router": router});
    let team = scripted.ok("POST", "/v1/teams", body).await["id"].as_str().unwrap().to_owned();
    let goal = scripted.goal(json!({"team_id": team})).await;
    (team, goal)
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_picks_the_agent_and_every_view_agrees() {
    let scripted = Scripted::start(answer).await;
    let _worker = scripted.worker("local/usual");
    let agents = two_agents(&scripted).await;
    let [cook, clerk] = &agents;
    let router = json!({"by": "rules", "rules": [
        {"when": {"contains": "invoice"}, "agent_id": clerk},
        {"when": {"regex": "^/cook\\b"}, "agent_id": cook},
    ]});
    let (team, goal) = goal_of_team(&scripted, &agents, router).await;
    assert_eq!(scripted.ask(&goal, "Where is my INVOICE?").await, "CLERK by rare");
    assert_eq!(scripted.ask(&goal, "/cook some rice").await, "COOK by usual");
    assert_eq!(
        scripted.ask(&goal, "hello").await,
        "COOK by usual",
        "the first of the team when no rule holds"
    );
    let last = scripted.asked().pop().unwrap();
    assert_eq!(last.texts, ["Where is my INVOICE?", "/cook some rice", "hello"], "one history for all");
    assert!(!scripted.asked().iter().any(Asked::routes), "no model was asked who answers");

    let routes = routed(&scripted, &goal).await;
    let by: Vec<_> = routes.iter().map(|one| (one["agent_name"].as_str(), one["by"].as_str())).collect();
    let expected = [("clerk", "rule"), ("cook", "rule"), ("cook", "default")];
    assert_eq!(by, expected.map(|(name, by)| (Some(name), Some(by))));
    assert_eq!((&routes[0]["team_id"], &routes[0]["agent_id"]), (&json!(team), &json!(clerk)));
    let thread = scripted.houston.get(&format!("/v1/goals/{goal}/messages?limit=100")).await;
    let wrote: Vec<_> =
        thread["data"].as_array().unwrap().iter().filter(|one| one["source"] == "agent").collect();
    assert_eq!(wrote.last().unwrap()["metadata"]["agent"], json!({"id": clerk, "name": "clerk"}));

    // A disabled agent is skipped, and changed rules apply from the next run.
    scripted.ok("PATCH", &format!("/v1/agents/{clerk}"), json!({"enabled": false})).await;
    assert_eq!(scripted.ask(&goal, "Where is my invoice?").await, "COOK by usual");
    scripted.ok("PATCH", &format!("/v1/agents/{clerk}"), json!({"enabled": true})).await;
    let rules = json!({"by": "rules", "rules": [{"when": {"longer_than": 3}, "agent_id": clerk}]});
    scripted.ok("PATCH", &format!("/v1/teams/{team}"), json!({"router": rules})).await;
    assert_eq!(scripted.ask(&goal, "/cook some rice").await, "CLERK by rare");
}

#[tokio::test(flavor = "multi_thread")]
async fn model_router_picks_an_agent_and_its_cost_is_counted() {
    let scripted =
        Scripted::start(|asked| if asked.routes() { routing_answer("clerk") } else { answer(asked) }).await;
    let _worker = scripted.worker("local/usual");
    let agents = two_agents(&scripted).await;
    let (_, goal) = goal_of_team(&scripted, &agents, json!({"by": "model"})).await;
    assert_eq!(scripted.ask(&goal, "I paid twice").await, "CLERK by rare");
    let asked = scripted.asked();
    let [pick, answer] = &asked[..] else { panic!("{asked:?}") };
    assert!(pick.routes() && pick.tools.is_empty() && pick.model == "usual", "{pick:?}");
    for words in ["knows recipes", "knows invoices", "\"clerk\""] {
        assert!(pick.system.contains(words), "`{}` does not contain `{words}`", pick.system);
    }
    assert!(pick.texts.concat().contains("I paid twice"), "{pick:?}");
    assert!(!answer.routes());
    let routes = routed(&scripted, &goal).await;
    assert_eq!((routes[0]["by"].as_str(), routes[0]["reason"].as_str()), (Some("model"), Some("it knows")));
    let run = scripted.houston.get(&format!("/v1/goals/{goal}")).await["run_id"].as_str().unwrap().to_owned();
    let calls = scripted.houston.get(&format!("/v1/runs/{run}/model_calls")).await;
    let models: Vec<_> = calls["data"].as_array().unwrap().iter().map(|call| call["model"].clone()).collect();
    assert!(models.len() == 2 && models.contains(&json!("usual")), "both calls are counted: {calls}");
    let run = scripted.houston.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(run["model"], "local/rare", "the run's model is the one that answered: {run}");
}

#[tokio::test(flavor = "multi_thread")]
async fn default_agent_answers_when_the_router_fails() {
    let broken = Arc::new(Mutex::new(Reply::status(500)));
    let replies = Arc::clone(&broken);
    let scripted =
        Scripted::start(
            move |asked| {
                if asked.routes() { replies.lock().unwrap().clone() } else { answer(asked) }
            },
        )
        .await;
    let _worker = scripted.houston.worker_with(&[
        ("HOUSTON_MODEL", "local/usual"),
        ("HOUSTON_LOCAL_URL", &scripted.model.url()),
        ("HOUSTON_TEAMS__TIMEOUT_MS", "500"),
    ]);
    let agents = two_agents(&scripted).await;
    let (team, goal) = goal_of_team(&scripted, &agents, json!({"by": "model"})).await;
    scripted.ok("PATCH", &format!("/v1/teams/{team}"), json!({"default_agent_id": agents[1]})).await;
    for reply in [Reply::status(400), routing_answer("butcher"), Reply::text("no JSON"), Reply::hang()] {
        *broken.lock().unwrap() = reply;
        assert_eq!(scripted.ask(&goal, "hello").await, "CLERK by rare");
    }
    let routes = routed(&scripted, &goal).await;
    assert_eq!(routes.len(), 4);
    assert!(routes.iter().all(|one| one["by"] == "default" && one["agent_name"] == "clerk"), "{routes:?}");
    assert!(routes[3]["reason"].as_str().unwrap().contains("500 ms"), "{routes:?}");
    // No agent is left: the run fails with a message to the user.
    for agent in &agents {
        scripted.ok("PATCH", &format!("/v1/agents/{agent}"), json!({"enabled": false})).await;
    }
    let posted =
        scripted.ok("POST", &format!("/v1/goals/{goal}/messages"), json!({"content": "hello"})).await;
    assert_eq!(scripted.houston.wait_until_answered(&posted).await["status"], "failed");
    let run =
        scripted.houston.get(&format!("/v1/runs/{}", posted["run_id"].as_str().unwrap())).await.to_string();
    assert!(run.contains("AGENT_UNAVAILABLE") && run.contains("`office`"), "{run}");
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_after_routing_keeps_the_chosen_agent() {
    let gate = Gate::new();
    let (held, picked) = (gate.clone(), Arc::new(AtomicUsize::new(0)));
    let scripted = Scripted::start(move |asked| {
        if !asked.routes() {
            return answer(asked).held_by(&held);
        }
        // A second routing call would pick the other agent.
        routing_answer(if picked.fetch_add(1, Ordering::Relaxed) == 0 { "clerk" } else { "cook" })
    })
    .await;
    let agents = two_agents(&scripted).await;
    let (_, goal) = goal_of_team(&scripted, &agents, json!({"by": "model"})).await;
    let mut first = scripted.worker("local/usual");
    let posted =
        scripted.ok("POST", &format!("/v1/goals/{goal}/messages"), json!({"content": "hello"})).await;
    let answering = |wanted: usize| {
        scripted.model.journal().wait_until(PATIENCE, move |journal| journal.calls() == wanted)
    };
    assert!(answering(2).await, "the route is stored, and its agent is called");
    first.kill().unwrap();
    let _second = scripted.worker("local/usual");
    assert!(answering(3).await, "the other worker asks");
    gate.open();
    assert_eq!(scripted.houston.wait_until_answered(&posted).await["status"], "answered");
    assert_eq!(scripted.houston.agent_texts(&goal).await, ["CLERK by rare"]);
    let asked = scripted.asked();
    assert_eq!(asked.iter().filter(|asked| asked.routes()).count(), 1, "{asked:?}");
    assert_eq!(routed(&scripted, &goal).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn run_is_cancelled_or_handed_over_during_routing() {
    let asked = Arc::new(AtomicUsize::new(0));
    let calls = Arc::clone(&asked);
    let scripted = Scripted::start(move |asked| {
        if !asked.routes() {
            return answer(asked);
        }
        // The first two routing calls never finish.
        if calls.fetch_add(1, Ordering::Relaxed) < 2 { Reply::hang() } else { routing_answer("clerk") }
    })
    .await;
    let agents = two_agents(&scripted).await;
    let (_, goal) = goal_of_team(&scripted, &agents, json!({"by": "model"})).await;
    // Far longer than the test takes: nothing waits for it.
    let url = scripted.model.url();
    let patient = [
        ("HOUSTON_MODEL", "local/usual"),
        ("HOUSTON_LOCAL_URL", url.as_str()),
        ("HOUSTON_TEAMS__TIMEOUT_MS", "600000"),
    ];
    let mut first = scripted.houston.worker_with(&patient);
    let messages = format!("/v1/goals/{goal}/messages");
    let post = || scripted.ok("POST", &messages, json!({"content": "hello"}));
    let asks = |wanted: usize| {
        scripted.model.journal().wait_until(PATIENCE, move |journal| journal.calls() == wanted)
    };
    let posted = post().await;
    assert!(asks(1).await);
    let run = posted["run_id"].as_str().unwrap().to_owned();
    scripted.houston.cancel(&run).await;
    let path = format!("/v1/runs/{run}");
    let ended = scripted.houston.wait_until(&path, "its end", |run| !run["ended_at"].is_null()).await;
    assert_eq!(ended["status"], "cancelled", "{ended}");

    let posted = post().await;
    assert!(asks(2).await);
    let _second = scripted.houston.worker_with(&patient);
    first.terminate().unwrap();
    let answered = scripted.houston.wait_until_answered(&posted).await;
    assert_eq!(answered["status"], "answered", "{answered}");
    assert_eq!(scripted.houston.agent_texts(&goal).await, ["CLERK by rare"]);
    assert_eq!(asked.load(Ordering::Relaxed), 3, "the next attempt routes again, once");
    assert_eq!(routed(&scripted, &goal).await.len(), 1, "what was not picked is not in the stream");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_team_is_refused_with_pointer_and_allowed_values() {
    let scripted = Scripted::start(answer).await;
    let agents = two_agents(&scripted).await;
    let [cook, clerk] = &agents;
    let porter = scripted.agent("porter", json!({"kind": "task"})).await;
    let rule =
        |when: Value, agent: &str| json!({"by": "rules", "rules": [{"when": when, "agent_id": agent}]});
    let team = |agents: Value, router: Value| json!({"name": "office", "agents": agents, "router": router});
    let model = json!({"by": "model"});
    for (body, words) in [
        (json!({"name": "office", "router": model}), ["/agents", "missing field"]),
        (team(json!([]), model.clone()), ["/agents", "1 to 20"]),
        (team(json!([cook, porter]), model.clone()), ["/agents/1", "of the kind `task`"]),
        (team(json!([cook, cook]), model.clone()), ["/agents/1", "twice"]),
        (team(json!([cook]), json!({"by": "dice"})), ["/router/by", "`rules` or `model`"]),
        (team(json!([cook]), json!({"by": "rules"})), ["/router/rules", "1 to 50"]),
        (
            team(json!([cook]), rule(json!({"contains": "a"}), clerk)),
            ["/router/rules/0/agent_id", "not among"],
        ),
        (team(json!([cook]), rule(json!({}), cook)), ["/router/rules/0/when", "at least one of"]),
        (
            team(json!([cook]), rule(json!({"regex": "(a"}), cook)),
            ["/router/rules/0/when/regex", "unclosed group"],
        ),
        (
            team(json!([cook]), rule(json!({"regex": "(\\w{60}){60}"}), cook)),
            ["/router/rules/0/when/regex", "too large once compiled"],
        ),
        (
            team(json!([cook]), rule(json!({"contians": "a"}), cook)),
            ["/router/rules/0/when/contians", "contains"],
        ),
    ] {
        let (status, problem) = scripted.refused("POST", "/v1/teams", body.clone()).await;
        assert_eq!(status, 422, "{body}: {problem}");
        for word in words {
            assert!(problem.contains(word), "{body}: `{problem}` does not contain `{word}`");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn team_is_created_changed_and_deleted() {
    let scripted = Scripted::start(answer).await;
    let [cook, clerk] = &two_agents(&scripted).await;
    let porter = scripted.agent("porter", json!({"kind": "task"})).await;
    let rule =
        |when: Value, agent: &str| json!({"by": "rules", "rules": [{"when": when, "agent_id": agent}]});
    let team = |agents: Value, router: Value| json!({"name": "office", "agents": agents, "router": router});
    let model = json!({"by": "model"});
    let body = team(json!([cook, clerk]), rule(json!({"prefix": "/bill", "longer_than": 9}), clerk));
    let made = scripted.houston.create("/v1/teams", "office", &body).await;
    assert_eq!(scripted.houston.create("/v1/teams", "office", &body).await, made, "the same key makes one");
    assert_eq!((&made["kind"], &made["default_agent_id"]), (&json!("goal"), &json!(cook)));
    let path = format!("/v1/teams/{}", made["id"].as_str().unwrap());
    assert_eq!(scripted.ok("GET", &path, Value::Null).await, made);
    assert_eq!(scripted.ok("GET", "/v1/teams", Value::Null).await["data"], json!([made]));
    let changed = scripted.ok("PATCH", &path, json!({"default_agent_id": clerk, "version": 1})).await;
    assert_eq!((&changed["default_agent_id"], &changed["version"]), (&json!(clerk), &json!(2)));
    assert_eq!(changed["agents"], json!([cook, clerk]));
    let (status, problem) = scripted.refused("PATCH", &path, json!({"name": "x", "version": 1})).await;
    assert!(status == 409 && problem.contains("stale_version"), "{problem}");
    let (status, problem) = scripted.refused("PATCH", &path, json!({"agents": [porter]})).await;
    assert!(status == 422 && problem.contains("/router/rules/0/agent_id"), "{problem}");
    let (status, problem) =
        scripted.refused("PATCH", &path, json!({"agents": [porter], "router": model})).await;
    assert!(status == 422 && problem.contains("kind `goal`"), "{problem}");

    let (status, problem) = scripted.refused("DELETE", &format!("/v1/agents/{cook}"), Value::Null).await;
    assert!(status == 409 && problem.contains("in_use") && problem.contains("team_"), "{problem}");
    let goal = scripted.goal(json!({"team_id": made["id"]})).await;
    let (status, problem) = scripted.refused("DELETE", &path, Value::Null).await;
    assert!(status == 409 && problem.contains("in_use") && problem.contains(&goal), "{problem}");
    let shown = scripted.ok("PATCH", &format!("/v1/goals/{goal}"), json!({"agent_id": cook})).await;
    assert_eq!((&shown["agent_id"], &shown["team_id"]), (&json!(cook), &Value::Null));
    scripted.ok("DELETE", &path, Value::Null).await;
    assert_eq!(scripted.send("GET", &path, Value::Null).await.0, 404);
    assert_eq!(
        scripted.send("GET", &format!("/v1/agents/{clerk}"), Value::Null).await.0,
        200,
        "its agents stay"
    );
}
