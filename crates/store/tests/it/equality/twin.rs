//! A goal or a task, and what happens to it.

use houston_domain::id::{AgentableId, MessageId, RunId, UserId, WorkerId};
use houston_domain::knowledge::KnowledgeKind;
use houston_store::claim::{ClaimedRun, Fence};
use uuid::Uuid;

use super::counted::Counted;
use super::sequence::Act;
use super::tasks::create_task;
use super::{Scene, Writer};

/// A goal, or a task of a goal, of one of two users to whom the same happens.
pub(super) struct Twin {
    /// Its number among those of its user.
    pub(super) nth: usize,
    /// The goal or task; `None` until the task is created.
    pub(super) agentable: Option<AgentableId>,
    /// The goal of a task.
    pub(super) parent: Option<AgentableId>,
    /// Whether it is a plan, in the place of a task.
    pub(super) is_plan: bool,
    /// The worker that claims the goals of its user.
    pub(super) worker: WorkerId,
    pub(super) claimed: Option<ClaimedRun>,
    /// What is known of the run that was claimed.
    pub(super) counted: Option<Counted>,
    /// The fence of the claim before.
    pub(super) earlier: Option<Fence>,
    /// The calls that were started and not answered, with their messages.
    pub(super) open_calls: Vec<(String, MessageId)>,
    /// What its runs have written, if their steps were committed.
    pub(super) items: Vec<(KnowledgeKind, Uuid)>,
    /// Whether its last post started a run directly.
    pub(super) is_started: bool,
    /// Whether its last post could have started a run directly, but did not.
    pub(super) has_missed: bool,
}

impl Scene<'_> {
    /// A new user with goals, and a worker for them.
    pub(super) async fn twins(&self, count: usize) -> Vec<Twin> {
        let (user, worker): (UserId, WorkerId) = (self.ids().next(), self.ids().next());
        let goals: Vec<AgentableId> = (0..count).map(|_| self.ids().beside(user)).collect();
        let insert = "with u as (
                insert into houston.users (id, tenant_id, name, time_zone) values ($1, $2, 'Ann', 'UTC')),
            g as materialized (select unnest($3::uuid[]) as id),
            a as (
                insert into houston.agentables (id, tenant_id, user_id, kind, title)
                select g.id, $2, $1, 'goal', 'Tokyo' from g),
            l as (insert into houston.run_locks (agentable_id, tenant_id, user_id) select g.id, $2, $1 from g)
            insert into houston.workers (id, name, alive_until)
            values ($4, 'equality', clock_timestamp() + interval '1 hour')";
        let ids: Vec<Uuid> = goals.iter().map(|goal| goal.0).collect();
        let insert = sqlx::query(insert).bind(user.0).bind(self.side.test.tenant.0).bind(ids).bind(worker.0);
        insert.execute(self.pool()).await.unwrap();
        let twin = |nth, agentable, parent| Twin {
            nth,
            agentable,
            parent,
            is_plan: false,
            worker,
            claimed: None,
            counted: None,
            earlier: None,
            open_calls: Vec::new(),
            items: Vec::new(),
            is_started: false,
            has_missed: false,
        };
        let of_goals = goals.iter().map(|goal| (Some(*goal), None));
        let of_tasks = goals.iter().map(|goal| (None, Some(*goal)));
        let all = of_goals.chain(of_tasks).enumerate();
        all.map(|(nth, (agentable, parent))| twin(nth, agentable, parent)).collect()
    }

    /// The effect of an act on a goal or a task, and what its caller learns.
    pub(super) async fn act(&self, twin: &mut Twin, act: &Act) -> String {
        if let (Act::CreateTask, Some(parent), None) = (act, twin.parent, twin.agentable) {
            twin.agentable = create_task(self, parent).await;
            return if twin.agentable.is_some() { "created" } else { "not created" }.into();
        }
        if let (Act::MakePlan, Some(parent), None) = (act, twin.parent, twin.agentable) {
            twin.agentable = Some(self.make_plan(parent).await);
            twin.is_plan = true;
            return "created".into();
        }
        let Some(agentable) = twin.agentable else { return "there is no task".into() };
        match act {
            // A task never chats.
            Act::Post(_) if twin.parent.is_some() => "a task".into(),
            Act::CreateTask | Act::MakePlan => "created before".into(),
            Act::Pause => self.pause(agentable).await,
            Act::Post(new) => self.post(twin, agentable, new).await,
            Act::Claim(how) => self.claim(twin, agentable, how).await,
            Act::Cancel => {
                let open = "select run_id from houston.run_locks where run_open and agentable_id = $1";
                let open =
                    sqlx::query_scalar(open).bind(agentable.0).fetch_optional(self.pool()).await.unwrap();
                let Some(run) = open else { return "nothing to cancel".into() };
                let requests = self.store.tenant(self.side.test.tenant);
                format!("{}", requests.cancel_run(RunId(run)).await.unwrap().is_some())
            }
            Act::Die => {
                let dies = "update houston.run_locks set holder = gen_random_uuid()
                             where agentable_id = $1 and holder is not null";
                let done = sqlx::query(dies).bind(agentable.0).execute(self.pool()).await.unwrap();
                format!("{} died", done.rows_affected())
            }
            Act::Rest => {
                self.rest(agentable).await;
                "rested".into()
            }
            Act::Step(shape) => {
                let Some(run) = twin.claimed.clone() else { return "not claimed".into() };
                self.step(twin, &run, shape).await
            }
        }
    }

    /// Makes everything that happened on the goal an hour older.
    async fn rest(&self, goal: AgentableId) {
        for rest in [
            "update houston.history set created_at = created_at - interval '1 hour' where agentable_id = $1",
            "update houston.session_states set look_at = look_at - interval '1 hour' where agentable_id = $1",
        ] {
            sqlx::query(rest).bind(goal.0).execute(self.pool()).await.unwrap();
        }
    }

    pub(super) fn is_batched(&self) -> bool {
        self.side.writer == Writer::Batches
    }
}
