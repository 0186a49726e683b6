//! Counting the deaths of workers per run, and giving runs up.

use std::time::Duration;

use houston_domain::death::Verdict;
use houston_domain::history::{Block, Entry};
use houston_domain::id::{AgentableId, RunToken, WorkerId};
use houston_domain::step::RunTransition;
use houston_store::RunStore;
use houston_store::claim::{Claim, ClaimRequest, ClaimedRun, CrashPolicy, Trial};
use houston_store::lease::{LeaseConnection, WorkerDescription};

use crate::fairness::{goals_of, post_to};
use crate::step::done;
use crate::test_store::{ClaimRun as _, LEASE, TestStore};

/// No grace period: a run that is to be given up is postponed once.
const CRASHES: CrashPolicy =
    CrashPolicy { max: 3, grace: Duration::ZERO, patience: Duration::from_secs(3600) };

impl TestStore {
    async fn lease(&self) -> LeaseConnection {
        let (url, worker) = (self.database.url(), self.ids.next());
        let mut lease = LeaseConnection::open(url, worker, LEASE).await.unwrap();
        lease
            .register(WorkerDescription { name: "another".into(), ..WorkerDescription::default() })
            .await
            .unwrap();
        lease
    }

    async fn claim_by(&self, agentable: AgentableId, worker: WorkerId) -> Option<ClaimedRun> {
        let token: RunToken = self.ids.next();
        self.runs().claim_run(agentable, worker, token, self.ids.next(), CRASHES).await.unwrap()
    }

    /// A new worker claims the run and dies.
    async fn die_with(&self, agentable: AgentableId) -> (WorkerId, ClaimedRun) {
        let worker = self.lease().await.worker();
        let claimed = self.claim_late(agentable, worker).await;
        self.reap(worker);
        (worker, claimed)
    }

    /// Claims a run whose first claim may be postponed.
    async fn claim_late(&self, agentable: AgentableId, worker: WorkerId) -> ClaimedRun {
        match self.claim_by(agentable, worker).await {
            Some(claimed) => claimed,
            None => self.claim_by(agentable, worker).await.unwrap(),
        }
    }

    fn reap(&self, worker: WorkerId) {
        self.sql(&format!("delete from houston.workers where id = '{}'", worker.0));
    }

    async fn commit(&self, claimed: &ClaimedRun, is_progress: bool) {
        let mut step = self.step(claimed, RunTransition::Continue { read: true, event: None });
        if is_progress {
            step.entries.push(Entry::assistant(vec![Block::text("hm")]));
        }
        done(self.runs().commit(&claimed.fence, &step).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deaths_count_until_a_step_is_committed() {
    let test = TestStore::start().await;
    test.post("hello").await;
    for deaths in 0..3 {
        let (_, claimed) = test.die_with(test.goal).await;
        assert_eq!((claimed.deaths, claimed.claims), (deaths, deaths + 1));
    }
    let claimed = test.claim_late(test.goal, test.worker).await;
    assert_eq!(claimed.deaths, 3);
    // Polling for messages is no progress: the step that killed the workers may still be ahead.
    test.commit(&claimed, false).await;
    test.reap(test.worker);
    let (_, again) = test.die_with(test.goal).await;
    assert_eq!((again.deaths, again.claims), (4, 5));
    let worker = test.lease().await.worker();
    let last = test.claim_late(test.goal, worker).await;
    test.commit(&last, true).await;
    test.reap(worker);
    let (_, forgiven) = test.die_with(test.goal).await;
    assert_eq!((forgiven.deaths, forgiven.claims), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn release_counts_no_death_and_a_breakdown_does() {
    let test = TestStore::start().await;
    test.post("hello").await;
    let claimed = test.claim().await.unwrap();
    test.runs().abandon(test.goal, claimed.fence.token, false).await.unwrap();

    let lease = test.lease().await;
    assert_eq!(test.claim_by(test.goal, lease.worker()).await.unwrap().deaths, 0, "the lock was released");
    lease.deregister().await.unwrap();

    let claimed = test.claim().await.unwrap();
    assert_eq!(claimed.deaths, 0, "the worker deregistered");
    test.runs().abandon(test.goal, claimed.fence.token, true).await.unwrap();
    let claimed = test.claim().await.unwrap();
    assert_eq!((claimed.deaths, claimed.claims), (1, 4), "driving the run failed");

    // The health monitor releases the locks of dead workers and keeps the counts.
    test.reap(test.worker);
    assert_eq!(test.runs().release_dead(10).await.unwrap().len(), 1);
    let lease = test.lease().await;
    assert_eq!(test.claim_by(test.goal, lease.worker()).await.unwrap().deaths, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_that_was_reaped_alive_takes_its_death_back() {
    let test = TestStore::start().await;
    let goals = goals_of(&test, test.goal, 2).await;
    for goal in &goals {
        post_to(&test, *goal, "hello").await.unwrap();
    }
    let mut sleeper = test.lease().await;
    let id = sleeper.worker();
    test.die_with(goals[0]).await;
    for goal in &goals {
        test.claim_by(*goal, id).await.unwrap();
    }
    test.reap(id);
    assert_eq!(test.claim_by(goals[0], test.worker).await.unwrap().deaths, 2);

    assert!(!sleeper.renew().await.unwrap());
    for _ in 0..2 {
        sleeper.release_locks(id).await.unwrap();
    }
    assert_eq!(
        test.claim_by(goals[1], test.worker).await.unwrap().deaths,
        0,
        "no worker had noticed the death yet"
    );
    let left =
        format!("select cardinality(died_with) from houston.run_locks where agentable_id = '{}'", goals[0].0);
    assert_eq!(test.sql(&left).trim(), "1", "only the real death counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_one_death_from_giving_up_are_driven_one_at_a_time() {
    let test = TestStore::start().await;
    let goals = goals_of(&test, test.goal, 3).await;
    for goal in &goals {
        post_to(&test, *goal, "hello").await.unwrap();
    }
    // Two workers die, each with all three runs: one run is the cause, but it is unknown which.
    for _ in 0..2 {
        let worker = test.lease().await.worker();
        for goal in &goals {
            test.claim_by(*goal, worker).await.unwrap();
        }
        test.reap(worker);
    }
    let (one, other) = (test.lease().await, test.lease().await);
    let first = test.claim_by(goals[0], one.worker()).await.unwrap();
    assert_eq!(first.deaths, 2);
    assert!(test.claim_by(goals[1], one.worker()).await.is_none(), "not beside the first");
    assert!(
        test.claim_by(goals[1], other.worker()).await.is_none(),
        "not due yet: hints for it do not add up"
    );
    let is_due = "update houston.run_locks set next_attempt_at = now() where next_attempt_at is not null";
    test.sql(is_due);
    assert!(test.claim_by(goals[1], other.worker()).await.is_some(), "another worker drives no such run yet");
    assert!(test.claim_by(goals[2], other.worker()).await.is_none());
    test.sql(is_due);
    let due: Vec<_> = test.runs().due(None, 10).await.unwrap().due;
    assert_eq!(due.iter().map(|due| due.agentable).collect::<Vec<_>>(), [goals[2]], "a sweep finds it, too");
    assert!(test.runs().orphans(10).await.unwrap().is_empty());

    // The second run is the cause. That is known once the others that died with it have committed a step.
    test.reap(other.worker());
    let accused = || async {
        for _ in 0..2 {
            assert!(test.claim_by(goals[1], test.worker).await.is_none(), "another run may be the cause");
        }
    };
    accused().await;
    test.commit(&first, true).await;
    accused().await;
    let last = test.claim_by(goals[2], one.worker()).await.unwrap();
    assert_eq!(last.deaths, 2, "this run was not claimed meanwhile");
    test.commit(&last, true).await;
    let given_up = test.claim_by(goals[1], one.worker()).await.unwrap();
    assert_eq!((given_up.deaths, given_up.is_given_up), (3, true));
    test.reap(one.worker());
    assert_eq!(test.claim_by(goals[0], test.worker).await.unwrap().deaths, 1, "it committed a step");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_died_together_are_tried_one_after_the_other() {
    let test = TestStore::start().await;
    let goals = goals_of(&test, test.goal, 2).await;
    for goal in &goals {
        post_to(&test, *goal, "hello").await.unwrap();
    }
    test.sql(
        "update houston.run_locks set died_with = array(select gen_random_uuid() from generate_series(1, 3))
          where agentable_id = (select agentable_id from houston.run_locks where run_open order by 1 limit 1);
         update houston.run_locks k set died_with = o.died_with, woken_at = clock_timestamp() from houston.run_locks o
          where k.run_open and o.died_with <> '{}'",
    );
    let first = goals.iter().min().unwrap();
    let (other, worker) = (goals.iter().max().unwrap(), test.lease().await.worker());
    assert!(test.claim_by(*other, worker).await.is_none(), "the first one goes first");
    let tried = test.claim_by(*first, worker).await.unwrap();
    assert_eq!((tried.deaths, tried.is_given_up), (3, false));
    assert!(test.claim_by(*other, test.worker).await.is_none());
    test.commit(&tried, true).await;
    assert!(
        test.claim_by(*other, test.worker).await.unwrap().is_given_up,
        "nothing else explains its deaths"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn run_that_waited_for_others_is_tried_once_more() {
    let test = TestStore::start().await;
    let goals = goals_of(&test, test.goal, 2).await;
    for goal in &goals {
        post_to(&test, *goal, "hello").await.unwrap();
    }
    // The other run died with one of the same workers, and shows nothing.
    test.sql(&format!(
        "update houston.run_locks set woken_at = clock_timestamp(),
                died_with = (array(select worker.id from generate_series(1, 3), gen_random_uuid() as worker (id)))[1:1]
          where agentable_id = '{}';
         update houston.run_locks k set woken_at = clock_timestamp(),
                died_with = o.died_with || gen_random_uuid() || gen_random_uuid()
           from houston.run_locks o where k.agentable_id = '{}' and o.died_with <> '{{}}'",
        goals[1].0, goals[0].0
    ));
    assert!(test.claim_by(test.goal, test.worker).await.is_none(), "it waits");
    let (token, message) = (test.ids.next(), test.ids.next());
    let crashes = CrashPolicy { patience: Duration::ZERO, ..CRASHES };
    let tried =
        test.runs().claim_run(test.goal, test.worker, token, message, crashes).await.unwrap().unwrap();
    assert_eq!((tried.deaths, tried.is_given_up), (3, false));
}

/// Claims the run of the test's goal, of which a death may have to be noticed first.
async fn late(test: &TestStore, runs: &RunStore, worker: WorkerId) -> Option<ClaimedRun> {
    let claim = || runs.claim_run(test.goal, worker, test.ids.next(), test.ids.next(), CRASHES);
    match claim().await.unwrap() {
        Some(claimed) => Some(claimed),
        None => claim().await.unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_another_cell_explain_the_deaths_of_a_process() {
    let (here, there) = (TestStore::start().await, TestStore::start().await);
    let there_too = there.store.clone().with_other_cells([&here.store]);
    here.post("poison").await;
    there.post("hello").await;
    for _ in 0..3 {
        let process = here.ids.next::<WorkerId>().process();
        for test in [&here, &there] {
            let worker = test.ids.next::<WorkerId>().in_process(process);
            let mut lease = LeaseConnection::open(test.database.url(), worker, LEASE).await.unwrap();
            lease
                .register(WorkerDescription { name: "both".into(), ..WorkerDescription::default() })
                .await
                .unwrap();
            late(test, test.runs(), worker).await.unwrap();
            test.reap(worker);
        }
    }
    assert_eq!(here.runs().release_dead(10).await.unwrap().len(), 1);
    let innocent = || late(&there, there_too.runs(), there.worker);
    assert!(innocent().await.is_none(), "the run of the other cell may be the cause");
    let both = here.store.clone().with_other_cells([&there.store]);
    both.runs().acquit_others(here.goal).await.unwrap();
    let claimed = innocent().await.unwrap();
    assert_eq!((claimed.deaths, claimed.is_given_up), (0, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_that_only_stopped_renewing_counts_no_death() {
    let test = TestStore::start().await;
    test.post("hello").await;
    let stopped = test.lease().await;
    test.claim_by(test.goal, stopped.worker()).await.unwrap();
    let expire = |worker: WorkerId| {
        test.sql(&format!("update houston.workers set alive_until = now() where id = '{}'", worker.0));
    };
    expire(stopped.worker());
    assert_eq!(test.runs().reap(&[]).await.unwrap(), [stopped.worker()]);
    let locks = || {
        test.sql("select count(*) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())")
    };
    let before = locks();
    let dead = test.lease().await.worker();
    assert_eq!(test.claim_by(test.goal, dead).await.unwrap().deaths, 0, "its connection is open");
    // Here the connection was dropped, which Postgres notices a moment later.
    while locks() != before {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    expire(dead);
    let reaped = || async { test.runs().reap(&[]).await.unwrap() };
    assert_eq!(reaped().await, [dead]);
    assert_eq!(test.claim_by(test.goal, test.worker).await.unwrap().deaths, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn giving_up_waits_for_a_worker_that_may_be_alive() {
    let test = TestStore::start().await;
    test.post("hello").await;
    for _ in 0..2 {
        test.die_with(test.goal).await;
    }
    let mut sleeper = test.lease().await;
    let id = sleeper.worker();
    test.claim_by(test.goal, id).await.unwrap();
    test.reap(id);
    let doubtful = CrashPolicy { max: 3, grace: Duration::from_secs(3600), ..CRASHES };
    let claim = || test.runs().claim_run(test.goal, test.worker, test.ids.next(), test.ids.next(), doubtful);
    for _ in 0..2 {
        assert!(claim().await.unwrap().is_none());
    }
    let due = test.runs().due(None, 10).await.unwrap();
    assert!(due.due.is_empty(), "the sweep does not return it either");
    assert!(test.runs().orphans(10).await.unwrap().is_empty());

    sleeper.release_locks(id).await.unwrap();
    test.sql("update houston.run_locks set next_attempt_at = now() where next_attempt_at is not null");
    assert_eq!(claim().await.unwrap().unwrap().deaths, 2, "the run continues");
}

#[tokio::test(flavor = "multi_thread")]
async fn accused_run_is_given_up_for_its_death_alone() {
    let test = TestStore::start().await;
    test.post("hello").await;
    for _ in 0..3 {
        test.die_with(test.goal).await;
    }
    let claim = async |worker: WorkerId, trial: Trial| {
        let request = ClaimRequest {
            agentable: test.goal,
            worker,
            token: test.ids.next(),
            next_message: test.ids.next(),
            crashes: CRASHES,
            trial,
            context: None,
        };
        test.runs().claim(request).await.unwrap()
    };
    // The first claim notes the last death.
    assert!(
        matches!(claim(test.worker, Trial::Possible).await, Claim::Postponed { wait, .. } if wait == CRASHES.grace)
    );
    for _ in 0..2 {
        assert!(matches!(claim(test.worker, Trial::Possible).await, Claim::Accused), "it is left to a child");
    }
    let child = test.lease().await.worker();
    let Claim::Run(tried) = claim(child, Trial::Shown(Verdict::Try)).await else {
        panic!("the child claims it")
    };
    assert_eq!((tried.deaths, tried.is_given_up), (3, false));
    assert!(matches!(claim(test.worker, Trial::Possible).await, Claim::Nothing), "the child drives it");
    test.runs().bury(child).await.unwrap();
    // Buried once more, nothing changes.
    test.runs().bury(child).await.unwrap();
    let Claim::Run(given_up) = claim(test.worker, Trial::Shown(Verdict::GiveUp)).await else {
        panic!("it is free")
    };
    assert_eq!((given_up.deaths, given_up.is_given_up), (4, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn run_whose_trial_showed_nothing_waits() {
    let test = TestStore::start().await;
    test.post("hello").await;
    for _ in 0..3 {
        test.die_with(test.goal).await;
    }
    assert!(test.claim_by(test.goal, test.worker).await.is_none(), "its last death is noted");
    let crashes = CrashPolicy { grace: Duration::from_secs(3600), ..CRASHES };
    let request = |trial| ClaimRequest {
        agentable: test.goal,
        worker: test.worker,
        token: test.ids.next(),
        next_message: test.ids.next(),
        crashes,
        trial,
        context: None,
    };
    let shown = Trial::Shown(Verdict::Wait);
    let postponed = test.runs().claim(request(shown)).await.unwrap();
    assert!(matches!(postponed, Claim::Postponed { wait, .. } if wait == crashes.grace / 5), "{postponed:?}");
    assert!(
        matches!(test.runs().claim(request(Trial::Possible)).await.unwrap(), Claim::Nothing),
        "not yet again"
    );
    test.sql("update houston.run_locks set next_attempt_at = now() where next_attempt_at is not null");
    assert!(matches!(test.runs().claim(request(Trial::Possible)).await.unwrap(), Claim::Accused));
}
