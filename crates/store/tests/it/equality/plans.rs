//! Plans: making one, pausing it, and what its steps change in it.

use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::id::{AgentableId, MessageId, RunId};
use houston_domain::plan::{ChangedStep, Checklist, Listing, PlanChanges, PlanEnd, State, Status};
use houston_store::plan::NewPlan;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Scene;
use super::twin::Twin;

/// What a step changes in its plan.
#[derive(Debug, Clone)]
pub(super) struct PlanShape {
    steps: Vec<(&'static str, Status)>,
    /// What people see; within: whether it differs from the list before by a few lines.
    listed: Option<bool>,
    puts_off: bool,
    /// Whether the document is another one.
    replaces: bool,
    /// Whether it was decided before the plan was changed last.
    is_stale: bool,
    has_output: bool,
}

pub(super) fn plan_shape() -> impl Strategy<Value = PlanShape> {
    let status = prop_oneof![Just(Status::Running), Just(Status::Succeeded), Just(Status::Failed)];
    let steps = prop::collection::vec((prop_oneof![Just("one"), Just("two")], status), 0..2);
    let rarely = || prop::bool::weighted(0.1);
    let listed = prop::option::weighted(0.7, prop::bool::weighted(0.8));
    (steps, listed, any::<bool>(), rarely(), rarely(), any::<bool>()).prop_map(
        |(steps, listed, puts_off, replaces, is_stale, has_output)| PlanShape {
            steps,
            listed,
            puts_off,
            replaces,
            is_stale,
            has_output,
        },
    )
}

fn document() -> Value {
    json!({"v": 1, "goal": "Two steps", "steps": [
        {"id": "one", "type": "llm", "prompt": "One"}, {"id": "two", "type": "llm", "prompt": "Two"}]})
}

impl Scene<'_> {
    fn in_an_hour(&self) -> DateTime<Utc> {
        self.ids().clock().now() + TimeDelta::hours(1)
    }

    /// Makes a plan for a goal.
    pub(super) async fn make_plan(&self, goal: AgentableId) -> AgentableId {
        let plan: AgentableId = self.ids().beside(goal);
        let (run, message): (RunId, MessageId) = (self.ids().beside(goal), self.ids().beside(goal));
        let new = NewPlan {
            id: plan,
            run,
            message,
            kind: "plan",
            status: Some("active"),
            title: "Two steps",
            tools: &["get_current_time".to_owned()],
            document: &document(),
            input: &json!({"of": "a request"}),
            attached: false,
            deadline: self.in_an_hour(),
            traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        };
        let requests = self.store.tenant(self.side.test.tenant);
        requests.make_plan(("goal", goal), (&new, None), None, &Value::Null).await.unwrap();
        plan
    }

    /// Pauses a plan, or lets it go on.
    pub(super) async fn pause(&self, plan: AgentableId) -> String {
        let paused = "select not paused from houston.plans where agentable_id = $1";
        let paused = sqlx::query_scalar(paused).bind(plan.0).fetch_optional(self.pool()).await.unwrap();
        let Some(paused) = paused else { return "no plan".into() };
        let requests = self.store.tenant(self.side.test.tenant);
        format!("{:?}", requests.pause_plan(plan, paused).await.unwrap())
    }

    /// What a step changes in the plan of `twin`. `ends`: the plan ends.
    pub(super) async fn plan_changes(&self, twin: &Twin, shape: &PlanShape, ends: bool) -> PlanChanges {
        let (plan, parent) = (twin.agentable.unwrap(), twin.parent.unwrap());
        let changes = "select changes from houston.plans where agentable_id = $1";
        let changes = sqlx::query_scalar(changes).bind(plan.0).fetch_one(self.pool());
        let changes: i64 = changes.await.unwrap();
        let plan_id = plan.public_id("plan");
        let checklist = Checklist {
            plan_id: Some(plan_id.clone()),
            version: 1,
            goal: "Two steps".into(),
            status: "running".into(),
            done: 0,
            of: 2,
            steps: Vec::new(),
        };
        let delta = json!({"op": "replace", "path": "/done", "value": 1});
        let changed = |(path, status): &(&str, Status)| ChangedStep {
            path: (*path).to_owned(),
            state: State { status: *status, attempt: 1, ..State::default() },
            executor: None,
            question: None,
        };
        let end = ends.then(|| PlanEnd {
            output: if shape.has_output { json!({"of": "the plan"}) } else { Value::Null },
            report: "<plan_ended>".into(),
            checklist: json!(checklist),
        });
        PlanChanges {
            plan_id,
            parent,
            seen: changes - i64::from(shape.is_stale),
            steps: shape.steps.iter().map(changed).collect(),
            calls: 1,
            deadline: shape.puts_off.then(|| self.in_an_hour()),
            removed: Vec::new(),
            document: shape.replaces.then(|| (document(), "another one".to_owned())),
            listed: shape.listed.filter(|_| !ends).map(|by_lines| Listing {
                checklist: checklist.into(),
                delta: if by_lines { vec![delta] } else { Vec::new() },
                changed: None,
            }),
            end,
        }
    }
}
