//! Whose death a run is held responsible for.

use std::time::Duration;

use houston_domain::history::{Block, Entry};
use houston_domain::id::{AgentableId, RunToken, WorkerId};
use houston_store::claim::{Claimed, Crashes};
use houston_store::lease::LeaseConnection;
use houston_store::step::RunTransition;

use crate::fairness::{goals_of, post_to};
use crate::fresh::Fresh;
use crate::step::done;

/// What is to be given up is put off once, and no longer.
const CRASHES: Crashes = Crashes { max: 3, doubt: Duration::ZERO };

impl Fresh {
    async fn lease(&self) -> LeaseConnection {
        let (url, worker) = (self.database.url(), self.ids.next());
        let mut lease = LeaseConnection::open(url, worker, Duration::from_secs(60)).await.unwrap();
        lease.register("another").await.unwrap();
        lease
    }

    async fn claim_by(&self, agentable: AgentableId, worker: WorkerId) -> Option<Claimed> {
        let token: RunToken = self.ids.next();
        self.store.claim_run(agentable, worker, token, self.ids.next(), CRASHES).await.unwrap()
    }

    /// Somebody claims it and dies.
    async fn die_with(&self, agentable: AgentableId) -> (WorkerId, Claimed) {
        let worker = self.lease().await.worker();
        let claimed = self.claim_late(agentable, worker).await;
        self.bury(worker);
        (worker, claimed)
    }

    /// Claims one that may be put off before.
    async fn claim_late(&self, agentable: AgentableId, worker: WorkerId) -> Claimed {
        match self.claim_by(agentable, worker).await {
            Some(claimed) => claimed,
            None => self.claim_by(agentable, worker).await.unwrap(),
        }
    }

    fn bury(&self, worker: WorkerId) {
        self.sql(&format!("delete from houston.workers where id = '{}'", worker.0));
    }

    async fn commit(&self, claimed: &Claimed, is_progress: bool) {
        let mut step = self.step(claimed, RunTransition::Continue { read: true, event: None });
        if is_progress {
            step.entries.push(Entry::assistant(vec![Block::text("hm")]));
        }
        done(self.store.commit(&claimed.fence, &step).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_worker_that_dies_counts_until_a_step_is_committed() {
    let fresh = Fresh::start().await;
    fresh.post("hello").await;
    for deaths in 0..3 {
        let (_, claimed) = fresh.die_with(fresh.goal).await;
        assert_eq!((claimed.deaths, claimed.claims), (deaths, deaths + 1));
    }
    let claimed = fresh.claim_late(fresh.goal, fresh.worker).await;
    assert_eq!(claimed.deaths, 3);
    // To look for messages is no progress: whatever killed them may still come.
    fresh.commit(&claimed, false).await;
    fresh.bury(fresh.worker);
    let (_, again) = fresh.die_with(fresh.goal).await;
    assert_eq!((again.deaths, again.claims), (4, 5));
    let worker = fresh.lease().await.worker();
    let last = fresh.claim_late(fresh.goal, worker).await;
    fresh.commit(&last, true).await;
    fresh.bury(worker);
    let (_, forgiven) = fresh.die_with(fresh.goal).await;
    assert_eq!((forgiven.deaths, forgiven.claims), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_lets_go_has_not_died_and_a_run_that_breaks_down_has() {
    let fresh = Fresh::start().await;
    fresh.post("hello").await;
    let claimed = fresh.claim().await.unwrap();
    fresh.store.abandon(fresh.goal, claimed.fence.token, false).await.unwrap();

    let lease = fresh.lease().await;
    assert_eq!(fresh.claim_by(fresh.goal, lease.worker()).await.unwrap().deaths, 0, "it was let go of");
    lease.resign().await.unwrap();

    let claimed = fresh.claim().await.unwrap();
    assert_eq!(claimed.deaths, 0, "the worker resigned");
    fresh.store.abandon(fresh.goal, claimed.fence.token, true).await.unwrap();
    let claimed = fresh.claim().await.unwrap();
    assert_eq!((claimed.deaths, claimed.claims), (1, 4), "it broke down");

    // The health monitor frees what the dead hold, and forgets nothing.
    fresh.bury(fresh.worker);
    assert_eq!(fresh.store.release_dead(10).await.unwrap().len(), 1);
    let lease = fresh.lease().await;
    assert_eq!(fresh.claim_by(fresh.goal, lease.worker()).await.unwrap().deaths, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_taken_for_dead_and_lives_takes_the_death_back() {
    let fresh = Fresh::start().await;
    let goals = goals_of(&fresh, fresh.goal, 2).await;
    for goal in &goals {
        post_to(&fresh, *goal, "hello").await.unwrap();
    }
    let mut sleeper = fresh.lease().await;
    let id = sleeper.worker();
    fresh.die_with(goals[0]).await;
    for goal in &goals {
        fresh.claim_by(*goal, id).await.unwrap();
    }
    fresh.bury(id);
    assert_eq!(fresh.claim_by(goals[0], fresh.worker).await.unwrap().deaths, 2);

    assert!(!sleeper.renew().await.unwrap());
    for _ in 0..2 {
        sleeper.let_go(id).await.unwrap();
    }
    assert_eq!(fresh.claim_by(goals[1], fresh.worker).await.unwrap().deaths, 0, "nobody had noticed yet");
    let left =
        format!("select cardinality(died_with) from houston.run_locks where agentable_id = '{}'", goals[0].0);
    assert_eq!(fresh.sql(&left).trim(), "1", "the one that did die counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_would_be_given_up_next_are_driven_one_at_a_time() {
    let fresh = Fresh::start().await;
    let goals = goals_of(&fresh, fresh.goal, 3).await;
    for goal in &goals {
        post_to(&fresh, *goal, "hello").await.unwrap();
    }
    // Two workers die, each with all of them: one of the three is to blame, and nobody knows which.
    for _ in 0..2 {
        let worker = fresh.lease().await.worker();
        for goal in &goals {
            fresh.claim_by(*goal, worker).await.unwrap();
        }
        fresh.bury(worker);
    }
    let (one, other) = (fresh.lease().await, fresh.lease().await);
    let first = fresh.claim_by(goals[0], one.worker()).await.unwrap();
    assert_eq!(first.deaths, 2);
    assert!(fresh.claim_by(goals[1], one.worker()).await.is_none(), "not beside the first");
    assert!(fresh.claim_by(goals[1], other.worker()).await.is_some(), "another worker has none yet");
    assert!(fresh.claim_by(goals[2], other.worker()).await.is_none());
    let due: Vec<_> = fresh.store.due(None, 10).await.unwrap().due;
    assert_eq!(due.iter().map(|due| due.agentable).collect::<Vec<_>>(), [goals[2]], "it waits for the sweep");
    assert!(fresh.store.orphans(10).await.unwrap().is_empty());

    // The second is to blame: it alone has died three times.
    fresh.bury(other.worker());
    assert_eq!(fresh.claim_late(goals[1], one.worker()).await.deaths, 3, "to be given up: no danger");
    assert!(fresh.claim_by(goals[2], one.worker()).await.is_none());
    fresh.commit(&first, true).await;
    fresh.bury(one.worker());
    assert_eq!(fresh.claim_by(goals[0], fresh.worker).await.unwrap().deaths, 1, "it got on");
    assert_eq!(fresh.claim_by(goals[2], fresh.worker).await.unwrap().deaths, 2, "and this one was spared");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_to_be_given_up_waits_for_a_worker_that_may_live() {
    let fresh = Fresh::start().await;
    fresh.post("hello").await;
    for _ in 0..2 {
        fresh.die_with(fresh.goal).await;
    }
    let mut sleeper = fresh.lease().await;
    let id = sleeper.worker();
    fresh.claim_by(fresh.goal, id).await.unwrap();
    fresh.bury(id);
    let doubtful = Crashes { max: 3, doubt: Duration::from_secs(3600) };
    let claim =
        || fresh.store.claim_run(fresh.goal, fresh.worker, fresh.ids.next(), fresh.ids.next(), doubtful);
    for _ in 0..2 {
        assert!(claim().await.unwrap().is_none());
    }
    let due = fresh.store.due(None, 10).await.unwrap();
    assert!(due.due.is_empty(), "nor does anybody ring for it");
    assert!(fresh.store.orphans(10).await.unwrap().is_empty());

    sleeper.let_go(id).await.unwrap();
    fresh.sql("update houston.run_locks set next_attempt_at = now() where next_attempt_at is not null");
    assert_eq!(claim().await.unwrap().unwrap().deaths, 2, "it goes on");
}
