//! The handle of another tenant finds and changes nothing.

use futures_util::future::join_all;
use houston_domain::agent_settings::AgentSettings;
use houston_domain::id::{AgentId, TenantId};
use houston_domain::statistics::Bounds;
use houston_domain::team::{Router, RouterKind};
use houston_domain::time::Time;
use houston_store::agent::Agent;
use houston_store::agentable::NewAgentable;
use houston_store::erasure::Target;
use houston_store::message::NewPost;
use houston_store::team::Team;
use houston_store::{Error, TenantStore};
use serde_json::{Value, json};

use crate::test_store::{TestStore, goal};

fn settings() -> AgentSettings {
    let settings =
        json!({"role": "r", "tools": [], "use_case": "agent", "provider": "default", "model": "default"});
    serde_json::from_value(settings).unwrap()
}

async fn agent(test: &TestStore, store: TenantStore<'_>) -> AgentId {
    named_agent(test, store, "one").await
}

async fn named_agent(test: &TestStore, store: TenantStore<'_>, name: &str) -> AgentId {
    let now = test.ids.clock().now();
    let agent = Agent {
        id: test.ids.next(),
        kind: "goal".to_owned(),
        name: name.to_owned(),
        is_default: false,
        changed: true,
        enabled: true,
        settings: settings(),
        version: 1,
        created_at: now,
        updated_at: now,
    };
    store.create_agent(&agent, (None, &Value::Null)).await.unwrap();
    agent.id
}

async fn other_tenant(test: &TestStore) -> TenantId {
    test.store.operator().ensure_tenant(test.ids.next(), "other").await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_read_by_their_own_tenant_only() {
    let test = TestStore::start().await;
    let run = test.post("hello").await.run;
    let claimed = test.claim().await.unwrap();
    let at = claimed.event.seq;
    let (own, other) = (test.requests(), test.store.tenant(other_tenant(&test).await));
    assert_eq!(own.events_after(test.goal, 0, 10).await.unwrap().len(), 3);
    assert!(other.events_after(test.goal, 0, 10).await.unwrap().is_empty());
    assert_eq!(own.thread_events_before(test.goal, 100, 10).await.unwrap().len(), 1);
    assert!(other.thread_events_before(test.goal, 100, 10).await.unwrap().is_empty());
    assert!(own.open_iteration_at(test.goal, at).await.unwrap().is_some());
    assert!(other.open_iteration_at(test.goal, at).await.unwrap().is_none());
    assert!(own.open_stream("goal", test.goal, None, 10).await.is_ok());
    let not_found = |result: Result<(), Error>| matches!(result, Err(Error::NotFound { .. }));
    assert!(not_found(own.open_stream("task", test.goal, None, 10).await.map(drop)), "another kind");
    assert!(not_found(other.open_stream("goal", test.goal, None, 10).await.map(drop)));
    assert!(not_found(other.statistics(test.goal, Bounds { runs: 10, messages: 10 }).await.map(drop)));
    assert!(not_found(other.cancel_run(run).await.map(drop)));
    let erasure = other.request_erasure(Target::Agentable("goal", test.goal), test.ids.next(), None);
    assert!(not_found(erasure.await.map(drop)));
    assert!(test.runs().is_held(&claimed.fence).await.unwrap(), "its run goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn team_has_agents_of_its_own_tenant_only() {
    let test = TestStore::start().await;
    let (own, other) = (test.requests(), test.store.tenant(other_tenant(&test).await));
    let (ours, theirs) = (agent(&test, own).await, agent(&test, other).await);
    let now = test.ids.clock().now();
    let team = |agents: &[AgentId]| Team {
        id: test.ids.next(),
        kind: "goal".to_owned(),
        name: "team".to_owned(),
        description: String::new(),
        agents: agents.to_vec(),
        fallback: ours,
        router: Router { by: RouterKind::Rules, rules: Vec::new() },
        output: None,
        version: 1,
        created_at: Time(now),
        updated_at: Time(now),
    };
    let created = own.create_team(&team(&[ours, theirs]), (None, &Value::Null)).await;
    assert!(matches!(created, Err(Error::NotFound { what: "agent" })), "{created:?}");
    let mut team = team(&[ours]);
    own.create_team(&team, (None, &Value::Null)).await.unwrap();
    team.agents.push(theirs);
    let changed = own.change_team(&team, None).await;
    assert!(matches!(changed, Err(Error::NotFound { what: "agent" })), "{changed:?}");
    assert_eq!(own.team(team.id).await.unwrap().agents, [ours]);
}

/// Regression: who changes a team locked its members before its agents, and who deletes an agent does the opposite.
#[tokio::test(flavor = "multi_thread")]
async fn team_is_changed_while_an_agent_of_it_is_deleted() {
    let test = TestStore::start().await;
    let (own, now) = (test.requests(), test.ids.clock().now());
    let stays = agent(&test, own).await;
    for nth in 0..40 {
        let goes = named_agent(&test, own, &format!("agent {nth}")).await;
        let mut team = Team {
            id: test.ids.next(),
            kind: "goal".to_owned(),
            name: format!("team {nth}"),
            description: String::new(),
            agents: vec![stays, goes],
            fallback: stays,
            router: Router { by: RouterKind::Rules, rules: Vec::new() },
            output: None,
            version: 1,
            created_at: Time(now),
            updated_at: Time(now),
        };
        own.create_team(&team, (None, &Value::Null)).await.unwrap();
        team.agents.reverse();
        let (changed, deleted) = tokio::join!(own.change_team(&team, None), own.delete_agent(goes));
        let states = [
            changed.err().and_then(|error| error.sqlstate()),
            deleted.err().and_then(|error| error.sqlstate()),
        ];
        assert!(!states.contains(&Some("40P01".into())), "{states:?}");
    }
}

/// Batches have rows of several tenants and run without row-level security: each row is compared with its own tenant.
#[tokio::test(flavor = "multi_thread")]
async fn batches_refuse_what_names_rows_of_another_tenant() {
    let test = TestStore::start().await;
    let (own, other) = (test.requests(), test.store.tenant(other_tenant(&test).await));
    let mut goals = Vec::new();
    for _ in 0..8 {
        goals.push(goal(&test.store, &test.ids, test.tenant).await);
    }
    let post = |content| {
        let mut post = NewPost::new(test.ids.next(), test.ids.next(), content, json!({}));
        post.starts = true;
        post.kind = Some("goal".to_owned());
        post
    };
    let posts: Vec<_> =
        goals.iter().flat_map(|goal| [(own, *goal, post("ours")), (other, *goal, post("theirs"))]).collect();
    let posted =
        join_all(posts.iter().map(|(store, goal, post)| store.post_message(*goal, post, None))).await;
    for (result, (_, _, post)) in posted.iter().zip(&posts) {
        let is_refused = matches!(result, Err(Error::NotFound { .. }));
        assert_eq!(is_refused, post.content == "theirs", "{result:?}");
    }
    assert_eq!(test.sql("select content, count(*) from houston.messages group by 1"), "ours|8");
    let reads = goals.iter().flat_map(|goal| [(own, *goal), (other, *goal)]);
    let read = join_all(reads.map(|(store, goal)| store.events_after(goal, 0, 10))).await;
    let lengths: Vec<usize> = read.into_iter().map(|events| events.unwrap().len()).collect();
    assert_eq!(lengths, [2, 0].repeat(8));
    let user = own.agentable("goal", test.goal).await.unwrap().user;
    let new = NewAgentable {
        id: test.ids.next(),
        user,
        kind: "goal",
        title: "of another",
        description: "",
        status: None,
        tools: None,
        created_at: test.ids.clock().now(),
    };
    let created = other.create_agentable(&new, (None, &Value::Null)).await;
    assert!(matches!(created, Err(Error::NotFound { what: "user" })), "{created:?}");
}
