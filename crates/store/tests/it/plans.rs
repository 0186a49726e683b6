//! Steps of plans, and what requests change meanwhile: a step that was decided without a change is not committed over it.

use chrono::TimeDelta;
use futures_util::future::join_all;
use houston_domain::id::{AgentableId, MessageId, RunId};
use houston_domain::plan::{ChangedStep, PlanChanges, PlanEnd, State, Status};
use houston_domain::step::{RunTransition, Step};
use houston_store::Error;
use houston_store::claim::ClaimedRun;
use houston_store::plan::{DrivenPlan, NewPlan, PlanChange, StepsChange};
use houston_store::step::Commit;
use serde_json::{Value, json};

use crate::batches::{commit_all, transactions};
use crate::step::{answer, done};
use crate::test_store::{TestStore, goal};

fn document() -> Value {
    json!({"v": 1, "goal": "Two steps", "steps": [
        {"id": "one", "type": "llm", "prompt": "One"},
        {"id": "two", "type": "llm", "prompt": "Two", "after": ["one"]}]})
}

/// Makes a plan for a goal.
async fn make(test: &TestStore, goal: AgentableId) -> AgentableId {
    let plan: AgentableId = test.ids.beside(goal);
    let (run, message): (RunId, MessageId) = (test.ids.beside(plan), test.ids.beside(plan));
    let new = NewPlan {
        id: plan,
        run,
        message,
        kind: "plan",
        status: None,
        title: "Two steps",
        tools: &[],
        document: &document(),
        input: &json!({}),
        attached: false,
        deadline: test.ids.clock().now() + TimeDelta::hours(1),
        traceparent: None,
    };
    test.requests().make_plan(("goal", goal), (&new, None), None, &Value::Null).await.unwrap();
    plan
}

/// A call begins, and nothing else changes.
fn unchanged(plan: AgentableId, parent: AgentableId) -> PlanChanges {
    PlanChanges {
        plan_id: plan.public_id("plan"),
        parent,
        seen: 0,
        steps: Vec::new(),
        removed: Vec::new(),
        calls: 1,
        deadline: None,
        document: None,
        listed: None,
        end: None,
    }
}

/// A plan whose run is claimed, as that run has read it.
struct Driven {
    test: TestStore,
    plan: AgentableId,
    claimed: ClaimedRun,
    read: DrivenPlan,
}

impl Driven {
    async fn start() -> Self {
        let test = TestStore::start().await;
        let plan = make(&test, test.goal).await;
        let claimed = test.claim_of(plan).await.unwrap();
        let read = test.runs().driven_plan(plan).await.unwrap().unwrap();
        Self { test, plan, claimed, read }
    }

    async fn read_again(&mut self) {
        self.read = self.test.runs().driven_plan(self.plan).await.unwrap().unwrap();
    }

    /// A step that gives step `one` this status, decided by what was read.
    fn step(&self, status: Status) -> Step {
        let state = State { status, attempt: 1, ..State::default() };
        let one = ChangedStep { path: "one".into(), state, executor: None, question: None };
        let changes =
            PlanChanges { seen: self.read.changes, steps: vec![one], ..unchanged(self.plan, self.test.goal) };
        let goes_on = RunTransition::Continue { read: false, event: None };
        Step { plan: Some(Box::new(changes)), ..self.test.step(&self.claimed, goes_on) }
    }

    async fn commit(&self, step: &Step) -> Result<Commit, Error> {
        self.test.runs().commit(&self.claimed.fence, step).await
    }

    /// Steps with their statuses, number of calls, and number of committed events.
    fn stored(&self) -> String {
        self.test.sql(
            "select concat_ws(' ', (select string_agg(path || '=' || status, ',' order by path) from houston.plan_steps), p.calls,
                    l.last_write_id is null)
               from houston.plans p join houston.run_locks l on l.agentable_id = p.agentable_id",
        )
    }

    async fn pause(&self) {
        loop {
            // On a busy machine it waits for longer than `lock_timeout`.
            match self.test.requests().pause_plan(self.plan, true).await {
                Err(error) if error.sqlstate().as_deref() == Some("55P03") => {}
                result => {
                    result.unwrap().unwrap();
                    return;
                }
            }
        }
    }
}

#[tokio::test]
async fn step_is_not_committed_over_a_pause() {
    let mut driven = Driven::start().await;
    driven.pause().await;
    let step = driven.step(Status::Running);
    let refused = driven.commit(&step).await;
    assert!(matches!(refused, Err(Error::PlanChanged)), "{refused:?}");
    assert_eq!(driven.stored().trim(), "0 t", "nothing of the step is written");
    driven.read_again().await;
    assert!(driven.read.paused);
    driven.commit(&driven.step(Status::Running)).await.unwrap();
    assert_eq!(driven.stored().trim(), "one=running 1 f");
}

#[tokio::test]
async fn step_is_not_committed_over_a_change_by_hand() {
    let mut driven = Driven::start().await;
    let skipped = State { status: Status::Skipped, ..State::default() };
    let rule = |_: &_, _: &_| Ok::<_, ()>(StepsChange::from([("one".to_owned(), skipped)]));
    driven.test.requests().change_plan_steps(driven.plan, rule).await.unwrap().unwrap();
    let refused = driven.commit(&driven.step(Status::Running)).await;
    assert!(matches!(refused, Err(Error::PlanChanged)), "{refused:?}");
    assert_eq!(driven.stored().trim(), "one=skipped 0 t");

    driven.read_again().await;
    let mut other = document();
    other["steps"].as_array_mut().unwrap().truncate(1);
    let rule = |_: &Value, states: &_| {
        Ok::<_, ()>(PlanChange { document: other, states: Clone::clone(states), reason: "shorter".into() })
    };
    driven.test.requests().change_plan(driven.plan, 1, rule).await.unwrap().unwrap();
    let refused = driven.commit(&driven.step(Status::Running)).await;
    assert!(matches!(refused, Err(Error::PlanChanged)), "{refused:?}");
    assert_eq!(driven.stored().trim(), "one=skipped 0 t");
}

#[tokio::test]
async fn change_waits_for_the_step_that_is_being_committed() {
    let driven = Driven::start().await;
    let tx = driven.test.runs().begin_fenced(&driven.claimed.fence).await.unwrap();
    let step = driven.step(Status::Running);
    let (paused, committed) = tokio::join!(driven.pause(), async {
        // The other connection waits for the row that this one has locked.
        let waits = "select count(*) from pg_stat_activity
                      where datname = current_database() and wait_event_type = 'Lock'";
        while driven.test.sql(waits).trim() == "0" {
            tokio::task::yield_now().await;
        }
        tx.commit(&step).await
    });
    let ((), _) = (paused, committed.unwrap());
    assert_eq!(driven.stored().trim(), "one=running 1 f", "the step came first");
    let refused = driven.commit(&driven.step(Status::Succeeded)).await;
    assert!(matches!(refused, Err(Error::PlanChanged)), "the next one was decided without the pause");
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_made_and_ended_together_share_commits() {
    let test = TestStore::start().await;
    let mut goals = Vec::new();
    for _ in 0..48 {
        goals.push(goal(&test.store, &test.ids, test.tenant).await);
    }
    let plans = join_all(goals.iter().map(|goal| make(&test, *goal))).await;
    // The first batches have few items, since nothing else is queued yet.
    assert!(transactions(&test, "plans") <= 12, "{}", transactions(&test, "plans"));
    let mut steps = Vec::new();
    for (plan, goal) in plans.into_iter().zip(goals) {
        let run = test.claim_of(plan).await.unwrap();
        let end = PlanEnd { output: json!(1), report: "<plan_ended>".into(), checklist: json!({}) };
        let changes = PlanChanges { end: Some(end), ..unchanged(plan, goal) };
        steps.push((run.fence, Step { plan: Some(Box::new(changes)), ..answer(&test, &run, "hello") }));
    }
    for result in commit_all(&test, &steps).await {
        done(result.unwrap());
    }
    assert!(transactions(&test, "plans") <= 12, "{}", transactions(&test, "plans"));
    let told = "select count(*) from houston.messages m join houston.plans p on p.parent_id = m.agentable_id
                 where m.content = '<plan_ended>' and p.output = '1' and p.ended_at is not null";
    assert_eq!(test.sql(told).trim(), "48");
}
