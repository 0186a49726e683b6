//! The answering agent is read together with the run's context. The tests count the statements in Postgres.

use std::collections::BTreeMap;

use houston_domain::agent_settings::AgentSettings;
use houston_domain::event::Event;
use houston_domain::id::{AgentId, AgentableId};
use houston_domain::run::RunStatus;
use houston_domain::team::{Condition, RoutedBy, Router, RouterKind, Rule};
use houston_domain::time::Time;
use houston_store::agent::{Agent, AgentChange, DefaultAgent};
use houston_store::agentable::AgentableChange;
use houston_store::serving::{ServedBy, ServingChange};
use houston_store::team::Team;

use crate::cluster::{TestCluster, assert_status};
use crate::workers::agent_types;

/// Statements of idle workers, of monitors, and of this test.
const OTHERS: [&str; 29] = [
    "store::sweep::",
    "store::lease::",
    "store::health::",
    // The monitor's check of the schema.
    "store::schema::",
    "store::functions::",
    "store::message::",
    "store::run::",
    "store::run_retry::due",
    "store::erasure::sweep::",
    "store::question::due",
    "store::question::is_due",
    "store::rate::forget",
    "store::audit::forget",
    "store::outbox::forget",
    "store::task_report::forget",
    "store::paused_lane::",
    "store::context_cache::forget_old",
    "store::attachment::objects::",
    "store::workspace_file::settle::take",
    "store::check_in::due",
    "store::feed::due",
    "store::session::due",
    "store::session_summary::take",
    "store::title::take",
    "store::trigger::due_next",
    "store::trigger_firing::",
    // Looked for once in a while as long as there are no webhooks.
    "store::fan_out::",
    "store::replay::",
    "store::webhook::backlogged",
];

/// Makes Postgres log all statements. Open connections use the new setting from their next statement on.
pub(crate) fn log_statements(cluster: &TestCluster) {
    cluster.servers.sql("alter system set log_statement = 'all'").unwrap();
    cluster.servers.sql("select pg_reload_conf()").unwrap();
}

/// Statements of runs that Postgres has executed so far, by name.
fn executed(cluster: &TestCluster) -> BTreeMap<String, usize> {
    let log = cluster.servers.postgres_log().unwrap();
    let mut counts = BTreeMap::new();
    for line in log.lines().filter(|line| line.contains("LOG:  execute ")) {
        let Some((_, name)) = line.split_once(": -- ") else { continue };
        let name = name.trim().to_owned();
        if !OTHERS.iter().any(|others| name.starts_with(others)) {
            *counts.entry(name).or_default() += 1;
        }
    }
    counts
}

/// Statements that this many runs of `goal` execute, without claims: a sweep may claim without success.
pub(crate) async fn cost(cluster: &TestCluster, goal: AgentableId, runs: usize) -> BTreeMap<String, usize> {
    let before = executed(cluster);
    for _ in 0..runs {
        let posted = cluster.post(goal, "hello").await;
        assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    }
    let mut after = executed(cluster);
    for claim in ["store::claim::read::candidates", "store::claim::write::claims"] {
        assert!(after.remove(claim).unwrap() >= runs, "{after:?}");
    }
    after.retain(|name, count| {
        *count -= before.get(name).copied().unwrap_or(0);
        *count > 0
    });
    after
}

/// Lets an agent or a team answer for an agentable, from its next run on.
pub(crate) async fn assign(cluster: &TestCluster, agentable: AgentableId, served_by: ServedBy) {
    let serving = ServingChange { served_by: Some(served_by), tools: None };
    let change = AgentableChange { serving, ..AgentableChange::default() };
    cluster.requests().change_agentable(agentable, &change).await.unwrap();
}

pub(crate) async fn agent(cluster: &TestCluster, name: &str) -> AgentId {
    let now = cluster.ids.clock().now();
    let agent = Agent {
        id: cluster.ids.next(),
        kind: "goal".to_owned(),
        name: name.to_owned(),
        is_default: false,
        changed: true,
        enabled: true,
        settings: AgentSettings::of(&agent_types()[0]),
        version: 1,
        created_at: now,
        updated_at: now,
    };
    cluster.requests().create_agent(&agent, (None, &serde_json::Value::Null)).await.unwrap();
    agent.id
}

pub(crate) fn times(names: &[(&str, usize)]) -> BTreeMap<String, usize> {
    names.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn answering_agent_costs_no_round_trip_and_a_team_one_commit() {
    let cluster = TestCluster::start_with_own_postgres().await;
    log_statements(&cluster);
    let worker = cluster.worker();
    let warm = cluster.post(cluster.goal, "hello").await;
    assert_status(&cluster.wait_for_end(warm.run).await, RunStatus::MessageSent);

    let usual = times(&[("store::step::statement::write", 5)]);
    assert_eq!(cost(&cluster, cluster.goal, 5).await, usual, "by its kind's file");

    let types = agent_types();
    let default =
        DefaultAgent { id: cluster.ids.next(), kind: "goal", settings: AgentSettings::of(&types[0]) };
    cluster.requests().ensure_default_agents(std::slice::from_ref(&default)).await.unwrap();
    assert_eq!(cost(&cluster, cluster.goal, 5).await, usual, "by the default agent of its kind");

    let (one, other) = (agent(&cluster, "one").await, agent(&cluster, "other").await);
    let served = ServedBy { agent: Some(one), team: None };
    assign(&cluster, cluster.goal, served).await;
    assert_eq!(cost(&cluster, cluster.goal, 5).await, usual, "by an agent of its own");
    let settings = AgentSettings { role: "Another.".to_owned(), ..AgentSettings::of(&types[0]) };
    let change = AgentChange { settings: Some(&settings), changed: true, ..AgentChange::default() };
    cluster.requests().change_agent(one, &change).await.unwrap();
    assert_eq!(cost(&cluster, cluster.goal, 5).await, usual, "and when that was changed");

    let when = Condition { contains: Some("HELLO".to_owned()), ..Condition::default() };
    let now = cluster.ids.clock().now();
    let team = Team {
        id: cluster.ids.next(),
        kind: "goal".to_owned(),
        name: "both".to_owned(),
        description: String::new(),
        agents: vec![one, other],
        fallback: one,
        router: Router { by: RouterKind::Rules, rules: vec![Rule { when, agent_id: other }] },
        output: None,
        version: 1,
        created_at: Time(now),
        updated_at: Time(now),
    };
    cluster.requests().create_team(&team, (None, &serde_json::Value::Null)).await.unwrap();
    let served = ServedBy { agent: None, team: Some(team.id) };
    assign(&cluster, cluster.goal, served).await;
    let routed = times(&[("store::step::statement::write", 10)]);
    assert_eq!(
        cost(&cluster, cluster.goal, 5).await,
        routed,
        "a team: the pick is committed before the answer"
    );

    let mut picks = 0;
    for committed in cluster.events(cluster.goal).await {
        if let Event::TeamRouted { agent_id, by, .. } = committed.event {
            assert_eq!((agent_id, by), (other, RoutedBy::Rule));
            picks += 1;
        }
    }
    assert_eq!(picks, 5);
    cluster.history(cluster.goal).await;
    worker.drain().await;
}
